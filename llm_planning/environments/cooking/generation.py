"""Makes one game: `python -m llm_planning.environments.cooking.generation SEED INGREDIENTS FILE`.

Run it with PYTHONHASHSEED fixed: TextWorld iterates over sets while it draws.
"""

from __future__ import annotations

import sys


def generate(*, seed: int, ingredients: int, file: str) -> None:
    """Makes and compiles one `tw-cooking` game.

    Args:
        seed: of everything that is drawn.
        ingredients: of the recipe.
        file: of the compiled game; its description is written beside it.
    """
    import textworld
    from textworld.challenges import CHALLENGES
    from textworld.generator import compile_game

    options = textworld.GameOptions()
    options.seeds = seed
    options.path = file
    _, make, _ = CHALLENGES["tw-cooking"]
    settings = {
        "recipe": ingredients,
        "take": 0,
        "cook": True,
        "cut": True,
        "open": False,
        "drop": False,
        "go": 1,
        "recipe_seed": 0,
        "split": "",
    }
    compile_game(make(settings, options), options)


if __name__ == "__main__":
    generate(seed=int(sys.argv[1]), ingredients=int(sys.argv[2]), file=sys.argv[3])
