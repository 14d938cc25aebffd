"""GGUF to Hugging Face: a made-up file whose every odd value must arrive, and the real model."""

import json
from itertools import pairwise

import numpy as np
import pytest
import regex

from llm_serving.errors import ModelFetchError
from llm_serving.models import resolve
from llm_serving.models.convert import convert

gguf = pytest.importorskip("gguf")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

# Ids unlike those that libraries take for granted.
SPECIAL = ["<unknown>", "<pad>", "<begin>", "<end>"]
PIECES = ["a", "b", "c", "1", "2", "Ġ", "Ċ", "x", "ab", "Ġc", "Ġ1", "12", "ĊĠ", "ĊĠĠ", "ĠĠ"]
MERGES = ["a b", "Ġ c", "Ġ 1", "1 2", "Ċ Ġ", "ĊĠ Ġ", "Ġ Ġ"]
TEMPLATE = "{% for m in messages %}{{ m['content'] + '<end>' }}{% endfor %}"
HIDDEN, HEADS, KV_HEADS, HEAD, FEED = 64, 4, 2, 16, 96


def write_gguf(path, *, leave_out=(), tied=True, split="smollm"):
    """One random Llama layer, some of it quantised to 4 bits, with a vocabulary of 19."""
    path.parent.mkdir()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(777)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(1)
    writer.add_feed_forward_length(FEED)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(HEAD)
    writer.add_rope_freq_base(54321.0)
    writer.add_vocab_size(len(SPECIAL + PIECES))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(split)
    writer.add_token_list(SPECIAL + PIECES)
    writer.add_token_types([3] * len(SPECIAL) + [1] * len(PIECES))
    writer.add_token_merges(MERGES)
    ids = {"unk": 0, "pad": 1, "bos": 2, "eos": 3}
    for name in ids.keys() - set(leave_out):
        getattr(writer, f"add_{name}_token_id")(ids[name])
    writer.add_chat_template(TEMPLATE)
    random = np.random.default_rng(0)

    def add(name, *shape, quantised=False):
        weight = random.normal(size=shape).astype(np.float32)
        if quantised:
            blocks = gguf.quantize(weight, gguf.GGMLQuantizationType.Q4_1)
            writer.add_tensor(name, blocks, raw_dtype=gguf.GGMLQuantizationType.Q4_1)
        else:
            writer.add_tensor(name, weight)

    add("token_embd.weight", len(SPECIAL + PIECES), HIDDEN)
    if not tied:
        add("output.weight", len(SPECIAL + PIECES), HIDDEN)
    add("output_norm.weight", HIDDEN)
    add("blk.0.attn_norm.weight", HIDDEN)
    add("blk.0.ffn_norm.weight", HIDDEN)
    add("blk.0.attn_q.weight", HEADS * HEAD, HIDDEN, quantised=True)
    add("blk.0.attn_k.weight", KV_HEADS * HEAD, HIDDEN, quantised=True)
    add("blk.0.attn_v.weight", KV_HEADS * HEAD, HIDDEN, quantised=True)
    add("blk.0.attn_output.weight", HIDDEN, HEADS * HEAD, quantised=True)
    add("blk.0.ffn_gate.weight", FEED, HIDDEN, quantised=True)
    add("blk.0.ffn_up.weight", FEED, HIDDEN, quantised=True)
    add("blk.0.ffn_down.weight", HIDDEN, FEED, quantised=True)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="session")
def converted(tmp_path_factory):
    """The made-up file and the folder made of it."""
    base = tmp_path_factory.mktemp("convert")
    path = write_gguf(base / "source" / "odd.gguf")
    folder = base / "folder"
    folder.mkdir()
    shares = []
    convert(path, folder, report=shares.append)
    assert shares == sorted(set(shares))
    assert shares[-1] == 1.0
    return path, folder


