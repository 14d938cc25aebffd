"""Models with adapters where they are named: commands, roles, sweeps, and who is trusted."""

import contextlib
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import invoke
from loaded_engine import LoadedEngine

from llm_planning import model_configs
from llm_planning.commands import run as run_module
from llm_planning.experiments.executors import Answers, Models, identify, open_pool
from llm_planning.experiments.sweep_files import Trust, UntrustedError
from llm_planning.experiments.trial import Trial
from llm_planning.model_configs import (
    DEFAULT_MODEL,
    default_model,
    find_config,
    served_together,
    split_adapter,
)
from llm_planning.roles import OwnModel, read_roles
from llm_planning.settings import SettingsError
from llm_serving import gpu_sharing, vllm_arguments, vllm_engine
from llm_serving.config import EngineConfig
from llm_serving.errors import AdapterError
from llm_serving.models import CATALOGUE, Card, TaughtModel
from llm_serving.models.adapters import CONFIG, WEIGHTS
from llm_serving.models.local import CARD
from llm_serving.request import AdapterIdentity, ModelIdentity, Request

BASE = "smollm2-135m-instruct"


@pytest.fixture
def adapter(tmp_path, monkeypatch):
    """The files of an adapter, as far as a configuration reads them: all of their bytes."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "one"
    folder.mkdir()
    (folder / CONFIG).write_text("{}")
    (folder / WEIGHTS).write_bytes(b"weights")
    return "one"


def stand_in(config, *, encoder, beside):
    """Serves the adapters of a configuration, and says in its answers which of them was asked."""
    served = tuple(AdapterIdentity(name=name, revision=f"1+{name}") for name in config.adapters)
    identity = ModelIdentity(name=config.model, revision="1", dtype="none", adapters=served)
    OPENED.append(config)
    return LoadedEngine(lambda request: request.adapter or "base", identity=identity)


OPENED = []


def trial_of(*names, **roles):
    """A trial that opens models; the first of them answers what `roles` gives to no other."""
    engines = {name: find_config(name).model_dump(mode="json") for name in names}
    return Trial(
        planner="too",
        domain="minecraft",
        task="x",
        model=names[0],
        role_models=roles,
        engines=engines,
    )


@pytest.fixture
def opened(monkeypatch, tmp_path):
    OPENED.clear()
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(vllm_engine, "VllmEngine", stand_in)
    return OPENED


@pytest.fixture
def taught(adapter, tmp_path, monkeypatch):
    """The only bundled model that was taught: to propose and to judge in Minecraft."""
    card = Card(
        base=BASE,
        base_revision="1",
        domain="minecraft",
        roles=("propose", "reward"),
        words_sha256=("0" * 64,),
    )
    (tmp_path / "one" / CARD).write_text(json.dumps(card.to_json()))
    # What is taken out last comes back first, and the order counts.
    for model in reversed([*CATALOGUE.values()]):
        if isinstance(model, TaughtModel):
            monkeypatch.delitem(CATALOGUE, model.name)
    student = TaughtModel(
        name="student", base=CATALOGUE[BASE], adapter=tmp_path / "one", licence="Apache-2.0"
    )
    monkeypatch.setitem(CATALOGUE, student.name, student)
    return student


def test_the_default_is_the_model_that_was_taught_all_roles_there(taught):
    assert default_model(["reward"], domain="minecraft") == "student"
    assert default_model(["reward", "propose"], domain="minecraft") == "student"
    assert default_model(["reward", "decompose"], domain="minecraft") == DEFAULT_MODEL
    assert default_model(["reward"], domain="cooking") == DEFAULT_MODEL
    assert default_model([], domain="minecraft") == DEFAULT_MODEL


@pytest.fixture
def asked(monkeypatch):
    """The models that runs would open; they end before that."""
    names = []

    @contextlib.contextmanager
    def note(model, models, *, cached):
        names.append(model)
        raise SettingsError("enough")
        yield

    monkeypatch.setattr(run_module, "_open_engines", note)
    return names


@pytest.mark.parametrize(
    ("planner", "named", "expected"),
    [
        ("tot-mcts", [], "student"),
        ("cot", [], DEFAULT_MODEL),
        ("tot-mcts", ["--model", "none"], "none"),
    ],
)
def test_a_run_takes_the_default_of_its_planner(taught, asked, planner, named, expected):
    taught_card = json.loads((taught.adapter / CARD).read_text())
    taught_card["roles"] = ["propose", "reward", "termination"]
    (taught.adapter / CARD).write_text(json.dumps(taught_card))
    assert invoke("run", planner, "--task", "cook-meat", *named).exit_code == 2
    assert asked == [expected]


MANUAL = Path(__file__).parents[2] / "configs" / "drip" / "oracles" / "manual.yaml"


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("drip-plus --domain blocksworld", "smollm2-135m-blocksworld"),
        (f"drip-plus --domain blocksworld --set roles={MANUAL}", "smollm2-135m-blocksworld"),
        ("drip-plus --domain blocksworld --set roles=rules", "none"),
        ("react --domain blocksworld", DEFAULT_MODEL),
        ("drip-plus --domain minecraft", "smollm2-135m-minecraft"),
        ("llm-mcts --domain household", "smollm2-135m-household"),
        ("llm-policy --domain household", "smollm2-135m-household"),
        # Text games taught a model, but in the words of `mc-dml --set prior=exact` alone.
        ("llm-policy --domain textgame", DEFAULT_MODEL),
        # This one was taught Tree of Options' roles alone, and passed the gate for them.
        ("too --domain minecraft", "smollm2-135m-planner"),
        ("drip-plus --domain travel", DEFAULT_MODEL),
    ],
)
def test_a_run_asks_the_model_of_its_world_if_nobody_names_one(asked, named, expected):
    assert invoke("run", *named.split()).exit_code == 2
    assert asked == [expected]


def test_a_name_of_a_model_and_an_adapter(adapter, tmp_path):
    assert split_adapter(f"{BASE}+one") == (BASE, "one")
    assert split_adapter(f"{BASE}+") == (f"{BASE}+", None)
    config = find_config(f"{BASE}+one")
    assert config.adapters == {"one": "one"}
    assert config.model_copy(update={"adapters": {}, "adapters_sha256": {}}) == find_config(BASE)
    (tmp_path / "mine.yaml").write_text(f"model: {BASE}\nadapters: {{a: one, b: {tmp_path}/one}}\n")
    assert find_config("mine.yaml+b").adapters == {"b": f"{tmp_path}/one"}
    (tmp_path / "C++").mkdir()
    assert split_adapter("C++") == ("C++", None)
    with pytest.raises(AdapterError, match="there is no adapter two: name a folder"):
        find_config(f"{BASE}+two")


def test_a_path_with_the_sign_in_it(adapter, tmp_path):
    for name in ("C++/small", "C++/one+two", "model"):
        (tmp_path / name).mkdir(parents=True)
    assert split_adapter(f"{BASE}+C++/one+two") == (BASE, "C++/one+two")
    assert split_adapter("C++/small+C++/one+two") == ("C++/small", "C++/one+two")
    assert split_adapter("C++/small") == ("C++/small", None)
    assert split_adapter("model+one") == ("model", "one")
    # A model of the hub is not here, so its name ends at the first sign.
    assert split_adapter("nobody/small+C++/one+two") == ("nobody/small", "C++/one+two")
    for name in ("+", "++", "+one", "one+"):
        assert split_adapter(name)[0].strip("+") in {"", "one"}


def test_an_adapter_of_an_adapter_is_refused(adapter, tmp_path):
    with pytest.raises(AdapterError, match=r"there is no adapter one\+one: name a folder"):
        find_config(f"{BASE}+one+one")
    file = tmp_path / "roles.yaml"
    file.write_text(f"propose: {{model: {BASE}+one, adapter: one}}\n")
    with pytest.raises(SettingsError, match=r"has an adapter, and a role has one"):
        read_roles(str(file), known=("propose",))


def test_a_path_of_any_length_names_an_adapter(adapter, tmp_path):
    long = "/".join([str(tmp_path), *["x" * 100] * 3])
    shutil.copytree(tmp_path / "one", long)
    assert find_config(f"{BASE}+{long}").adapters == {long: long}
    result = invoke("run", "too", "--model", f"{BASE}+{'x/' * 4000}")
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert "at most 4096 characters" in result.stderr


def test_engines_are_shared_on_a_gpu_alone(monkeypatch):
    names = [BASE, "none", f"{BASE}+one", "other+one", f"{BASE}+two", BASE]
    alone = [(BASE,), ("none",), (f"{BASE}+one",), ("other+one",), (f"{BASE}+two",)]
    monkeypatch.setattr(vllm_arguments, "on_gpu", lambda: False)
    assert served_together(names) == alone
    monkeypatch.setattr(vllm_arguments, "on_gpu", lambda: True)
    assert served_together(names) == [
        (BASE, f"{BASE}+one", f"{BASE}+two"),
        ("none",),
        ("other+one",),
    ]
    assert served_together([BASE, "other"]) == [(BASE,), ("other",)]


@pytest.mark.parametrize("gpu", [False, True])
async def test_a_base_beside_its_own_adapter(adapter, opened, monkeypatch, tmp_path, gpu):
    """A file lists an adapter: the bare name is the base model, on a CPU in its own engine."""
    monkeypatch.setattr(vllm_arguments, "on_gpu", lambda: gpu)
    (tmp_path / "mine.yaml").write_text(f"model: {BASE}\nadapters: {{planner: one}}\n")
    names = ("mine.yaml", "mine.yaml+planner")
    trial = trial_of(*names, dynamics=names[1])

    async def check(engines):
        assert engines.name == f"{BASE} + {BASE}+planner"
        assert (await engines.of("dynamics").generate(Request(prompt="?"))).text == "planner"
        assert (await engines.of("propose").generate(Request(prompt="?"))).text == "base"

    expected = [["planner"]] if gpu else [[], ["planner"]]
    with open_pool(Models.of(trial), answers=Answers.CACHED, most=None) as pool:
        await check(pool._engines(trial))
    assert [[*config.adapters] for config in opened] == expected
    opened.clear()
    with run_module._open_engines(names[0], {"dynamics": names[1]}, cached=True) as both:
        await check(both)
    assert [[*config.adapters] for config in opened] == expected
    assert all(config.adapters.keys() == config.adapters_sha256.keys() for config in opened)


def test_models_of_a_run_or_a_sweep_share_the_gpu(opened, monkeypatch, tmp_path):
    import torch

    monkeypatch.delenv(vllm_arguments.SHARE_VARIABLE)
    monkeypatch.setattr(gpu_sharing, "on_gpu", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(gpu_sharing, "_gpu_bytes", lambda gpu: 24 << 30)
    monkeypatch.setattr(gpu_sharing, "resolve", lambda name: SimpleNamespace(path=tmp_path / name))
    for name, size in (("large", 9 << 30), ("small", 1 << 30)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        with (folder / "model.safetensors").open("wb") as weights:
            weights.truncate(size)
    monkeypatch.chdir(tmp_path)
    trial = trial_of("large", "small", dynamics="small")
    with open_pool(Models.of(trial), answers=Answers.FRESH, most=None):
        first = {config.model: config.memory_share for config in opened}
    opened.clear()
    with run_module._open_engines("small", {"dynamics": "large"}, cached=True):
        assert {config.model: config.memory_share for config in opened} == first
    assert first["large"] > 3 * first["small"] > 0.3
    assert sum(first.values()) <= 0.9 - 1 / 24


async def test_adapters_of_a_session_are_added(adapter, opened, monkeypatch, tmp_path):
    monkeypatch.setattr(vllm_arguments, "on_gpu", lambda: True)
    (tmp_path / "mine.yaml").write_text(f"model: {BASE}\nadapters: {{planner: one}}\n")
    with model_configs.open_engine("mine.yaml+planner", adapters=["one"]) as engine:
        assert (await engine.generate(Request(prompt="?"))).text == "planner"
    with model_configs.open_engine("mine.yaml", adapters=["one"]) as engine:
        assert (await engine.generate(Request(prompt="?", adapter="planner"))).text == "planner"
    assert [[*config.adapters] for config in opened] == [["planner", "one"]] * 2
    with pytest.raises(AdapterError, match="none has no adapter one"):
        model_configs._with("none", ["one"])


async def test_an_engine_of_a_session(adapter, opened):
    with model_configs.open_engine(f"{BASE}+one") as engine:
        assert (await engine.generate(Request(prompt="?"))).text == "one"
        assert engine.identity.revision == "1+one"
    with model_configs.open_uncached_engine(BASE, adapters=["one"]) as engine:
        assert (await engine.generate(Request(prompt="?"))).text == "base"
        assert (await engine.generate(Request(prompt="?", adapter="one"))).text == "one"


def test_a_changed_adapter_makes_another_trial(adapter, tmp_path):
    old, same = trial_of(f"{BASE}+one"), trial_of(f"{BASE}+one")
    assert old.key == same.key
    assert len({Models.of(old), Models.of(same)}) == 1
    (tmp_path / "one" / WEIGHTS).write_bytes(b"weighty")
    assert trial_of(f"{BASE}+one").key != old.key
    with pytest.raises(AdapterError, match="the adapter 'one' of smollm2-135m-instruct is not"):
        Models.of(old)


def test_a_taught_folder_s_content_makes_another_trial(adapter, tmp_path):
    def written():
        return EngineConfig(model="one").model_dump(mode="json")

    first = written()
    assert len(first["taught_sha256"]) == 64
    (tmp_path / "one" / "taught.json").write_text("{}")
    assert written() != first
    with pytest.raises(AdapterError, match="the model one is not the one of `taught_sha256`"):
        EngineConfig.model_validate(first)
    # A merged folder is hashed whole, any other folder is not a part of the trial.
    merged = tmp_path / "merged"
    merged.mkdir()
    (merged / "config.json").write_text("{}")
    assert EngineConfig(model="merged").model_dump(mode="json")["taught_sha256"] == ""
    (merged / "taught.json").write_text("{}")
    assert EngineConfig(model="merged").model_dump(mode="json")["taught_sha256"]


def test_provenance_names_the_content(adapter, monkeypatch):
    import llm_serving.models

    base = SimpleNamespace(revision="base")
    monkeypatch.setattr(llm_serving.models, "resolve", lambda name: base)
    config = find_config(f"{BASE}+one")
    identity = identify(f"{BASE}+one", config)
    assert identity.revision == f"base+{config.adapters_sha256['one']}-merged-1"
    assert identify(BASE, find_config(BASE)).revision == "base"


def test_a_file_of_roles(tmp_path):
    file = tmp_path / "roles.yaml"
    file.write_text("propose: {model: small, adapter: one}\n")
    roles = read_roles(str(file), known=("propose", "dynamics"))
    assert roles.of("propose") == OwnModel("small", "one")
    assert roles.models == {"propose": "small+one"}
    for wrong in ("{model: small, adapter: 3}", "{adapter: one}", "{model: small, adapter: ''}"):
        file.write_text(f"propose: {wrong}\n")
        with pytest.raises(SettingsError):
            read_roles(str(file), known=("propose",))


def test_a_file_of_roles_loads_no_adapter_unasked(adapter, tmp_path, monkeypatch):
    file = tmp_path / "roles.yaml"
    file.write_text(f"dynamics: {{model: {BASE}, adapter: one}}\n")
    monkeypatch.setattr(run_module, "_open_engines", None)
    result = invoke("run", "too", "--set", f"roles={file}")
    assert result.exit_code == 2
    assert f"add --role-model dynamics={BASE}+one" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_sweep_loads_no_adapter_unasked(adapter, tmp_path):
    trial = trial_of(f"{BASE}+one")
    with pytest.raises(UntrustedError, match=r"the adapter one does not come .* --trust one"):
        Trust.of([]).check_trials([trial])
    Trust.of(["one"]).check_trials([trial])
    assert json.dumps(trial.to_json())


ENCODER = "all-minilm-l6-v2"


def test_a_folder_called_as_a_bundled_model_is_not_trusted_for_its_name(
    adapter, tmp_path, monkeypatch
):
    shutil.copytree(tmp_path / "one", tmp_path / ENCODER)
    trial = trial_of(f"{BASE}+./{ENCODER}")
    trial.engines[trial.model]["adapters"] = {"a": ENCODER}
    with pytest.raises(UntrustedError, match=f"the adapter {ENCODER} does not come"):
        Trust.of([]).check_trials([trial])
    monkeypatch.setattr(run_module, "_open_engines", None)
    file = tmp_path / "roles.yaml"
    for named, message in ((ENCODER, "is a bundled model and no adapter"), (f"./{ENCODER}", "add")):
        file.write_text(f"dynamics: {{model: {BASE}, adapter: {named}}}\n")
        result = invoke("run", "too", "--set", f"roles={file}")
        assert result.exit_code in {1, 2}
        assert message in result.stderr


def test_an_adapter_that_comes_along_is_trusted(adapter, tmp_path, monkeypatch):
    planner = TaughtModel(
        name="planner", base=CATALOGUE[BASE], adapter=tmp_path / "one", licence="Apache-2.0"
    )
    monkeypatch.setitem(CATALOGUE, "planner", planner)
    Trust.of([]).check_trials([trial_of(f"{BASE}+planner")])
