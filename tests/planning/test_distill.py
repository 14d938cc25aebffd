"""Distillation's core: lessons, rows and the network against transformers and peft."""

from random import Random

import pytest
import torch
from distill_peers import (
    SIZES,
    WORDS,
    AllMatrices,
    lesson,
    opened,
    peer,
    single_threaded,
    small_llama,
)
from safetensors.torch import load_file, save_file

from llm_planning.distill import attention
from llm_planning.distill.adapters import LowRank
from llm_planning.distill.architecture import PARTS, read_model
from llm_planning.distill.course import Course
from llm_planning.distill.network import Network
from llm_planning.distill.peft_format import read_weights, write_adapter
from llm_planning.distill.tokens import FORCED, LessonTokenizer, deciding_characters
from llm_planning.distill.trie import pack
from llm_planning.registry import exercise_makers, find_domain
from llm_serving.errors import EngineConfigError, UnknownModelError
from llm_serving.models import resolve
from llm_serving.request import Message

one_thread = pytest.fixture(autouse=True, scope="module")(single_threaded)
small = pytest.fixture(scope="module")(small_llama)


@pytest.fixture(scope="module", params=["llama", "llama3", "qwen2"])
def model(request, tmp_path_factory):
    """A model of transformers, and the folder that it was saved to."""
    folder = tmp_path_factory.mktemp(request.param)
    network = peer(request.param)
    network.save_pretrained(folder)
    return network, folder


def lessons(count=16, seed=0):
    """Lessons with common beginnings, two of one prompt, and an answer that begins another one."""
    rng = Random(seed)
    base = [rng.randrange(WORDS) for _ in range(150)]
    drawn = []
    for number in range(count):
        prompt = base[: rng.choice([20, 90, 150])]
        prompt += [rng.randrange(WORDS) for _ in range(rng.randrange(30))]
        answer = [rng.randrange(WORDS) for _ in range(rng.randrange(1, 8))]
        weights = tuple(rng.choice([FORCED, 1.0]) for _ in answer)
        drawn.append(lesson(prompt, answer, weights, role="ab"[number % 2]))
    first = drawn[0].prompt
    return [
        *drawn,
        lesson(first, (5, 6, 7)),
        lesson(first, (5, 6), (1.0, FORCED), importance=3.0),
        lesson(first, (5, 6), (0.5, 0.25)),
    ]


def peer_loss(model, questions):
    """The loss of transformers, question by question."""
    total = 0.0
    for question in questions:
        logits = model(torch.tensor([question.prompt + question.answer])).logits[
            0, len(question.prompt) - 1 : -1
        ]
        chances = logits.log_softmax(-1)[range(len(question.answer)), list(question.answer)]
        total = total - (chances * torch.tensor(question.weights)).sum() * question.importance
    return total


# Rows


def test_equal_beginnings_are_there_once():
    shared = lesson((1, 2, 3), (4, 5))
    [row] = pack([lesson((1, 2, 9), (6, 0)), shared, lesson((1, 2, 3), (4, 8), (0.5, 2.0))])
    assert row.tokens == [1, 2, 3, 4, 9, 6]
    assert row.depths == [0, 1, 2, 3, 2, 3]
    assert row.ends == [6, 6, 4, 4, 6, 6]
    targets = zip(row.sources, row.targets, row.weights, row.lessons, row.places, strict=True)
    assert sorted(targets) == [
        (2, 4, 0.5, 2, 0),
        (2, 4, 1.0, 1, 0),
        (3, 5, 1.0, 1, 1),
        (3, 8, 2.0, 2, 1),
        (4, 6, 1.0, 0, 0),
        (5, 0, 1.0, 0, 1),
    ]


@pytest.mark.parametrize("longest", [50, 120, 400])
def test_every_target_has_its_whole_lesson_before_it(longest):
    taught = lessons(30)
    rows = pack(taught, longest_row=longest, multiple=2)
    assert len(rows) % 2 == 0
    targets = {}
    for row in rows:
        for source, target, number, place in zip(
            row.sources, row.targets, row.lessons, row.places, strict=True
        ):
            path = [node for node in range(source + 1) if source < row.ends[node]]
            assert [row.depths[node] for node in path] == list(range(len(path)))
            targets[number, place] = [row.tokens[node] for node in path] + [target]
    for number, whole in enumerate(taught):
        for place in range(len(whole.answer)):
            assert targets[number, place] == [*whole.prompt, *whole.answer[: place + 1]]


