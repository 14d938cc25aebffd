"""A Qwen2.5-VL of two layers with random weights: everything its folder holds, made on the spot."""

from pathlib import Path

from llm_planning.gpu_check.unweighted import (
    END_OF_TURN,
    SPECIAL,
    TINY,
    make_config,
    make_processor,
    make_tokenizer,
)

CORPUS = [
    "You are playing a game and see a room in a picture.",
    "A red lamp, a blue door and a green key are on the table. What do you do next?",
    "open the door, take the lamp, look at the picture, go north, go south",
]


def build(folder: Path):
    """Writes the model's folder and returns the model itself."""
    tokenizer = trained_tokenizer()
    tokenizer.save_pretrained(folder)
    make_processor(tokenizer, TINY).save_pretrained(folder)
    model = make_model(tokenizer)
    model.save_pretrained(folder)
    return model


def trained_tokenizer():
    """Bytes and a few words, trained here."""
    from tokenizers import ByteLevelBPETokenizer

    words = ByteLevelBPETokenizer()
    words.train_from_iterator(
        CORPUS, vocab_size=400, min_frequency=1, special_tokens=SPECIAL, show_progress=False
    )
    return make_tokenizer(words._tokenizer)


def make_model(tokenizer):
    """Two layers on each side; weights large enough that an image moves every probability."""
    import torch
    from transformers import Qwen2_5_VLForConditionalGeneration

    torch.manual_seed(0)
    model = Qwen2_5_VLForConditionalGeneration(make_config(tokenizer, TINY)).eval()
    model.generation_config.eos_token_id = tokenizer.convert_tokens_to_ids(END_OF_TURN)
    return model
