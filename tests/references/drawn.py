"""What the comparisons share: answers by hash, and how often worlds are drawn."""

from functools import partial
from hashlib import blake2b

from hypothesis import Phase, settings


def hashed(*key):
    """A number in [0, 1) for a key."""
    return int.from_bytes(blake2b(repr(key).encode(), digest_size=4).digest(), "big") / 2**32


# A world that is drawn by a seed does not get simpler.
worlds = partial(settings, deadline=None, derandomize=True, phases=[Phase.generate])
"""Settings of a comparison; `max_examples` says in how many worlds."""
