"""`python -m llm_planning`: the command without its script."""

from __future__ import annotations

import sys

from llm_planning.cli import main

if __name__ == "__main__":
    sys.exit(main())
