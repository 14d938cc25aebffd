"""A Qwen2.5-VL of two layers with random weights: everything its folder holds, made on the spot."""

from pathlib import Path

CORPUS = [
    "You are playing a game and see a room in a picture.",
    "A red lamp, a blue door and a green key are on the table. What do you do next?",
    "open the door, take the lamp, look at the picture, go north, go south",
]
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
LARGEST_IMAGE = 256 * 28 * 28
"""Pixels beyond which the model's own processor scales an image down: 256 tokens of 28 x 28."""


def build(folder: Path):
    """Writes the model's folder and returns the model itself."""
    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(folder)
    make_processor(tokenizer).save_pretrained(folder)
    model = make_model(tokenizer)
    model.save_pretrained(folder)
    return model


def make_tokenizer():
    """Bytes and a few words, trained here, with Qwen's special tokens and a chat template."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import PreTrainedTokenizerFast

    words = ByteLevelBPETokenizer()
    words.train_from_iterator(
        CORPUS, vocab_size=400, min_frequency=1, special_tokens=SPECIAL, show_progress=False
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=words._tokenizer,
        eos_token=END_OF_TURN,
        pad_token=END_OF_TEXT,
        additional_special_tokens=SPECIAL,
        chat_template=TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def make_processor(tokenizer):
    """Cuts images into tokens of 28 x 28 pixels, between 4 and 256 of them."""
    from transformers import Qwen2_5_VLProcessor, Qwen2VLImageProcessor, Qwen2VLVideoProcessor

    size = {"shortest_edge": 4 * 28 * 28, "longest_edge": LARGEST_IMAGE}
    return Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(size=size),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(size=size),
        chat_template=TEMPLATE,
    )


def make_model(tokenizer):
    """Two layers on each side; weights large enough that an image moves every probability."""
    import torch
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    token_id = tokenizer.convert_tokens_to_ids
    config = Qwen2_5_VLConfig(
        text_config={
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
            "bos_token_id": token_id(END_OF_TEXT),
            "eos_token_id": token_id(END_OF_TURN),
            "pad_token_id": token_id(END_OF_TEXT),
            "initializer_range": 0.2,
        },
        vision_config={
            "depth": 2,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_heads": 2,
            "out_hidden_size": 64,
            "fullatt_block_indexes": [1],
            "initializer_range": 0.2,
        },
        image_token_id=token_id(IMAGE),
        video_token_id=token_id(VIDEO),
        vision_start_token_id=token_id(VISION_START),
        vision_end_token_id=token_id(VISION_END),
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    model = Qwen2_5_VLForConditionalGeneration(config).eval()
    model.generation_config.eos_token_id = token_id(END_OF_TURN)
    return model
