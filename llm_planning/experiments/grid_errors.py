"""The one error that a sweep's configuration can cause."""

from __future__ import annotations

_LONGEST_VALUE = 80


class SweepConfigError(ValueError):
    """A sweep's configuration says something impossible; the message is one printable line."""

    def __init__(self, message: str) -> None:
        if not message.isprintable():
            message = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in message)
        super().__init__(message)


def shown(value: object) -> str:
    """A value as a message quotes it: in one line, and cut off where it is long."""
    text = repr(value[:_LONGEST_VALUE] if isinstance(value, str | list) else value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."


def key_path(path: str, key: str) -> str:
    """The path of a key in the mapping at a path."""
    name = key if key.replace("-", "_").isidentifier() and len(key) < _LONGEST_VALUE else shown(key)
    return f"{path}.{name}" if path else name
