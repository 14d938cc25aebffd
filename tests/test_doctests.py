"""Each name that a layer exports is documented with an example that runs."""

import doctest
import inspect

import pytest

import llm_kernels
import llm_planning
import llm_serving

LAYERS = (llm_kernels, llm_serving, llm_planning)
EXPORTED = [(layer, name) for layer in LAYERS for name in layer.__all__]


class KeptOpen:
    """A shared engine or encoder, which examples close and other tests go on using."""

    def __init__(self, shared):
        self._shared = shared

    def __getattr__(self, name):
        return getattr(self._shared, name)

    def close(self):
        pass


@pytest.fixture
def shared(monkeypatch, engine, text_encoder):
    """Instead of loading a model, an example gets the one that all tests share."""
    monkeypatch.setattr(llm_serving, "VllmEngine", lambda _: KeptOpen(engine))
    monkeypatch.setattr(llm_serving, "TextEncoder", lambda **_: KeptOpen(text_encoder))


def failures_of(name, documented):
    """What fails of an example, for somebody who copies it and has imported nothing yet."""
    names = {"__name__": "__main__"}
    example = doctest.DocTestParser().get_doctest(documented, names, name, None, None)
    assert example.examples, f"{name} has no example"
    messages = []
    doctest.DocTestRunner(verbose=False).run(example, out=messages.append)
    return "".join(messages)


@pytest.mark.parametrize(("layer", "name"), EXPORTED, ids=[name for _, name in EXPORTED])
def test_its_example_runs(request, tmp_path, monkeypatch, layer, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path))
    documented = inspect.getdoc(getattr(layer, name))
    assert "\nExample:\n" in documented
    assert "doctest:" not in documented, "an example needs no directives"
    if name in {"VllmEngine", "TextEncoder"}:
        request.getfixturevalue("shared")
    assert not failures_of(name, documented)


def test_what_is_not_exported_is_named():
    for layer in LAYERS:
        with pytest.raises(AttributeError, match=f"'{layer.__name__}' has no attribute 'Enigne'"):
            layer.Enigne  # noqa: B018
        assert set(layer.__all__) <= set(dir(layer))
