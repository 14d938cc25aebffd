"""`llm-planning index`, with the real encoder."""

import json
import os
import shutil
import sqlite3
from dataclasses import replace

import numpy as np
import pytest
from command_line import invoke, refused

from llm_kernels import EmbeddingIndex
from llm_planning.commands import index as index_command
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
def load_model_once():
    """The model is loaded once for all commands of this module."""
    load = encoder_module._load
    loaded = {}

    def load_once(model):
        if model.path not in loaded:
            loaded[model.path] = load(model)
        return loaded[model.path]

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
        shutil.copy(folder / "vectors-2.sqlite", kept)
        template["kept"] = kept
    shutil.copy(template["kept"] / "vectors-2.sqlite", folder)
    return shutil.copy(template["kept"] / "built", tmp_path / "built")


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
    result, _ = ask("build", places, "--out", tmp_path / "built")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.endswith("built: 5 entries, 384 dimensions, all-minilm-l6-v2\n")
    index = EmbeddingIndex.load(tmp_path / "built")
    assert index.keys == ("kitchen table", "fridge", "coffee table", "sofa", "bathroom cabinet")
    revision = CATALOGUE["all-minilm-l6-v2"].revision
    assert index.metadata == {"encoder": {"name": "all-minilm-l6-v2", "revision": revision}}
    assert index.search(index.vector("sofa"), 1)[0].payload is None


def test_building_again_replaces(places, built):
    places.write_text("sofa\narmchair\n")
    assert ask("build", places, "--out", built)[0].exit_code == 0
    assert EmbeddingIndex.load(built).keys == ("sofa", "armchair")


def test_jsonl_payloads_come_back(tmp_path):
    apple, ingot = {"text": "a red apple", "tags": ["fruit"]}, {"text": "an iron ingot"}
    path = lines(tmp_path, json.dumps(apple), "", json.dumps(ingot))
    assert ask("build", path, "--out", tmp_path / "out")[0].exit_code == 0
    _, answer = ask("search", tmp_path / "out", "metal", "-k", 1, "--json")
    (match,) = answer["results"][0]["matches"]
    assert (match["key"], match["payload"]) == ("an iron ingot", ingot)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{not json}", "line 2: Expecting property name"),
        ('["log"]', "line 2: ['log'] is no JSON object that has a text"),
        ('{"name": "log"}', "line 2: {'name': 'log'} is no JSON object that has a text"),
        ('{"text": 3}', "line 2: {'text': 3} is no JSON object that has a text"),
        ('{"text": ' + "[" * 10**5, "line 2: it is nested too deeply"),
        ('{"text": " "}', "text 1 is empty"),
        ('{"text": "planks", "n": 2}', "key 'planks' comes twice"),
        ('{"text": "log", "n": NaN}', "the payload of key 'log' is not a JSON value"),
        ('{"text": "\\ud800"}', "text 1 is not valid Unicode"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_made(tmp_path, line, message):
    path = lines(tmp_path, '{"text": "planks"}', line)
    assert message in refused("index", "build", path, "--out", tmp_path / "out", code=1)
    assert not (tmp_path / "out").exists()


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "latin").write_bytes(b"fridge\n\xff\n")
    (tmp_path / "hole").touch()
    os.truncate(tmp_path / "hole", 1 << 40)  # takes no room
    for name, message in {
        "latin": "line 2: 'utf-8' codec can't decode",
        "hole": "it is larger than",
        "missing": "No such file",
    }.items():
        line = refused("index", "build", tmp_path / name, "--out", tmp_path / "out", code=1)
        assert message in line


def test_a_model_that_is_not_there(places, tmp_path):
    build = "index", "build", places, "--model", "all-minilm", "--out", tmp_path / "out"
    assert "did you mean all-minilm-l6-v2" in refused(*build, code=1)


def test_a_place_that_cannot_hold_an_index_is_told_first(places, tmp_path, monkeypatch):
    monkeypatch.setattr(index_command, "_embedded", None)
    (tmp_path / "file").write_text("")
    line = refused("index", "build", places, "--out", tmp_path / "file" / "index")
    assert "cannot write" in line


