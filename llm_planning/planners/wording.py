"""What a domain's `wording` may say: the questions that planners ask, and the blocks of each."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from llm_base.quoting import quote
from llm_planning.domain import DomainError
from llm_planning.names import remedy

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from llm_planning.domain import Domain

_WHOLE: Final = ("llm_planning.planners.any_domain", "llm_planning.planners.drip")
"""Packages whose templates are asked with as they are; a domain replaces blocks of them."""

_OPTIONS: Final = ("llm_planning.execution", "llm_planning.planners.tree_of_options")
"""Packages whose templates are asked with together with the blocks that they share."""

_SHARED, _OLDER, _PICTURE = "shared", "taught", "picture"


@cache
def known_blocks() -> Mapping[str, frozenset[str]]:
    """Key of a `wording` -> the blocks that it may replace, or may add where they are optional."""
    from llm_planning.execution.option_prompts import OPTIONAL

    known = {name: _blocks(text) for name, text in _templates(_WHOLE).items()}
    options = {name: _blocks(text) for name, text in _templates(_OPTIONS).items()}
    options.pop(_PICTURE)  # says that a picture is shown, whatever the world
    older, shared = options.pop(_OLDER), options[_SHARED].union(OPTIONAL)
    options = {name: blocks | shared for name, blocks in options.items()}
    options[_SHARED] = shared.union(*options.values())
    return {**known, **options, _OLDER: older}


def check_wording(domain: Domain[Any, Any], asked: Collection[str] = ()) -> None:
    """Makes sure that planners ask every question of a `wording`, with every block of it.

    One wording may serve several planners, so it may say more than one of them reads. Those of this
    project's domains are checked by a test.

    Args:
        asked: further questions beside the domain's own, such as those of a planner that is not of
            this project; their blocks are known to whoever asks them.

    Raises:
        DomainError: names what nothing reads, and what there is instead.
    """
    known = known_blocks()
    asked = {*asked, *(lesson.role.name for lesson in domain.lessons)}
    for question, text in domain.wording.items():
        name = f"{type(domain).__name__}.wording[{quote(question)}]"
        if question in asked:
            continue
        if question not in known:
            names = sorted({*known, *asked})
            raise DomainError(f"{name}: no planner asks it; {remedy(str(question), names)}")
        if not isinstance(text, str):
            raise DomainError(f"{name} is {quote(text)}, not a text of blocks")
        if not (blocks := _checked(name, text)):
            example = f"{{% block {min(known[question])} %}}...{{% endblock %}}"
            raise DomainError(f"{name} has no block, so nothing is asked with it: write {example}")
        for block in blocks:
            if block not in known[question]:
                instead = remedy(block, sorted(known[question]))
                raise DomainError(f"{name}: nothing is asked with its block {block!r}; {instead}")


def _checked(name: str, text: str) -> Collection[str]:
    """The blocks of a text of which nothing is outside of them.

    Raises:
        DomainError: it is no template, or words of it are in no block.
    """
    from jinja2 import Environment, TemplateError, nodes

    try:
        body = Environment(autoescape=False).parse(text).body
    except TemplateError as error:
        raise DomainError(f"{name} is not a valid template: {error}") from error
    for node in body:
        for piece in node.nodes if isinstance(node, nodes.Output) else ():
            words = piece.data.strip() if isinstance(piece, nodes.TemplateData) else "{{ }}"
            if words:
                raise DomainError(f"{name}: {quote(words)} is in no block, so nobody reads it")
    return _blocks(text)


def _blocks(text: str) -> frozenset[str]:
    from llm_planning.roles.llm import parsed

    return frozenset(parsed((text,)))


def _templates(packages: Collection[str]) -> dict[str, str]:
    """Name -> source of the templates of some packages."""
    return {
        file.name.removesuffix(".j2"): file.read_text("utf-8")
        for package in packages
        for file in (files(package) / "templates").iterdir()
        if file.name.endswith(".j2")
    }
