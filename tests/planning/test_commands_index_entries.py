"""Files of entries, which somebody else wrote: what is read of them, and what is refused."""

import json
import os
from pathlib import Path

import pytest
from command_line import invoke

from llm_planning.commands.index_entries import (
    EntryFileError,
    FileEntry,
    read_json_entries,
    read_text_entries,
)


def test_a_text_file_has_an_entry_per_line(tmp_path):
    path = tmp_path / "names.txt"
    path.write_bytes("\ufefffridge\r\n \t\n  coffee table \r\n\nsink with\u2028two lines".encode())
    read = read_text_entries(path)
    assert read.entries == tuple(
        FileEntry(text, text, None)
        for text in ("fridge", "coffee table", "sink with\u2028two lines")
    )
    assert read.blank_lines == 2


def test_a_jsonl_file_keeps_whole_objects(tmp_path):
    rows = [{"id": 7, "name": "iron ingot", "of": ["ore"]}, {"id": "x", "name": "log"}]
    path = tmp_path / "items.jsonl"
    path.write_text("\n\n".join(map(json.dumps, rows)))
    read = read_json_entries(path, field="name", key="id")
    assert read.entries == tuple(FileEntry(str(row["id"]), row["name"], row) for row in rows)
    assert read.blank_lines == 1
    assert read_json_entries(path, field="name", key=None).entries[0].key == "iron ingot"


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ("{not json}", "line 2: Expecting property name"),
        ('{"text": "log"} {}', "line 2: Extra data"),
        ('["log"]', r"line 2: a JSON object is needed, and this is \['log'\]"),
        ('{"name": "log"}', r"line 2: there is no field 'text', only \['name'\]"),
        ('{"text": 3, "id": 1}', "line 2: the field 'text' must be a text that is not empty"),
        ('{"text": " ", "id": 1}', "line 2: the field 'text' must be a text that is not empty"),
        ('{"text": "log"}', "line 2: there is no field 'id'"),
        ('{"text": "log", "id": 1.5}', "line 2: the field 'id' must be a string or a whole number"),
        ('{"text": "log", "id": true}', "line 2: the field 'id' must be a string or a whole"),
        ('{"text": "log", "id": "0"}', "line 2: the key '0' is that of line 1"),
        ('{"text": "log", "id": 2, "n": NaN}', "line 2: Out of range float"),
        ('{"text": "log", "id": 2, "n": 1e999}', "line 2: Out of range float"),
        ('{"text": "log", "id": 2, "id": 3}', "line 2: an object has a field twice"),
        ('{"text": "\\ud800", "id": 2}', "line 2: 'utf-8' codec can't encode"),
        ('{"text": ' + "[" * 10**5 + "]" * 10**5 + "}", "line 2: "),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_made(tmp_path, second, said):
    path = tmp_path / "items.jsonl"
    path.write_text(f'{{"text": "planks", "id": 0}}\n{second}\n')
    with pytest.raises(EntryFileError, match=said) as caught:
        read_json_entries(path, field="text", key="id")
    assert str(caught.value).startswith(str(path))
    result = invoke("index", "build", path, "--key", "id", "--out", tmp_path / "out")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"error: {path}, line 2: " in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"fridge\nsofa\nfridge\n", r"line 3: the key 'fridge' is that of line 1"),
        (b"fridge\n\xff\n", "line 2: 'utf-8' codec can't decode"),
        (b"\n \n", "has no entry"),
        (None, "cannot be read: No such file"),
    ],
)
def test_a_bad_text_file_is_named(tmp_path, content, said):
    path = tmp_path / "names.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(EntryFileError, match=said) as told:
        read_text_entries(path)
    assert str(told.value).startswith(str(path))


@pytest.mark.parametrize("start", ["", "\ufeff", "\n \n", "\ufeff\n"])
@pytest.mark.parametrize("name", ["items.json", "items.jsonl"])
def test_an_array_is_read_and_not_embedded_line_by_line(tmp_path, start, name):
    rows = [{"text": "chop a tree", "id": 1}, {"text": "mine a stone", "id": 2}]
    path = tmp_path / name
    path.write_text(start + json.dumps(rows, indent=2))
    read = read_json_entries(path, field="text", key="id")
    assert read.entries == tuple(FileEntry(str(row["id"]), row["text"], row) for row in rows)
    assert read.blank_lines == 0


def test_an_array_may_hold_texts(tmp_path):
    path = tmp_path / "items.json"
    path.write_text('["chop a tree",\n {"text": "mine"}]')
    read = read_json_entries(path, field="text", key=None)
    assert read.entries == (
        FileEntry("chop a tree", "chop a tree", None),
        FileEntry("mine", "mine", {"text": "mine"}),
    )


def test_a_json_file_of_a_line_per_object_is_jsonl(tmp_path):
    path = tmp_path / "items.json"
    path.write_text('{"text": "log"}\n{"text": "plank"}\n')
    read = read_json_entries(path, field="text", key=None)
    assert [entry.text for entry in read.entries] == ["log", "plank"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('[{"text": "a"}, {"text": "a"}]', "entry 2: the key 'a' is that of entry 1: keep one"),
        ('[{"text": "a"}, 3]', "entry 2: a JSON object is needed, and this is 3"),
        ('["a", " "]', "entry 2: it must be a text that is not empty, and is ' '"),
        ('[{"text": "a"}, {"text": NaN}]', "entry 2: Out of range float"),
        ('["\\ud800"]', "entry 1: 'utf-8' codec can't encode"),
        ('["a", ["b"]]', r"entry 2: a JSON object is needed, and this is \['b'\]"),
        ("[]", "has no entry: it needs an element"),
        ('["a"', "is no JSON array: Expecting ',' delimiter"),
        ('["a"]["b"]', "is no JSON array: Extra data"),
        ("[" * 10**5, "is no JSON array: "),
    ],
)
def test_a_bad_array_is_named_with_its_entry(tmp_path, content, said):
    path = tmp_path / "items.json"
    path.write_text(content)
    with pytest.raises(EntryFileError, match=said) as told:
        read_json_entries(path, field="text", key=None)
    assert str(told.value).startswith(str(path))


def test_a_pipe_or_a_device_of_entries_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.jsonl")
    for path in (tmp_path / "pipe.jsonl", Path("/dev/zero")):
        with pytest.raises(EntryFileError, match="is not a regular file"):
            read_text_entries(path)
        with pytest.raises(EntryFileError, match="is not a regular file"):
            read_json_entries(path, field="text", key=None)


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
