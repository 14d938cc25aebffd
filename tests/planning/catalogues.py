"""Tests list planners and domains of their own."""


def listed(monkeypatch, catalogue, name, spec):
    """Lists a spec in a catalogue until the test is over; one of this name gives way."""
    monkeypatch.setitem(catalogue._places, name, "a_test:SPEC")
    monkeypatch.setitem(catalogue._loaded, name, spec)
