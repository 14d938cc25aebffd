"""Tokenizers of the kinds that models have, trained on a few words; no test module itself."""

import json

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

TEXT = ["go north south A B 1 2 10 <|user|> <|assistant|> [INST] [/INST] user: Which way?\n"] * 50
LETTERS = sorted("▁" + "".join(TEXT[0].split()) + "abcdefghijklmnopqrstuvwxyz")
_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def sentencepiece(*, prepends=True, scheme=None):
    """Of Llama 2's kind: a blank stands before every text, or before the first part of one."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    if scheme is not None:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    else:
        blanks = [normalizers.Prepend("▁")] if prepends else []
        tokenizer.normalizer = normalizers.Sequence([*blanks, normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [
            *(decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()),
            decoders.Strip(" ", 1, 0),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=380,
        special_tokens=["<unk>", *_BYTES],
        initial_alphabet=LETTERS,
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    trained = json.loads(tokenizer.to_str())
    trained["added_tokens"] = []  # the bytes are words like others
    return Tokenizer.from_str(json.dumps(trained))


def byte_level(*, prefix=False):
    """Of GPT-2's kind; with a prefix, as RoBERTa's."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    return tokenizer


def unigram():
    """Of T5's kind, which reads two spellings of a character alike."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=100,
        special_tokens=["<unk>"],
        unk_token="<unk>",
        initial_alphabet=LETTERS,
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    return tokenizer
