"""Folders of models that are damaged, or were written to do harm. None of their code is run."""

import contextlib
import os
import subprocess
import sys
import time

import pytest
from hostile.folders import (
    TRACE,
    adapter_folder_alterations,
    copy_of,
    encoder_folder_alterations,
    make_adapter,
    model_folder_alterations,
    template_alterations,
)
from importing import importing

from llm_serving.chat import ChatFormat
from llm_serving.config import EngineConfig
from llm_serving.encoder import TextEncoder
from llm_serving.errors import (
    EncoderError,
    EngineConfigError,
    RequestFailedError,
    ServingError,
    UnknownModelError,
)
from llm_serving.models import folders, resolve
from llm_serving.models.folders import CACHE_VARIABLE, CacheFolderError, cache_folder, is_complete
from llm_serving.models.reading import read_tokenizer
from llm_serving.request import Message
from llm_serving.vllm_engine import VllmEngine

ANY_MODEL = model_folder_alterations()
ENCODERS = [*ANY_MODEL, *encoder_folder_alterations()]
TOKENIZERS = [
    (name, alter)
    for name, alter in ANY_MODEL
    if name.startswith("tokenizer")
    or "kind of model" in name
    or name in {"code of its own", "a pickle"}
]
"""What a tokenizer is read from; of the rest an encoder is."""

# These change nothing that an encoder or a tokenizer is read from.
HARMLESS = {"architectures that are a number", "an unknown architecture", "no layers at all"}


@pytest.fixture(scope="module")
def models():
    """The bundled models, on whose disk the copies are: their weights are links."""
    return resolve("smollm2-135m-instruct").path, resolve("all-minilm-l6-v2").path


@pytest.fixture
def place(models, monkeypatch, request):
    """Where a copy goes; it is removed, and no code of it may have left a trace."""
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix=".hostile.", dir=models[0].parent)
    trace = os.path.join(folder, "trace")
    monkeypatch.setenv(TRACE, trace)
    yield os.path.join(folder, "model")
    was_run = os.path.exists(trace)
    shutil.rmtree(folder)
    assert not was_run


def found_or_refusal(call, *, most=20):
    """What a call gives, or why it was refused, in one short line and soon."""
    begun = time.process_time()
    try:
        return call()
    except ServingError as error:
        refusal = error
    assert time.process_time() - begun < most
    assert "\n" not in str(refusal)
    assert len(str(refusal)) < 1500
    return refusal


def refused(call, *, most=20):
    refusal = found_or_refusal(call, most=most)
    assert isinstance(refusal, ServingError)
    return refusal


def embedded(place):
    encoder = TextEncoder(str(place), cache=None)
    try:
        return encoder.encode(["apple"])
    finally:
        encoder.close()


@pytest.mark.parametrize(("name", "alter"), ENCODERS, ids=[name for name, _ in ENCODERS])
def test_an_encoder_s_folder_is_refused_or_gives_vectors(models, place, name, alter):
    alter(copy_of(models[1], place))
    found = found_or_refusal(lambda: embedded(place))
    if isinstance(found, ServingError):
        assert name not in HARMLESS
        assert isinstance(found, UnknownModelError | EncoderError)
    else:
        assert found.shape == (1, 384)


@pytest.mark.parametrize("name", ["code of its own", "a pickle", "a module of its own"])
def test_code_of_an_encoder_s_folder_is_refused_by_name(models, place, name):
    dict(ENCODERS)[name](copy_of(models[1], place))
    assert isinstance(refused(lambda: embedded(place)), EncoderError)


@pytest.mark.parametrize(("name", "alter"), TOKENIZERS, ids=[name for name, _ in TOKENIZERS])
def test_a_model_s_folder_is_refused_or_has_a_tokenizer(models, place, name, alter):
    alter(copy_of(models[0], place))
    found = found_or_refusal(lambda: read_tokenizer(resolve(str(place)).path))
    if isinstance(found, ServingError):
        assert name not in HARMLESS
        assert isinstance(found, UnknownModelError | EngineConfigError)
    else:
        assert found.eos_token == "<|im_end|>"


ADAPTERS = adapter_folder_alterations()


