"""Adapters as folders: what is refused, how one is merged, and when it is found again."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from lora import with_adapter, write_adapter
from safetensors.torch import load_file, save_file

from llm_serving.errors import AdapterError, ModelFetchError, ServingError, UnknownModelError
from llm_serving.models import (
    CATALOGUE,
    Card,
    TaughtModel,
    adapter_folder,
    catalogue,
    check_fit,
    fetch_verified,
    locate,
    merge,
    merging,
    read_adapter,
    read_card,
    resolve,
    taught_revision,
)
from llm_serving.models.adapters import CONFIG, WEIGHTS
from llm_serving.models.folders import MANIFEST
from llm_serving.models.local import MERGED, content_revision

CARD = Card(
    base="tiny",
    base_revision="1",
    domain="minecraft",
    roles=("feasibility", "dynamics"),
    words_sha256=("ab" * 32,),
    recipe={"rank": 4},
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A random Llama of two layers, in bfloat16, beside files that a merged folder keeps or not."""
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("tiny")
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=64,
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    (folder / "tokenizer.json").write_text("{}")
    (folder / MANIFEST).write_text("{}")
    (folder / "pytorch_model.bin").write_bytes(b"the same weights, pickled")
    return folder


@pytest.fixture
def card(tiny):
    return CARD.model_copy(update={"base": str(tiny), "base_revision": resolve(str(tiny)).revision})


@pytest.fixture
def adapter(tiny, tmp_path, card):
    return write_adapter(tiny, tmp_path / "adapter", card=card)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


def test_a_merged_weight_is_the_sum_in_float32_rounded_once(tiny, adapter, tmp_path):
    merge(tiny, adapter, tmp_path / "merged", base_revision=resolve(str(tiny)).revision)
    before, after = (load_file(f / "model.safetensors") for f in (tiny, tmp_path / "merged"))
    changes = load_file(adapter / WEIGHTS)
    assert before.keys() == after.keys()
    name = "model.layers.1.mlp.down_proj"
    a, b = (changes[f"base_model.model.{name}.lora_{half}.weight"] for half in "AB")
    right = (before[f"{name}.weight"].double() + 8 / 4 * b.double() @ a.double()).float()
    assert after[f"{name}.weight"].dtype == torch.bfloat16
    torch.testing.assert_close(after[f"{name}.weight"].float(), right, rtol=2**-8, atol=1e-7)
    assert not torch.equal(before[f"{name}.weight"], after[f"{name}.weight"])
    untouched = "model.layers.1.input_layernorm.weight"
    assert torch.equal(before[untouched], after[untouched])
    assert torch.equal(before["model.embed_tokens.weight"], after["model.embed_tokens.weight"])


def test_merged_and_adapted_models_have_the_same_logits(tiny, adapter, tmp_path):
    from transformers import LlamaForCausalLM

    wide = tmp_path / "wide"  # in float32, so that the merged weights are not rounded
    LlamaForCausalLM.from_pretrained(tiny, dtype=torch.float32).save_pretrained(wide)
    (adapter / "taught.json").unlink()
    merge(wide, adapter, tmp_path / "merged", base_revision="any")
    tokens = torch.arange(40).reshape(2, 20)
    with torch.no_grad():
        plain = LlamaForCausalLM.from_pretrained(wide)(tokens).logits
        merged = LlamaForCausalLM.from_pretrained(tmp_path / "merged")(tokens).logits
        adapted = with_adapter(LlamaForCausalLM.from_pretrained(wide), adapter)(tokens).logits
    torch.testing.assert_close(merged, adapted, rtol=1e-5, atol=1e-5)
    assert (merged - plain).abs().max() > 1e-3


def test_what_a_merged_folder_holds(tiny, adapter, tmp_path, card):
    merge(tiny, adapter, tmp_path / "merged", base_revision=card.base_revision)
    names = {path.name for path in (tmp_path / "merged").iterdir()}
    assert names == {
        "config.json",
        "generation_config.json",
        "merged.json",
        "model.safetensors",
        "taught.json",
        "tokenizer.json",
    }
    assert read_card(tmp_path / "merged") == card
    with pytest.raises(AdapterError, match="exists already: name a new folder"):
        merge(tiny, adapter, tmp_path / "merged", base_revision=card.base_revision)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_shards_keep_their_names(tiny, adapter, tmp_path, card):
    from transformers import LlamaForCausalLM

    parts = tmp_path / "parts"
    LlamaForCausalLM.from_pretrained(tiny).save_pretrained(parts, max_shard_size="20KB")
    shards = sorted(path.name for path in parts.glob("*.safetensors"))
    assert len(shards) > 1
    (adapter / "taught.json").unlink()
    merge(parts, adapter, tmp_path / "merged", base_revision="any")
    merge(tiny, adapter, tmp_path / "whole", base_revision="any")
    assert sorted(path.name for path in (tmp_path / "merged").glob("*.safetensors")) == shards
    pieces = {}
    for shard in shards:
        pieces |= load_file(tmp_path / "merged" / shard)
    whole = load_file(tmp_path / "whole" / "model.safetensors")
    assert all(torch.equal(pieces[name], tensor) for name, tensor in whole.items())


