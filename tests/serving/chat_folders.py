"""Folders with a tokenizer and a chat template in the shapes that models have; without weights."""

import json

from runners.tiny_llama import bytes_tokenizer

SHAPES = {
    "gemma": {
        "special": ["<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"],
        "eos": "<eos>",
        "template": (
            "{{ bos_token }}"
            "{% if messages[0].role == 'system' %}"
            "{{ raise_exception('System role not supported') }}{% endif %}"
            "{% for m in messages %}"
            "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
            "{{ raise_exception('user and assistant must take turns') }}{% endif %}"
            "<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n"
            "{{ m.content | trim }}<end_of_turn>\n{% endfor %}"
            "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
        ),
    },
    "phi": {
        "special": ["<s>", "<|endoftext|>", "<|assistant|>", "<|system|>", "<|user|>", "<|end|>"],
        "eos": "<|endoftext|>",
        "listed": ["<|endoftext|>", "<|assistant|>", "<|end|>"],
        "template": (
            "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|assistant|>\n{% else %}{{ eos_token }}{% endif %}"
        ),
    },
    "llama": {
        "special": [
            *("<|begin_of_text|>", "<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"),
            *("<|start_header_id|>", "<|end_header_id|>"),
        ],
        "eos": "<|eot_id|>",
        "listed": ["<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"],
        "template": (
            "{% if not date_string is defined %}"
            "{% set date_string = strftime_now('%d %b %Y') %}{% endif %}"
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n"
            "Today Date: {{ date_string }}\n\n"
            "{% if messages[0].role == 'system' %}{{ messages[0].content | trim }}"
            "{% set messages = messages[1:] %}{% endif %}<|eot_id|>"
            "{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n"
            "{{ m.content | trim }}<|eot_id|>{% endfor %}{% if add_generation_prompt %}"
            "<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
        ),
    },
    "mistral": {
        "special": ["<s>", "</s>", "[INST]", "[/INST]"],
        "eos": "</s>",
        "template": (
            "{{ bos_token }}{% for m in messages %}"
            "{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]"
            "{% elif m.role == 'assistant' %} {{ m.content }} {{ eos_token }}{% endif %}"
            "{% endfor %}"
        ),
    },
    "glm": {
        "special": ["<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"],
        "eos": "<|endoftext|>",
        "listed": ["<|endoftext|>", "<|user|>", "<|observation|>"],
        "template": (
            "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{% endfor %}"
            "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
        ),
    },
    "qwen": {
        "special": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        "words": ["<think>", "</think>", "    ", "<b>"],
        "eos": "<|im_end|>",
        "listed": ["<|im_end|>", "<|endoftext|>"],
        "template": (
            "{% for m in messages %}<|im_start|>{{ m.role }}\n"
            "{% if m.role == 'assistant' and loop.last %}<think>\n\n</think>\n\n"
            "{{ m.content.split('</think>')[-1] }}{% else %}{{ m.content }}{% endif %}"
            "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n"
            "{% if enable_thinking is defined and enable_thinking is false %}"
            "<think>\n\n</think>\n\n{% endif %}{% endif %}"
        ),
    },
    "r1": {
        "special": ["<begin>", "<end>", "<User>", "<Assistant>"],
        "eos": "<end>",
        "template": (
            "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}<User>{{ m.content }}"
            "{% elif m.role == 'assistant' %}<Assistant>{{ m.content }}<end>"
            "{% else %}{{ m.content }}{% endif %}{% endfor %}"
            "{% if add_generation_prompt %}<Assistant><think>\n{% endif %}"
        ),
    },
    "channels": {
        "special": ["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>"],
        "eos": "<|return|>",
        "template": (
            "{% for m in messages %}<|start|>{{ m.role }}"
            "{% if m.role == 'assistant' %}<|channel|>final{% endif %}<|message|>{{ m.content }}"
            "{{ '<|return|>' if loop.last and m.role == 'assistant' else '<|end|>' }}{% endfor %}"
            "{% if add_generation_prompt %}<|start|>assistant{% endif %}"
        ),
    },
    "parts": {
        "special": ["<|im_start|>", "<end_of_utterance>"],
        "eos": "<end_of_utterance>",
        "template": (
            "<|im_start|>{% for m in messages %}{{ m.role | capitalize }}: "
            "{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% endif %}"
            "{% endfor %}<end_of_utterance>\n{% endfor %}"
            "{% if add_generation_prompt %}Assistant: {% endif %}"
        ),
    },
    "plain": {
        "special": ["<eos>"],
        "eos": "<eos>",
        "template": (
            "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
            "{% if add_generation_prompt %}assistant: {% endif %}"
        ),
    },
}


def write(folder, shape, *, core=None, **change):
    """Writes the folder of a shape, with changes of its values; returns the folder."""
    from tokenizers import AddedToken
    from transformers import PreTrainedTokenizerFast

    of = SHAPES[shape] | change
    core = core or bytes_tokenizer()
    core.add_special_tokens([AddedToken(token, normalized=False) for token in of["special"]])
    core.add_tokens([AddedToken(word, normalized=False) for word in of.get("words", [])])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token=of["eos"],
        bos_token=of["special"][0],
        chat_template=of["template"],
    )
    tokenizer.save_pretrained(folder)
    listed = tokenizer.convert_tokens_to_ids(of.get("listed", [of["eos"]]))
    config = {"eos_token_id": listed if len(listed) > 1 else listed[0]}
    (folder / "generation_config.json").write_text(json.dumps(config))
    return folder