def test_rows_are_of_one_size():
    sizes = [len(row.tokens) for row in pack(lessons(60), longest_row=300)]
    assert max(sizes) <= 300 + 190
    assert max(sizes) < 2 * min(sizes)


# The network


@pytest.mark.parametrize("block", [128, 16, 1 << 20])  # on a GPU a row is one block
def test_loss_and_gradients_are_those_of_transformers(model, monkeypatch, block):
    monkeypatch.setattr(attention, "BLOCK", block)
    peer, folder = model
    taught = lessons()
    peer.zero_grad()
    expected = peer_loss(peer, taught)
    expected.backward()
    network = opened(folder)
    gradient = network.learned.gradient()
    rows, room = pack(taught, longest_row=200), network.room()
    assert len(rows) > 1
    loss = sum(network.teach(row, room=room, gradient=gradient, scale=0.5).loss for row in rows)
    assert loss == pytest.approx(expected.item(), rel=2e-5)
    largest = max(float(p.grad.abs().max()) for p in peer.parameters() if p.grad is not None)
    places = network.learned.views(gradient.flat)
    for number, layer in enumerate(peer.model.layers):
        for name, parts in PARTS.items():
            theirs = torch.cat([layer.get_submodule(part).weight.grad for part in parts])
            assert torch.allclose(2 * places[number, name], theirs, atol=2e-5 * largest)
            read = torch.cat([layer.get_submodule(part).weight for part in parts])
            assert torch.equal(network.learned.matrix(number, name), read)


def test_a_row_judges_like_single_questions(model):
    peer, folder = model
    network = opened(folder)
    taught = lessons()
    for row in pack(taught):
        judged = network.judge(row, room=network.room())
        for number, place, right in zip(row.lessons, row.places, judged.right, strict=True):
            lesson = taught[number]
            read = torch.tensor([lesson.prompt + lesson.answer[:place]])
            assert right == (int(peer(read).logits[0, -1].argmax()) == lesson.answer[place])


def test_low_rank_gradients_are_those_of_whole_matrices(small):
    """By the chain rule: of W + s·B·A, B's gradient is s·G·Aᵀ and A's is s·Bᵀ·G."""
    read = read_model(small, dtype=torch.float32, device="cpu")
    low = LowRank(read, rank=4, alpha=8, seed=0)
    torch.manual_seed(1)
    low.flat.normal_(0, 0.1)
    low.refresh()
    whole = AllMatrices(read)
    for (layer, name), matrix in whole.views(whole.flat).items():
        matrix.copy_(low.matrix(layer, name))
    [row] = pack(lessons())
    ours, theirs = low.gradient(), whole.gradient()
    losses = [
        network.teach(row, room=network.room(), gradient=gradient, scale=1.0).loss
        for network, gradient in ((Network(read, low), ours), (Network(read, whole), theirs))
    ]
    assert losses[0] == pytest.approx(losses[1])
    for (layer, name), gradient in whole.views(theirs.flat).items():
        down, up = low.views(low.flat)[layer, name]
        of_down, of_up = low.views(ours.flat)[layer, name]
        for rows, ranks in low.places(name):
            assert torch.allclose(of_up[rows], 2 * gradient[rows] @ down[ranks].T, atol=1e-4)
            assert torch.allclose(of_down[ranks], 2 * up[rows].T @ gradient[rows], atol=1e-4)


@pytest.mark.slow
def test_the_bundled_model_is_that_of_transformers(tokenizer):
    from transformers import AutoModelForCausalLM

    folder = resolve("smollm2-135m-instruct").path
    chat = (Message("system", "Be short."), Message("user", "Say hello."))
    taught = [tokenizer.lesson("r", chat, answer) for answer in ("Hello!", "Hello there", "No.")]
    expected = peer_loss(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), taught)
    for dtype, within in ((torch.float32, 2e-5), (torch.bfloat16, 0.02)):
        network = opened(folder, LowRank, dtype=dtype, rank=4, alpha=4, seed=0)
        loss = sum(network.judge(row, room=network.room()).loss for row in pack(taught))
        assert loss == pytest.approx(expected.item(), rel=within)


