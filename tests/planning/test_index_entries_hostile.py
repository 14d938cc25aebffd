"""Files of entries that somebody else wrote."""

import os
from pathlib import Path

import pytest

from llm_planning.commands.index_entries import (
    EntryFileError,
    read_jsonl_entries,
    read_text_entries,
)


def test_a_pipe_or_a_device_of_entries_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.jsonl")
    for path in (tmp_path / "pipe.jsonl", Path("/dev/zero")):
        with pytest.raises(EntryFileError, match="is no regular file"):
            read_text_entries(path)
        with pytest.raises(EntryFileError, match="is no regular file"):
            read_jsonl_entries(path, field="text", key=None)


def test_a_file_without_line_breaks_is_not_read_to_its_end(tmp_path):
    path = tmp_path / "disk.txt"
    path.write_bytes(b"")
    os.truncate(path, 1 << 40)  # takes no room
    with pytest.raises(EntryFileError, match="line 1: it is longer than"):
        read_text_entries(path)


@pytest.mark.parametrize("name", ["n" * 300, "a\0b", "~nosuchuser/texts"])
def test_a_name_that_no_file_can_have_is_told_in_one_line(name):
    with pytest.raises(EntryFileError) as told:
        read_text_entries(Path(name))
    assert len(str(told.value).splitlines()) == 1


def test_a_deep_json_object_is_refused(tmp_path):
    path = tmp_path / "deep.jsonl"
    path.write_text('{"text": ' + "[" * 10**5 + "]" * 10**5 + "}\n")
    with pytest.raises(EntryFileError, match="line 1"):
        read_jsonl_entries(path, field="text", key=None)
