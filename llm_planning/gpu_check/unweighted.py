"""Folders of models with random weights, whose sizes are real ones: vLLM makes the weights.

Nothing has to be fetched or carried: the words of the tokenizers come from this package's own
prompts.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_serving.models import cache_folder
from llm_serving.models.folders import building

if TYPE_CHECKING:
    from collections.abc import Mapping

END_OF_TEXT, END_OF_TURN = "<|endoftext|>", "<|im_end|>"
VISION_START, VISION_END = "<|vision_start|>", "<|vision_end|>"
IMAGE, VIDEO = "<|image_pad|>", "<|video_pad|>"
SPECIAL = [END_OF_TEXT, "<|im_start|>", END_OF_TURN, VISION_START, VISION_END, IMAGE, VIDEO]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}{% if part.type == 'image' %}"
    + VISION_START
    + IMAGE
    + VISION_END
    + "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How large a model is: a Qwen2.5-VL, or a Llama where it reads no images.

    Attributes:
        text: fields of its configuration for text.
        words: of its tokenizer, special tokens not counted.
        vision: fields of its configuration for images; empty for a Llama.
        largest_image: pixels beyond which its processor scales an image down.
        written: whether the folder gets its random weights, as a CPU needs it: vLLM packs weights
            there while it loads them, so that `spread_weights` would come too late.
    """

    text: Mapping[str, Any]
    words: int
    vision: Mapping[str, Any] = field(default_factory=dict)
    largest_image: int = 0
    written: bool = False

    def without_images(self) -> Sizes:
        """The layers for text alone."""
        text = {key: value for key, value in self.text.items() if key != "rope_parameters"}
        return replace(self, text=text, vision={}, largest_image=0)


SEVEN_BILLION = Sizes(
    text={
        "vocab_size": 152_064,
        "hidden_size": 3584,
        "intermediate_size": 18_944,
        "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "max_position_embeddings": 128_000,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 1_000_000.0,
            "mrope_section": [16, 24, 24],
        },
    },
    vision={
        "depth": 32,
        "hidden_size": 1280,
        "intermediate_size": 3420,
        "num_heads": 16,
        "out_hidden_size": 3584,
        "fullatt_block_indexes": [7, 15, 23, 31],
    },
    words=151_643,
    largest_image=12_845_056,
)
"""Of Qwen2.5-VL-7B-Instruct, as it is published."""

TINY = Sizes(
    text={
        "vocab_size": 448,  # a few rows more than the tokenizer has, as the real ones do
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 8192,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "mrope_section": [4, 6, 6],
        },
        "initializer_range": 0.2,
    },
    vision={
        "depth": 2,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_heads": 2,
        "out_hidden_size": 64,
        "fullatt_block_indexes": [1],
        "initializer_range": 0.2,
    },
    words=440,
    largest_image=256 * 28 * 28,
    written=True,
)
"""Two layers on each side; weights large enough that an image moves every probability."""

SMOLLM2 = Sizes(
    text={
        "vocab_size": 49_152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
    },
    words=49_145,
)
"""Of SmolLM2-135M-Instruct, as it is published."""


def folder_of(sizes: Sizes) -> Path:
    """The folder of a model of these sizes, in the cache: made once.

    Its path stays the same, since vLLM finds what it has compiled by the path of the model.

    Raises:
        ImportError: as `write_folder`.
    """
    made_of = json.dumps([asdict(sizes), *_texts()])
    folder = cache_folder() / "unweighted" / sha256(made_of.encode()).hexdigest()[:16]
    with building(folder) as workshop:
        if not folder.is_dir():
            write_folder(workshop / "model", sizes)
            os.replace(workshop / "model", folder)
    return folder


def spread_weights(worker: Any) -> None:  # noqa: ANN401 - a worker of vLLM's
    """Makes random weights so large that tokens differ by nats.

    vLLM draws them within 0.001: then all tokens are equally probable, and a score of the wrong
    token is as good as the right one. Logits get a standard deviation of 1, norms included: in
    bfloat16 the tokens of 30 layers are 0.02 nats off then, with 2 they are 0.16 (by torch).
    """
    reach = math.sqrt(3 / math.sqrt(worker.model_config.get_hidden_size()))
    for weights in worker.model_runner.model.parameters():
        weights.data.mul_(reach / 1e-3)


