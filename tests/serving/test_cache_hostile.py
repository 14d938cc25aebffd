"""Cache files that somebody damaged, or wrote to do harm; and caches that cannot be written."""

import hashlib
import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hostile.folders import cache_alterations

from llm_serving import cache_file
from llm_serving.cache import CacheError, ResponseCache, UnreadableCacheError
from llm_serving.request import Completion, ModelIdentity, Scores, Usage
from llm_serving.vector_store import EncoderIdentity, VectorCache

MODEL = ModelIdentity(name="tiny", revision="r1", dtype="float32")
ENCODER = EncoderIdentity("tiny", "r1")
USAGE = Usage(calls=1, prompt_tokens=3, completion_tokens=2)


def key(number):
    return hashlib.sha256(bytes([number])).digest()


def answer(number):
    if number % 3 == 0:
        return Scores(logprobs=(-0.5, -1.0 * number), usage=USAGE)
    text = f"answer {number} " * (1 if number % 3 == 1 else 200)
    return Completion(text=text, token_ids=(number, 7), finish="stop", usage=USAGE)


def vector(number):
    angle = np.linspace(0.1, 1.0, 16) + number
    return (np.cos(angle) / np.linalg.norm(np.cos(angle))).astype(np.float32)


def use_responses(path, numbers=range(40)):
    """Asks for everything and puts it; a wrong answer is the one thing that may never come."""
    with closing(ResponseCache(path)) as cache:
        for number in numbers:
            found = cache.get(key(number))
            assert found in {None, answer(number)}
            assert cache.put(key(number), answer(number), MODEL) == answer(number)
        cache.stats()


def use_vectors(path, numbers=range(40)):
    wanted = {f"text {number}": vector(number) for number in numbers}
    with closing(VectorCache(path)) as cache:
        assert cache.dimension(ENCODER) in {None, 16}
        for found in (cache.get(ENCODER, wanted), cache.put(ENCODER, wanted)):
            for text, kept in found.items():
                np.testing.assert_array_equal(kept, wanted[text])
        cache.stats()


@pytest.mark.parametrize("use", [use_responses, use_vectors])
@pytest.mark.parametrize(("name", "alter"), cache_alterations(), ids=lambda one: str(one)[:60])
def test_what_was_altered_is_refused_or_missed_and_never_believed(tmp_path, use, name, alter):
    path = tmp_path / "cache.sqlite"
    use(path)
    alter(path)
    begun = time.monotonic()
    said = str(path)
    try:
        use(path)
    except CacheError as error:
        said = str(error)
    assert str(path) in said
    assert "\n" not in said
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize("use", [use_responses, use_vectors])
def test_no_flipped_byte_of_a_file_is_believed(tmp_path, use):
    path, copy = tmp_path / "cache.sqlite", tmp_path / "copy.sqlite"
    use(path, range(8))
    content = path.read_bytes()
    refused = 0
    for place in range(0, len(content), 61):
        damaged = bytearray(content)
        damaged[place] ^= 1 << (place % 8)
        copy.write_bytes(damaged)
        try:
            use(copy, range(8))
        except CacheError:
            refused += 1
        for suffix in ("", "-wal", "-shm"):
            copy.with_name(copy.name + suffix).unlink(missing_ok=True)
    assert refused > 10


def schema_places(content):
    """Where the first page has the names and the statements of the tables."""
    begin = content.index(b"CREATE TABLE") - 40
    return range(begin, content.rindex(b"CREATE TABLE") + 40)


@pytest.mark.parametrize(
    ("use", "opened"), [(use_responses, ResponseCache), (use_vectors, VectorCache)]
)
@pytest.mark.parametrize("writable", [True, False])
def test_a_schema_that_is_no_text_is_unreadable(tmp_path, monkeypatch, use, opened, writable):
    """SQLite quotes the bytes that it cannot make sense of."""
    path, copy = tmp_path / "cache.sqlite", tmp_path / "copy.sqlite"
    use(path, range(2))
    monkeypatch.setattr(cache_file, "_is_writable", lambda _: writable)
    content = path.read_bytes()
    refused = 0
    for place in schema_places(content)[::5]:
        damaged = bytearray(content)
        damaged[place] = 0xFF
        copy.write_bytes(damaged)
        try:
            opened(copy).close()
        except UnreadableCacheError as error:
            refused += str(error).isprintable()
        for suffix in ("", "-wal", "-shm"):
            copy.with_name(copy.name + suffix).unlink(missing_ok=True)
    assert refused > 20


READS = """
import sys
from pathlib import Path
from hostile.privileges import respect_permissions
import test_cache_hostile as here
assert respect_permissions()
path = Path(sys.argv[1])
here.use_responses(path / "responses.sqlite")
here.use_responses(path / "more" / "responses.sqlite")
here.use_vectors(path / "vectors.sqlite")
"""


@pytest.mark.parametrize("left_open", [True, False])
def test_a_cache_that_cannot_be_written_is_read_with_one_warning(tmp_path, left_open):
    folder = tmp_path / "cache"
    use_responses(folder / "responses.sqlite")
    # A writer that is at work leaves its log beside the file.
    with closing(VectorCache(folder / "vectors.sqlite")) as other:
        use_vectors(folder / "vectors.sqlite")
        if not left_open:
            other.close()
        before = {path: path.read_bytes() for path in folder.iterdir()}
        for path in before:
            path.chmod(0o444)
        folder.chmod(0o555)
        tests = Path(__file__).parent
        done = subprocess.run(
            [sys.executable, "-c", READS, str(folder)],
            env={**os.environ, "PYTHONPATH": f"{tests}:{tests.parent}"},
            capture_output=True,
            text=True,
            check=False,
        )
        folder.chmod(0o755)
        assert {path: path.read_bytes() for path in before} == before
    assert done.returncode == 0, done.stderr
    said = done.stderr.splitlines()
    assert len(said) == 1, said
    assert "nothing is added to the caches in" in said[0]
    assert not (folder / "more").exists()


def test_a_file_in_the_folder_s_place_costs_the_cache_alone(tmp_path, caplog):
    (tmp_path / "cache").write_text("in the way")
    for _ in range(2):
        use_responses(tmp_path / "cache" / "responses.sqlite")
        use_vectors(tmp_path / "cache" / "vectors.sqlite")
    assert len(caplog.messages) == 1


def test_what_is_not_there_is_not_read(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe.sqlite")
    (tmp_path / "zero.sqlite").symlink_to("/dev/zero")
    monkeypatch.setattr(cache_file, "_open", lambda *_, **__: pytest.fail("was opened"))
    for name in ("pipe.sqlite", "zero.sqlite"):
        with pytest.raises(CacheError, match="no regular file"):
            ResponseCache(tmp_path / name)
