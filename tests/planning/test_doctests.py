"""The examples in the docstrings of what `llm_planning` exports: each has one, and it runs."""

import doctest
import inspect

import pytest

import llm_planning


def examples_of(exported):
    """As whoever copies them would run them: nothing is imported yet."""
    text = inspect.getdoc(exported) or ""
    names = {"__name__": "__main__"}
    return doctest.DocTestParser().get_doctest(text, names, exported.__name__, None, 0)


@pytest.mark.parametrize("name", llm_planning.__all__)
def test_an_exported_name_has_an_example_that_runs(name, monkeypatch, tmp_path):
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path))
    found = examples_of(getattr(llm_planning, name))
    assert found.examples, f"{name} has no example"
    assert not any(doctest.SKIP in one.options for one in found.examples)
    told = []
    ran = doctest.DocTestRunner(verbose=False).run(found, out=told.append)
    assert ran.failed == 0, "".join(told)


def test_an_example_that_is_wrong_or_missing_is_seen():
    def wrong():
        """Adds.

        >>> 1 + 1
        3
        """

    told = []
    assert doctest.DocTestRunner(verbose=False).run(examples_of(wrong), out=told.append).failed == 1
    assert not examples_of(examples_of).examples
