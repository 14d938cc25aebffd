"""Saves an index over and over in child processes that are killed on the way; run as a script.

    python index_killer.py <folder> size|event replace|first <stride>

`size` kills at every length that a file can reach (RLIMIT_FSIZE and SIGXFSZ), `event` at every
audit event of a save (SIGKILL); of both, every `stride`-th. `replace` begins with a saved index,
`first` with an empty folder. Prints one line of JSON: how often a child was killed, how often the
folder then held the old and the new index, and which files the last, undisturbed save left.
"""

import json
import os
import resource
import signal
import sys
from pathlib import Path

import filelock  # noqa: F401 - here, so that no child's events are those of an import
import numpy as np

from llm_kernels.errors import IndexFileError
from llm_kernels.index import EmbeddingIndex


def index_of(seed, rows):
    index = EmbeddingIndex(3)
    vectors = np.random.default_rng(seed).normal(size=(rows, 3))
    index.add([f"{seed}-{row}" for row in range(rows)], vectors, [{"n": n} for n in range(rows)])
    return index


def content_of(index):
    return [(key, index.payload(key), index.vector(key).tolist()) for key in index.keys]


def saved_content(folder):
    try:
        return content_of(EmbeddingIndex.load(folder))
    except IndexFileError as error:
        if "holds no index" in str(error) and not (folder / "index.json").exists():
            return None
        raise


def killed_save(index, folder, prepare):
    """Whether a child came through the save."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            prepare()
            index.save(folder)
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0
        return True
    assert os.WTERMSIG(status) in (signal.SIGXFSZ, signal.SIGKILL)
    return False


def at_size(limit):
    def prepare():
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return prepare


def at_event(number):
    left = number

    def count(event, _):
        nonlocal left
        left -= 1
        if left < 0:
            signal.raise_signal(signal.SIGKILL)

    return lambda: sys.addaudithook(count)


def main(folder, mode, start, stride):
    old, new = index_of(1, 1), index_of(2, 2)
    before = content_of(old) if start == "replace" else None
    after = content_of(new)
    if start == "replace":
        old.save(folder)
    kill = at_size if mode == "size" else at_event
    counts = {"kills": 0, "old": 0, "new": 0}
    number = 0
    while not killed_save(new, folder, kill(number)):
        found = saved_content(folder)
        assert found in (before, after), f"{mode} {number}: {found}"
        counts["kills"] += 1
        counts["new" if found == after else "old"] += 1
        if found == after and start == "first":
            (folder / "index.json").unlink()
        elif found == after:
            old.save(folder)  # over whatever the killed save left behind
            assert saved_content(folder) == before
        number += int(stride)
    assert saved_content(folder) == after
    files = sorted({*os.listdir(folder)} - {"index.lock"})
    print(json.dumps(counts | {"files": files}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
