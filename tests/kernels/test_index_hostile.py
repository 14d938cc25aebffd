"""Saved indexes that are damaged, or were written to do harm."""

import time
import tracemalloc

import numpy as np
import pytest
from hostile.folders import index_alterations, name_of

from llm_kernels.errors import IndexFileError, VectorError
from llm_kernels.index import EmbeddingIndex

# These leave the index sound; the commands on an index check whose encoder it is.
SOUND = {
    "a key with a zero byte": 1,
    "another encoder": 1,
    "an encoder that is a number": 1,
    "index.lock: a folder": 1,
}


@pytest.fixture
def saved(tmp_path):
    index = EmbeddingIndex(4, metadata={"encoder": {"name": "tiny", "revision": "1"}})
    index.add(["a"], np.ones((1, 4)), [{"text": "one"}])
    index.save(tmp_path / "index")
    return tmp_path / "index"


@pytest.mark.parametrize(("name", "alter"), index_alterations(), ids=name_of)
def test_what_was_altered_is_refused_in_one_line(saved, name, alter):
    alter(saved)
    begun = time.monotonic()
    tracemalloc.start()
    if name in SOUND:
        assert len(EmbeddingIndex.load(saved)) == SOUND[name]
    else:
        with pytest.raises((IndexFileError, VectorError)) as told:
            EmbeddingIndex.load(saved)
        assert len(str(told.value)) < 1000
        assert len(str(told.value).splitlines()) == 1
    assert tracemalloc.get_traced_memory()[1] < 1 << 26
    tracemalloc.stop()
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize(("name", "alter"), index_alterations(), ids=name_of)
def test_saving_over_what_was_altered_ends_in_an_index_or_an_error(saved, name, alter):
    alter(saved)
    fresh = EmbeddingIndex(4)
    fresh.add(["b"], np.ones((1, 4)))
    said = f"saved in {saved}"
    try:
        fresh.save(saved)
        assert EmbeddingIndex.load(saved).keys == ("b",)
    except (IndexFileError, OSError) as error:
        said = str(error)
    assert str(saved) in said
    assert not list(saved.glob("*.partial"))