def test_an_interrupt_is_no_error_and_keeps_the_old_index(places, built, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(index_command, "_embedded", interrupt)
    assert ask("build", places, "--out", built)[0].exit_code == 130
    assert len(EmbeddingIndex.load(built)) == 5


@pytest.mark.parametrize("name", ["items.JSONL", "items.ndjson", "items.NDJson"])
def test_json_lines_have_several_endings(tmp_path, name):
    path = lines(tmp_path, '{"text": "a red apple", "n": 1}', name=name)
    assert ask("build", path, "--out", tmp_path / "out")[0].exit_code == 0
    (match,) = ask("search", tmp_path / "out", "apple", "--json")[1]["results"][0]["matches"]
    assert (match["key"], match["payload"]["n"]) == ("a red apple", 1)


@pytest.mark.parametrize(
    "name", ["a.json", "a.JSON", "a.csv", "a.tsv", "a.txt.gz", "a.jsonl.gz", "a.parquet", "a.yaml"]
)
def test_files_of_other_endings_are_not_read_as_lines_of_text(tmp_path, name, monkeypatch):
    monkeypatch.setattr(index_command, "_embedded", None)
    path = lines(tmp_path, '[{"text": "a"}, {"text": "b"}]', name=name)
    line = refused("index", "build", path, "--out", tmp_path / "out")
    ending = os.path.splitext(name)[1].lower()
    assert f"no texts are read from a file that ends in {ending}: " in line
    assert "ends in .txt or in nothing" in line
    assert "in .jsonl or .ndjson" in line


def test_entries_of_one_vector_are_told_and_found_by_their_writing(tmp_path):
    long = "planks " * 300
    alike = [
        "resume",
        "re\u0301sume\u0301",
        "r\xe9sum\xe9",
        "Polish",
        "polish",
        f"{long}a",
        f"{long}b",
    ]
    path = lines(tmp_path, "a red apple", *alike, "turkey", "Turkey", name="alike.txt")
    result, _ = ask("build", path, "--out", tmp_path / "out")
    assert result.exit_code == 0
    (note,) = [line for line in result.stderr.splitlines() if "alike" in line]
    assert note.startswith(
        "note: 9 of 10 entries have the vector of another one, as all-minilm-l6-"
    )
    assert (
        "'resume' and 're\u0301sume\u0301' and 'r\xe9sum\xe9'; 'Polish' and 'polish'; 'planks"
        in note
    )
    assert note.endswith("; and 1 more")
    texts = [*alike[:5], " turkey ", "Turkey"]
    answer = ask("search", tmp_path / "out", *texts, "-k", 1, "--json")[1]
    found = [result["matches"][0] for result in answer["results"]]
    assert [match["key"] for match in found] == [text.strip() for text in texts]
    assert all(match["score"] == pytest.approx(1, abs=1e-5) for match in found)
    # Nothing is written so; of what is read alike, it is nearest to the one with an accent.
    answer = ask("search", tmp_path / "out", "R\xe9sum\xe9", "-k", 2, "--json")[1]
    assert answer["results"][0]["matches"][0]["key"] == "r\xe9sum\xe9"


def test_vectors_of_one_text_may_differ_in_their_last_bits():
    rows = np.random.default_rng(0).normal(size=(200, 8)).astype(np.float32)
    rows[[7, 150]] = rows[20] + np.float32(3e-7)
    rows[90] = rows[91] + np.float32(1e-5)
    rows[30:60, 0] = 0.5  # so that the first component tells nothing of them
    rows[[33, 55]] = rows[44]
    rows[160:] = rows[3]
    texts = [str(number) for number in range(200)]
    groups = [["3", *texts[160:]], ["7", "20", "150"], ["33", "44", "55"]]
    assert index_command._alike(texts, rows) == groups
    assert index_command._alike(texts[:1], rows[:1]) == []
    assert index_command._alike([], rows[:0]) == []


# --- searching -----------------------------------------------------------------------------------


def test_search_finds_by_meaning(built):
    result, answer = ask("search", built, "on the kitchen table", "a couch", "-k", 2, "--json")
    assert result.exit_code == 0
    assert answer["index"] == str(built)
    assert [result_of_text["text"] for result_of_text in answer["results"]] == [
        "on the kitchen table",
        "a couch",
    ]
    tables, seats = (
        [m["key"] for m in result_of_text["matches"]] for result_of_text in answer["results"]
    )
    assert tables == ["kitchen table", "coffee table"]
    assert seats[0] == "sofa"
    scores = [match["score"] for match in answer["results"][0]["matches"]]
    assert 1 > scores[0] > 0.7 > scores[1] > 0


def test_people_get_scores_and_keys(built):
    result, _ = ask("search", built, "[bold]fridge", "-k", 1)
    text, match = result.stdout.splitlines()
    assert text == "[bold]fridge"
    _, answer = ask("search", built, "[bold]fridge", "--json")
    best = answer["results"][0]["matches"][0]
    assert match.split() == [f"{best['score']:.4f}", "fridge"]


def test_more_results_than_entries_are_all_of_them(built):
    _, answer = ask("search", built, "sofa", "-k", 50, "--json")
    assert len(answer["results"][0]["matches"]) == 5
    assert answer["results"][0]["matches"][0]["score"] == pytest.approx(1, abs=1e-5)


def test_another_encoder_is_an_error_that_names_both(built, monkeypatch):
    model = resolve("all-minilm-l6-v2")
    newer = replace(model, revision="newer")
    monkeypatch.setattr(encoder_module, "resolve", lambda name: newer)
    line = refused("index", "search", built, "sofa", code=1)
    assert f"'revision': '{model.revision}'" in line
    assert "this is {'name': 'all-minilm-l6-v2', 'revision': 'newer'}" in line


def test_a_moved_encoder_is_found_with_model(places, tmp_path):
    before, after, out = tmp_path / "before", tmp_path / "after", tmp_path / "out"
    before.mkdir()
    for file in resolve("all-minilm-l6-v2").path.iterdir():
        (before / file.name).symlink_to(file)
    assert ask("build", places, "--model", before, "--out", out)[0].exit_code == 0
    before.rename(after)
    assert "if you trust it" in refused("index", "search", out, "sofa", code=1)
    result, answer = ask("search", out, "sofa", "--model", after, "--json")
    assert result.exit_code == 0
    assert answer["results"][0]["matches"][0]["key"] == "sofa"
    # The bundled one has the same weights, but nobody has compared them byte for byte.
    assert ask("search", out, "sofa", "--model", "all-minilm-l6-v2")[0].exit_code == 1


@pytest.fixture
def bare(tmp_path):
    """An index that says nothing of an encoder."""
    index = EmbeddingIndex(3)
    index.add(["a"], np.eye(3)[:1])
    index.save(tmp_path / "bare")
    return tmp_path / "bare"


@pytest.mark.parametrize(
    ("index", "arguments", "code", "message"),
    [
        ("bare", ("sofa", "--model", "all-minilm-l6-v2"), 1, "does not say its encoder"),
        ("places", ("sofa",), 1, "is no embedding index, or is damaged"),
        ("tmp_path", ("sofa",), 1, "cannot be read: Is a directory"),
        ("built", (" ",), 1, "text 0 is empty"),
        ("built", ("sofa", "-k", "0"), 2, "invalid value"),
    ],
)
def test_what_cannot_be_searched_is_told(request, index, arguments, code, message):
    path = request.getfixturevalue(index)
    assert message in refused("index", "search", path, *arguments, code=code)


def test_a_damaged_vector_cache_names_the_remedy(built, folder):
    for file in folder.glob("vectors-2.sqlite*"):
        file.unlink()
    (folder / "vectors-2.sqlite").write_bytes(b"no database" * 100)
    line = refused("index", "search", built, "sofa", code=1)
    assert "llm-planning cache clear --only vectors" in line


def test_a_text_searched_before_needs_no_model(built, folder, monkeypatch):
    first = ask("search", built, "armchair", "--json")[1]

    def refuse(model):
        raise AssertionError(f"{model.name} was loaded")

    monkeypatch.setattr(encoder_module, "_load", refuse)
    assert ask("search", built, "armchair", "--json")[1] == first
    with sqlite3.connect(folder / "vectors-2.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM entries").fetchone() == (6,)
    connection.close()
