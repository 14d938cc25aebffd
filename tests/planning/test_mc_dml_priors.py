import asyncio
import functools
import math
import re

import pytest

from llm_planning import priors
from llm_planning.planners.mc_dml.roles import (
    GameSituation,
    GameTurn,
    GameWording,
    Observation,
)
from llm_planning.priors import (
    ABSENT,
    SAMPLES,
    Labels,
    chances,
    likeliest,
    log_softmax,
    one_label,
    softmax,
)
from llm_serving.answers import constraint_of
from llm_serving.errors import LabelError, ServingError, UnableError
from llm_serving.request import EncodedPrompt
from llm_serving.scripted import ScriptedEngine

ROOM = Observation("You wake up.", "A cellar with a trap door.", "You carry a lamp.")
ACTIONS = ("go up", "light lamp", "open trap door")
make_prior = functools.partial(priors.make_prior, wording=GameWording())


def situation(actions=ACTIONS, **changes):
    return GameSituation(**({"memory": (), "observation": ROOM, "actions": actions} | changes))


def by_table(table):
    return lambda text, choices: [table[choice] for choice in choices]


def test_a_softmax_by_hand():
    # exp(0) : exp(-1) : exp(-2) = 1 : 0.3679 : 0.1353
    assert softmax([-5.0, -10.0, -15.0], temperature=5.0) == pytest.approx(
        [0.66524, 0.24473, 0.09003], abs=1e-5
    )
    assert softmax([-1000.0, -1000.0], temperature=0.1) == [0.5, 0.5]
    assert softmax([0.0, -4.0], temperature=1e-300) == [1.0, 0.0]
    assert log_softmax([math.log(0.1), math.log(0.3)]) == pytest.approx(
        [math.log(0.25), math.log(0.75)]
    )


def test_all_but_the_twenty_likeliest_are_absent():
    logprobs = [-float(i) / 10 for i in range(25)]
    assert likeliest(logprobs) == logprobs[:20] + [ABSENT] * 5
    assert likeliest(logprobs[::-1]) == [ABSENT] * 5 + logprobs[:20][::-1]
    # Of equals the earlier ones are kept, and no kept one is below an absent one.
    assert likeliest([-1.0] * 21) == [-1.0] * 20 + [ABSENT]
    assert likeliest([-0.1, -30.0]) == [-0.1, ABSENT]


async def test_exact_is_the_softmax_of_whole_actions():
    table = {
        "go up": math.log(0.02),
        "light lamp": math.log(0.05),
        "open trap door": math.log(0.03),
    }
    engine = ScriptedEngine({}, score=by_table(table))
    assert await make_prior("exact", engine)(situation()) == pytest.approx([0.2, 0.5, 0.3])
    assert engine.scored[0][1] == ACTIONS
    assert len(engine.scored) == 1


@pytest.mark.parametrize(
    ("temperature", "weights"),
    [
        (0.5, [0.0004, 0.0025, 0.0009]),
        (2.0, [0.02**0.5, 0.05**0.5, 0.03**0.5]),
    ],
)
async def test_a_temperature_flattens_or_sharpens(temperature, weights):
    table = dict(zip(ACTIONS, map(math.log, (0.02, 0.05, 0.03)), strict=True))
    engine = ScriptedEngine({}, score=by_table(table))
    pi = await make_prior("exact", engine, temperature=temperature)(situation())
    assert pi == pytest.approx([weight / sum(weights) for weight in weights])


async def test_index_by_hand():
    # Given a label, the probabilities are 0.8, 0.1 and 0.1; to the power of 1/5 and normalised.
    table = {"1": math.log(0.08), "2": math.log(0.01), "3": math.log(0.01)}
    engine = ScriptedEngine({}, score=by_table(table))
    weights = [0.8**0.2, 0.1**0.2, 0.1**0.2]
    expected = [weight / sum(weights) for weight in weights]
    assert await make_prior("index", engine)(situation()) == pytest.approx(expected)
    text, labels = engine.scored[0]
    assert labels == ("1", "2", "3")
    assert "Possible actions:\n1: go up\n2: light lamp\n3: open trap door\n\n" in text


async def test_index_knows_nothing_of_labels_beyond_the_twentieth():
    actions = tuple(f"push button {i}" for i in range(26))
    # A is e times as likely as the others; of these, the first 19 are in the top 20.
    engine = ScriptedEngine(
        {}, score=lambda text, choices: [1.0 if choice == "A" else 0.0 for choice in choices]
    )
    pi = await make_prior("index", engine)(situation(actions))
    total = math.e + 25
    weights = [(math.e / total) ** 0.2, *([(1 / total) ** 0.2] * 19), *([math.exp(-2.0)] * 6)]
    assert pi == pytest.approx([weight / sum(weights) for weight in weights])