@pytest.fixture
def adapter(tmp_path, monkeypatch):
    """An adapter of a base with one weight: as small as they can be."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    base, folder = tmp_path / "base", tmp_path / "adapter"
    make_adapter(folder, base=base, called=str(base))
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(("name", "alter"), ADAPTERS, ids=[name for name, _ in ADAPTERS])
def test_a_damaged_adapter_is_refused_in_one_line(adapter, name, alter):
    assert resolve(str(adapter)).taught
    merged = sorted(path for path in (adapter.parent / "cache").rglob("*") if path.is_dir())
    alter(adapter)
    refused(lambda: resolve(str(adapter)))
    with contextlib.suppress(ServingError):  # only its content is read here
        EngineConfig(model="any", adapters={"a": str(adapter)})
    assert sorted(p for p in (adapter.parent / "cache").rglob("*") if p.is_dir()) == merged


NO_ENGINE = (
    "code of its own",
    "a pickle",
    "model.safetensors: gone",
    "model.safetensors: cut in half",
    "config.json: JSON that is not finite",
    "no layers at all",
    "an unknown architecture",
    "an unknown kind of model",
)


@pytest.mark.parametrize(
    "name",
    [*NO_ENGINE[:2], *(pytest.param(name, marks=pytest.mark.slow) for name in NO_ENGINE[2:])],
)
def test_an_engine_on_such_a_folder_is_refused_and_says_nothing_else(models, place, name, capfd):
    dict(ANY_MODEL)[name](copy_of(models[0], place))
    config = EngineConfig(model=place, dtype="float32", context=256, kv_cache_gib=0.1)
    error = refused(lambda: VllmEngine(config), most=60)
    assert isinstance(error, EngineConfigError | UnknownModelError)
    printed = capfd.readouterr()
    assert "\x1b" not in printed.out + printed.err
    assert "ERROR" not in printed.out + printed.err


@pytest.mark.parametrize("name", [name for name, _ in template_alterations()])
def test_a_chat_template_is_a_sealed_program(models, place, name):
    dict(template_alterations())[name](copy_of(models[0], place))
    chats = ChatFormat(resolve(str(place)).path)
    with pytest.raises(RequestFailedError, match="the chat template of") as caught:
        chats.encode((Message(role="user", content="hi"),))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["n" * 300, "n/" + "n" * 95, "a\0b", "~nosuchuser", "~nosuchuser/x", "a--b/c..d", ""]
)
def test_a_name_that_no_model_can_have_is_unknown(name):
    assert isinstance(refused(lambda: resolve(name)), UnknownModelError)


def test_a_folder_that_may_not_be_read_is_named(models, place):
    copy_of(models[1], place)
    os.chmod(place, 0)
    code = (
        "import sys; from hostile.privileges import respect_permissions; respect_permissions(); "
        "from llm_serving.models import resolve; resolve(sys.argv[1])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, place],
        env=importing(),
        capture_output=True,
        text=True,
        check=False,
    )
    os.chmod(place, 0o755)
    assert "UnknownModelError" in done.stderr.splitlines()[-1]
    assert place in done.stderr.splitlines()[-1]


def test_the_cache_folder_of_nobody_is_told(monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, "~nosuchuser/cache")
    with pytest.raises(CacheFolderError, match="LLM_PLANNING_CACHE=~nosuchuser"):
        cache_folder()


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"revision": "r"}',
        '{"revision": "r", "files": []}',
        '{"revision": "r", "files": {"a": 1}}',
        '{"revision": "r", "files": {"a": {"bytes": 1}}}',
        '{"revision": "r", "files": {"a\\u0000b": {"bytes": 1, "sha256": ""}}}',
        '{"revision": ["r"], "files": {}}',
        "[" * 100_000,
    ],
)
def test_a_damaged_manifest_is_of_no_complete_folder(tmp_path, content):
    (tmp_path / "manifest.json").write_text(content)
    assert not is_complete(tmp_path, "r")
    assert not folders.is_intact(tmp_path, "r")


def test_a_pipe_is_not_waited_for(tmp_path):
    for name in ("manifest.json", "a"):
        os.mkfifo(tmp_path / name)
    assert not is_complete(tmp_path, "r")
    (tmp_path / "manifest.json").unlink()
    (tmp_path / "manifest.json").write_text(
        '{"revision": "r", "files": {"a": {"bytes": 0, "sha256": ""}}}'
    )
    assert not folders.is_intact(tmp_path, "r")
