"""The trap door: a small game with the bottleneck of MC-DML's Figure 1, in words of our own.

In the living room, opening the trap door is worth `BAIT` points at once, and nothing else there is
worth any. Whoever opens it slides into the cellar, the trap door falls shut behind them, and no way
leads back up. Then the light decides:

- Without the lantern, the cellar is dark, and every third move in the dark is the last one,
  whatever the moves are: the game ends in failure. So the bait is taken at move 1 and punished at
  move 4; between them lie only states from which no sequence of actions escapes. Failure takes no
  points away: it is the treasure that is lost.
- With the lantern in hand, lit before or in time after the fall, the way leads north through a
  tunnel into a vault, to a crown worth `TREASURE` points, and victory.

Taking the lantern and lighting it are worth nothing, like everything else (case, sword, clock,
kitchen), so a search that follows rewards is drawn to the bait: the crown takes 6 right moves, the
shortest solution, `TrapDoor.walkthrough`. A lantern that is put out or left behind under the ground
is as deadly as one that was never taken.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from hashlib import sha256
from operator import attrgetter
from pathlib import Path
from typing import Any

from llm_planning.environments.textgame.game import Ending, Snapshot, Transition

BAIT = 25.0
"""Points for opening the trap door, the first and only time."""

TREASURE = 75.0
"""Points for the crown, with which the game is won."""

MOVES_IN_THE_DARK = 3
"""The one that is the last."""

_HAND = "hand"
_LIVING_ROOM = "living room"
_KITCHEN = "kitchen"
_CELLAR = "cellar"
_TUNNEL = "tunnel"
_VAULT = "vault"
_WELL = "well"
_CAVE = "cave"

_EXITS = {
    _LIVING_ROOM: {"east": _KITCHEN},
    _KITCHEN: {"west": _LIVING_ROOM},
    _CELLAR: {"north": _TUNNEL, "south": _WELL},
    _TUNNEL: {"north": _VAULT, "south": _CELLAR, "west": _CAVE},
    _VAULT: {"south": _TUNNEL},
    _WELL: {"north": _CELLAR},
    _CAVE: {"east": _TUNNEL},
}
_UNDER_GROUND = frozenset((_CELLAR, _TUNNEL, _VAULT, _WELL, _CAVE))
_IN_THE_DARK = ("north", "south", "east", "west", "feel the wall", "shout")

_LOOKS = {
    _LIVING_ROOM: "Living room. A clock ticks above a glass case, and a heavy trap door is let "
    "into the floor. The kitchen is to the east.",
    _KITCHEN: "Kitchen. A table, a cupboard and a cold stove. The living room is to the west.",
    _CELLAR: "Cellar. The chute that you came down is too steep to climb, and the trap door above "
    "it is shut. Passages lead north and south; wet sand covers the floor.",
    _TUNNEL: "Tunnel. It runs north and south, and a cave opens to the west.",
    _VAULT: "Vault. A golden crown lies on a block of stone. The tunnel is to the south.",
    _WELL: "Well. Black water, and no way on. The cellar is to the north.",
    _CAVE: "Cave. Bones lie about. The tunnel is to the east.",
}
_DARKNESS = (
    "It is pitch dark here, and you have no light. Something is breathing close by, coming nearer."
)
_DEATH = (
    "The thing that lives in the dark takes hold of you. It shuns the light, but you have none. "
    "You are dead."
)
_FALL = (
    "You pull the trap door open, lose your footing and slide down a chute. Above you the trap "
    "door falls shut, and a bolt drops."
)
_CHANGES: dict[str, tuple[dict[str, Any], str]] = {
    "light lantern": ({"lit": True}, "The lantern burns brightly."),
    "put out lantern": ({"lit": False}, "The lantern goes out."),
    "eat bread": ({"bread": ""}, "The bread is dry, but you eat it all."),
    "wind clock": ({"wound": True}, "You wind up the clock. It ticks on."),
    "dig sand": ({"dug": True}, "You dig a hole and find more sand."),
    "open case": ({"case_open": True}, "You open the case. It is empty."),
    "close case": ({"case_open": False}, "You close the case."),
    "open cupboard": ({"cupboard_open": True}, "You open the cupboard. It is empty."),
    "close cupboard": ({"cupboard_open": False}, "You close the cupboard."),
}
_REFUSAL = "You cannot do that now."


@dataclass(frozen=True, slots=True)
class Scene:
    """A state of the game: where everything is. Equal scenes are the same state.

    Attributes:
        room: where the player is.
        lantern: the room it lies in, or the player's hand.
        sword: likewise.
        bread: likewise; empty once it is eaten.
        lit: the lantern burns.
        case_open: the glass case is open.
        cupboard_open: the cupboard is open.
        wound: the clock was wound up.
        dug: the sand was dug up.
        moves_in_the_dark: one after the other.
        ending: how the game has ended.
    """

    room: str = _LIVING_ROOM
    lantern: str = _LIVING_ROOM
    sword: str = _LIVING_ROOM
    bread: str = _KITCHEN
    lit: bool = False
    case_open: bool = False
    cupboard_open: bool = False
    wound: bool = False
    dug: bool = False
    moves_in_the_dark: int = 0
    ending: Ending | None = None

    @property
    def dark(self) -> bool:
        """Whether there is nothing to be seen."""
        shines = self.lit and self.lantern in (_HAND, self.room)
        return self.room in _UNDER_GROUND and not shines

    @property
    def things(self) -> dict[str, str]:
        """Where each thing is that can be carried."""
        return {"bread": self.bread, "lantern": self.lantern, "sword": self.sword}


_parts = attrgetter(*(part.name for part in fields(Scene)))


class TrapDoor:
    """The game as an `Interpreter`; every answer is computed from the scene alone."""

    name = "trap-door"
    revision = sha256(Path(__file__).read_bytes()).hexdigest()
    max_score = BAIT + TREASURE
    objective = ""
    walkthrough: tuple[str, ...] = (
        "take lantern",
        "light lantern",
        "open trap door",
        "north",
        "north",
        "take crown",
    )

    def begin(self) -> Transition:
        """The living room, everything in its place."""
        scene = Scene()
        return Transition(scene, _look(scene), 0.0, None)

    def key(self, snapshot: Snapshot) -> str:
        """Names the scene by all that is in it."""
        return "|".join(map(str, _parts(snapshot)))

    def situation(self, snapshot: Snapshot) -> str:
        """The key."""
        return self.key(snapshot)

    def step(self, snapshot: Snapshot, action: str) -> Transition:
        """Plays one action; one that is not valid changes nothing and takes no time."""
        if action not in _actions(snapshot):
            return Transition(snapshot, _REFUSAL, 0.0, snapshot.ending)
        return _lurk(snapshot, _act(snapshot, action))

    def look(self, snapshot: Snapshot) -> tuple[str, str]:
        """The answers to `look` and `inventory`."""
        return _look(snapshot), _inventory(snapshot)

    async def valid_actions(self, snapshot: Snapshot) -> tuple[str, ...]:
        """𝒜(s), sorted."""
        return _actions(snapshot)


def _actions(scene: Scene) -> tuple[str, ...]:
    """What changes the scene, or passes the time in the dark."""
    if scene.ending is not None:
        return ()
    actions = list(_IN_THE_DARK if scene.dark else _EXITS[scene.room])
    for thing, place in scene.things.items():
        if place == _HAND:
            actions.append(f"drop {thing}")
        elif place == scene.room and not scene.dark:
            actions.append(f"take {thing}")
    if scene.lantern == _HAND:
        actions.append("put out lantern" if scene.lit else "light lantern")
    if scene.bread == _HAND:
        actions.append("eat bread")
    if not scene.dark:
        actions.extend(_fixtures(scene))
    return tuple(sorted(actions))


def _fixtures(scene: Scene) -> list[str]:
    """What can be done with the things that belong to a room."""
    match scene.room:
        case "living room":
            case = "close case" if scene.case_open else "open case"
            return [case, "open trap door", *([] if scene.wound else ["wind clock"])]
        case "kitchen":
            return ["close cupboard" if scene.cupboard_open else "open cupboard"]
        case "cellar":
            return [] if scene.dug else ["dig sand"]
        case "vault":
            return ["take crown"]
        case _:
            return []


def _act(scene: Scene, action: str) -> Transition:
    """What a valid action does by itself."""
    if action == "take crown":
        after = replace(scene, ending=Ending.VICTORY)
        text = "You put the crown on your head. It fits: the treasure is yours. You have won."
        return Transition(after, text, TREASURE, Ending.VICTORY)
    if action == "open trap door":
        after = replace(scene, room=_CELLAR)
        return Transition(after, f"{_FALL}\n\n{_look(after)}", BAIT, None)
    if action in _IN_THE_DARK:
        if scene.dark:
            return Transition(scene, _DARKNESS, 0.0, None)
        after = replace(scene, room=_EXITS[scene.room][action])
        return Transition(after, _look(after), 0.0, None)
    after, text = _handle(scene, action)
    if after.dark != scene.dark:
        text = f"{text}\n\n{_look(after)}"
    return Transition(after, text, 0.0, None)


def _handle(scene: Scene, action: str) -> tuple[Scene, str]:
    """What an action does to a thing, where the player stays in place."""
    if action in _CHANGES:
        changes, text = _CHANGES[action]
        return replace(scene, **changes), text
    verb, _, thing = action.partition(" ")
    places: dict[str, Any] = {thing: _HAND if verb == "take" else scene.room}
    text = f"You take the {thing}." if verb == "take" else f"You put the {thing} down."
    return replace(scene, **places), text


def _lurk(before: Scene, played: Transition) -> Transition:
    """What lives in the dark has its turn: a move that begins and ends in the dark counts."""
    after: Scene = played.state
    moves = before.moves_in_the_dark + 1 if before.dark and after.dark else 0
    if moves == MOVES_IN_THE_DARK:
        dead = replace(after, moves_in_the_dark=moves, ending=Ending.FAILURE)
        return Transition(dead, _DEATH, played.reward, Ending.FAILURE)
    return replace(played, state=replace(after, moves_in_the_dark=moves))


def _look(scene: Scene) -> str:
    if scene.dark:
        return _DARKNESS
    here = [thing for thing, place in scene.things.items() if place == scene.room]
    seen = [f"You see the {thing} here." for thing in here]
    if scene.lit and "lantern" in here:
        seen.append("The lantern is burning.")
    if scene.room == _LIVING_ROOM and scene.case_open:
        seen.append("The case is open.")
    if scene.room == _KITCHEN and scene.cupboard_open:
        seen.append("The cupboard is open.")
    return " ".join((_LOOKS[scene.room], *seen))


def _inventory(scene: Scene) -> str:
    carried = [thing for thing, place in scene.things.items() if place == _HAND]
    if scene.lit and "lantern" in carried:
        carried[carried.index("lantern")] = "lantern (burning)"
    return f"You carry: {', '.join(carried)}." if carried else "You carry nothing."
