"""`llm-planning index`, with the real encoder."""

import json
import shutil
import sqlite3
from dataclasses import replace

import numpy as np
import pytest
from command_line import invoke

from llm_kernels import EmbeddingIndex
from llm_planning.commands import index as index_command
from llm_planning.commands import index_bench
from llm_planning.commands.index_bench import BenchError, bench_sizes
from llm_serving import encoder as encoder_module
from llm_serving.models import resolve
from llm_serving.models.catalogue import CATALOGUE

PLACES = "kitchen table\n\n  fridge \ncoffee table\n \t\nsofa\nbathroom cabinet\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache folder of the test's own that has the encoder already."""
    models = resolve("all-minilm-l6-v2").path.parent
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "models").symlink_to(models)
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(kept))
    return kept


@pytest.fixture(autouse=True)
def nothing_beside(tmp_path, monkeypatch):
    """No command and no test writes into the working directory."""
    beside = tmp_path / "beside"
    beside.mkdir()
    monkeypatch.chdir(beside)
    yield
    assert list(beside.iterdir()) == []


@pytest.fixture(scope="module", autouse=True)
def one_model():
    """The model is loaded once for all commands of this module."""
    load = encoder_module._load
    loaded = {}

    def load_once(found):
        if found.path not in loaded:
            loaded[found.path] = load(found)
        return loaded[found.path]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(encoder_module, "_load", load_once)
        yield


@pytest.fixture
def places(tmp_path):
    path = tmp_path / "places.txt"
    path.write_text(PLACES, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def template():
    """Where an index of the places is kept for all tests, and its vectors; at first nowhere."""
    return {}


@pytest.fixture
def built(template, places, folder, tmp_path, tmp_path_factory):
    """An index of the places, and the vectors of its entries in the cache."""
    if not template:
        kept = tmp_path_factory.mktemp("template")
        result, _ = ask("build", places, "--out", kept / "built")
        assert result.exit_code == 0, result.stderr
        shutil.copy(folder / "vectors.sqlite", kept)
        template["kept"] = kept
    shutil.copy(template["kept"] / "vectors.sqlite", folder)
    return shutil.copytree(template["kept"] / "built", tmp_path / "built")


def ask(*arguments):
    result = invoke("index", *arguments)
    last = result.stdout.splitlines()[-1] if result.stdout else ""
    return result, json.loads(last) if last.startswith("{") else None


def lines(tmp_path, *rows, name="items.jsonl"):
    path = tmp_path / name
    path.write_text("".join(row + "\n" for row in rows), encoding="utf-8")
    return path


# --- building ------------------------------------------------------------------------------------


def test_build_saves_an_index_that_knows_its_encoder(places, tmp_path):
    out = tmp_path / "deep" / "places"
    result, told = ask("build", places, "--out", out, "--json")
    assert result.exit_code == 0
    seconds = told.pop("seconds")
    assert seconds >= 0
    identity = {"name": "all-minilm-l6-v2", "revision": CATALOGUE["all-minilm-l6-v2"].revision}
    assert told == {
        "folder": str(out),
        "entries": 5,
        "blank_lines": 2,
        "cached": 0,
        "dimension": 384,
        "dtype": "float32",
        "encoder": identity,
    }
    index = EmbeddingIndex.load(out)
    assert index.keys == ("kitchen table", "fridge", "coffee table", "sofa", "bathroom cabinet")
    assert index.metadata == {"encoder": identity, "field": None}
    assert index.payload("sofa") is None


def test_building_again_replaces_and_embeds_only_what_is_new(places, built):
    places.write_text("sofa\narmchair\n")
    result, told = ask("build", places, "--out", built, "--dtype", "float16", "--json")
    assert result.exit_code == 0
    assert (told["entries"], told["cached"], told["dtype"]) == (2, 1, "float16")
    assert EmbeddingIndex.load(built).keys == ("sofa", "armchair")


def test_people_are_told_what_was_built(places, tmp_path, folder):
    result, _ = ask("build", places, "--out", tmp_path / "out", "--no-cache")
    assert "5 entries, 384 dimensions, float32, all-minilm-l6-v2" in result.stdout
    assert "2 blank lines skipped" in result.stdout
    # Without a terminal, progress draws nothing.
    assert result.stderr == ""
    assert not (folder / "vectors.sqlite").exists()


def test_jsonl_payloads_come_back(tmp_path):
    path = lines(
        tmp_path,
        '{"id": 1, "text": "a red apple", "tags": ["fruit"]}',
        '{"id": 2, "text": "an iron ingot", "tags": []}',
    )
    result, told = ask("build", path, "--key", "id", "--out", tmp_path / "out", "--json")
    assert (result.exit_code, told["entries"]) == (0, 2)
    _, found = ask("search", tmp_path / "out", "metal", "-k", 1, "--json")
    (match,) = found["results"][0]["matches"]
    assert match["key"] == "2"
    assert match["payload"] == {"id": 2, "text": "an iron ingot", "tags": []}
    assert "2: an iron ingot" in ask("search", tmp_path / "out", "metal")[0].stdout


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--field", "name"), 2, "--field: "),
        (("--key", "name"), 2, "--key: "),
        (("--model", "all-minilm"), 1, "did you mean all-minilm-l6-v2"),
    ],
)
def test_what_cannot_be_built_is_told(places, tmp_path, options, code, said):
    result, _ = ask("build", places, *options, "--out", tmp_path / "out")
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_place_that_cannot_hold_an_index_is_told_first(places, tmp_path, monkeypatch):
    def refuse(*_):
        raise AssertionError("texts were embedded in vain")

    monkeypatch.setattr(index_command, "_embed", refuse)
    (tmp_path / "file").write_text("")
    result, _ = ask("build", places, "--out", tmp_path / "file" / "index")
    assert result.exit_code == 2
    assert "is not a folder that can be written" in result.stderr


