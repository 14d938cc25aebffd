"""Worlds, options and states for the tests of the option-level world."""

from dataclasses import replace

from llm_planning.environments.minecraft.book.rulebook import RuleBook
from llm_planning.environments.minecraft.options.option import Option
from llm_planning.environments.minecraft.options.tasks import PLAINS
from llm_planning.environments.minecraft.options.world import OptionWorld

BOOK = RuleBook.load()
WORLD = OptionWorld(BOOK, seed=0)
SINGLE = OptionWorld(BOOK, seed=0, options="single")


def option(text):
    """The option of a text such as "mine 3 oak_log"."""
    verb, quantity, item = text.split(" ")
    return Option(verb, int(quantity), item)


def outcomes(state, text, seeds):
    """The outcomes of one option in the worlds of the seeds 0, 1, ..."""
    return [WORLD.reseeded(seed).step(state, option(text)) for seed in range(seeds)]


def by_day(*, held=None, blocks=PLAINS.nearby_blocks, entities=(), near=None, **others):
    """A state on the surface by day, when no monster comes; what is near has no sightings."""
    return replace(
        PLAINS,
        inventory=held or {},
        nearby_blocks=blocks,
        nearby_entities=entities,
        near=near or {},
        **others,
    )
