"""In-option policies π_ω that are programs: skills of a library, or what a model writes.

A program runs in a sealed process.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence  # noqa: TC003 (type aliases are evaluated)
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

from llm_base.files import at_home
from llm_planning.domain import A, RunsPrograms, S
from llm_planning.execution.options import Completion, Feedback
from llm_planning.execution.policies import Verbs
from llm_planning.execution.programs import Primitives, ProgramResult, called_in, carry_out
from llm_planning.execution.sandbox import why_unsealed
from llm_planning.execution.skill_files import Skill, SkillError
from llm_planning.execution.skills import SkillLibrary, SkillPolicy, is_skill
from llm_planning.settings import SettingsError

if TYPE_CHECKING:
    from llm_planning.execution.episode import Episode
    from llm_planning.execution.option_roles import PlanAsking
    from llm_planning.execution.option_settings import ExecutionSettings
    from llm_planning.execution.options import Policies, Policy, PolicyQuestion

logger = logging.getLogger(__name__)


class Skilled(Generic[S, A]):
    """Policies that are skills of the library, run as programs (Section 4.1).

    The first attempt takes the skill that fits the option, each later one the next nearest skill.
    """

    name = "skills"

    def __init__(
        self, ask: PlanAsking[S, A], primitives: Primitives[S, A], library: SkillLibrary
    ) -> None:
        self._ask = ask
        self._primitives = primitives
        self._library = library
        self._verbs: Verbs[S, A] = Verbs(ask)
        self._running: dict[str, SkillPolicy] = {}

    async def write(self, question: PolicyQuestion[S, A]) -> Policy[A]:
        """The skill for the option; the option's own verb, if the library has none."""
        found = await self._library.policy_for(question.option, self._primitives)
        if found is None:
            return self._plain((question.option,))
        self._running[found.program] = found
        return found.program

    async def run(self, policy: Policy[A], episode: Episode[S, A]) -> Feedback[S, A]:
        """Runs a program in a sealed process."""
        program = policy if isinstance(policy, str) else self._plain(policy)
        skill = self._running.get(program)
        done = await carry_out(
            program,
            episode,
            self._primitives,
            skills=skill.skills if skill else self._callable(program),
            seed=self._ask.seed + len(episode.moves),
        )
        return Feedback(_feedback_text(done), done.moves, program)

    async def judged(self, question: PolicyQuestion[S, A]) -> Completion:
        """Whether the world shows the option's effect."""
        return await self._verbs.judged(question)

    async def note(self, question: PolicyQuestion[S, A], *, shown: bool) -> None:
        """Counts a win or a loss of the skill that ran."""
        skill = self._running.get(question.program)
        if skill is not None:
            self._library.count(skill.skill, won=shown)

    def _callable(self, program: str) -> Sequence[Skill]:
        called = called_in(program)
        return self._library.with_callees(
            [skill for skill in self._library.skills if skill.name in called]
        )

    def _plain(self, actions: Sequence[A]) -> str:
        """The program of these verbs, in order."""
        return self._primitives.plain(*actions)


class Programs(Skilled[S, A]):
    """Policies that a model writes as programs (Section 3.2).

    It is shown the nearest skills, and how the option is done (Appendix B).
    """

    name = "programs"

    def __init__(
        self,
        ask: PlanAsking[S, A],
        primitives: Primitives[S, A],
        library: SkillLibrary,
        settings: ExecutionSettings,
    ) -> None:
        super().__init__(ask, primitives, library)
        self._settings = settings
        self._explained: dict[str, str] = {}
        self._code = ask.of(ask.roles.code())
        self._complete = ask.of(ask.roles.complete())

    async def write(self, question: PolicyQuestion[S, A]) -> Policy[A]:
        """LLM_in-option."""
        if self._ask.errors_of("code") is not None:
            policy = await self._code(question)
            return policy if isinstance(policy, str) else self._plain(policy)
        option = str(question.option)
        if self._settings.explanation == "asked" and option not in self._explained:
            self._explained[option] = await self._ask.of(self._ask.roles.explain())(question)
        found = await self._library.nearest(option, self._settings.retrieved)
        shown = "\n".join(f"// {skill.description}\n{skill.code}" for skill in found)
        how = self._explained.get(option, "")
        return await self._code(replace(question, skills=shown, explanation=how))

    async def judged(self, question: PolicyQuestion[S, A]) -> Completion:
        """LLM_β."""
        return await self._complete(question)

    async def note(self, question: PolicyQuestion[S, A], *, shown: bool) -> None:
        """ADDSKILL (line 9): adds a program that a model wrote, if the world shows its effect.

        What is found already shows whatever the program is, also of one that cannot be called.
        """
        if shown and self._ask.errors_of("code") is None and is_skill(question.program):
            self._library.add(
                question.program,
                description=f"{question.option}",
                option=str(question.option),
                task=question.tau.goal,
                seed=self._ask.seed,
            )


async def program_policies_of(
    domain: Any,  # noqa: ANN401
    ask: PlanAsking[Any, Any],
    settings: ExecutionSettings,
) -> Policies[Any, Any]:
    """The policies that the settings ask for, which are programs; verbs, where none can run.

    Raises:
        SettingsError: the domain has no control primitives, or the library cannot be opened.
    """
    primitives = domain.primitives if isinstance(domain, RunsPrograms) else None
    if primitives is None and settings.execution == "programs":
        raise SettingsError(
            "execution=programs: this domain has no `primitives`, so no program can act in it; set "
            "execution=direct"
        )
    reason = "this domain has no `primitives`" if primitives is None else why_unsealed()
    if primitives is None or reason is not None:
        logger.warning("%s; options are executed as verbs (execution=direct)", reason)
        return Verbs(ask)
    own = settings.skills not in {"seeded", "none"}
    try:
        library = SkillLibrary.open(
            Path(at_home(settings.skills)) if own else None,
            seeded=() if settings.skills == "none" else primitives.seeded,
            embed=ask.embed,
            primitives=primitives.version,
        )
    except SkillError as error:
        raise SettingsError(f"skills={settings.skills}: {error}") from error
    if settings.execution == "skills":
        return Skilled(ask, primitives, library)
    return Programs(ask, primitives, library, settings)


def _feedback_text(done: ProgramResult[Any, Any]) -> str:
    """What came of a program, in one line: "done" if nothing went wrong."""
    wrong = [f"{move.action}: {move.step.obstacle}" for move in done.moves if move.step.obstacle]
    if done.error is not None and not (wrong and wrong[-1] in done.error):
        wrong.append(done.error)
    return "; ".join(wrong) or "done"