def test_bfloat16_is_near_float32(small):
    [row] = pack(lessons())
    losses, gradients = [], []
    for dtype in (torch.float32, torch.bfloat16):
        network = opened(small, dtype=dtype)
        gradient = network.learned.gradient()
        losses.append(network.teach(row, room=network.room(), gradient=gradient, scale=1.0).loss)
        gradients.append(gradient.flat)
    assert losses[1] == pytest.approx(losses[0], rel=0.01)
    assert torch.nn.functional.cosine_similarity(*gradients, dim=0) > 0.99


def test_peft_reads_what_is_written(model, tmp_path):
    peft = pytest.importorskip("peft")
    _, folder = model
    from transformers import AutoModelForCausalLM

    network = opened(folder, LowRank, rank=4, alpha=6, seed=0)
    torch.manual_seed(2)
    network.learned.flat.normal_(0, 0.3)
    network.learned.refresh()
    write_adapter(
        tmp_path / "adapter", network.learned, base="small", card={"a": 1}, dtype=torch.float32
    )
    theirs = peft.PeftModel.from_pretrained(
        AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), tmp_path / "adapter"
    )
    taught = lessons()
    loss = sum(network.judge(row, room=network.room()).loss for row in pack(taught))
    assert loss == pytest.approx(peer_loss(theirs, taught).item(), rel=2e-5)
    plain = opened(folder)
    unchanged = sum(plain.judge(row, room=plain.room()).loss for row in pack(taught))
    assert loss != pytest.approx(unchanged, rel=0.01)


def test_an_adapter_is_written_in_bfloat16(small, tmp_path):
    network = opened(small, LowRank, rank=2, alpha=2, seed=0)
    write_adapter(tmp_path / "new" / "adapter", network.learned, base="small", card={"made": "so"})
    weights = load_file(tmp_path / "new" / "adapter" / "adapter_model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.bfloat16}
    assert len(weights) == 2 * 7 * SIZES["num_hidden_layers"]


def test_an_adapter_is_taught_further_as_it_is(small, tmp_path):
    first, second = (opened(small, LowRank, rank=2, alpha=4, seed=seed) for seed in (0, 1))
    torch.manual_seed(2)
    first.learned.flat.normal_(0, 0.3)
    first.learned.refresh()
    write_adapter(tmp_path, first.learned, base="small", card={}, dtype=torch.float32)
    (row,) = pack(lessons()[:1])
    loss = first.judge(row, room=first.room()).loss
    assert second.judge(row, room=second.room()).loss != pytest.approx(loss)
    read_weights(tmp_path, second.learned)
    assert torch.equal(second.learned.flat, first.learned.flat)
    assert second.judge(row, room=second.room()).loss == loss


def test_the_weights_of_other_matrices_are_refused(small, tmp_path):
    learned = opened(small, LowRank, rank=2, alpha=4, seed=0).learned
    save_file({"other": torch.zeros(1)}, tmp_path / "adapter_model.safetensors")
    with pytest.raises(ValueError, match="it does not change the same matrices: see base_model"):
        read_weights(tmp_path, learned)


def test_models_that_cannot_be_taught_are_refused(tmp_path, small):
    from transformers import GPT2Config, LlamaConfig

    with pytest.raises(UnknownModelError, match=r"no config\.json"):
        opened(tmp_path)
    GPT2Config(n_layer=1).save_pretrained(tmp_path)
    with pytest.raises(UnknownModelError, match="safetensors"):
        opened(tmp_path)
    (tmp_path / "model.safetensors").write_bytes((small / "model.safetensors").read_bytes())
    with pytest.raises(EngineConfigError, match="of the family gpt2, and only llama and qwen2"):
        opened(tmp_path)
    LlamaConfig(**SIZES, hidden_act="gelu").save_pretrained(tmp_path)
    with pytest.raises(EngineConfigError, match="has hidden_act gelu"):
        opened(tmp_path)
    LlamaConfig(**{**SIZES, "num_hidden_layers": 4}, tie_word_embeddings=True).save_pretrained(
        tmp_path
    )
    with pytest.raises(UnknownModelError, match=r"has no weights model\.layers\.3\."):
        opened(tmp_path)


# Lessons


def deciding(answer):
    decides = deciding_characters(answer)
    assert len(decides) == len(answer) + 1
    return "".join(c if d else "." for c, d in zip(f"{answer}$", decides, strict=True))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ('{"reason":"no cow","ok":false}', '...........no cow"......false..'),
        ('{"n":12,"x":0.5}', ".....12,....0.5}."),
        ('{"l":["a","b"]}', '......"a",.b"]..'),
        ('{"l":[],"m":[{"k":1}]}', "......]......{....1}].."),
        ('{"a":null}', ".....null.."),
        ("mine 3 oak_log", "mine 3 oak_log$"),
        ("{not json", "{not json$"),
        ("3", "3$"),
    ],
)
def test_values_decide_and_keys_do_not(answer, expected):
    assert deciding(answer) == expected


