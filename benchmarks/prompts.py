"""What it takes a trial of Tree of Options to compose the prompts of its roles.

Every trial composes them from the same texts. Their compiled templates are kept for the process;
the other arm compiles them anew for each trial. Messages are compared first.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from bench_engine import OPTIONS, option_states
from harness import AnswersDifferError, Finding, medians, parser, report

from llm_planning.environments.minecraft.options.domain import Minecraft
from llm_planning.execution.options import OptionState
from llm_planning.planners.tree_of_options.roles import OptionQuestion, OptionRoles
from llm_planning.planners.tree_of_options.settings import FeasibleSearchSettings
from llm_planning.roles.llm import compiled, parsed

if TYPE_CHECKING:
    from llm_planning.roles import RoleSpec
    from llm_planning.roles.llm import Prompt

TRIALS, REPEATS = 20, 9
ROLES = ("propose", "feasibility", "repair", "dynamics", "reward", "termination")


def composed() -> list[Prompt]:
    """The prompts of one trial."""
    return [spec.prompt() for spec in specs()]


def specs() -> list[RoleSpec[Any, Any]]:
    """The roles that Tree of Options asks."""
    by_name = OptionRoles(Minecraft(), FeasibleSearchSettings(), seed=0).by_name()
    return [by_name[name] for name in ROLES]


def messages() -> list[object]:
    """What each role would be asked about one state, or about an option there."""
    tau = option_states(9)[-1]
    of_option = OptionQuestion(tau, OPTIONS[1], "something is missing")
    return [
        prompt.messages(spec.values_of(tau if spec.asks is OptionState else of_option))
        for prompt, spec in zip(composed(), specs(), strict=True)
    ]


def trials(*, anew: bool) -> float:
    """Seconds of so many trials."""
    begun = time.perf_counter()
    for _ in range(TRIALS):
        if anew:
            forget()
        composed()
    return time.perf_counter() - begun


def forget() -> None:
    """Nothing is kept any more."""
    compiled.cache_clear()
    parsed.cache_clear()


def main() -> None:
    """Compares the messages, then measures and reports."""
    arguments = parser(__doc__).parse_args()
    forget()
    first = messages()
    if messages() != first:
        raise AnswersDifferError("a kept template writes another message")
    seconds = medians(
        {"anew": lambda: trials(anew=True), "kept": lambda: trials(anew=False)}, repeats=REPEATS
    )
    finding = Finding(
        label="templates compiled anew for each trial over kept ones",
        measured=seconds["anew"] / seconds["kept"],
        unit="x",
        bound="at least",
        target=10,
        details={
            "roles": len(first),
            **{f"ms_per_trial_{name}": 1e3 * value / TRIALS for name, value in seconds.items()},
        },
    )
    report("prompts", [finding], as_json=arguments.json)


if __name__ == "__main__":
    main()