def test_an_adapter_s_folder_is_a_model(tiny, adapter, cache, card):
    with pytest.raises(UnknownModelError, match="is not on this machine: fetch it"):
        locate(str(adapter))
    resolved = resolve(str(adapter))
    assert resolved.path.parent == cache
    assert resolved.taught == card.taught
    assert resolved.revision == f"{card.base_revision}+{read_adapter(adapter).revision}-merged-1"
    written = (resolved.path / "model.safetensors").stat().st_mtime_ns
    assert resolve(str(adapter)) == locate(str(adapter)) == resolved
    assert (resolved.path / "model.safetensors").stat().st_mtime_ns == written


def test_every_byte_of_an_adapter_is_in_its_revision(tiny, adapter):
    first = resolve(str(adapter))
    content = bytearray((adapter / WEIGHTS).read_bytes())
    content[len(content) // 2] ^= 1
    (adapter / WEIGHTS).write_bytes(content)
    second = resolve(str(adapter))
    assert first.revision != second.revision
    assert first.path != second.path


def test_a_merged_folder_is_hashed_whole(tiny, tmp_path, card):
    """Two folders that differ in one byte, far from the beginning and the end of a large file."""
    folder = tmp_path / "large"
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "llama"}')
    save_file({"a": torch.zeros(5 << 20, dtype=torch.uint8)}, folder / "model.safetensors")
    plain = resolve(str(folder))
    (folder / "taught.json").write_text(json.dumps(card.to_json()))
    taught = resolve(str(folder))
    assert (plain.taught, taught.taught) == (None, card.taught)
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(5 << 19)
        file.write(b"\1")
    assert resolve(str(folder)).revision != taught.revision
    (folder / "taught.json").unlink()
    assert resolve(str(folder)).revision == plain.revision


def test_merges_without_a_card_differ_in_their_middle_alone(tmp_path, adapter):
    """A layer far from both ends of a large file, as an adapter of the MLP alone changes it."""
    base = tmp_path / "large"
    base.mkdir()
    (base / "config.json").write_text('{"model_type": "llama"}')
    sizes = {"a": (1, 600_000), "model.layers.0.mlp.up_proj.weight": (48, 32), "z": (1, 600_000)}
    save_file({name: torch.zeros(size) for name, size in sizes.items()}, base / "model.safetensors")
    plain = resolve(str(base)).revision
    resolved = []
    for number in (1, 2):
        folder = tmp_path / f"adapter{number}"
        shutil.copytree(adapter, folder)
        (folder / "taught.json").unlink()
        layer = "base_model.model.model.layers.0.mlp.up_proj.lora_%s.weight"
        halves = {layer % "A": torch.ones(4, 32), layer % "B": number * torch.ones(48, 4)}
        save_file(halves, folder / WEIGHTS)
        merge(base, folder, tmp_path / f"merged{number}", base_revision=plain)
        resolved.append(resolve(str(tmp_path / f"merged{number}")))
        assert taught_revision(str(tmp_path / f"merged{number}")) == resolved[-1].revision
    assert [model.taught for model in resolved] == [None, None]
    # Were the marks alike, the weights would still tell them apart: all of their bytes count.
    shutil.copy(tmp_path / "merged1" / MERGED, tmp_path / "merged2" / MERGED)
    assert content_revision(tmp_path / "merged2") not in {
        resolved[0].revision,
        resolved[1].revision,
    }
    assert resolve(str(base)).revision == plain


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS, "taught.json"])
def test_an_adapter_that_changes_while_it_is_merged(adapter, cache, monkeypatch, tmp_path, name):
    build = merging._build_weights

    def replaced(source, read, target):
        build(source, read, target)
        with (adapter / name).open("ab") as file:
            file.write(b" ")

    base = resolve(read_card(adapter).base)
    monkeypatch.setattr(merging, "_build_weights", replaced)
    for merges in (
        lambda: resolve(str(adapter)),
        lambda: merge(base.path, adapter, tmp_path / "merged", base_revision=base.revision),
    ):
        with pytest.raises(AdapterError, match="changed while it was merged: merge it again"):
            merges()
        (adapter / name).write_bytes((adapter / name).read_bytes()[:-1])
    assert not (tmp_path / "merged").exists()
    assert [path for path in cache.iterdir() if path.is_dir()] == []


