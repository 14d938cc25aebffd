"""A lower layer never imports a higher one."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = {
    "llm_kernels": ROOT / "kernels" / "llm_kernels",
    "llm_serving": ROOT / "serving" / "llm_serving",
    "llm_planning": ROOT / "llm_planning",
}
HIGHER = {
    "llm_kernels": {"llm_serving", "llm_planning"},
    "llm_serving": {"llm_planning"},
    "llm_planning": set(),
}


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_point_downwards(layer):
    modules = list(LAYERS[layer].rglob("*.py"))
    assert modules
    wrong = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules
        for name in imported(path)
        if name in HIGHER[layer]
    }
    assert not wrong


def test_the_check_sees_an_upward_import(tmp_path):
    path = tmp_path / "bad.py"
    path.write_text("def f():\n    from llm_planning.search import Node\n")
    assert set(imported(path)) == {"llm_planning"}


INSIDE = {
    "search": {"environments", "planners", "roles", "experiments", "commands", "fronts"},
    "environments": {"planners", "experiments", "commands", "fronts"},
    "roles": {"environments", "planners", "experiments", "commands", "fronts"},
    "planners": {"experiments", "commands", "fronts"},
    "experiments": {"commands", "fronts"},
}
"""Package of llm_planning -> packages that it never imports."""


@pytest.mark.parametrize("package", INSIDE)
def test_packages_of_the_planning_layer_point_downwards(package):
    wrong = set()
    for path in (LAYERS["llm_planning"] / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            parts = (getattr(node, "module", None) or "").split(".")
            if isinstance(node, ast.ImportFrom) and parts[0] == "llm_planning" and parts[1:]:
                wrong |= {f"{path.name}: {parts[1]}"} if parts[1] in INSIDE[package] else set()
    assert not wrong


def test_only_one_module_knows_vllm():
    """Versions differ in one place; the two others implement interfaces of vLLM's own."""
    knowing = {
        path.name
        for layer in ("llm_kernels", "llm_serving", "llm_planning")
        for path in LAYERS[layer].rglob("*.py")
        if "vllm" in imported(path)
    }
    assert knowing == {"vllm_adapter.py", "outlines_backend.py", "vllm_stats.py"}


def test_the_command_line_starts_without_torch():
    heavy = "{'torch', 'vllm', 'transformers'}"
    code = f"import sys, llm_planning.cli; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
