"""What every YAML file of the project is held to."""

import time

import pytest

from llm_base.yaml_file import YamlError, read_mapping

BOMB = "a0: &a0 [x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 14)
)


@pytest.fixture
def read(tmp_path):
    def read(text):
        path = tmp_path / "mine.yaml"
        path.write_bytes(text.encode())
        return read_mapping(path)

    return read


def test_what_ends_a_line_in_old_yaml_can_be_written(read):
    assert read(r'a: "one\u2028two\x85\u2029"') == {"a": "one\u2028two\x85\u2029"}


def test_plain_values(read):
    assert read("a: 1e-3\nb: no\nc: [1, ~, true]\nd: &x {e: '1'}\nf: *x") == {
        "a": 1e-3,
        "b": "no",
        "c": [1, None, True],
        "d": {"e": "1"},
        "f": {"e": "1"},
    }


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (BOMB, "holds more than 100000 values"),
        ("model: a\nmodel: b", "the key 'model' is given twice; keep one"),
        ("a: !!python/name:os.system", "tags are not supported"),
        ("a: &x [*x]", "stands inside the value that it repeats"),
        ("[" * 5000, "is nested more than 16 deep"),
        ("a: {", "is not YAML"),
        ("- a", "write a mapping"),
        ("a\x1b]0;: 1", "control characters are not allowed"),
        ("a: 1\n---\nb: 2", "several YAML documents"),
        ("a: 1\nb: [1", "is not YAML.*line 3"),
        ("a: 1\nb: 2\na: 3", "the key 'a' is given twice.*line 3, column 1"),
        ("1: 2", "the key 1 is not a text"),
        ("? [a]\n: 2", r"the key \['a'\] is not a text"),
        ("a: .nan", "'.nan' is not finite.*line 1"),
        ("a: 1e999", "is not finite"),
        ("a: [" + 5000 * "9" + "]", "is too long"),
        ("a: *b", r"\*b repeats nothing"),
        ("a: &a [[[[[[[[1]]]]]]]]\nb: &b [[[[[[*a]]]]]]\nc: [[[[*b]]]]", "16 deep.*line 3"),
        ("a: 1\n# old:\x85b: 2", r"line 2 has U\+0085.* alone; end the line there, or write"),
        ("a: 1\r# old:\u2028b: 2", r'line 2 has U\+2028.* or write "\\u2028" in double quotes'),
        ("a: 'one\u2029'", r"line 1 has U\+2029"),
        ("# " + (1 << 20) * "x", "larger than 1048576 bytes"),
    ],
)
def test_what_no_file_may_hold_is_one_printable_line_at_once(read, tmp_path, text, complaint):
    began = time.process_time()
    with pytest.raises(YamlError, match=complaint) as caught:
        read(text)
    assert str(caught.value).isprintable()
    assert str(caught.value).startswith(str(tmp_path / "mine.yaml"))
    assert time.process_time() - began < 5