def test_a_disk_that_is_full_while_weights_are_written(tiny, adapter, card, tmp_path):
    """The system refuses to make files as large as the weights."""
    target = tmp_path / "merged"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(ServingError, match=f"cannot write the merged model {target}") as error:
            merge(tiny, adapter, target, base_revision=card.base_revision)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "\n" not in str(error.value)
    assert [path for path in tmp_path.iterdir() if "merged" in path.name] == []


MERGES = """
import sys
from llm_serving.models import resolve
print(resolve(sys.argv[1]).path)
"""


def test_processes_that_merge_at_once_make_one_folder(tiny, adapter, cache):
    command = [sys.executable, "-c", MERGES, str(adapter)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    paths = {process.communicate(timeout=120)[0].strip() for process in running}
    assert [process.returncode for process in running] == [0, 0]
    assert paths == {str(resolve(str(adapter)).path)}
    assert [path.name for path in cache.iterdir() if path.is_dir()] == [paths.pop().split("/")[-1]]


DIES = """
import os, signal, sys
from llm_serving.models import folders, merging, resolve

merging.publish = lambda *args, **options: os.kill(os.getpid(), signal.SIGKILL)
resolve(sys.argv[1])
"""


def test_a_killed_merge_leaves_nothing_that_counts(tiny, adapter, cache):
    ended = subprocess.run([sys.executable, "-c", DIES, str(adapter)], check=False)
    assert ended.returncode == -signal.SIGKILL
    with pytest.raises(UnknownModelError):
        locate(str(adapter))
    assert resolve(str(adapter)).path.is_dir()
    assert [path.name for path in cache.iterdir() if path.suffix == ".part"] == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_cache_that_cannot_be_written(adapter, cache):
    cache.parent.mkdir()
    cache.parent.chmod(0o500)
    with pytest.raises(ModelFetchError, match="Free some space, or set LLM_PLANNING_CACHE"):
        resolve(str(adapter))


def test_a_bundled_model_that_an_adapter_makes(tiny, adapter, card, monkeypatch, tmp_path):
    """The catalogue's planner with a small base in its place."""

    class Base:
        name, revision, kind, folder_bytes = str(tiny), card.base_revision, "generator", 7

    planner = TaughtModel(name="planner", base=Base, adapter=adapter, licence="Apache-2.0")
    monkeypatch.setitem(CATALOGUE, "planner", planner)
    with pytest.raises(UnknownModelError, match="planner is not on this machine: fetch it"):
        locate("planner")
    resolved = resolve("planner")
    assert (resolved.name, resolved.revision) == ("planner", planner.revision)
    assert resolved.path.name == planner.folder_name
    assert adapter_folder("planner") == adapter
    # A damaged file of the same size is found by reading every byte.
    weights = resolved.path / "model.safetensors"
    good = weights.read_bytes()
    weights.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    assert resolve("planner") == resolved
    assert weights.read_bytes() != good
    monkeypatch.setattr(sys.modules["llm_serving.models.resolve"], "fetch_verified", resolve)
    assert fetch_verified("planner") == resolved
    assert weights.read_bytes() == good


def test_a_bundled_model_without_its_adapter_is_an_honest_error(monkeypatch):
    name = next(iter(catalogue.TAUGHT))
    monkeypatch.delitem(CATALOGUE, name, raising=False)
    with pytest.raises(UnknownModelError, match=r"its adapter .* is missing"):
        resolve(name)


def test_an_adapter_for_other_shapes_or_another_base(tiny, adapter, card, tmp_path):
    def refusal(**change):
        (adapter / "taught.json").write_text(json.dumps(card.to_json() | change))
        with pytest.raises(AdapterError) as error:
            resolve(str(adapter))
        return str(error.value)

    assert "which is an adapter: merge that first" in refusal(base=str(adapter))
    assert "was taught on" in refusal(base_revision="another")
    (adapter / "taught.json").unlink()
    with pytest.raises(AdapterError, match=r"name both as MODEL\+"):
        resolve(str(adapter))
    config = json.loads((tiny / "config.json").read_text())
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text(json.dumps(config | {"model_type": "gpt2"}))
    with pytest.raises(AdapterError, match="a model of type 'gpt2': adapters are served on llama"):
        check_fit(read_adapter(adapter), other, base_revision="")
    (other / "config.json").write_text(json.dumps(config))
    with pytest.raises(AdapterError, match=r"of shape \[32, 48\], and the model has no such"):
        check_fit(read_adapter(adapter), other, base_revision="")
    save_file(
        {"model.layers.0.self_attn.q_proj.weight": torch.zeros(4, 4)}, other / "m.safetensors"
    )
    with pytest.raises(AdapterError, match=r"the model has one of shape \[4, 4\]"):
        check_fit(
            replace(
                read_adapter(adapter),
                shapes={"model.layers.0.self_attn.q_proj": ((4, 32), (32, 4))},
            ),
            other,
            base_revision="",
        )


@pytest.mark.parametrize(
    "targets",
    [
        ["self_attn.q_proj", "down_proj"],
        [f"model.layers.{layer}.self_attn.q_proj" for layer in (0, 1)],
        r"model\.layers\.\d+\.(self_attn|mlp)\.(q|down)_proj",
        "(.|..)*" * 20,  # would take years
    ],
    ids=["endings", "paths", "expression", "endless"],
)
def test_adapters_whose_targets_are_paths_or_an_expression_are_served(adapter, targets):
    plain = read_adapter(adapter)
    config = json.loads((adapter / CONFIG).read_text())
    (adapter / CONFIG).write_text(json.dumps(config | {"target_modules": targets}))
    assert read_adapter(adapter).shapes == plain.shapes
    assert resolve(str(adapter)).path.is_dir()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"peft_type": "IA3"}, "'peft_type' = 'IA3' will not do"),
        ({"use_rslora": True}, "'use_rslora' = True: only plain LoRA"),
        ({"modules_to_save": ["lm_head"]}, "'modules_to_save'"),
        ({"bias": "all"}, "'bias' = 'all'"),
        ({"init_lora_weights": "pissa"}, "'init_lora_weights' = 'pissa'"),
        ({"a_new_kind_of_lora": {"x": 1}}, "'a_new_kind_of_lora'"),
        ({"r": 0}, "'r' = 0 will not do"),
        ({"r": 8}, "is no matrix of rank 8"),
        ({"lora_alpha": float("nan")}, "'lora_alpha' = nan"),
    ],
)
def test_adapters_that_are_not_served(adapter, change, message):
    config = json.loads((adapter / CONFIG).read_text())
    (adapter / CONFIG).write_text(json.dumps(config | change))
    with pytest.raises(AdapterError, match=message.replace("(", r"\(")) as error:
        read_adapter(adapter)
    assert "\n" not in str(error.value)


