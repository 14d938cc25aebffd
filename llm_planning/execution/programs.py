"""Programs that act in an episode: JavaScript whose calls are actions of the world.

A program is a script with `async function NAME(bot) {...}`. The last such function at the top level
is its entry, as in Voyager, which Tree of Options executes its options with (Appendix B). The
program runs in a sealed process. It reaches the world by the control primitives of the domain
alone, and each call of one is an action of the episode.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from llm_base.quoting import printable
from llm_planning.domain import A, S
from llm_planning.execution.sandbox import CallError, Limits, ProgramStop, run_program

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from llm_planning.execution.episode import Episode, Move
    from llm_planning.execution.skill_files import Skill

LONGEST_MESSAGE: Final = 200
"""Characters of one message of a program that are kept."""

MOST_LISTED: Final = 20
"""Moves and messages of a program that its feedback tells, the last ones of each."""

_LIMITS: Final = Limits()

_StateT_contra = TypeVar("_StateT_contra", contravariant=True)
_ActionT = TypeVar("_ActionT")


class Primitives(Protocol[_StateT_contra, _ActionT]):
    """The control primitives of a domain: its attribute `primitives`.

    Attributes:
        prelude: JavaScript that defines `bot` and the functions. It finds one function of the host,
            `__call(NAME, ARGUMENTS)`, and takes it out of the program's reach. `look` is answered
            with what `look` returns, `chat` is a message, and all other names are actions, answered
            with `{done, look}`.
        manual: what a model is told about `bot` and the functions.
        version: SHA-256 of the prelude. A skill runs with the version that it was written for.
        seeded: skills that come with the domain.
    """

    @property
    def prelude(self) -> str: ...  # noqa: D102

    @property
    def manual(self) -> str: ...  # noqa: D102

    @property
    def version(self) -> str: ...  # noqa: D102

    @property
    def seeded(self) -> Sequence[Skill]: ...  # noqa: D102

    def action(self, name: str, arguments: Sequence[Any]) -> _ActionT:
        """Returns the action of a call.

        Args:
            name: of the function, whatever the program sent.
            arguments: without `bot`; any JSON values.

        Raises:
            CallError: there is no such function, or it cannot take the arguments.
        """
        ...

    def look(self, state: _StateT_contra) -> Mapping[str, Any]:
        """Returns what a program sees of a state, as JSON-able values."""
        ...

    def plain(self, *actions: _ActionT) -> str:
        """Returns the plainest program of some actions: one call for each, in order.

        Raises:
            CallError: no function takes one of them.
        """
        ...

    def arguments(self, action: _ActionT) -> Sequence[Any]:
        """Returns what a skill for actions of this kind is called with, after `bot`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramResult(Generic[S, A]):
    """What became of a program. Its text is for the model that writes the next one.

    Attributes:
        error: what broke it off; None if it came to its end, or ended the episode.
        messages: oldest first.
        moves: its actions, oldest first.
    """

    error: str | None = None
    messages: tuple[str, ...] = ()
    moves: tuple[Move[S, A], ...] = ()

    def __str__(self) -> str:
        done = [
            f"{move.action}: {move.step.obstacle}"
            if move.step.obstacle is not None
            else move.step.text or f"{move.action}: done"
            for move in self.moves
        ]
        lines = [
            f"Error: {self.error.removeprefix('Error: ')}"
            if self.error is not None
            else "No error.",
            *_listed("What was done", done),
            *_listed("Chat", self.messages),
        ]
        return "\n".join(lines)


