"""Asks the tiny Qwen2.5-VL about images and prints what was observed as one JSON object.

Arguments name the questions that are asked; without any, all are.

Run in a process of its own, whose PYTHONPATH makes torchvision importable: see `test_vision.py`.
"""

import asyncio
import io
import json
import sys
import tempfile
from pathlib import Path

import observe_roles
import torch
from PIL import Image as Pillow
from pydantic import BaseModel, Field
from tiny_qwen_vl import build
from transformers import AutoProcessor

from llm_planning.gpu_check.unweighted import END_OF_TURN, IMAGE
from llm_serving.answers import constraint_of, parse
from llm_serving.cache import CachedEngine
from llm_serving.config import EngineConfig
from llm_serving.errors import ServingError
from llm_serving.request import Image, Message, Request, Sampling, ScoreRequest
from llm_serving.scoring import trie_scores
from llm_serving.stores import ResponseCache
from llm_serving.vllm_engine import VllmEngine

CONTEXT = 8192
IMAGES = 2
MAX_PIXELS = 64 * 28 * 28
SYSTEM = "You are playing a game and see a room in a picture. " * 6
QUESTION = "What do you do next?"
CHOICES = ("open the door", "open", "take the lamp", "go north")


class Step(BaseModel):
    verb: str = Field(pattern="open|take|go", max_length=4)
    times: int = Field(ge=1, le=9)


def picture(width, height, seed):
    """Squares of random colours as a PNG file."""
    generator = torch.Generator().manual_seed(seed)
    colours = torch.randint(256, (6, 6, 3), generator=generator, dtype=torch.uint8)
    squares = Pillow.fromarray(colours.numpy()).resize((width, height), Pillow.Resampling.NEAREST)
    file = io.BytesIO()
    squares.save(file, format="PNG")
    return Image(file.getvalue())


WIDE = picture(600, 400, seed=1)
OTHER_WIDE = picture(600, 400, seed=2)
SMALL = picture(90, 100, seed=3)


def ask(*images, text=QUESTION):
    return (Message("system", SYSTEM), Message("user", text, images))


def ask_in_two_turns(first, second):
    before = (Message("user", "What is in the room?", (first,)), Message("assistant", "A lamp."))
    return (Message("system", SYSTEM), *before, Message("user", QUESTION, (second,)))


