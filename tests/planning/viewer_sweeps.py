"""Sweeps for the tests of their pages; no test module itself."""

import base64
import gzip
import json
import re
from dataclasses import replace

from report_ledgers import result_of, trial_of

WORLDS = {
    "minecraft": {"too": 0.9, "cot": 0.4, "uct": 0.5},
    "blocksworld": {"too": 0.5, "uct": 0.7},
    "textgame": {"uct": 0.2},
}
EXCLUDED = [
    {
        "planners": {"too": {}, "cot": {}},
        "domain": ["blocksworld"],
        "exclude": [{"planner": ["cot"]}],
    },
    {"planners": {"too": {}, "uct": {}}, "exclude": []},
]
HOSTILE = "</script><img src=x onerror=\"document.title='owned'\">"


def several_worlds(*, seeds=6, traced=True):
    """Trials of three planners in three worlds; the rates are those above, by the seed's number."""
    return [
        replace(
            result_of(
                replace(trial_of(planner, task=f"{domain}-task", seed=seed), domain=domain),
                success=seed < round(rate * seeds),
                calls=seed + 1,
            ),
            trace={"moves": [{"action": "dig"}]} if traced else {},
            started=1_700_000_000.0 + seed,
        )
        for domain, planners in WORLDS.items()
        for planner, rate in planners.items()
        for seed in range(seeds)
    ]


def block_of(page, name):
    """The data in a page."""
    match = re.search(rf'id="block-{name}">([^<]*)<', page.read_text())
    return json.loads(gzip.decompress(base64.b64decode(match[1])))
