"""What the tests of the option-level world share: the worlds, options and states by day."""

from dataclasses import replace

from llm_planning.environments.minecraft.option_language import Option
from llm_planning.environments.minecraft.option_world import OptionWorld
from llm_planning.environments.minecraft.rulebook import RuleBook
from llm_planning.environments.minecraft.tasks import PLAINS

BOOK = RuleBook.load()
WORLD = OptionWorld(BOOK, seed=0)
SINGLE = OptionWorld(BOOK, seed=0, options="single")


def option(text):
    """The option that a text such as "mine 3 oak_log" says."""
    verb, quantity, item = text.split(" ")
    return Option(verb, int(quantity), item)


def by_day(*, held=None, blocks=PLAINS.nearby_blocks, entities=(), near=None, **others):
    """On the surface by day nothing comes by itself. Nobody has counted what is near."""
    return replace(
        PLAINS,
        inventory=held or {},
        nearby_blocks=blocks,
        nearby_entities=entities,
        near=near or {},
        **others,
    )
