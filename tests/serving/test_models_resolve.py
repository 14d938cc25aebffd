"""Names of models: bundled, local, hub, unknown. Nothing here touches the network."""

import hashlib
import json
import os
import shutil
import subprocess
import sys

import pytest
from httpx import Request, Response
from huggingface_hub.errors import RevisionNotFoundError

from llm_serving.errors import UnfetchedModelError, UnknownModelError
from llm_serving.models import CATALOGUE, bundled_folder, fetch, fetch_verified, locate, resolve
from llm_serving.models.folders import publish
from llm_serving.models.hub import discard_damaged

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def local(tmp_path):
    folder = tmp_path / "local"
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "llama"}')
    (folder / "tokenizer.json").write_text('{"version": "1.0"}')
    (folder / "1_Pooling" / "config.json").write_text("{}")
    header = json.dumps({"a": {"dtype": "U8", "shape": [4 << 20], "data_offsets": [0, 4 << 20]}})
    length = len(header).to_bytes(8, "little")
    (folder / "model.safetensors").write_bytes(length + header.encode() + bytes(4 << 20))
    return folder


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub cache with one whole model in it, and no way to the hub itself."""
    from huggingface_hub import constants

    cache = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    repository = cache / "models--lab--small"
    snapshot = repository / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    config, weights = b'{"model_type": "llama"}', (2).to_bytes(8, "little") + b"{}" + bytes(700)
    git = hashlib.sha1(b"blob %d\0" % len(config) + config).hexdigest()
    contents = {
        "config.json": (git, config),
        "model.safetensors": (hashlib.sha256(weights).hexdigest(), weights),
    }
    for name, (blob, content) in contents.items():
        (repository / "blobs" / blob).write_bytes(content)
        (snapshot / name).symlink_to(repository / "blobs" / blob)
    return snapshot


MODEL = CATALOGUE["all-minilm-l6-v2"]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path))
    return tmp_path


def published(cache, revision):
    """A bundled model's folder, as a fetch of some revision would have left it."""
    built, folder = cache / "built", bundled_folder(MODEL, cache=cache)
    built.mkdir()
    (built / "config.json").write_text("{}")
    folder.parent.mkdir()
    publish(built, folder, revision=revision)
    return folder


def test_bundled_name_is_its_fetched_folder(cache):
    with pytest.raises(UnfetchedModelError, match="is not on this machine: fetch it") as raised:
        locate(MODEL.name)
    assert raised.value.model == "all-minilm-l6-v2"
    folder = published(cache, MODEL.revision)
    for find in (locate, resolve, fetch, fetch_verified):
        resolved = find(MODEL.name)
        assert (resolved.name, resolved.path, resolved.revision) == (
            MODEL.name,
            folder,
            MODEL.revision,
        )
    assert resolved.revision.startswith(MODEL.sha256)


def test_folder_of_another_revision_does_not_count(cache):
    published(cache, "another")
    with pytest.raises(UnknownModelError, match="not on this machine"):
        locate(MODEL.name)


def test_local_folder(local):
    resolved = resolve(str(local))
    assert resolved.path == local
    assert len(resolved.revision) == 64
    assert locate(str(local)) == fetch(str(local)) == resolved


def test_local_folder_below_home(local, monkeypatch):
    monkeypatch.setenv("HOME", str(local.parent))
    resolved = resolve("~/local")
    assert (resolved.name, resolved.path) == ("~/local", local)


def test_local_folder_without_a_model(tmp_path):
    with pytest.raises(UnknownModelError, match=r"holds no model: it has no config\.json"):
        resolve(str(tmp_path))


def test_a_folder_around_an_adapter(tmp_path):
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").write_text("{}")
    with pytest.raises(UnknownModelError, match=r"holds no model: did you mean .*[^/]/adapter\?$"):
        resolve(f"{tmp_path}/")