async def carry_out(
    program: str,
    episode: Episode[S, A],
    primitives: Primitives[S, A],
    *,
    skills: Sequence[Skill] = (),
    seed: int,
    limits: Limits = _LIMITS,
) -> ProgramResult[S, A]:
    """Runs a program in an episode, EXECUTE of Algorithm 2 (Tree of Options, Appendix B).

    In the program, a call returns whether the action was carried out completely. A call that the
    world refuses throws the world's obstacle, and so does one with impossible arguments. As soon as
    the episode is over, the program stops at its call.

    Args:
        episode: goes on with the program's actions.
        skills: that the program may call, with all that they call.
        seed: of the program's own chance, `Math.random`.

    Raises:
        SandboxError: programs cannot be sealed here.
    """
    entry = entry_of(program)
    if entry is None:
        return ProgramResult(
            error="the program has no top-level function `async function NAME(bot) {...}`"
        )
    before = len(episode.moves)
    messages: list[str] = []

    async def host(name: str, arguments: Sequence[Any]) -> object:
        if name == "look":
            return primitives.look(episode.state)
        if name == "chat":
            messages.append(printable("".join(map(str, arguments[:1])))[:LONGEST_MESSAGE])
            return None
        return await _acted(episode, primitives, name, arguments)

    sources = [primitives.prelude, *(skill.source for skill in skills), program]
    end = await run_program(sources, f"{entry}(bot)", host, seed=seed, limits=limits)
    return ProgramResult(
        error=end.error, messages=tuple(messages), moves=tuple(episode.moves[before:])
    )


async def _acted(
    episode: Episode[S, A], primitives: Primitives[S, A], name: str, arguments: Sequence[Any]
) -> Mapping[str, Any]:
    """Takes the action of a call; what the program gets for it.

    Raises:
        CallError: the call or its action is refused.
        ProgramStop: the episode is over.
    """
    if episode.over:
        raise ProgramStop
    action, before = primitives.action(name, arguments), episode.state
    step = await episode.act(action)
    if episode.over:
        raise ProgramStop
    if step.obstacle is not None and step.state == before:
        raise CallError(f"{action}: {step.obstacle}")
    return {"done": step.obstacle is None, "look": primitives.look(step.state)}


def entry_of(program: str) -> str | None:
    """The name of the last async function at the top level of a program; None if there is none.

    Example:
        >>> from llm_planning.execution.programs import entry_of
        >>> entry_of("async function hunt(bot) { async function inner() {} } // async function x(")
        'hunt'
    """
    depth, name = 0, None
    for token in _tokens(program):
        if token in "{}":
            depth += 1 if token == "{" else -1
        elif depth == 0 and (named := _FUNCTION.fullmatch(token)):
            name = named[1]
    return name


def called_in(code: str) -> frozenset[str]:
    """The names in a program that an opening bracket follows.

    Comments and texts do not count; what a template computes does. A call by another name, such as
    that of a variable that holds the function, is not seen.
    """
    names: set[str] = set()
    for token in _tokens(code):
        if called := _CALLED.fullmatch(token):
            names.add(called[1])
        elif token.startswith("`"):
            names.update(*map(called_in, _COMPUTED.findall(token)))
    return frozenset(names)


_NAME: Final = r"[A-Za-z_$][\w$]*"
_FUNCTION: Final = re.compile(rf"async\s+function\s+({_NAME})\s*\(", re.ASCII)
_CALLED: Final = re.compile(rf"(?:async\s+function\s+)?({_NAME})\s*\(", re.ASCII)
_COMPUTED: Final = re.compile(r"\$\{([^{}]*)\}")
_TOKEN: Final = re.compile(
    r"""//[^\n\r\u2028\u2029]*|/\*.*?(?:\*/|\Z)    # comments
    |"(?:\\.|[^"\\\n\r])*"|'(?:\\.|[^'\\\n\r])*'|`(?:\\.|[^`\\])*`    # texts
    |(?<![\w$.])async\s+function\s+[A-Za-z_$][\w$]*\s*\(
    |(?<![\w$.])[A-Za-z_$][\w$]*\s*\(
    |[{}]""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
"""What matters of a program. A regular expression or a template with brackets may be misread; the
engine then misses a name, and says so."""


def _tokens(code: str) -> Iterator[str]:
    return (match[0] for match in _TOKEN.finditer(code))


def _listed(title: str, lines: Sequence[str]) -> list[str]:
    if not lines:
        return []
    earlier = len(lines) - MOST_LISTED
    more = [f"- ({earlier} earlier)"] if earlier > 0 else []
    return [f"{title}:", *more, *(f"- {line}" for line in lines[-MOST_LISTED:])]