class Observer:
    def __init__(self, engine, model, folder):
        self.engine = engine
        self.model = model
        self.processor = AutoProcessor.from_pretrained(folder)
        self.processor.image_processor.size["longest_edge"] = MAX_PIXELS
        self.image_token = engine._chat.tokenizer.convert_tokens_to_ids(IMAGE)

    def image_tokens(self, image):
        """How many tokens the model's own processor makes of an image."""
        opened = Pillow.open(io.BytesIO(image.data))
        grid = self.processor.image_processor(images=[opened], return_tensors="pt").image_grid_thw
        return int(grid.prod()) // self.processor.image_processor.merge_size**2

    def peer_score(self, prompt, choice):
        """log p(choice, terminator | prompt) as transformers computes it."""
        encoded = self.engine.encode(prompt)
        text = self.processor.tokenizer.decode(encoded.token_ids) + choice + END_OF_TURN
        images = [Pillow.open(io.BytesIO(image.data)) for image in encoded.images]
        inputs = self.processor(text=[text], images=images, return_tensors="pt")
        ending = self.engine.choice_tokens(choice)
        assert tuple(inputs.input_ids[0, -len(ending) :].tolist()) == ending
        with torch.inference_mode():
            rows = self.model(**inputs).logits[0, -len(ending) - 1 : -1].log_softmax(-1)
        return float(rows[range(len(ending)), list(ending)].sum())

    async def scores(self, prompt):
        return list((await self.engine.score(ScoreRequest(prompt, CHOICES))).logprobs)

    async def one_token(self, prompt):
        """Usage of an answer of one token."""
        request = Request(prompt=prompt, sampling=Sampling(max_tokens=1))
        return (await self.engine.generate(request)).usage

    async def answers(self):
        """Answers about images of two sizes, with the lengths of their prompts."""
        observed = []
        for images in ([], [WIDE], [SMALL], [WIDE, SMALL]):
            encoded = self.engine.encode(ask(*images))
            completion = await self.engine.generate(
                Request(prompt=encoded, sampling=Sampling(max_tokens=6))
            )
            observed.append(
                {
                    "text_tokens": sum(token != self.image_token for token in encoded.token_ids),
                    "image_tokens": [self.image_tokens(image) for image in images],
                    "prompt_tokens": completion.usage.prompt_tokens,
                    "completion_tokens": completion.usage.completion_tokens,
                    "finish": completion.finish,
                }
            )
        return observed

    async def likelihoods(self):
        """Scores of the same choices about different images."""
        return {
            "wide": await self.scores(ask(WIDE)),
            "wide again": await self.scores(ask(WIDE)),
            "other wide": await self.scores(ask(OTHER_WIDE)),
            "wide, small": await self.scores(ask(WIDE, SMALL)),
            "small, wide": await self.scores(ask(SMALL, WIDE)),
            "two turns": await self.scores(ask_in_two_turns(SMALL, WIDE)),
        }

    async def peer_likelihoods(self):
        """The same as transformers computes them."""
        prompts = {
            "wide": ask(WIDE),
            "small, wide": ask(SMALL, WIDE),
            "two turns": ask_in_two_turns(SMALL, WIDE),
        }
        return {
            name: [self.peer_score(prompt, choice) for choice in CHOICES]
            for name, prompt in prompts.items()
        }

    async def both_ways(self):
        """The same scores by prompt tails and by the trie, from an empty prefix cache on."""
        assert await self.engine.forget_prefixes()
        encoded = self.engine.encode(ask(SMALL, WIDE))
        fast = self.engine.fast_scores
        return {
            name: await self.scores_by(way, encoded)
            for name, way in (("tail", fast), ("trie", trie_scores), ("warm tail", fast))
        }

    async def scores_by(self, way, encoded):
        """Scores by one way."""
        sequences = [self.engine.own_tokens(choice) for choice in CHOICES]
        scored = await way(self.engine.submit, encoded, sequences, ends=self.engine.ends)
        return scored.logprobs

    async def block_offsets(self):
        """Both ways where the expanded prompt ends before, on and after the end of a block."""
        block = self.engine.block_size
        shortest = self.image_tokens(SMALL) - 1 + len(self.engine.encode(ask(SMALL)).token_ids)
        observed = {}
        for offset in (block - 1, 0, 1):
            dots = (offset - shortest) % block
            encoded = self.engine.encode(ask(SMALL, text=QUESTION + "." * dots))
            usage = await self.one_token(encoded)
            observed[usage.prompt_tokens % block] = {
                "tail": await self.scores_by(self.engine.fast_scores, encoded),
                "trie": await self.scores_by(trie_scores, encoded),
            }
        return observed

    async def prefix_cache(self):
        """Tokens read from the cache by one prompt and by its neighbours."""
        assert await self.engine.forget_prefixes()
        first = await self.one_token(ask(WIDE))
        again = await self.one_token(ask(WIDE))
        other = await self.one_token(ask(OTHER_WIDE))
        return {
            "block_size": self.engine.block_size,
            "prompt_tokens": first.prompt_tokens,
            "before_image": self.engine.encode(ask(WIDE)).token_ids.index(self.image_token),
            "first": first.cached_tokens,
            "again": again.cached_tokens,
            "other": other.cached_tokens,
            "other_prompt_tokens": other.prompt_tokens,
        }

    async def response_cache(self):
        """Which of three questions, of which two show the same picture, are answered anew."""
        with tempfile.TemporaryDirectory() as folder:
            cache = ResponseCache(Path(folder) / "responses.sqlite")
            engine = CachedEngine(self.engine, cache)
            asked = [Request(prompt=ask(picture)) for picture in (WIDE, WIDE, OTHER_WIDE)]
            usages = [(await engine.generate(request)).usage for request in asked]
            cache.close()
        return [usage.replayed for usage in usages]

    async def roles(self):
        """What planners' roles say of pictures that domains draw."""
        return {
            "world model": await observe_roles.world_model(self.engine),
            "policy": await observe_roles.policy(self.engine),
            "captions": await observe_roles.captions(self.engine),
            "episode": await observe_roles.episode(self.engine),
        }

    async def together(self):
        """Greedy answers of prompts in one batch, and of each alone."""
        prompts = [ask(WIDE), ask(OTHER_WIDE), ask(), ask(SMALL, WIDE)]
        requests = [Request(prompt=prompt, sampling=Sampling(max_tokens=6)) for prompt in prompts]
        batched = await asyncio.gather(*(self.engine.generate(request) for request in requests))
        alone = [await self.engine.generate(request) for request in requests]
        return {
            "batched": [answer.token_ids for answer in batched],
            "alone": [answer.token_ids for answer in alone],
        }

    async def constrained(self):
        """Hot constrained answers about an image."""
        steps = []
        for sample in range(8):
            completion = await self.engine.generate(
                Request(
                    prompt=ask(WIDE),
                    sampling=Sampling(temperature=1.0, seed=1),
                    constraint=constraint_of(Step),
                    sample=sample,
                )
            )
            steps.append(parse(Step, completion.text).model_dump() | {"finish": completion.finish})
        return steps

    async def refusals(self):
        """What is raised for too many images, and for images that make a prompt too long.

        The long prompt and its answer fill the context exactly while the image counts as the one
        token that is sent for it.
        """
        too_many = ask(SMALL, SMALL, SMALL)
        long = self.engine.encode(ask(WIDE, text="." * (CONTEXT // 2)))
        room = CONTEXT - len(long.token_ids)
        request = Request(prompt=long, sampling=Sampling(max_tokens=room))
        return {
            "too many": await refusal(self.one_token(too_many)),
            "too many, scored": await refusal(self.scores(too_many)),
            "long": await refusal(self.engine.generate(request)),
            "long, scored": await refusal(
                self.engine.score(ScoreRequest(long, ("." * (room - 1),)))
            ),
            "long, as sent": len(long.token_ids),
            "context": self.engine.context,
        }

    async def closing(self):
        """The errors of a caller that waits when the engine is closed, and of a later caller."""
        endless = Request(prompt="On and on", sampling=Sampling(max_tokens=CONTEXT // 2))
        waiting = asyncio.create_task(self.engine.generate(endless))
        while self.engine.load().running == 0:  # noqa: ASYNC110 - vLLM has no event
            await asyncio.sleep(0.001)
        await self.engine.aclose()
        return {
            "waiting": await refusal(waiting),
            "late": await refusal(self.engine.generate(endless)),
        }


async def refusal(call):
    """The error that a call ends with."""
    try:
        await call
    except Exception as error:
        fields = {key: value for key, value in vars(error).items() if isinstance(value, int)}
        return {
            "type": type(error).__name__,
            "ours": isinstance(error, ServingError),
            "message": str(error),
            **fields,
        }
    return None


async def observe(engine, model, folder):
    observer = Observer(engine, model, folder)
    questions = (
        observer.answers,
        observer.likelihoods,
        observer.peer_likelihoods,
        observer.both_ways,
        observer.block_offsets,
        observer.prefix_cache,
        observer.response_cache,
        observer.roles,
        observer.together,
        observer.constrained,
        observer.refusals,
        observer.closing,
    )
    wanted = sys.argv[1:] or [question.__name__ for question in questions]
    return {
        question.__name__: await question() for question in questions if question.__name__ in wanted
    }


def main():
    with tempfile.TemporaryDirectory() as folder:
        model = build(Path(folder))
        engine = VllmEngine(
            EngineConfig(
                model=folder,
                dtype="float32",
                context=CONTEXT,
                kv_cache_gib=0.3,
                images_per_prompt=IMAGES,
                max_pixels=MAX_PIXELS,
            )
        )
        try:
            observations = asyncio.run(observe(engine, model, folder))
        finally:
            engine.close()
    print(json.dumps(observations))


if __name__ == "__main__":
    main()
