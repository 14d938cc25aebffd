"""A Llama of two layers with random weights and a tokenizer of bytes, made on the spot."""

from pathlib import Path

END, START = "<|end|>", "<|start|>"
TEMPLATE = (
    "{% for message in messages %}" + START + "{{ message.role }}: {{ message.content }}\n"
    "{% endfor %}{% if add_generation_prompt %}" + START + "assistant: {% endif %}"
)


def bytes_tokenizer():
    """One token a byte."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    return words


def make_tokenizer():
    """Bytes, the two special tokens, and the chat template."""
    from tokenizers import AddedToken
    from transformers import PreTrainedTokenizerFast

    words = bytes_tokenizer()
    words.add_special_tokens([AddedToken(END, special=True), AddedToken(START, special=True)])
    return PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token=END, bos_token=START, chat_template=TEMPLATE
    )


def build(folder: Path, tokenizer=None):
    """Writes the model's folder and returns the model itself, in float32."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = tokenizer or make_tokenizer()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=1024,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config).to(torch.float32)
    for weights in model.parameters():
        weights.data.mul_(3)  # so that answers differ by nats
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model.eval()