def test_a_folder_with_an_index_json_of_something_else_is_left(places, tmp_path):
    (tmp_path / "index.json").write_text("{}")
    result, _ = ask("build", places, "--out", tmp_path)
    assert result.exit_code == 1
    assert "index.json is not an embedding index" in result.stderr
    assert (tmp_path / "index.json").read_text() == "{}"


def test_an_interrupt_is_no_error_and_keeps_the_old_index(places, built, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    places.write_text("armchair\n")
    monkeypatch.setattr(index_command, "_embed", interrupt)
    result, _ = ask("build", places, "--out", built)
    assert result.exit_code == 130
    assert len(EmbeddingIndex.load(built)) == 5


# --- searching -----------------------------------------------------------------------------------


def test_search_finds_by_meaning(built):
    result, found = ask("search", built, "on the kitchen table", "a couch", "-k", 2, "--json")
    assert result.exit_code == 0
    assert (found["folder"], found["entries"]) == (str(built), 5)
    assert found["encoder"]["name"] == "all-minilm-l6-v2"
    assert [one["text"] for one in found["results"]] == ["on the kitchen table", "a couch"]
    tables, seats = ([m["key"] for m in one["matches"]] for one in found["results"])
    assert tables == ["kitchen table", "coffee table"]
    assert seats[0] == "sofa"
    scores = [match["score"] for match in found["results"][0]["matches"]]
    assert 1 > scores[0] > 0.7 > scores[1] > 0


def test_people_get_scores_and_keys(built):
    result, _ = ask("search", built, "[bold]fridge", "-k", 1, "--backend", "numpy")
    text, match = result.stdout.splitlines()
    assert text == "[bold]fridge"
    _, found = ask("search", built, "[bold]fridge", "--json")
    best = found["results"][0]["matches"][0]
    assert match.split() == [f"{best['score']:.4f}", "fridge"]


def test_more_results_than_entries_are_all_of_them(built):
    _, found = ask("search", built, "sofa", "-k", 50, "--json")
    assert len(found["results"][0]["matches"]) == 5
    assert found["results"][0]["matches"][0]["score"] == pytest.approx(1, abs=1e-5)


def test_another_encoder_is_an_error_that_names_both(built, monkeypatch):
    found = resolve("all-minilm-l6-v2")
    newer = replace(found, revision="newer")
    monkeypatch.setattr(encoder_module, "resolve", lambda name: newer)
    result, _ = ask("search", built, "sofa")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"encoder all-minilm-l6-v2 of revision {found.revision}," in result.stderr
    assert "all-minilm-l6-v2 is of revision newer" in result.stderr


def test_a_moved_encoder_is_found_with_model(places, tmp_path):
    before, after, out = tmp_path / "before", tmp_path / "after", tmp_path / "out"
    before.mkdir()
    for file in resolve("all-minilm-l6-v2").path.iterdir():
        (before / file.name).symlink_to(file)
    result, told = ask("build", places, "--model", before, "--out", out, "--json")
    assert (result.exit_code, told["encoder"]["name"]) == (0, str(before))
    before.rename(after)
    result, _ = ask("search", out, "sofa")
    assert (result.exit_code, f"add --model {before}" in result.stderr) == (1, True)
    result, _ = ask("search", out, "sofa", "--model", before)
    assert (result.exit_code, f"unknown model `{before}`" in result.stderr) == (1, True)
    result, found = ask("search", out, "sofa", "--model", after, "--json")
    assert result.exit_code == 0
    assert found["results"][0]["matches"][0]["key"] == "sofa"
    # The bundled one has the same weights, but nobody has compared them byte for byte.
    result, _ = ask("search", out, "sofa", "--model", "all-minilm-l6-v2")
    assert (result.exit_code, str(before) in result.stderr) == (1, True)


@pytest.fixture
def bare(tmp_path):
    """An index that says nothing of an encoder."""
    index = EmbeddingIndex(3)
    index.add(["a"], np.eye(3)[:1])
    index.save(tmp_path / "bare")
    return tmp_path / "bare"


@pytest.fixture
def altered(built):
    """An index of whose vectors a bit was changed."""
    (vectors,) = built.glob("*.safetensors")
    content = bytearray(vectors.read_bytes())
    content[-1] ^= 1
    vectors.write_bytes(content)
    return built


@pytest.mark.parametrize(
    ("index", "arguments", "code", "said"),
    [
        ("bare", ("sofa",), 1, "does not say which encoder"),
        ("altered", ("sofa",), 1, "was altered"),
        ("places", ("sofa",), 1, "there is no folder"),
        ("built", (" ",), 1, "text 0 is empty"),
        ("built", ("sofa", "--device", "tpu"), 1, "no device is called 'tpu'"),
        ("built", ("sofa", "--backend", "triton"), 1, "backend 'triton' cannot search here"),
        ("built", ("sofa", "--backend", "magic"), 2, "magic"),
        ("built", ("sofa", "-k", "0"), 2, "invalid value"),
    ],
)
def test_what_cannot_be_searched_is_told(request, monkeypatch, index, arguments, code, said):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    result, _ = ask("search", request.getfixturevalue(index), *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in result.stderr


def test_a_damaged_vector_cache_names_the_remedy(built, folder):
    for file in folder.glob("vectors.sqlite*"):
        file.unlink()
    (folder / "vectors.sqlite").write_bytes(b"no database" * 100)
    result, _ = ask("search", built, "sofa")
    assert result.exit_code == 1
    assert "llm-planning cache clear --only vectors" in result.stderr
    assert ask("search", built, "sofa", "--no-cache")[0].exit_code == 0


def test_a_text_searched_before_needs_no_model(built, folder, monkeypatch):
    first = ask("search", built, "armchair", "--json")[1]

    def refuse(found):
        raise AssertionError(f"{found.name} was loaded")

    monkeypatch.setattr(encoder_module, "_load", refuse)
    assert ask("search", built, "armchair", "--json")[1] == first
    with sqlite3.connect(folder / "vectors.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM vectors").fetchone() == (6,)
    connection.close()


# --- timing --------------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(index_bench, "_SEARCHES", 3)
    monkeypatch.setattr(index_bench, "timed_backends", lambda device: ("torch", "numpy"))


def test_bench_times_every_backend_and_names_the_chosen_one(quick):
    result, told = ask("bench", "--rows", 50, "--rows", 200, "--queries", 3, "--json")
    assert result.exit_code == 0
    assert (told["folder"], told["device"], told["k"]) == (None, "cpu", 10)
    measured = {(one["rows"], one["queries"], one["backend"]): one for one in told["measurements"]}
    assert set(measured) == {(rows, 3, name) for rows in (50, 200) for name in ("numpy", "torch")}
    assert all(one["milliseconds"] > 0 for one in measured.values())
    chosen = [one["backend"] for one in told["measurements"] if one["chosen"]]
    assert len(chosen) <= 2
    result, _ = ask("bench", "--rows", 50, "--queries", 3)
    assert "milliseconds" in result.stdout
    assert "numpy" in result.stdout


def test_bench_of_an_index(quick, built):
    result, told = ask("bench", built, "--json")
    assert result.exit_code == 0
    assert told["folder"] == str(built)
    assert {(one["rows"], one["queries"]) for one in told["measurements"]} == {(5, 1), (5, 16)}


def test_bench_of_an_empty_index_is_refused(quick, tmp_path):
    assert ask("bench", tmp_path / "nowhere")[0].exit_code == 1
    EmbeddingIndex(3).save(tmp_path / "empty")
    result, _ = ask("bench", tmp_path / "empty")
    assert result.exit_code == 1
    assert "nothing to time" in result.stderr


def test_answers_that_differ_are_not_timed(quick, monkeypatch):
    search = EmbeddingIndex.search_batch

    def lying(self, vectors, k):
        found = search(self, vectors, k)
        if self._searcher._backend == "torch":
            return tuple(matches[::-1] for matches in found)
        return found

    monkeypatch.setattr(EmbeddingIndex, "search_batch", lying)
    running = bench_sizes([50], queries=[2], dimension=8, dtype="float32", k=3, device="cpu")
    assert next(running).backend == "numpy"
    with pytest.raises(BenchError, match="torch and numpy give different answers to 2 queries"):
        next(running)
    result, _ = ask("bench", "--rows", 50)
    assert result.exit_code == 1
    assert "nothing is timed" in result.stderr


def test_interpreted_kernels_are_left_out(monkeypatch):
    monkeypatch.setattr(
        index_bench, "available_backends", lambda device: ("triton", "torch", "numpy")
    )
    assert index_bench.timed_backends("cpu") == ("torch", "numpy")
    assert index_bench.timed_backends("cuda:0") == ("triton", "torch", "numpy")
