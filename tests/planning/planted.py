"""A working directory that somebody else has filled: modules of well-known names that tell."""

NAMES = ("struct", "socket", "selectors", "llm_planning/__init__")
"""The first three are imported by `multiprocessing`."""


def plant(folder):
    """Fills a folder with modules; whichever is run writes the file `ran`."""
    tells = f"open({str(folder / 'ran')!r}, 'a').write(__name__ + ' ')\n"
    (folder / "llm_planning").mkdir()
    for name in NAMES:
        (folder / f"{name}.py").write_text(tells)
    return folder


def ran(folder):
    """What was run of a folder's modules, by name."""
    mark = folder / "ran"
    return mark.read_text().split() if mark.exists() else []
