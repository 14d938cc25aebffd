"""What was recorded on a GPU decides which backend `auto` takes there."""

import pytest

from llm_kernels import cards, choose_backend, similarity
from llm_kernels.cards import Card, TimedSearch, read_cards, write_card

SIZES = {
    (10_000, 1): {"triton": 90e-6, "torch": 80e-6},
    (10_000, 512): {"triton": 2e-3, "torch": 1e-3, "faiss": 0.5e-3},
    (10_000_000, 1): {"triton": 2e-3, "torch": 3e-3, "faiss": 9e-3},
    (10_000_000, 512): {"faiss": 21e-3, "triton": 22e-3, "torch": 50e-3},
}


def card():
    """Figures that nobody measured."""
    return Card(
        name="a card",
        date="2000-01-01",
        versions={"torch": "1"},
        searches=tuple(
            TimedSearch(
                rows=rows,
                dimension=384,
                queries=queries,
                k=10,
                dtype="float16",
                seconds=seconds,
            )
            for (rows, queries), seconds in SIZES.items()
        ),
    )


@pytest.fixture
def chosen(monkeypatch):
    """What `auto` takes on a card, where all but the named backends can run."""
    gone = []
    monkeypatch.setattr(
        similarity, "_unavailable", lambda name, _: "gone" if name in gone else None
    )

    def choose(*, rows, queries, on=None, without=(), **others):
        monkeypatch.setattr(similarity, "card_of", lambda device: on or card())
        gone[:] = without
        size = {"dimension": 384, "k": 10, "dtype": "float16"} | others
        return choose_backend(device="cuda", rows=rows, queries=queries, **size)

    return choose


@pytest.mark.parametrize("recorded", [card(), *read_cards().values()], ids=lambda one: one.name)
def test_auto_takes_the_winner_of_every_recorded_size(chosen, recorded):
    for search in recorded.searches:
        size = {name: getattr(search, name) for name in ("rows", "queries", "k", "dimension")}
        winner = min(search.seconds, key=search.seconds.get)
        assert chosen(**size, dtype=search.dtype, on=recorded) == winner


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ({"rows": 90_000, "queries": 8}, "torch"),
        ({"rows": 3_000_000, "queries": 8}, "triton"),
        ({"rows": 3_000_000, "queries": 100}, "faiss"),
        ({"rows": 10_000_000, "queries": 512, "without": ["faiss"]}, "triton"),
        ({"rows": 10_000_000, "queries": 512, "without": ["faiss", "triton"]}, "torch"),
        ({"rows": 10_000_000, "queries": 512, "k": 2033}, "torch"),
        ({"rows": 10_000_000, "queries": 1, "contiguous": False}, "torch"),
        # Nothing of this dtype was recorded.
        ({"rows": 10_000, "queries": 1, "dtype": "float32"}, "triton"),
    ],
)
def test_between_them_it_takes_the_winner_nearby_that_can_search(chosen, size, expected):
    assert chosen(**size) == expected


def test_a_written_card_is_read_as_it_was(tmp_path):
    write_card(tmp_path / "any-name.json", card())
    assert read_cards(tmp_path) == {"a card": card()}


def test_a_card_is_known_by_its_name(monkeypatch, tmp_path):
    import torch

    write_card(tmp_path / "one.json", card())
    known = read_cards(tmp_path)
    monkeypatch.setattr(cards, "read_cards", lambda: known)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    names = {"cuda:0": "another card", "cuda:1": "a card"}
    monkeypatch.setattr(torch.cuda, "get_device_name", names.__getitem__)
    cards.card_of.cache_clear()
    try:
        assert [cards.card_of(device) for device in names] == [None, card()]
    finally:
        cards.card_of.cache_clear()
