"""Tiny models and lessons for the tests of distillation."""

import torch

from llm_planning.distill.architecture import PARTS, read_model
from llm_planning.distill.network import Network
from llm_planning.distill.tokens import Lesson

WORDS = 101
SIZES = {
    "vocab_size": WORDS,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
}
LONG_WAVES = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def single_threaded():
    """Threads inside such small products only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def peer(family):
    """A small random model of transformers."""
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    peers = {
        "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=True)),
        "llama3": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=LONG_WAVES)),
        "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SIZES, tie_word_embeddings=True)),
    }[family]()
    for weights in peers.parameters():
        if weights.ndim > 1:
            weights.data.normal_(0, 0.15)
        else:
            weights.data.add_(torch.randn_like(weights) * 0.1)
    return peers.float()


def small_llama(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    peer("llama").save_pretrained(folder)
    return folder


def lesson(prompt, answer, weights=None, role="r", importance=1.0):
    weights = (1.0,) * len(answer) if weights is None else weights
    return Lesson(
        role=role,
        prompt=tuple(prompt),
        answer=tuple(answer),
        weights=weights,
        importance=importance,
    )


class AllMatrices:
    """What the gradients of whole matrices are compared on; see `adapters.Learned`."""

    def __init__(self, model):
        self._model = model
        frozen = {
            (number, name): layer.matrices[name]
            for number, layer in enumerate(model.layers)
            for name in PARTS
        }
        self._shapes = {key: matrix.shape for key, matrix in frozen.items()}
        self.flat = torch.cat([matrix.flatten().float() for matrix in frozen.values()])
        self._masters = self.views(self.flat)
        self._low = {
            key: master if model.dtype == torch.float32 else frozen[key].clone()
            for key, master in self._masters.items()
        }

    def views(self, flat):
        cut = flat.split([shape.numel() for shape in self._shapes.values()])
        return {
            key: part.view(shape)
            for part, (key, shape) in zip(cut, self._shapes.items(), strict=True)
        }

    def refresh(self):
        for key, master in self._masters.items():
            if self._low[key] is not master:
                self._low[key].copy_(master)

    def matrix(self, layer, name):
        return self._low[layer, name]

    def gradient(self):
        return Products(self)


class Products:
    def __init__(self, learned):
        self.flat = torch.zeros_like(learned.flat)
        self._views = learned.views(self.flat)

    def learn(self, layer, name, inputs, gradient):
        self._views[layer, name].add_(gradient.T @ inputs)


def opened(folder, learned=AllMatrices, dtype=torch.float32, **options):
    read = read_model(folder, dtype=dtype, device="cpu")
    return Network(read, learned(read, **options))
