"""A home and what is believed of it, from LLM-MCTS's Sections 2.1 and 2.2, Appendices A.4 and C.2.

Slow and plain, over names. Where the paper is silent, `docs/household.md` says what holds.
"""

from typing import NamedTuple


class State(NamedTuple):
    room: str
    near: str | None
    open: frozenset
    hands: tuple
    lie: dict
    steps: int


class Seen(NamedTuple):
    room: str
    near: str | None
    hands: tuple
    shown: dict
    wanted: tuple

    @property
    def key(self):
        """Two histories are one if they agree in this."""
        return self.room, self.near, self.hands, self.wanted, tuple(self.shown)


class Home:
    """What can be done in a home.

    `rooms` has the places of each room, `number` says how many things of a name there are, `goal`
    is a list of (thing, place, count).
    """

    def __init__(self, *, rooms, containers, number, goal, hands, limit):
        self.rooms, self.containers, self.goal = rooms, containers, goal
        self.capacity, self.limit = hands, limit
        self.room_of = {place: room for room, places in rooms.items() for place in places}
        self.named = list(dict.fromkeys(thing for thing, _, _ in goal))
        self.things = [*self.named, *(thing for thing in number if thing not in self.named)]
        # A second thing of a name that no goal has would change no step to the goal.
        self.number = {t: number[t] if t in self.named else 1 for t in self.things}

    def in_order(self, things):
        return tuple(sorted(things, key=self.things.index))

    def visible(self, s, place):
        """A surface, or an open container, in the agent's room."""
        return self.room_of[place] == s.room and (place not in self.containers or place in s.open)

    def success(self, s):
        return all(s.lie[place].count(thing) >= count for thing, place, count in self.goal)

    def actions(self, s):
        """Whatever changes the state: rooms, places and what lies there, and what is at hand."""
        if s.steps >= self.limit or self.success(s):
            return []
        actions = [f"walk to the {room}" for room in self.rooms if room != s.room]
        close = set(s.lie[s.near] if s.near and self.visible(s, s.near) else ())
        for place in self.rooms[s.room]:
            if place == s.near:
                continue
            actions.append(f"walk to the {place}")
            for thing in s.lie[place] if self.visible(s, place) else ():
                if thing not in close:
                    close.add(thing)
                    actions.append(f"walk to the {thing}")
        if s.near is None:
            return actions
        if s.near in self.containers:
            actions.append(f"{'close' if s.near in s.open else 'open'} the {s.near}")
        if not self.visible(s, s.near):
            return actions
        if len(s.hands) < self.capacity:
            actions += [f"grab the {thing}" for thing in dict.fromkeys(s.lie[s.near])]
        how = "inside" if s.near in self.containers else "on"
        held = dict.fromkeys(s.hands)
        return actions + [f"put the {thing} {how} the {s.near}" for thing in held]

    def after(self, s, action):
        """The state after a possible action."""
        verb, item = action.split(" the ", 1)
        s = s._replace(steps=s.steps + 1)
        if verb == "walk to":
            if item in self.rooms:
                return s._replace(room=item, near=None)
            if item in self.room_of:
                return s._replace(near=item)
            places = (p for p in self.rooms[s.room] if self.visible(s, p) and item in s.lie[p])
            return s._replace(near=next(places))
        if verb in {"open", "close"}:
            return s._replace(open=s.open ^ {s.near})
        hands, here = list(s.hands), list(s.lie[s.near])
        if verb == "grab":
            here.remove(item)
            hands.append(item)
        else:
            thing = item.split(" inside the ")[0].split(" on the ")[0]
            hands.remove(thing)
            here.append(thing)
        lie = {**s.lie, s.near: self.in_order(here)}
        return s._replace(hands=self.in_order(hands), lie=lie)

    def observe(self, s):
        shown = {place: s.lie[place] for place in self.rooms[s.room] if self.visible(s, place)}
        pairs = ((place, thing) for place, things in shown.items() for thing in things)
        wanted = tuple(pair for pair in pairs if pair[1] in self.named)
        return Seen(s.room, s.near, s.hands, shown, wanted)


class Belief:
    """b(s) after some observations: what was seen stays, what was not seen there is elsewhere.

    `prior` has for each thing the weight of each place; `others` the places of things that no goal
    names, drawn once for a decision.
    """

    def __init__(self, home, prior, observations, others=()):
        self.home, self.prior, self.others = home, prior, others
        self.observations, self.now = observations, observations[-1]
        self.seen, self.open = {}, set()
        for o in observations:
            self.seen.update(o.shown)
            inside = {place for place in home.rooms[o.room] if place in home.containers}
            self.open = (self.open - inside) | (inside & set(o.shown))
        self.unseen = [place for place in home.room_of if place not in self.seen]

    def hidden(self):
        known = [*self.now.hands, *(t for things in self.seen.values() for t in things)]
        return [t for t in self.home.things for _ in range(self.home.number[t] - known.count(t))]

    def weights(self, thing):
        """No thing of the goal begins where the goal wants it."""
        ends = {place for wanted, place, _ in self.home.goal if wanted == thing}
        elsewhere = {place: float(place not in ends) for place in self.unseen}
        weights = [elsewhere[place] * self.prior[thing][place] for place in self.unseen]
        return weights if any(weights) else [*elsewhere.values()]

    def filled(self, rng):
        """Draws the places of the things that no goal names."""
        others = [t for t in self.hidden() if t not in self.home.named]
        drawn = [(t, rng.choices(self.unseen, self.weights(t))[0]) for t in others]
        return Belief(self.home, self.prior, self.observations, drawn)

    def draw(self, rng):
        """s ~ b(s)."""
        wanted = [t for t in self.hidden() if t in self.home.named]
        drawn = [(t, rng.choices(self.unseen, self.weights(t))[0]) for t in wanted]
        lie = {place: [*self.seen.get(place, ())] for place in self.home.room_of}
        for thing, place in [*self.others, *drawn]:
            lie[place].append(thing)
        lie = {place: self.home.in_order(things) for place, things in lie.items()}
        steps = len(self.observations) - 1
        now = self.now
        return State(now.room, now.near, frozenset(self.open), now.hands, lie, steps)
