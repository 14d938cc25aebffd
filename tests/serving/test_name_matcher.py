import numpy as np
import pytest

from llm_kernels import VectorError
from llm_serving.name_matcher import NameMatch, NameMatcher, spelled_out

# Directions in the plane, so that cosines can be worked out by hand.
ANGLES = {"table": 0, "kitchen table": 0, "chair": 60, "sofa": 90, "seat": 70, "desk": 0}


async def embed(texts):
    radians = np.radians([ANGLES[text] for text in texts])
    return np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)


async def test_the_nearest_spelling_is_the_name():
    matcher = await NameMatcher.build(
        {"kitchentable": "table", "armchair": "chair", "couch": "sofa"}, embed=embed
    )
    match = await matcher.nearest("seat")
    assert match == NameMatch("armchair", pytest.approx(np.cos(np.radians(10)), abs=1e-6))
    (seat, desk) = await matcher.ranked(["seat", "desk"], k=2)
    assert [match.name for match in seat] == ["armchair", "couch"]
    assert seat[1].score == pytest.approx(np.cos(np.radians(20)), abs=1e-6)
    assert [match.name for match in desk] == ["kitchentable", "armchair"]
    assert desk[0].score == 1.0
    assert len((await matcher.ranked(["seat"], k=9))[0]) == 3
    assert await matcher.ranked([], k=1) == ()


async def test_of_equally_near_names_the_first_one_wins():
    names = {"a": "table", "b": "kitchen table", "c": "sofa"}
    matcher = await NameMatcher.build(names, embed=embed)
    assert (await matcher.nearest("desk")).name == "a"
    backwards = await NameMatcher.build(dict(reversed(names.items())), embed=embed)
    assert (await backwards.nearest("desk")).name == "b"


async def test_of_equally_near_names_the_one_that_is_spelled_so_wins():
    names = {"a": "table", "b": "kitchen table", "c": "desk", "d": "desk"}
    matcher = await NameMatcher.build(names, embed=embed)
    own, other = await matcher.ranked(["desk", "seat"], k=3)
    assert [match.name for match in own] == ["c", "a", "b"]
    assert own[0].score == 1.0
    assert [match.name for match in other] == ["a", "b", "c"]
    assert (await matcher.nearest("kitchen table")).name == "b"


async def test_impossible_matchers_and_questions():
    with pytest.raises(ValueError, match="at least one name"):
        await NameMatcher.build({}, embed=embed)
    matcher = await NameMatcher.build({"sofa": "sofa"}, embed=embed)
    with pytest.raises(VectorError, match="k is 0"):
        await matcher.ranked(["sofa"], k=0)


def test_names_are_split_into_the_fewest_words():
    words = {"kitchen", "table", "tab", "le", "bath", "room", "bathroom", "cabinet", "kit", "chen"}
    assert spelled_out(["kitchentable", "bathroomcabinet", "BathroomTable"], words) == {
        "kitchentable": "kitchen table",
        "bathroomcabinet": "bathroom cabinet",
        "BathroomTable": "bathroom table",
    }
    # Two words either way: the longer first one; and a word is not split.
    assert spelled_out(["notable"], {"no", "table", "not", "able"}) == {"notable": "not able"}
    assert spelled_out(["table"], {"table", "tab", "le"}) == {"table": "table"}


def test_a_name_that_cannot_be_split_stands_for_itself():
    words = {"kitchen", "table"}
    assert spelled_out(["kitchensofa", "Fridge", ""], words) == {
        "kitchensofa": "kitchensofa",
        "Fridge": "Fridge",
        "": "",
    }
