"""MC-DML on a story file: one command, and the same searches whatever is remembered."""

import importlib.util
import json
from contextlib import contextmanager

import pytest
from command_line import invoke
from jericho_toy import write_toy

from llm_planning import model_configs
from llm_planning.environments.textgame import jericho_games
from llm_planning.running import plan
from llm_serving.scripted import ScriptedEngine

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("jericho") is None,
        reason="Jericho is not installed: pip install 'llm-planning[textgames]'",
    ),
    pytest.mark.filterwarnings("ignore:.*is not fully supported"),
]
SMALL = {"moves": 3, "simulations_per_action": 4, "C": 5, "d_min": 3, "d_max": 6, "delta_d": 3}
SMALL |= {"prior": "exact"}
TIMES = {"seconds_engine", "seconds_valid_actions", "seconds_simulation"}


def an_engine():
    """A model that likes what is later in the alphabet."""
    return ScriptedEngine(
        {"reflection": "Next time, set four before you set three."},
        score=lambda prompt, actions: [float(ord(action[0]) - ord("z")) for action in actions],
    )


@pytest.fixture
def story(tmp_path, monkeypatch):
    """A story file that Jericho is made to support; nothing of it is on disk."""
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path / "cache"))
    toy = write_toy(tmp_path)
    monkeypatch.setattr(jericho_games, "read_story", lambda file: toy)
    return str(toy.file)


async def test_a_story_is_searched_alike_with_and_without_memory(story):
    async def searched(remember):
        settings = {**SMALL, "game": story, "remember": remember}
        return await plan("mc-dml", "zork1", engine=an_engine(), settings=settings, seed=0)

    plain = await searched("off")
    (first, *_) = plain.trace["moves"]
    assert len(first["root"]) > 1
    assert 0 < sum(option["N"] for option in first["root"]) <= first["simulations"]
    steps = [plain.metrics["interpreter_steps"]]
    for remember in ("memory", "disk", "disk"):
        outcome = await searched(remember)
        assert outcome.plan == plain.plan
        assert outcome.trace["moves"] == plain.trace["moves"]
        assert outcome.metrics["score"] == plain.metrics["score"]
        steps.append(outcome.metrics["interpreter_steps"])
    assert steps[1] == steps[2] < steps[0]
    assert steps[3] == 0


def test_the_command_for_a_story_file(story, monkeypatch):
    @contextmanager
    def opener(names, *, cached):
        yield {name: an_engine() for name in names}

    monkeypatch.setattr(model_configs, "open_engines", opener)
    given = {**SMALL, "game": story}
    settings = (f"--set={key}={value}" for key, value in given.items())
    result = invoke("run", "mc-dml", "--domain=textgame", "--json", *settings)
    assert result.exit_code == 0, result.output
    metrics = json.loads(result.stdout.splitlines()[-1])["metrics"]
    assert metrics["game"] == "toy"
    assert 1 <= metrics["moves"] <= 3
    assert metrics["score"] == metrics["best_score"] == 0
    assert metrics["simulations"] > 0
    assert metrics.keys() >= TIMES
    assert all(metrics[time] >= 0 for time in TIMES)
