"""What every YAML file of the project is held to; the sweeps' tests ask for the rest."""

import time

import pytest

from llm_serving.config import load_config
from llm_serving.errors import EngineConfigError
from llm_serving.yaml_file import YamlError, read_mapping

BOMB = "a0: &a0 [x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 14)
)


@pytest.fixture
def read(tmp_path):
    def read(text):
        path = tmp_path / "mine.yaml"
        path.write_text(text)
        return read_mapping(path)

    return read


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
        ("a: !!python/name:os.system", "tags have no use here"),
        ("a: &x [*x]", "stands inside the value that it repeats"),
        ("[" * 5000, "is nested more than 16 deep"),
        ("a: {", "is not YAML"),
        ("a\x1b]0;: 1", "control characters are not allowed"),
        ("{a: 1", "is not YAML"),
        ("a: 1\n---\nb: 2", "several YAML documents"),
    ],
)
def test_what_no_file_may_hold_is_one_printable_line_at_once(read, tmp_path, text, complaint):
    began = time.process_time()
    with pytest.raises(YamlError, match=complaint) as caught:
        read(text)
    assert str(caught.value).isprintable()
    assert str(caught.value).startswith(str(tmp_path / "mine.yaml"))
    assert time.process_time() - began < 5


@pytest.mark.parametrize("text", [BOMB, "model: a\nmodel: b", "model: [", "- model"])
def test_a_models_file_is_read_by_it(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(EngineConfigError, match=r"model configuration .*mine\.yaml") as caught:
        load_config(path)
    assert str(caught.value).isprintable()