async def test_sample_counts_its_draws():
    answers = iter("1311111311")
    engine = ScriptedEngine(lambda request: next(answers))
    pi = await make_prior("sample", engine, seed=7)(situation())
    weights = [0.8**0.2, math.exp(-2.0), 0.2**0.2]
    assert pi == pytest.approx([weight / sum(weights) for weight in weights])
    assert [request.sample for request in engine.requests] == list(range(SAMPLES))
    assert {request.sampling.seed for request in engine.requests} == {7}
    assert all(request.sampling.temperature == 1.0 for request in engine.requests)
    for label, allowed in (("1", True), ("3", True), ("4", False), ("", False), ("11", False)):
        assert bool(re.fullmatch(engine.requests[0].constraint.regex, label)) is allowed


async def test_verbal_reads_chances_and_the_first_of_repeats():
    answer = '{"actions":[["3",50],["2",20],["3",1]]}'
    engine = ScriptedEngine({"prior": answer})
    pi = await make_prior("verbal", engine)(situation())
    weights = [math.exp(-2.0), 0.2**0.2, 0.5**0.2]
    assert pi == pytest.approx([weight / sum(weights) for weight in weights])
    assert engine.requests[0].sampling.temperature == 0


async def test_verbal_answers_are_few_and_held_to_the_labels():
    regex = constraint_of(chances(("A", "B"))).regex
    assert re.fullmatch(regex, '{"actions":[["A",100]]}')
    assert re.fullmatch(regex, '{"actions":[' + ",".join(['["B",1]'] * 5) + "]}")
    for wrong in ('["C",1]', '["A",0]', '["A",101]', ",".join(['["B",1]'] * 6), ""):
        assert not re.fullmatch(regex, f'{{"actions":[{wrong}]}}')


@pytest.mark.parametrize("kind", ["exact", "index", "sample", "verbal"])
async def test_equal_situations_are_asked_once(kind):
    script = {"prior": '{"actions":[["1",60]]}' if kind == "verbal" else "1"}
    engine = ScriptedEngine(script, score=lambda text, choices: [0.0] * len(choices))
    prior = make_prior(kind, engine)
    first = await prior(situation())
    asked = len(engine.requests) + len(engine.scored)
    assert list(await prior(situation(tuple(ACTIONS)))) == list(first)
    assert len(engine.requests) + len(engine.scored) == asked
    assert prior.questions == 1
    await prior(situation(reflections=("Light the lamp.",)))
    assert prior.questions == 2


async def test_equal_situations_in_flight_are_asked_once():
    failing = [True]

    class Slow(ScriptedEngine):
        async def score(self, request):
            await asyncio.sleep(0.001)
            if failing:
                failing.clear()
                raise ServingError("no answer")
            return await super().score(request)

    engine = Slow({}, score=lambda text, choices: [0.0] * len(choices))
    prior = make_prior("exact", engine)
    # The first caller gets the error. The second asks again, for itself and the third.
    answers = await asyncio.gather(*(prior(situation()) for _ in range(3)), return_exceptions=True)
    assert isinstance(answers[0], ServingError)
    assert answers[1] == answers[2] == pytest.approx([1 / 3] * 3)
    assert (len(engine.scored), prior.questions) == (1, 2)


async def test_rewards_and_scores_are_in_no_prompt_and_make_no_other_question():
    engine = ScriptedEngine({}, score=lambda text, choices: [0.0] * len(choices))
    prior = make_prior("exact", engine)
    for score in (0.0, 5.0):
        await prior(situation(memory=(GameTurn(ROOM, "go up", score, score),)))
    assert len(engine.scored) == prior.questions == 1


async def test_a_single_action_needs_no_model():
    prior = make_prior("index", ScriptedEngine({}))
    assert list(await prior(situation(("wait",)))) == [1.0]
    assert prior.questions == 0


async def test_uniform_asks_no_model():
    prior = make_prior("uniform", ScriptedEngine({}), temperature=0.1, mixture=0.5)
    assert list(await prior(situation())) == pytest.approx([1 / 3] * 3)
    assert list(await prior.logprobs(situation(("up", "down")))) == [0.0, 0.0]
    assert prior.questions == 0


async def test_a_mixture_gives_every_action_its_share():
    # 0.8 · (0.2, 0.5, 0.3) + 0.2 / 3
    table = dict(zip(ACTIONS, map(math.log, (0.02, 0.05, 0.03)), strict=True))
    prior = make_prior("exact", ScriptedEngine({}, score=by_table(table)), mixture=0.2)
    assert await prior(situation()) == pytest.approx([0.226667, 0.466667, 0.306667], abs=1e-6)
    assert list(await prior.logprobs(situation())) == [table[action] for action in ACTIONS]
    alone = make_prior("exact", ScriptedEngine({}), mixture=1.0)
    assert list(await alone(situation(("wait",)))) == [1.0]