def write_folder(folder: Path, sizes: Sizes) -> None:
    """Writes all of a model, with a file of no weights if vLLM makes them.

    Raises:
        ImportError: the image processor needs torchvision.
    """
    from safetensors.numpy import save_file
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen2_5_VLForConditionalGeneration

    tokenizer = make_tokenizer(package_words(sizes.words))
    if sizes.vision:
        make_processor(tokenizer, sizes).save_pretrained(folder)
        config, kind = make_config(tokenizer, sizes), Qwen2_5_VLForConditionalGeneration
    else:
        config, kind = LlamaConfig(**dict(sizes.text) | _ends(tokenizer)), LlamaForCausalLM
    tokenizer.save_pretrained(folder)
    if sizes.written:
        kind(config).bfloat16().save_pretrained(folder)
        return
    config.architectures = [kind.__name__]
    config.save_pretrained(folder)
    save_file({}, folder / "model.safetensors")


def _texts() -> list[str]:
    """The templates of this package's prompts."""
    package = Path(__file__).resolve().parents[1]
    return [path.read_text(encoding="utf-8") for path in sorted(package.rglob("*.j2"))]


def package_words(count: int) -> Any:  # noqa: ANN401 - the library `tokenizers` has no types
    """A tokenizer of so many words, learned from the prompts of this package.

    They yield some 1,800. The rest are pairs of them, which an answer may write and no text is cut
    into: a mask of the vocabulary is as long as that of a real one.
    """
    from tokenizers import ByteLevelBPETokenizer, Tokenizer, decoders, models, pre_tokenizers

    learned = ByteLevelBPETokenizer()
    learned.train_from_iterator(
        _texts(), vocab_size=count, min_frequency=2, special_tokens=[], show_progress=False
    )
    model = json.loads(learned.to_str())["model"]
    words = list(model["vocab"])
    pairs = ("".join(pair) for pair in product(words[256:], repeat=2))
    filled = dict.fromkeys(words) | dict.fromkeys(islice(pairs, 2 * (count - len(words))))
    vocabulary = {word: number for number, word in enumerate(islice(filled, count))}
    merges = [tuple(merge) for merge in model["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def make_tokenizer(words: Any) -> Any:  # noqa: ANN401 - transformers has no types
    """A tokenizer of the library `tokenizers`, with Qwen's special tokens and a chat template."""
    from tokenizers import AddedToken
    from transformers import PreTrainedTokenizerFast

    words.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    return PreTrainedTokenizerFast(
        tokenizer_object=words,
        eos_token=END_OF_TURN,
        pad_token=END_OF_TEXT,
        additional_special_tokens=SPECIAL,
        chat_template=TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def make_processor(tokenizer: Any, sizes: Sizes) -> Any:  # noqa: ANN401
    """Cuts images into tokens of 28 x 28 pixels, four of them at least."""
    from transformers import Qwen2_5_VLProcessor, Qwen2VLImageProcessor, Qwen2VLVideoProcessor

    size = {"shortest_edge": 4 * 28 * 28, "longest_edge": sizes.largest_image}
    return Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(size=size),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(size=size),
        chat_template=TEMPLATE,
    )


def make_config(tokenizer: Any, sizes: Sizes) -> Any:  # noqa: ANN401
    """The model's configuration, with this tokenizer's special tokens."""
    from transformers import Qwen2_5_VLConfig

    token_id = tokenizer.convert_tokens_to_ids
    return Qwen2_5_VLConfig(
        text_config=dict(sizes.text) | _ends(tokenizer),
        vision_config=dict(sizes.vision),
        image_token_id=token_id(IMAGE),
        video_token_id=token_id(VIDEO),
        vision_start_token_id=token_id(VISION_START),
        vision_end_token_id=token_id(VISION_END),
        tie_word_embeddings=False,
    )


def _ends(tokenizer: Any) -> dict[str, int]:  # noqa: ANN401
    names = {"bos": END_OF_TEXT, "eos": END_OF_TURN, "pad": END_OF_TEXT}
    return {f"{key}_token_id": tokenizer.convert_tokens_to_ids(name) for key, name in names.items()}