def test_local_folder_that_lacks_weights(local):
    index = {"weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (local / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(UnknownModelError, match=r"1 of 2 weight files .* model-00002-of-00002"):
        resolve(str(local))


@pytest.mark.parametrize("beside", [None, "training_args.bin", "checkpoint/optimizer.pt"])
def test_local_folder_without_weights(local, beside):
    (local / "model.safetensors").rename(local.parent / "weights")
    if beside:
        (local / beside).parent.mkdir(exist_ok=True)
        (local / beside).write_bytes(b"not a weight")
    for find in (locate, resolve):
        with pytest.raises(UnknownModelError, match=r"has no weights: no file .*bin\. Copy"):
            find(str(local))
    (local / "model.gguf").write_bytes(b"GGUF")
    with pytest.raises(UnknownModelError, match=r"has no weights: .* and GGUF is not read"):
        locate(str(local))
    (local / "pytorch_model.bin").write_bytes(b"pickled")
    assert locate(str(local)).path == local


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 269060552\n"


@pytest.mark.parametrize(
    "names", [["model.safetensors"], ["1_Pooling/model.bin", "tokenizer.json"]], ids=" ".join
)
def test_local_folder_of_pointers(local, names):
    for name in names:
        (local / name).write_bytes(POINTER)
    message = (
        rf"pointers of Git LFS .* {len(names)} of its files, the first is {names[0]}\. Run `git"
    )
    with pytest.raises(UnknownModelError, match=message):
        locate(str(local))


def test_local_folder_cannot_be_verified(local):
    with pytest.raises(UnknownModelError, match="no published checksums"):
        fetch_verified(str(local))


def test_local_revision_is_that_of_the_content(local, tmp_path):
    revision = resolve(str(local)).revision
    copy = tmp_path / "copy"
    shutil.copytree(local, copy)
    os.utime(copy / "model.safetensors", (1, 1))
    (copy / "README.md").write_text("says nothing about the weights")
    assert resolve(str(copy)).revision == revision


@pytest.mark.parametrize(
    ("name", "offset"),
    [
        ("config.json", 2),
        ("1_Pooling/config.json", 0),
        ("model.safetensors", 20),  # its header
        ("model.safetensors", 1 << 19),  # its first MiB
        ("model.safetensors", (4 << 20) - 1),  # its last MiB
    ],
)
def test_local_revision_follows_each_file(local, name, offset):
    revision = resolve(str(local)).revision
    content = bytearray((local / name).read_bytes())
    content[offset] ^= 1
    (local / name).write_bytes(content)
    assert resolve(str(local)).revision != revision


def test_local_revision_follows_sizes_and_names(local):
    seen = {resolve(str(local)).revision}
    with (local / "model.safetensors").open("ab") as file:
        file.write(b"\0")
    seen.add(resolve(str(local)).revision)
    (local / "model.safetensors").rename(local / "renamed.safetensors")
    seen.add(resolve(str(local)).revision)
    assert len(seen) == 3


def test_hub_id_from_the_cache(hub):
    for find in (locate, resolve, fetch, fetch_verified):
        resolved = find("lab/small")
        assert (resolved.name, resolved.path, resolved.revision) == ("lab/small", hub, COMMIT)


OTHER = "89abcdef0123456789abcdef0123456789abcdef"


def test_hub_id_with_a_revision(hub):
    other = hub.with_name(OTHER)
    shutil.copytree(hub, other, symlinks=True)
    (hub.parent.parent / "refs" / "v1.0").write_text(OTHER)
    for name, folder in {
        "lab/small@main": hub,
        f"lab/small@{COMMIT}": hub,
        "lab/small@v1.0": other,
        f"lab/small@{OTHER}": other,
    }.items():
        for find in (locate, resolve, fetch, fetch_verified):
            resolved = find(name)
            assert (resolved.name, resolved.path, resolved.revision) == (name, folder, folder.name)
    with pytest.raises(UnfetchedModelError, match=r"lab/small@v2\.0 is not on") as raised:
        locate("lab/small@v2.0")
    assert raised.value.model == "lab/small@v2.0"


def test_hub_id_with_a_revision_that_the_hub_does_not_have(hub, monkeypatch):
    def missing(*_, **__):
        raise RevisionNotFoundError("404", response=Response(404, request=Request("GET", "http:")))

    monkeypatch.setattr("huggingface_hub.snapshot_download", missing)
    with pytest.raises(UnknownModelError, match=r"lab/small has no revision v2\.0 on the hub"):
        fetch("lab/small@v2.0")


@pytest.mark.parametrize(
    "name", ["lab/small@", "lab/small@v1@v2", "lab/small@a/../b", "lab/small@/a", "small@main", "@"]
)
def test_a_revision_that_is_none(hub, name):
    with pytest.raises(UnknownModelError, match=f"unknown model `{name}`: .*with @REVISION or"):
        locate(name)


def test_hub_id_offline_and_not_cached(hub):
    for find in (locate, resolve, fetch):
        with pytest.raises(UnfetchedModelError) as raised:
            find("lab/large")
        assert raised.value.model == "lab/large"
        assert "HF_HUB_OFFLINE" in str(raised.value)


def test_hub_snapshot_that_lacks_weights(hub):
    index = {"weight_map": {"a": "model.safetensors", "b": "missing.safetensors"}}
    (hub / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(UnknownModelError, match=r"(?s)missing\.safetensors.*Fetch it once"):
        resolve("lab/small")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_damaged_hub_file_is_discarded(hub, name):
    discard_damaged(hub)
    assert {path.name for path in hub.iterdir()} == {"config.json", "model.safetensors"}
    blob = (hub / name).resolve()
    blob.write_bytes(blob.read_bytes()[:-1] + b"!")
    discard_damaged(hub)
    assert {path.name for path in hub.iterdir()} == {"config.json", "model.safetensors"} - {name}
    assert not blob.exists()


def test_local_folder_wins_over_a_hub_id(hub, local, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lab").mkdir()
    local.rename(tmp_path / "lab" / "small")
    assert resolve("lab/small").path == tmp_path / "lab" / "small"


def test_unknown_name_proposes_the_nearest():
    with pytest.raises(UnknownModelError) as raised:
        resolve("smollm2-135m")
    message = str(raised.value)
    assert "unknown model `smollm2-135m`: did you mean " in message
    assert "smollm2-135m-instruct" in message.partition("?")[0]
    assert "all-minilm-l6-v2" in message


@pytest.mark.parametrize(
    "name", ["zzz", "./not/there", "../gone", "/not/there", "a/b/c", "~nobody/x", ""]
)
def test_unknown_name_lists_what_there_is(name):
    with pytest.raises(
        UnknownModelError, match=r"a bundled name .*, a folder that exists, or a hub"
    ):
        resolve(name)


def test_importing_the_package_loads_nothing_heavy():
    heavy = "{'torch', 'transformers', 'huggingface_hub', 'rich', 'gguf', 'vllm'}"
    code = f"import sys, llm_serving.models; sys.exit(str({heavy} & set(sys.modules)) != 'set()')"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