@pytest.fixture(scope="module")
def tokenizer():
    return LessonTokenizer(resolve("smollm2-135m-instruct").path)


def test_weights_of_tokens_by_hand(tokenizer):
    taught = tokenizer.lesson("r", (Message("user", "Possible?"),), '{"ok":true,"n":3}')
    spelled = [tokenizer.decode([token]) for token in taught.answer]
    # The comma behind a value is a token of its own or part of the quote that begins the next key.
    assert list(zip(spelled, taught.weights, strict=True)) == [
        ('{"', FORCED),
        ("ok", FORCED),
        ('":', FORCED),
        ("true", 1.0),
        (',"', FORCED),
        ("n", FORCED),
        ('":', FORCED),
        ("3", 1.0),
        ("}", 1.0),
        ("<|im_end|>", FORCED),
    ]


def test_names_that_spell_special_tokens_teach_no_special_tokens(tokenizer):
    name = "room <|im_end|>"
    odd = tokenizer.lesson("r", (Message("user", name),), f'{{"go":"{name}"}}')
    like = tokenizer.lesson("r", (Message("user", "room"),), '{"go":"room"}')
    specials = set(range(17))
    assert [token for token in odd.prompt if token in specials] == [
        token for token in like.prompt if token in specials
    ]
    assert tokenizer.decode(odd.prompt).endswith(f"{name}<|im_end|>\n<|im_start|>assistant\n")
    assert tokenizer.decode(odd.answer) == f'{{"go":"{name}"}}<|im_end|>'
    assert specials.isdisjoint(odd.answer[:-1])
    spelled = [tokenizer.decode([token]) for token in odd.answer]
    decide = [text for text, weight in zip(spelled, odd.weights, strict=True) if weight == 1.0]
    assert "".join(decide).startswith(name)


@pytest.mark.parametrize(
    ("domain", "words"),
    [("minecraft", "taught"), ("blocksworld", "general"), ("multiplication", "general")],
)
def test_prompts_are_what_transformers_makes_of_them(tokenizer, domain, words):
    written = tokenizer._tokenizer
    prompts = {
        exercise.prompt
        for maker in exercise_makers(find_domain(domain), words=words).values()
        for exercise in Course([[(maker, maker.roles)]], states=1, seed=1).exercises(0)
    }
    assert prompts
    for prompt in prompts:
        text = written.apply_chat_template(
            [{"role": message.role, "content": message.content} for message in prompt],
            add_generation_prompt=True,
            tokenize=False,
        )
        read = tuple(written.encode(text, add_special_tokens=False))
        assert tokenizer.lesson("r", prompt, "{}").prompt == read


async def test_a_lesson_is_what_the_engine_reads_and_writes(engine, tokenizer):
    chat = (Message("system", "Be short."), Message("user", "Say hello."))
    taught = tokenizer.lesson("r", chat, "Hello!")
    assert taught.prompt == engine.encode(chat).token_ids
    assert taught.answer == engine.choice_tokens("Hello!")
    assert taught.weights == (1.0,) * len(taught.answer)
