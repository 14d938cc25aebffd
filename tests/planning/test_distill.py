"""Distillation's core: lessons, rows, the network and the training loop."""

import math
import os
import signal
import subprocess
import sys
import time
from random import Random

import pytest
import torch
from safetensors.torch import load_file

from llm_planning.distill.adapters import AllMatrices, LowRank
from llm_planning.distill.architecture import PARTS, read_model
from llm_planning.distill.checkpoint import FILE, TrainingError, read_checkpoint
from llm_planning.distill.network import Network
from llm_planning.distill.peft_format import write_adapter
from llm_planning.distill.tokens import FORCED, Lesson, LessonTokenizer, deciding_characters
from llm_planning.distill.training import Recipe, shares_right, train
from llm_planning.distill.trie import pack
from llm_serving.errors import EngineConfigError, UnknownModelError
from llm_serving.models import resolve
from llm_serving.request import Message

WORDS = 101
SIZES = {
    "vocab_size": WORDS,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
}
LONG_WAVES = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Threads inside such small products only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def peer(family):
    """A small random model of transformers."""
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    made = {
        "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, tie_word_embeddings=True)),
        "llama3": lambda: LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=LONG_WAVES)),
        "qwen2": lambda: Qwen2ForCausalLM(Qwen2Config(**SIZES, tie_word_embeddings=True)),
    }[family]()
    for weights in made.parameters():
        if weights.ndim > 1:
            weights.data.normal_(0, 0.15)
        else:
            weights.data.add_(torch.randn_like(weights) * 0.1)
    return made.float()


@pytest.fixture(scope="module", params=["llama", "llama3", "qwen2"])
def model(request, tmp_path_factory):
    """A model of transformers, and the folder that it was saved to."""
    folder = tmp_path_factory.mktemp(request.param)
    made = peer(request.param)
    made.save_pretrained(folder)
    return made, folder


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    peer("llama").save_pretrained(folder)
    return folder


def lesson(prompt, answer, weights=None, role="r", importance=1.0):
    weights = (1.0,) * len(answer) if weights is None else weights
    return Lesson(
        role=role,
        prompt=tuple(prompt),
        answer=tuple(answer),
        weights=weights,
        importance=importance,
    )


def lessons(count=16, seed=0):
    """Lessons with common beginnings, two of one prompt, and an answer that begins another one."""
    rng = Random(seed)
    base = [rng.randrange(WORDS) for _ in range(150)]
    made = []
    for number in range(count):
        prompt = base[: rng.choice([20, 90, 150])]
        prompt += [rng.randrange(WORDS) for _ in range(rng.randrange(30))]
        answer = [rng.randrange(WORDS) for _ in range(rng.randrange(1, 8))]
        weights = tuple(rng.choice([FORCED, 1.0]) for _ in answer)
        made.append(lesson(prompt, answer, weights, role="ab"[number % 2]))
    first = made[0].prompt
    return [
        *made,
        lesson(first, (5, 6, 7)),
        lesson(first, (5, 6), (1.0, FORCED), importance=3.0),
        lesson(first, (5, 6), (0.5, 0.25)),
    ]


def peer_loss(model, questions):
    """The loss of transformers, question by question."""
    total = 0.0
    for one in questions:
        logits = model(torch.tensor([one.prompt + one.answer])).logits[0, len(one.prompt) - 1 : -1]
        chances = logits.log_softmax(-1)[range(len(one.answer)), list(one.answer)]
        total = total - (chances * torch.tensor(one.weights)).sum() * one.importance
    return total


def opened(folder, learned=AllMatrices, dtype=torch.float32, **options):
    read = read_model(folder, dtype=dtype, device="cpu")
    return Network(read, learned(read, **options))


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
    made = lessons(30)
    rows = pack(made, longest_row=longest, multiple=2)
    assert len(rows) % 2 == 0
    found = {}
    for row in rows:
        for source, target, number, place in zip(
            row.sources, row.targets, row.lessons, row.places, strict=True
        ):
            path = [node for node in range(source + 1) if source < row.ends[node]]
            assert [row.depths[node] for node in path] == list(range(len(path)))
            found[number, place] = [row.tokens[node] for node in path] + [target]
    for number, one in enumerate(made):
        for place in range(len(one.answer)):
            assert found[number, place] == [*one.prompt, *one.answer[: place + 1]]


