"""Homes that a seed draws, for lessons: in them a policy has to read which home it is in.

A drawn home follows from the home `seen` and from the words below alone; nothing of the home
`unseen` is read. It has

    rooms    two to four of those of `seen`, and one or two others.
    places   9 to 15 of the 16 of `seen`, and one to three others; half of them in the room of
             `seen`, if it is there, the others anywhere. So no drawn home is the home `unseen`,
             which has the places of `seen` and no others.
    things   some of each group of `seen`, and some others of the group.
    laws     that of the group in `seen`, with changed weights, and one more place.
    goals    those of the group in `seen`.

Another place is used as one of `seen` is. What `seen` holds out as novel is no goal here, either.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

from llm_base.yaml_file import read_mapping
from llm_planning.environments.household.goals import Wanted
from llm_planning.environments.household.home import Home, bundled_home, home_of
from llm_planning.environments.household.tasks import Pair, Task, TaskMaker, pairs_of, split_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HOMES: Final = 500
"""How many homes are drawn."""

ROOMS: Final = (
    "hall",
    "study",
    "dining room",
    "guest room",
    "cellar",
    "attic",
    "laundry room",
    "playroom",
)

CONTAINERS: Final = {
    "pantry": "kitchen cabinet",
    "sideboard": "kitchen cabinet",
    "freezer": "fridge",
    "toaster oven": "oven",
    "steamer": "microwave",
    "dish drawer": "dishwasher",
    "medicine cabinet": "bathroom cabinet",
    "wardrobe": "cabinet",
    "toy bin": "floor",
}
SURFACES: Final = {
    "breakfast bar": "kitchen table",
    "kitchen island": "kitchen counter",
    "hob": "stove",
    "side table": "coffee table",
    "desk": "coffee table",
    "futon": "sofa",
    "wall shelf": "bookshelf",
    "rug": "floor",
    "bunk bed": "bed",
    "windowsill": "nightstand",
    "dresser": "cabinet",
    "washstand": "bathroom counter",
}
"""Other places, each with the place of `seen` that is used alike."""

THINGS: Final[Mapping[str, Sequence[str]]] = {
    "fruit": ("peach", "mango", "cherry", "kiwi"),
    "vegetables": ("onion", "cucumber", "tomato", "pumpkin"),
    "drinks": ("lemonade", "beer", "cider", "iced tea"),
    "meat": ("sausage", "bacon", "steak", "trout"),
    "cold dishes": ("yoghurt", "custard", "coleslaw", "jelly"),
    "bakery": ("muffin", "bagel", "croissant", "waffle"),
    "snacks": ("popcorn", "peanuts", "pretzel", "granola"),
    "seasoning": ("mustard jar", "pepper mill", "vinegar"),
    "crockery": ("saucer", "teacup", "soup bowl", "jug"),
    "cutlery": ("teaspoon", "ladle", "whisk"),
    "cookware": ("saucepan", "wok", "casserole", "colander"),
    "cleaning": ("mop", "scrub brush", "bleach"),
    "reading": ("newspaper", "diary", "comic", "atlas"),
    "toys": ("puzzle", "kite", "doll", "marbles"),
    "devices": ("tablet", "headphones", "camera", "charger"),
    "ornaments": ("vase", "picture frame", "statue", "lantern"),
    "clothes": ("jacket", "scarf", "socks", "hat"),
    "bedside": ("alarm", "bookmark", "earplugs"),
    "bath": ("razor", "comb", "sunscreen", "bath mat"),
}
"""Other things of each group of `seen`."""

_CHANGES: Final = (1, 2, 4)
"""Factors of a weight, each as likely."""
_STAYS: Final = 0.5
"""How likely a place stands in its room of `seen`, if the home has that."""
_SEED: Final = 1
_TRIES: Final = 10_000


@cache
def drawn_home(number: int) -> Home:
    """A drawn home.

    Args:
        number: from 0; any number draws one.
    """
    rng = Random(f"household drawn {number}")
    seen = _seen()
    rooms = rng.sample(list(seen["rooms"]), rng.randint(2, 4)) + rng.sample(
        ROOMS, rng.randint(1, 2)
    )
    used = _places(rng)
    names: list[str] = []
    things: dict[str, Any] = {}
    for group, content in seen["things"].items():
        chosen = rng.sample(content["names"], rng.randint(1, len(content["names"])))
        chosen += rng.sample(THINGS[group], rng.randint(0, 2))
        names += chosen
        goals = [name for name, as_seen in used.items() if as_seen in content["goals"]]
        things[group] = {"names": chosen, "lie": _law(content["lie"], used, rng), "goals": goals}
    several = {name: count for name, count in seen["several"].items() if name in names}
    values = {
        "trained_in": "seen",
        "rooms": _furnished(rooms, used, rng),
        "things": things,
        "several": several,
    }
    return home_of(values, f"drawn {number}")


@cache
def _seen() -> Mapping[str, Any]:
    return read_mapping(Path(__file__).parent / "homes" / "seen.yaml")


def _places(rng: Random) -> dict[str, str]:
    """The places of a drawn home: name -> the place of `seen` that is used alike."""
    every = [place.name for place in bundled_home("seen").places]
    kept = rng.sample(every, rng.randint(9, 15))
    others = {**CONTAINERS, **SURFACES}
    added = rng.sample(sorted(others), rng.randint(1, 3))
    return {name: others.get(name, name) for name in (*kept, *added)}


def _furnished(
    rooms: Sequence[str], used: Mapping[str, str], rng: Random
) -> dict[str, dict[str, list[str]]]:
    """The rooms with their places."""
    seen = bundled_home("seen")
    own = {place.name: seen.rooms[place.room] for place in seen.places}
    kind = {place.name: "containers" if place.container else "surfaces" for place in seen.places}
    kind |= dict.fromkeys(CONTAINERS, "containers") | dict.fromkeys(SURFACES, "surfaces")
    home: dict[str, dict[str, list[str]]] = {
        room: {"containers": [], "surfaces": []} for room in rooms
    }
    for name, as_seen in used.items():
        stays = own[as_seen] in home and rng.random() < _STAYS
        home[own[as_seen] if stays else rng.choice(rooms)][kind[name]].append(name)
    return home


def _law(seen: Mapping[str, float], used: Mapping[str, str], rng: Random) -> dict[str, float]:
    """Weights of the places where the things of a group lie."""
    law = {
        name: float(seen[as_seen] * rng.choice(_CHANGES))
        for name, as_seen in used.items()
        if as_seen in seen
    }
    # A law with exceptions: who has looked in all likely places goes on elsewhere.
    for name in rng.sample(sorted(set(used) - set(law)), max(1, 3 - len(law))):
        law[name] = float(rng.randint(1, 4))
    return law


def drawn_task(home: Home, size: int, rng: Random) -> Task:
    """Draws a task in a drawn home that wants nothing held out.

    Each of its pairs is trained in `seen`, or has a name that `seen` has not. The same holds of
    every two of its pairs together.

    Args:
        size: how many things the goal wants.
    """
    pairs = _taught_pairs(home)
    for _ in range(_TRIES):
        some = rng.sample(pairs, size)
        if len({thing for thing, _ in some}) == size and all(map(_taught, combinations(some, 2))):
            goal = [Wanted(thing, place) for thing, place in some]
            return TaskMaker(home).own_task(goal, rng.getrandbits(32), seed=_SEED)
    raise AssertionError(f"{home.name} has no task of {size} things")


@cache
def _taught_pairs(home: Home) -> tuple[Pair, ...]:
    return tuple(pair for pair in pairs_of(home) if _taught((pair,)))


def _taught(pairs: tuple[Pair, ...]) -> bool:
    """Whether a pair, or a composition of two, is trained in `seen` or has a name of its own."""
    known, trained = _of_seen()
    return frozenset(pairs) in trained or any(name not in known for pair in pairs for name in pair)


@cache
def _of_seen() -> tuple[frozenset[str], frozenset[frozenset[Pair]]]:
    """The names of `seen`, and what is trained there: pairs, each by itself, and compositions."""
    seen = bundled_home("seen")
    split = split_of(seen)
    names = frozenset((*seen.things, *(place.name for place in seen.places)))
    return names, split.compositions | {frozenset((pair,)) for pair in split.pairs}
