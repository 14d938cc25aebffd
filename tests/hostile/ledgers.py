"""Ledgers that a stranger altered: a table of what may be done to one, and a good one to do it to.

Some of it no reader can see (a metric is any JSON value, a name any text): then a command may just
as well succeed.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from .ledger_files import of_files
from .ledger_tables import Alteration, of_tables

LITTLE = """\
name: little
model: none
domain: textgame
tasks: trap-door
seeds: 2
planners: uct
settings: {moves: 1, simulations: [2, 3], remember: "off"}
"""


def make_ledger(folder: Path) -> None:
    """Four trials: one done, with a trace, one failed for good, one tried once, one not begun."""
    from llm_planning.experiments.grid import load_sweep
    from llm_planning.experiments.ledger import Ledger
    from llm_planning.experiments.trial import TrialResult
    from llm_serving.request import Usage

    with TemporaryDirectory() as place:
        (file := Path(place) / "little.yaml").write_text(f"{LITTLE}retries: 1\n")
        sweep = load_sweep(file)
    usage = {"value": Usage(calls=3, prompt_tokens=90, completion_tokens=12, seconds=0.5)}
    spent = {"usage": usage, "started": 1_700_000_000.25, "seconds": 2.5}
    done = TrialResult(
        trial=sweep.trials[0],
        status="done",
        success=True,
        plan=("go north", "take coin"),
        metrics={"score": 1.0, "moves": 2, "ending": "victory"},
        trace={"moves": [{"action": "go north"}, {"action": "take coin"}]},
        events=[{"type": "execution", "at": 0.5, "action": "go north", "reward": 0.0}],
        prompts={"value": ("You play a game.",)},
        **spent,
    )
    lost, tried = (
        TrialResult(trial=trial, status="failed", error="ValueError: no plan", **spent)
        for trial in sweep.trials[1:3]
    )
    with Ledger.create(folder, sweep.to_json(), {"commit": "c0ffee"}) as ledger:
        ledger.record(done, attempt=1, final=True)
        ledger.record(lost, attempt=1, final=False)
        ledger.record(lost, attempt=2, final=True)
        ledger.record(tried, attempt=1, final=False)


def alterations() -> list[tuple[str, Alteration]]:
    """What is done to a copy of a ledger's folder, by name."""
    return [*of_tables(), *of_files()]