def test_rows_are_of_one_size():
    sizes = [len(row.tokens) for row in pack(lessons(60), longest_row=300)]
    assert max(sizes) <= 300 + 190
    assert max(sizes) < 2 * min(sizes)


# The network


def test_loss_and_gradients_are_those_of_transformers(model):
    peer, folder = model
    made = lessons()
    peer.zero_grad()
    expected = peer_loss(peer, made)
    expected.backward()
    network = opened(folder)
    gradient = network.learned.gradient()
    rows, room = pack(made, longest_row=200), network.room()
    assert len(rows) > 1
    loss = sum(network.teach(row, room=room, gradient=gradient, scale=0.5).loss for row in rows)
    assert loss == pytest.approx(expected.item(), rel=2e-5)
    named = network.learned.tensors()
    largest = max(float(p.grad.abs().max()) for p in peer.parameters() if p.grad is not None)
    places = network.learned.views(gradient.flat)
    for number, layer in enumerate(peer.model.layers):
        for name, parts in PARTS.items():
            theirs = torch.cat([layer.get_submodule(part).weight.grad for part in parts])
            assert torch.allclose(2 * places[number, name], theirs, atol=2e-5 * largest)
    weights = dict(peer.named_parameters())
    assert all(torch.equal(tensor, weights[name]) for name, tensor in named.items())


def test_a_row_judges_like_single_questions(model):
    peer, folder = model
    network = opened(folder)
    made = lessons()
    for row in pack(made):
        judged = network.judge(row, room=network.room())
        for number, place, right in zip(row.lessons, row.places, judged.right, strict=True):
            one = made[number]
            read = torch.tensor([one.prompt + one.answer[:place]])
            assert right == (int(peer(read).logits[0, -1].argmax()) == one.answer[place])


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


def test_the_bundled_model_is_that_of_transformers(tokenizer):
    from transformers import AutoModelForCausalLM

    folder = resolve("smollm2-135m-instruct").path
    chat = (Message("system", "Be short."), Message("user", "Say hello."))
    made = [tokenizer.lesson("r", chat, answer) for answer in ("Hello!", "Hello there", "No.")]
    expected = peer_loss(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), made)
    for dtype, within in ((torch.float32, 2e-5), (torch.bfloat16, 0.02)):
        network = opened(folder, LowRank, dtype=dtype, rank=4, alpha=4, seed=0)
        loss = sum(network.judge(row, room=network.room()).loss for row in pack(made))
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
    made = lessons()
    loss = sum(network.judge(row, room=network.room()).loss for row in pack(made))
    assert loss == pytest.approx(peer_loss(theirs, made).item(), rel=2e-5)
    plain = opened(folder)
    unchanged = sum(plain.judge(row, room=plain.room()).loss for row in pack(made))
    assert loss != pytest.approx(unchanged, rel=0.01)