def read_json(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_special_tokens_are_those_of_the_file(converted):
    _, folder = converted
    for name in ("config.json", "generation_config.json"):
        content = read_json(folder / name)
        ids = [content[f"{token}_token_id"] for token in ("bos", "eos", "pad")]
        assert ids == [2, 3, 1], name
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert tokenizer.convert_ids_to_tokens(range(19)) == SPECIAL + PIECES
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (2, 3)
    assert (tokenizer.pad_token_id, tokenizer.unk_token_id) == (1, 0)
    assert tokenizer("ab<end>").input_ids == [12, 3]
    assert tokenizer.decode([12, 3], skip_special_tokens=True) == "ab"


def test_configuration_is_that_of_the_file(converted):
    _, folder = converted
    config = transformers.AutoConfig.from_pretrained(folder)
    assert config.architectures == ["LlamaForCausalLM"]
    assert (config.max_position_embeddings, config.vocab_size) == (777, 19)
    assert config.tie_word_embeddings
    assert read_json(folder / "config.json")["rope_theta"] == 54321.0
    assert config.rope_parameters["rope_theta"] == 54321.0
    assert "quantization_config" not in read_json(folder / "config.json")
    assert read_json(folder / "tokenizer_config.json")["model_max_length"] == 777


def test_chat_template_is_that_of_the_file(converted):
    tokenizer = transformers.AutoTokenizer.from_pretrained(converted[1])
    assert tokenizer.chat_template == TEMPLATE
    chat = [{"role": "user", "content": "ab"}]
    assert tokenizer.apply_chat_template(chat, tokenize=False) == "ab<end>"


def test_text_is_split_by_the_rule_of_the_file(converted):
    tokenizer = transformers.AutoTokenizer.from_pretrained(converted[1])
    # Digits stand alone: "12" and "Ġ1" are in the vocabulary and never used.
    assert tokenizer.tokenize("ab 12") == ["ab", "Ġ", "1", "2"]
    # Blanks before a digit stay together; before a letter the last one belongs to the word.
    assert tokenizer.tokenize("x\n  1") == ["x", "ĊĠĠ", "1"]
    assert tokenizer.tokenize("x\n  c") == ["x", "ĊĠ", "Ġc"]


def test_weights_are_the_dequantised_ones_in_bfloat16(converted):
    path, folder = converted
    tensors = {t.name: t for t in gguf.GGUFReader(path).tensors}
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    weights = model.state_dict()
    assert {weight.dtype for weight in weights.values()} == {torch.bfloat16}

    def expected(name):
        tensor = tensors[name]
        weight = gguf.dequantize(tensor.data, tensor.tensor_type)
        return torch.from_numpy(weight.copy()).to(torch.bfloat16)

    assert torch.equal(weights["model.embed_tokens.weight"], expected("token_embd.weight"))
    layer = "model.layers.0"
    assert torch.equal(weights[f"{layer}.mlp.down_proj.weight"], expected("blk.0.ffn_down.weight"))
    assert torch.equal(weights[f"{layer}.self_attn.v_proj.weight"], expected("blk.0.attn_v.weight"))
    # A GGUF interleaves the two halves that rotate together; Hugging Face keeps them apart.
    for name, heads in (("q", HEADS), ("k", KV_HEADS)):
        rows = expected(f"blk.0.attn_{name}.weight").view(heads, HEAD // 2, 2, HIDDEN)
        apart = rows.transpose(1, 2).reshape(heads * HEAD, HIDDEN)
        assert torch.equal(weights[f"{layer}.self_attn.{name}_proj.weight"], apart)
    assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()


def test_untied_output_is_kept(tmp_path):
    path = write_gguf(tmp_path / "source" / "untied.gguf", tied=False)
    folder = tmp_path / "folder"
    folder.mkdir()
    convert(path, folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    assert not model.config.tie_word_embeddings
    assert not torch.equal(model.lm_head.weight, model.model.embed_tokens.weight)


def test_missing_key_is_named(tmp_path):
    path = write_gguf(tmp_path / "source" / "endless.gguf", leave_out=["eos"])
    with pytest.raises(ModelFetchError, match=r"endless\.gguf has no .*\.eos_token_id"):
        convert(path, tmp_path)


def test_unknown_splitting_rule_is_refused(tmp_path):
    path = write_gguf(tmp_path / "source" / "other.gguf", split="other")
    with pytest.raises(ModelFetchError, match="splitting rule `other` is not known"):
        convert(path, tmp_path)


def test_conversion_says_nothing(tmp_path, capfd):
    path = write_gguf(tmp_path / "source" / "quiet.gguf")
    folder = tmp_path / "folder"
    folder.mkdir()
    convert(path, folder)
    assert tuple(capfd.readouterr()) == ("", "")


@pytest.fixture(scope="session")
def smollm2():
    """The bundled model; fetched and converted once a machine."""
    return resolve("smollm2-135m-instruct").path


@pytest.fixture(scope="session")
def smollm2_tokenizer(smollm2):
    return transformers.AutoTokenizer.from_pretrained(smollm2)


def test_smollm2_ends_with_the_chat_terminator(smollm2, smollm2_tokenizer):
    # tokenizer.ggml.{bos,eos,padding,unknown}_token_id of the file: 1, 2, 2, 0.
    for name in ("config.json", "generation_config.json"):
        content = read_json(smollm2 / name)
        ids = [content[f"{token}_token_id"] for token in ("bos", "eos", "pad")]
        assert ids == [1, 2, 2], name
    assert smollm2_tokenizer.eos_token == "<|im_end|>"
    assert smollm2_tokenizer.eos_token_id == 2
    assert smollm2_tokenizer.bos_token == "<|im_start|>"
    assert smollm2_tokenizer.unk_token_id == 0
    assert len(smollm2_tokenizer) == 49152


def reference_tokens(text, vocabulary, ranks):
    """Byte-pair encoding, written out: digits alone, GPT-2's split, merges by rank."""
    words = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(others)}
    tokens = []
    for part in regex.findall(r"\p{N}|[^\p{N}]+", text):
        for word in regex.findall(words, part):
            pieces = [letters[byte] for byte in word.encode()]
            while True:
                pairs = [
                    (ranks[pair], i) for i, pair in enumerate(pairwise(pieces)) if pair in ranks
                ]
                if not pairs:
                    break
                _, i = min(pairs)
                pieces[i : i + 2] = ["".join(pieces[i : i + 2])]
            tokens += pieces
    assert all(token in vocabulary for token in tokens)
    return tokens


@pytest.mark.parametrize(
    "text",
    [
        "open trap door",
        "craft 12 iron_ingot, then 345 sticks",
        "x 10\n  20\n\n   abc",
        '{"option":"mine 3 iron ore","y":-12}',
        "I'll say we've 2024-10-03, don't",
        "naïve café 漢字 🙂\t| a  b",
    ],
)
def test_smollm2_tokens_follow_from_the_vocabulary(smollm2, smollm2_tokenizer, text):
    bpe = read_json(smollm2 / "tokenizer.json")["model"]
    ranks = {tuple(merge): rank for rank, merge in enumerate(bpe["merges"])}
    tokens = smollm2_tokenizer.tokenize(text)
    assert tokens == reference_tokens(text, bpe["vocab"], ranks)
    assert smollm2_tokenizer.decode(smollm2_tokenizer(text).input_ids) == text
