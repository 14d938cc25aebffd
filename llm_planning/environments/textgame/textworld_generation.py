"""Makes one game: `python -m (this module) SEED LEVEL FILE KIND`.

Run it with PYTHONHASHSEED fixed: TextWorld iterates over sets while it draws.
"""

from __future__ import annotations

import sys

from llm_planning.environments.textgame.textworld_kinds import Challenge, rules


def generate(*, kind: str, level: int, seed: int, file: str) -> None:
    """Makes and compiles a game.

    Args:
        kind: one that `rules` knows.
        level: one that the kind has.
        seed: of everything that is drawn.
        file: of the compiled game; its description is written beside it.
    """
    import textworld
    from textworld.challenges import CHALLENGES
    from textworld.generator import compile_game, make_game

    options = textworld.GameOptions()
    options.seeds = seed
    options.path = file
    wanted = rules(kind, level)
    if isinstance(wanted, Challenge):
        _, make, _ = CHALLENGES[wanted.name]
        game = make(wanted.settings, options)
    else:
        options.nb_rooms = wanted.rooms
        options.nb_objects = wanted.objects
        options.quest_length = wanted.quest_length
        game = make_game(options)
    compile_game(game, options)


if __name__ == "__main__":
    generate(seed=int(sys.argv[1]), level=int(sys.argv[2]), file=sys.argv[3], kind=sys.argv[4])