def _tensors(path, change):
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


A = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop(A), "has only lora_B of 'model.layers.0.self_attn.q_proj"),
        (lambda t: t.update({A: t[A].to(torch.int8)}), "the type 'I8'"),
        (
            lambda t: t.update({"lm_head.weight": t[A].clone()}),
            "holds 'lm_head.weight': only matrices",
        ),
        (lambda t: t.clear(), "holds no matrices"),
    ],
)
def test_weights_that_are_not_served(adapter, change, message):
    _tensors(adapter / WEIGHTS, change)
    with pytest.raises(AdapterError, match=message):
        read_adapter(adapter)


def test_numbers_that_are_not_finite_are_not_merged(adapter, cache):
    _tensors(adapter / WEIGHTS, lambda t: t[A].fill_(float("inf")))
    with pytest.raises(AdapterError, match="numbers that are not finite"):
        resolve(str(adapter))
    assert [path for path in cache.iterdir() if path.is_dir()] == []


def test_weights_that_are_a_pointer(adapter):
    (adapter / WEIGHTS).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    with pytest.raises(AdapterError, match=rf"{WEIGHTS} is a pointer of Git LFS, not what it"):
        read_adapter(adapter)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "'format' = 2 will not do"),
        ({"words_sha256": ["12"]}, r"'words_sha256\.0' = '12' will not do"),
        ({"licence": "MIT"}, "'licence' = 'MIT' will not do"),
    ],
)
def test_cards_that_make_no_sense(adapter, card, change, message):
    (adapter / "taught.json").write_text(json.dumps(card.to_json() | change))
    with pytest.raises(AdapterError, match=message):
        read_adapter(adapter)
    with pytest.raises(AdapterError, match=r"taught\.json"):
        resolve(str(adapter))
