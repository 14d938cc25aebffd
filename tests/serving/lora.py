"""Random adapters in the format of PEFT 0.21, and a model with one as PEFT computes it."""

import json

import torch
from safetensors.torch import load_file, save_file

from llm_serving.models.adapters import CONFIG, WEIGHTS

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")

# What PEFT writes beside the rank, alpha and the targets.
PLAIN = {
    "alora_invocation_tokens": None,
    "alpha_pattern": {},
    "arrow_config": None,
    "auto_mapping": None,
    "base_model_name_or_path": None,
    "bias": "none",
    "corda_config": None,
    "ensure_weight_tying": False,
    "eva_config": None,
    "exclude_modules": None,
    "fan_in_fan_out": False,
    "inference_mode": True,
    "init_lora_weights": True,
    "kasa_config": None,
    "layer_replication": None,
    "layers_pattern": None,
    "layers_to_transform": None,
    "loftq_config": {},
    "lora_bias": False,
    "lora_dropout": 0.0,
    "lora_ga_config": None,
    "megatron_config": None,
    "megatron_core": "megatron.core",
    "modules_to_save": None,
    "monteclora_config": None,
    "peft_type": "LORA",
    "peft_version": "0.21.2",
    "qalora_group_size": 16,
    "rank_pattern": {},
    "revision": None,
    "target_parameters": None,
    "task_type": "CAUSAL_LM",
    "trainable_token_indices": None,
    "use_bdlora": None,
    "use_dora": False,
    "use_qalora": False,
    "use_rslora": False,
    "velora_config": None,
}


def write_adapter(base, folder, *, seed=0, rank=4, alpha=8.0, size=0.02, card=None):
    """Writes a random adapter of all projections of the model in a folder."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for file in base.glob("*.safetensors"):
        for name, weight in load_file(file).items():
            layer = name.removesuffix(".weight")
            if layer.rpartition(".")[2] in TARGETS:
                for half, shape in (("A", (rank, weight.shape[1])), ("B", (weight.shape[0], rank))):
                    tensors[f"base_model.model.{layer}.lora_{half}.weight"] = size * torch.randn(
                        shape, generator=generator
                    )
    folder.mkdir(parents=True)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    config = PLAIN | {"r": rank, "lora_alpha": alpha, "target_modules": list(TARGETS)}
    (folder / CONFIG).write_text(json.dumps(config))
    if card is not None:
        (folder / "taught.json").write_text(json.dumps(card.to_json()))
    return folder


def with_adapter(model, folder):
    """Adds (alpha / r) B A x to the output of each changed layer of a model of transformers."""
    config = json.loads((folder / CONFIG).read_text())
    tensors = load_file(folder / WEIGHTS)
    scale = config["lora_alpha"] / config["r"]
    for name, layer in model.named_modules():
        key = f"base_model.model.{name}.lora_%s.weight"
        if key % "A" in tensors:
            a, b = tensors[key % "A"], tensors[key % "B"]
            layer.register_forward_hook(
                lambda _, inputs, output, a=a, b=b: output + scale * (inputs[0] @ a.T @ b.T)
            )
    return model
