"""Kitchens without TextWorld: a game that keeps to its cookbook, points and all."""

from dataclasses import replace

from llm_planning.environments.cooking.domain import COOKING, Cooking, Meal, Subgoal
from llm_planning.environments.cooking.kitchen import Kitchen, Reply
from llm_planning.environments.cooking.recipes import RULES


def sticky(folder, rate):
    """A file of roles by which rules answer a cook, right at a rate and alike to every agent."""
    path = folder / f"sticky-{rate}.yaml"
    path.write_text(
        "".join(f"{role}: {{rate: {rate}, kind: sticky}}\n" for role in ("tool", "action"))
    )
    return str(path)


COOKBOOK = "You open the cookbook.\n\nIngredients:\n  {foods}\n\nDirections:\n  {steps}\n"


class PaperGame:
    """Accepts the commands of its directions in order, a point each."""

    def __init__(self, *directions, name="paper"):
        self.name = name
        self.directions = directions
        self.foods = list(dict.fromkeys(food for _, food in directions))
        self.commands = []
        self.score = 0

    def send(self, command):
        self.commands.append(command)
        if command == "examine cookbook":
            steps = [f"{action} the {food}" for action, food in self.directions]
            text = COOKBOOK.format(
                foods="\n  ".join(self.foods), steps="\n  ".join([*steps, "prepare meal"])
            )
            return self.reply(text)
        if command == "take knife":
            return self.reply("You take the knife from the table.")
        expected = [*self.directions, ("prepare", "meal"), ("eat", "meal")][self.score]
        action = RULES[expected[0]].action
        if command.split(" with ")[0] != f"{action} {expected[1]}":
            return self.reply("You ruin the meal.", lost=True)
        self.score += 1
        return self.reply("Done.", won=expected[0] == "eat")

    def reply(self, text, *, won=False, lost=False):
        carried = " and ".join(f"a {thing}" for thing in (*self.foods, "knife"))
        return Reply(
            text=text, score=self.score, inventory=f"You carry {carried}.", won=won, lost=lost
        )


def paper_kitchen(*directions, name="paper"):
    return Kitchen(PaperGame(*directions, name=name))


def solution(direction):
    """The subgoal that carries a direction out."""
    rule = RULES[direction.action]
    return Subgoal(rule.action, direction.ingredient, rule.tools[0])


def cooking_in(kitchen):
    """A world of one kitchen, and the meal at its beginning."""
    world = Cooking()
    world._kitchens[kitchen.name] = kitchen
    return world, Meal(kitchen.name, kitchen.recipe, 0)


CUTS, HEATS = ("chop", "dice", "slice"), ("fry", "roast")
FOODS = ("carrot", "egg", "onion")


async def cut_and_cooked(specs):
    """Every game cuts and cooks its ingredients in a way that its number decides."""
    return [
        paper_kitchen(
            *(
                (verbs[(spec.seed + i) % len(verbs)], food)
                for i, food in enumerate(FOODS[: spec.ingredients])
                for verbs in (CUTS, HEATS)
            ),
            name=spec.name,
        )
        for spec in specs
    ]


PAPER_KITCHENS = replace(
    COOKING, open=lambda _, settings: Cooking(settings, kitchens_of=cut_and_cooked)
)
"""The domain with these games."""
