"""Writes what follows from the seeded skills of Minecraft and its control primitives.

    python scripts/minecraft_skills.py [--check]

Each skill has a program and a JSON file, in `environments/minecraft/options/skills/NAME`. The JSON
file keeps the digests of the program and of the functions. After a change of either, run the tests
of the skills, then this. With --check nothing is written; a file that differs is an error.
"""

from __future__ import annotations

import json
import sys
from hashlib import sha256
from pathlib import Path

from llm_planning.environments import minecraft
from llm_planning.environments.minecraft.options.primitives import MinecraftPrimitives

SKILLS = Path(minecraft.__path__[0]) / "options" / "skills"


def main() -> int:
    """Writes the files, or checks them; returns the exit code."""
    stale = []
    for path in sorted(SKILLS.glob("*/*.json")):
        known = json.loads(path.read_text("utf-8"))
        digest = sha256(path.with_suffix(".js").read_bytes()).hexdigest()
        known |= {"primitives": MinecraftPrimitives().version, "sha256": digest}
        text = json.dumps(known, indent=2) + "\n"
        if text != path.read_text("utf-8"):
            stale.append(path)
            if "--check" not in sys.argv:
                path.write_text(text, "utf-8")
    for path in stale:
        print(path.relative_to(SKILLS))
    return int("--check" in sys.argv and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
