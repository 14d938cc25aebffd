"""Each name that the two lower layers export is documented with an example that runs."""

import doctest
import inspect

import pytest

import llm_kernels
import llm_serving

EXPORTED = [(one, name) for one in (llm_kernels, llm_serving) for name in one.__all__]


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


@pytest.mark.parametrize(("package", "name"), EXPORTED, ids=[name for _, name in EXPORTED])
def test_its_example_runs(request, tmp_path, monkeypatch, package, name):
    monkeypatch.chdir(tmp_path)
    documented = inspect.getdoc(getattr(package, name))
    assert "\nExample:\n" in documented
    assert "doctest:" not in documented, "an example needs no directives"
    if name in {"VllmEngine", "TextEncoder"}:
        request.getfixturevalue("shared")
    example = doctest.DocTestParser().get_doctest(documented, {}, name, None, None)
    assert example.examples
    said = []
    failed, _ = doctest.DocTestRunner().run(example, out=said.append)
    assert failed == 0, "".join(said)


def test_what_is_not_exported_is_named():
    with pytest.raises(AttributeError, match="'llm_serving' has no attribute 'Enigne'"):
        llm_serving.Enigne  # noqa: B018
    assert set(llm_serving.__all__) <= set(dir(llm_serving))
