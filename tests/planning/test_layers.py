"""A lower layer never imports a higher one."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = {
    "llm_base": ROOT / "base" / "llm_base",
    "llm_kernels": ROOT / "kernels" / "llm_kernels",
    "llm_serving": ROOT / "serving" / "llm_serving",
    "llm_planning": ROOT / "llm_planning",
}
HIGHER = {
    "llm_base": {"llm_kernels", "llm_serving", "llm_planning"},
    "llm_kernels": {"llm_serving", "llm_planning"},
    "llm_serving": {"llm_planning"},
    "llm_planning": set(),
}


def files():
    """Every module of ours -> its file."""
    paths = {}
    for layer in LAYERS.values():
        for path in layer.rglob("*.py"):
            parts = path.relative_to(layer.parent).with_suffix("").parts
            paths[".".join(parts).removesuffix(".__init__")] = path
    return paths


FILES = files()


@cache
def imported(path):
    """The modules that a file imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            # `from package import module` imports that module.
            taken = [f"{node.module}.{alias.name}" for alias in node.names]
            names |= {module if module in FILES else node.module for module in taken}
    return names


UPWARD = re.compile(r"llm-planning |llm_planning|--no-cache|--set\b|\b(prior|roles)=")
"""What names a command or a setting of the highest layer."""


def literals(path):
    """The strings of a file that are no docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
    ]


@pytest.mark.parametrize("layer", ["llm_base", "llm_kernels", "llm_serving"])
def test_no_message_of_a_lower_layer_names_what_is_above_it(layer):
    texts = {path: literals(path) for path in LAYERS[layer].rglob("*.py")}
    assert any(texts.values())
    upward = [(path.name, text) for path in texts for text in texts[path] if UPWARD.search(text)]
    assert upward == []


def test_what_names_a_command_is_found(tmp_path):
    file = tmp_path / "module.py"
    file.write_text('"""Of `llm-planning run`."""\nsaid = f"run `llm-planning run {1}`"\n')
    (text,) = (literal for literal in literals(file) if UPWARD.search(literal))
    assert text == "run `llm-planning run "


def packages(path):
    return {name.partition(".")[0] for name in imported(path)}


@pytest.mark.parametrize("layer", LAYERS)
def test_imports_point_downwards(layer):
    modules = list(LAYERS[layer].rglob("*.py"))
    assert modules
    wrong = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in modules
        for name in packages(path) & HIGHER[layer]
    }
    assert not wrong


def test_the_check_sees_an_upward_import(tmp_path):
    path = tmp_path / "bad.py"
    path.write_text("def f():\n    from llm_planning.search import Node\n")
    assert packages(path) == {"llm_planning"}


INSIDE = {
    "search": {"environments", "planners", "roles", "experiments", "commands", "cli"},
    "environments": {"planners", "experiments", "commands", "cli"},
    "roles": {"environments", "planners", "experiments", "commands", "cli"},
    "planners": {"distill", "experiments", "commands", "cli"},
    "distill": {"environments", "planners", "experiments", "commands", "cli"},
    "experiments": {"commands", "cli"},
    "viewer": {"environments", "planners", "roles", "distill", "commands", "cli"},
}
"""Package of llm_planning -> packages that it never imports."""


@pytest.mark.parametrize("package", INSIDE)
def test_packages_of_the_planning_layer_point_downwards(package):
    wrong = {
        f"{path.name}: {name}"
        for path in (LAYERS["llm_planning"] / package).rglob("*.py")
        for name in imported(path)
        if name.startswith("llm_planning.") and name.split(".")[1] in INSIDE[package]
    }
    assert not wrong


CIRCLE = 3
"""The most files of which each needs every other in the end."""


def largest_circle(uses):
    """The most modules of which each uses every other in the end.

    Args:
        uses: module -> the modules that it imports.
    """
    reached = {}
    for module in uses:
        found, new = set(), [module]
        while new:
            new = [other for file in new for other in uses[file] if other not in found]
            found.update(new)
        reached[module] = found
    return max(
        (
            {file} | {other for other in found if file in reached[other]}
            for file, found in reached.items()
        ),
        key=len,
    )


def test_no_large_circle_of_imports():
    """Also those inside of functions, and those for types alone: a reader follows them all."""
    uses = {module: (imported(path) & FILES.keys()) - {module} for module, path in FILES.items()}
    circle = largest_circle(uses)
    assert len(circle) <= CIRCLE, sorted(circle)


def test_a_circle_is_seen():
    uses = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}
    assert largest_circle(uses) == {"b", "c"}


def test_few_modules_know_vllm():
    """One knows its engine, one its engine's process; three implement interfaces of vLLM's own."""
    knowing = {
        path.name
        for layer in LAYERS
        for path in LAYERS[layer].rglob("*.py")
        if "vllm" in packages(path)
    }
    interfaces = {"block_hashes.py", "outlines_backend.py", "vllm_stats.py"}
    assert knowing == {"vllm_adapter.py", "vllm_process.py", *interfaces}


PLANNERS = LAYERS["llm_planning"] / "planners"
ROOMS = sorted(folder.name for folder in PLANNERS.iterdir() if (folder / "specs.py").exists())
OF_EVERY_WORLD = {"llm_mcts": {"any_domain"}, "mc_dml": {"any_domain"}}
"""Rooms that still take from the one that is no paper's how decisions are asked and told."""


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_of_planners_do_not_import_each_other(room):
    others = {
        f"llm_planning.planners.{other}." for other in {*ROOMS} - OF_EVERY_WORLD.get(room, set())
    }
    others.discard(f"llm_planning.planners.{room}.")
    wrong = {
        f"{path.name}: {name}"
        for path in (PLANNERS / room).rglob("*.py")
        for name in imported(path)
        if name.startswith(tuple(others))
    }
    assert not wrong


@pytest.mark.parametrize(
    "path", sorted(PLANNERS.glob("*/algorithm.py")), ids=lambda path: path.parent.name
)
def test_an_algorithm_knows_no_variants_of_itself(path):
    """What is ours or compared with it imports it. It fits on some pages."""
    room = f"llm_planning.planners.{path.parent.name}"
    assert not imported(path) & {f"{room}.{module}" for module in ("plus", "baselines", "specs")}
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 420


def test_every_paper_has_its_algorithm():
    papers = {path.parent.name for path in PLANNERS.glob("*/algorithm.py")}
    assert papers == {"drip", "llm_mcts", "mc_dml", "tree_of_options", "xenon"}


@cache
def names_in(path):
    """All names that a module binds, and its strings: some name what is imported when asked for."""
    nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
    return texts | {
        getattr(node, "asname", None) or getattr(node, "name", None) or getattr(node, "id", None)
        for node in nodes
    }


@pytest.mark.parametrize("folder", ["benchmarks", "examples", "scripts"])
def test_what_stands_beside_the_packages_imports_what_there_is(folder):
    for path in (ROOT / folder).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module in FILES:
                taken = {name.name for name in node.names}
                inside = {name for name in taken if f"{node.module}.{name}" in FILES}
                assert taken - inside <= names_in(FILES[node.module]), path
