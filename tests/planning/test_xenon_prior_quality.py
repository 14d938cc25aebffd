import pytest

from llm_planning.environments.minecraft.goals import GOALS_67
from llm_planning.environments.minecraft.rulebook import Rule, RuleBook
from llm_planning.planners.xenon.prior_quality import PUBLISHED, quality

BOOK = RuleBook(
    {
        rule.item: rule
        for rule in (
            Rule(item="logs", action="mine"),
            Rule(item="planks", action="craft", consumed={"logs": 1}, makes=4),
            Rule(item="stick", action="craft", consumed={"planks": 2}, makes=4),
            Rule(item="crafting_table", action="craft", consumed={"planks": 4}),
            Rule(
                item="wooden_pickaxe",
                action="craft",
                consumed={"planks": 3, "stick": 2},
                kept={"crafting_table": 1},
            ),
        )
    }
)


def test_rows_by_hand():
    measured = quality(
        {
            "planks": {"logs": 1},
            "stick": {"planks": 3},
            "crafting_table": {"logs": 4},
            "wooden_pickaxe": {"planks": 1, "stick": 2, "oak_stick": 1},
            "oak_stick": {},
        },
        BOOK,
    )
    # Six names: the five asked for and logs. Four of those asked for exist.
    assert measured.rows() == {
        "items": 6,
        "right_items": 2 / 4,  # planks, stick
        "exact": 1 / 4,  # planks
        "nonexistent": 1 / 6,
        "after_nonexistent": 1 / 6,  # wooden_pickaxe
        "unnecessary": 2 / 4,  # crafting_table, wooden_pickaxe
        "omitted": 2 / 4,  # the same two
        "quantity_std": 1.5,  # of +1 (stick) and -2 (wooden_pickaxe) around -0.5
        "quantity_absolute": 1.5,
        "quantity_signed": -0.5,
    }


def test_the_truth_is_perfect_and_has_no_errors_of_quantity():
    measured = quality({v: BOOK.requirements(v) for v in BOOK.rules}, BOOK)
    assert (measured.right_items, measured.exact) == (1, 1)
    assert (measured.unnecessary, measured.omitted, measured.nonexistent) == (0, 0, 0)
    assert measured.quantity_std is measured.quantity_absolute is measured.quantity_signed is None
    assert "quantity_std" not in measured.rows()


def test_what_needs_a_nonexistent_item_indirectly_counts_and_circles_end():
    measured = quality({"stick": {"planks": 1}, "planks": {"stick": 1, "oak_planks": 1}}, BOOK)
    assert measured.items == 3
    assert measured.after_nonexistent == 2 / 3


def test_nothing_predicted_has_no_shares():
    assert quality({}, BOOK).rows() == {"items": 0}


def test_published_errors_are_impossible_for_all_quantities():
    """Why the quantity rows are taken over wrong quantities: no prediction is below 1."""
    book = RuleBook.load()
    quantities = [q for v in GOALS_67 for q in book.requirements(v).values()]
    missing_at_most = sum(q - 1 for q in quantities) / len(quantities)
    missing = (PUBLISHED.quantity_absolute - PUBLISHED.quantity_signed) / 2
    assert missing == pytest.approx(1.30)
    assert missing_at_most < missing