def test_an_adapter_is_written_in_bfloat16(small, tmp_path):
    network = opened(small, LowRank, rank=2, alpha=2, seed=0)
    write_adapter(tmp_path / "new" / "adapter", network.learned, base="small", card={"made": "so"})
    weights = load_file(tmp_path / "new" / "adapter" / "adapter_model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.bfloat16}
    assert len(weights) == 2 * 7 * SIZES["num_hidden_layers"]


def test_models_that_cannot_be_taught_are_refused(tmp_path, small):
    from transformers import GPT2Config, LlamaConfig

    with pytest.raises(UnknownModelError, match=r"no config\.json"):
        opened(tmp_path)
    GPT2Config(n_layer=1).save_pretrained(tmp_path)
    with pytest.raises(EngineConfigError, match="of the family gpt2, and only llama and qwen2"):
        opened(tmp_path)
    LlamaConfig(**SIZES, hidden_act="gelu").save_pretrained(tmp_path)
    with pytest.raises(UnknownModelError, match="safetensors"):
        opened(tmp_path)
    (tmp_path / "model.safetensors").write_bytes((small / "model.safetensors").read_bytes())
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
    made = tokenizer.lesson("r", (Message("user", "Possible?"),), '{"ok":true,"n":3}')
    spelled = [tokenizer.decode([token]) for token in made.answer]
    # The comma behind a value is a token of its own or part of the quote that begins the next key.
    assert list(zip(spelled, made.weights, strict=True)) == [
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


async def test_a_lesson_is_what_the_engine_reads_and_writes(engine, tokenizer):
    chat = (Message("system", "Be short."), Message("user", "Say hello."))
    made = tokenizer.lesson("r", chat, "Hello!")
    assert made.prompt == engine.encode(chat).token_ids
    assert made.answer == engine.choice_tokens("Hello!")
    assert made.weights == (1.0,) * len(made.answer)


# Training


def fresh(number):
    """Questions that can be learned: the last token of the prompt says the answer."""
    rng = Random(f"lessons/{number}")
    prompts = [[1, 2, *(rng.randrange(9) for _ in range(3))] for _ in range(24)]
    return [lesson(prompt, [prompt[-1] + 40, 0], role="ab"[prompt[-1] % 2]) for prompt in prompts]


def trained(
    small,
    folder,
    *,
    report=lambda _: None,
    learned=LowRank,
    identity=None,
    workers=2,
    **options,
):
    folder.mkdir(exist_ok=True)
    how = {"rank": 8, "alpha": 16, "seed": 0} if learned is LowRank else {}
    network = opened(small, learned, **how)
    recipe = Recipe(**{"rate": 5e-3, "longest_row": 80, "warmup": 0.1, **options})
    state = train(
        network,
        fresh,
        recipe,
        folder=folder,
        identity=identity or {},
        report=report,
        examine=lambda network: shares_right(network, fresh("held out")),
        workers=workers,
    )
    return state, network


class StoppedError(Exception):
    """Stands for whatever breaks a training off."""


def stop_at(batch):
    def report(progress):
        if progress.batch == batch:
            raise StoppedError

    return report


@pytest.mark.parametrize("learned", [LowRank, AllMatrices])
def test_two_halves_are_one_whole_bit_for_bit(small, tmp_path, learned):
    whole, _ = trained(small, tmp_path / "whole", learned=learned, batches=8)
    with pytest.raises(StoppedError):
        trained(
            small,
            tmp_path / "halves",
            learned=learned,
            batches=8,
            save_every=0.0,
            report=stop_at(5),
        )
    kept = read_checkpoint(tmp_path / "halves", torch.device("cpu"))
    assert kept.batch == 4
    # Seconds between checkpoints are part of the recipe, so they are the same in both halves.
    again, _ = trained(small, tmp_path / "halves", learned=learned, batches=8, save_every=0.0)
    assert torch.equal(again.flat, whole.flat)
    assert torch.equal(again.square, whole.square)
    assert again.right == whole.right
    assert again.questions == whole.questions == 8 * 24
    assert again.curve[-1]["figures"] == whole.curve[-1]["figures"]


def test_it_learns(small, tmp_path):
    said = []
    state, _ = trained(small, tmp_path / "run", batches=60, report=said.append, examine_every=0.01)
    assert len(state.curve) > 2
    assert state.curve[-1]["figures"]["b"] > 0.9
    assert said[-1].loss < 0.3 * said[0].loss
    assert said[-1].right["b"] > said[0].right["b"]
    assert said[-1].computed < said[-1].one_by_one
    assert [one.batch for one in said] == list(range(1, 61))
    assert said[-1].seconds_left == 0.0


def test_workers_learn_the_same(small, tmp_path):
    one, _ = trained(small, tmp_path / "one", batches=1, workers=1)
    three, _ = trained(small, tmp_path / "three", batches=1, workers=3)
    assert torch.allclose(one.mean, three.mean, atol=1e-5 * float(one.mean.abs().max()))
    with pytest.raises(ValueError, match="workers=0: at least one computes"):
        trained(small, tmp_path / "none", batches=1, workers=0)


def test_a_training_takes_its_time(small, tmp_path):
    said = []
    begun = time.perf_counter()
    trained(small, tmp_path / "run", minutes=0.02, report=said.append)
    assert 1.0 < time.perf_counter() - begun < 6.0
    assert said[0].rate < said[len(said) // 4].rate
    assert said[-1].rate < 0.2 * max(one.rate for one in said)


def test_another_training_in_the_folder_is_refused(small, tmp_path):
    trained(small, tmp_path / "run", batches=1, identity={"roles": ("a", "b")})
    trained(small, tmp_path / "run", batches=1, identity={"roles": ("a", "b")})
    with pytest.raises(TrainingError, match=r"a training with rate 0\.005, not 0\.1"):
        trained(small, tmp_path / "run", batches=1, identity={"roles": ("a", "b")}, rate=0.1)
    with pytest.raises(TrainingError, match=r"a training with roles \['a', 'b'\], not None"):
        trained(small, tmp_path / "run", batches=1)


def test_a_damaged_checkpoint_is_refused(small, tmp_path):
    trained(small, tmp_path / "run", batches=1)
    whole = (tmp_path / "run" / FILE).read_bytes()
    (tmp_path / "run" / FILE).write_bytes(whole[:-10])
    with pytest.raises(TrainingError, match="remove it to train from the beginning"):
        trained(small, tmp_path / "run", batches=1)


def test_a_loss_that_is_no_number_ends_the_training(small, tmp_path):
    with pytest.raises(TrainingError, match="lower the learning rate"):
        trained(small, tmp_path / "run", batches=50, rate=1e30, clip=1e30)


def test_recipes_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="either `minutes` or `batches`"):
        Recipe()


def test_the_rate_rises_and_falls():
    recipe = Recipe(minutes=10, rate=1.0, warmup=0.1, last=0.1)
    rates = [recipe.rate_at(share / 100) for share in range(101)]
    assert rates[0] == pytest.approx(0.02)
    assert max(rates) == rates[10] == 1.0
    assert rates[55] == pytest.approx(0.1 + 0.9 * (1 + math.cos(math.pi / 2)) / 2)
    assert rates[100] == pytest.approx(0.1)


CHILD = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from tests.planning.test_distill import trained
trained(Path({small!r}), Path({folder!r}), batches=12, save_every=0.0)
"""


@pytest.mark.kills
@pytest.mark.slow
def test_a_killed_training_goes_on_bit_for_bit(small, tmp_path):
    """SIGKILL at any moment, again and again, until it is through."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    # Other tests of this process may have changed how torch computes, so that has a child too.
    code = CHILD.format(tests=root, small=str(small), folder=str(tmp_path / "whole"))
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True)
    whole = read_checkpoint(tmp_path / "whole", torch.device("cpu"))
    folder = tmp_path / "killed"
    code = CHILD.format(tests=root, small=str(small), folder=str(folder))
    rng, kills = Random(0), 0
    while True:
        child = subprocess.Popen([sys.executable, "-c", code], cwd=root)
        while child.poll() is None and not (folder / FILE).exists():
            time.sleep(0.005)
        before = read_checkpoint(folder, torch.device("cpu")).batch if kills else 0
        while child.poll() is None:
            time.sleep(rng.random() * 0.05)
            state = read_checkpoint(folder, torch.device("cpu"))
            if state.batch >= before + 3 and kills < 3:
                child.send_signal(signal.SIGKILL)
                kills += 1
                break
        if child.wait() == 0:
            break
    assert kills == 3
    state = read_checkpoint(folder, torch.device("cpu"))
    assert state.batch == 12
    assert torch.equal(state.flat, whole.flat)
    assert state.right == whole.right