class Worded(ScriptedEngine):
    """A tokenizer that begins every text with a token of its own, and knows some words."""

    def __init__(self, words, **options):
        super().__init__({}, **options)
        self.words = words

    def encode(self, prompt):
        if isinstance(prompt, str):
            ids = [self.words[prompt]] if prompt in self.words else list(prompt.encode())
            return EncodedPrompt((999, *ids))
        return super().encode(prompt)


def test_labels_are_numbers_only_where_each_is_a_token():
    labels = Labels(ScriptedEngine({}))
    assert labels.of(9) == tuple("123456789")
    assert labels.of(10) == tuple("ABCDEFGHIJ")
    whole = Labels(Worded({str(i): 1000 + i for i in range(10, 100)}))
    assert whole.of(99)[-2:] == ("98", "99")
    assert whole.of(12)[9:] == ("10", "11", "12")


def test_labels_have_tokens_of_their_own():
    # In this vocabulary B is written with the token of A.
    labels = Labels(Worded({"B": ord("A"), "AC": 1000, "AB": 1000}))
    assert labels.of(26) == (*"ACDEFGHIJKLMNOPQRSTUVWXYZ", "AB")


class Blank(ScriptedEngine):
    """A tokenizer that writes a blank before every text; labels are tokens only behind a line."""

    def __init__(self, *, refuses=False):
        super().__init__({}, score=lambda text, choices: [-1.0] * len(choices))
        self.refuses, self.kinds = refuses, []

    def encode(self, prompt):
        if isinstance(prompt, str):
            return EncodedPrompt(tuple(f" {prompt}".encode()) if prompt else ())
        return super().encode(prompt)

    async def score(self, request):
        self.kinds.append(request.kind)
        if self.refuses and request.kind == "labels":
            raise LabelError("the label '1' is 2 tokens")
        return await super().score(request)


async def test_labels_that_are_a_token_behind_the_prompt_alone_are_scored_as_labels():
    engine = Blank()
    assert Labels(engine).of(9) == tuple("123456789")
    assert Labels(engine).of(10) == tuple("ABCDEFGHIJ")
    await make_prior("index", engine)(situation())
    assert engine.kinds == ["labels"]


async def test_labels_that_are_no_tokens_behind_this_prompt_are_scored_whole():
    engine = Blank(refuses=True)
    await make_prior("index", engine)(situation())
    assert engine.kinds == ["labels", "answers"]


async def test_a_list_longer_than_the_labels_is_numbered_and_scored_whole():
    seen = []

    class Both(ScriptedEngine):
        async def score(self, request):
            seen.append(request.kind)
            return await super().score(request)

    engine = Both({}, score=lambda text, choices: [-float(len(c)) for c in choices])
    assert Labels(engine).of(27) == tuple(map(str, range(1, 28)))
    many = tuple(f"push button {i}" for i in range(300))
    pi = await make_prior("index", engine)(situation(many))
    assert seen == ["answers"]
    assert engine.scored[0][1] == tuple(map(str, range(1, 301)))
    assert sum(pi) == pytest.approx(1)
    assert min(pi) > 0
    assert pi[0] > pi[250]
    await make_prior("index", engine)(situation(many[:26]))
    assert seen == ["answers", "labels"]


async def test_an_engine_without_label_scores_scores_whole_answers():
    engine = ScriptedEngine({}, score=lambda text, choices: [-1.0] * len(choices))
    engine.abilities = frozenset({"scores"})
    kinds = []
    score = engine.score
    engine.score = lambda request: kinds.append(request.kind) or score(request)
    await make_prior("index", engine)(situation())
    assert kinds == ["answers"]


@pytest.mark.parametrize(
    ("abilities", "kind", "says"),
    [
        ({"regex"}, "exact", "cannot be asked for prior=exact: set prior to sample or verbal$"),
        ({"scores"}, "verbal", "set prior to exact or index$"),
        ({"labels"}, "exact", "set prior to index$"),
        ({"embeddings"}, "sample", "'scripted' answers no questions: name a model that does$"),
    ],
)
def test_an_engine_that_cannot_be_asked_so_is_refused(abilities, kind, says):
    engine = ScriptedEngine({})
    engine.abilities = frozenset(abilities)
    with pytest.raises(UnableError, match=says):
        make_prior(kind, engine)
    make_prior("uniform", engine)


def test_the_language_of_labels_is_exact():
    regex = one_label(("A", "AB", "B")).regex
    assert [bool(re.fullmatch(regex, text)) for text in ("A", "AB", "B", "", "ABB")] == [
        True,
        True,
        True,
        False,
        False,
    ]
