"""A folder of Qwen2.5-VL without weights: vLLM's `load_format="dummy"` makes random ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

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
    """How large a Qwen2.5-VL is.

    Attributes:
        text: fields of its configuration for text.
        vision: fields of its configuration for images.
        largest_image: pixels beyond which its processor scales an image down.
    """

    text: dict[str, Any]
    vision: dict[str, Any]
    largest_image: int


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
    largest_image=256 * 28 * 28,
)
"""Two layers on each side; weights large enough that an image moves every probability."""


def write_folder(folder: Path, sizes: Sizes) -> None:
    """Writes everything, but a file of no weights; the tokenizer writes bytes.

    Raises:
        ImportError: the image processor needs torchvision.
    """
    from safetensors.numpy import save_file
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    tokenizer = make_tokenizer(words)
    tokenizer.save_pretrained(folder)
    make_processor(tokenizer, sizes).save_pretrained(folder)
    config = make_config(tokenizer, sizes)
    config.architectures = ["Qwen2_5_VLForConditionalGeneration"]
    config.save_pretrained(folder)
    save_file({}, folder / "model.safetensors")


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
    ends = {
        "bos_token_id": token_id(END_OF_TEXT),
        "eos_token_id": token_id(END_OF_TURN),
        "pad_token_id": token_id(END_OF_TEXT),
    }
    return Qwen2_5_VLConfig(
        text_config=sizes.text | ends,
        vision_config=sizes.vision,
        image_token_id=token_id(IMAGE),
        video_token_id=token_id(VIDEO),
        vision_start_token_id=token_id(VISION_START),
        vision_end_token_id=token_id(VISION_END),
        tie_word_embeddings=False,
    )
