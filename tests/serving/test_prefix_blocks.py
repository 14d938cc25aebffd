from llm_serving.prefix_blocks import BLOCK, filled
from llm_serving.scripted import ScriptedEngine


def test_a_prompt_ends_one_token_into_a_block():
    engine = ScriptedEngine({})
    for size in range(2 * BLOCK):
        prompt = filled(engine, lambda length, size=size: "a" * size + "." * length)
        assert len(prompt.token_ids) % BLOCK == 1
        filler = len(prompt.token_ids) - size
        assert 1 <= filler <= BLOCK


def test_where_filler_has_other_lengths_the_least_of_it_is_taken():
    engine = ScriptedEngine({})
    prompt = filled(engine, lambda length: "abc" + ".." * length)
    assert prompt == engine.encode("abc..")
