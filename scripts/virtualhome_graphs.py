"""Has VirtualHome's executor carry out the expert's plans in every graph of the extra.

    python scripts/virtualhome_graphs.py

Of each of the 518 graphs there are two tasks: a simple one and one of two goals. It prints how many
actions there were, and each that the executor refused. It takes a minute of one core.
"""

from __future__ import annotations

import sys
from collections import Counter

from llm_planning.environments.bridges.virtualhome import installed, read_scene
from llm_planning.environments.bridges.virtualhome_executor import replay
from llm_planning.environments.household.tasks import TaskMaker, trajectory

SEED = 1
CLASSES = ("simple", "comp")


def main() -> int:
    """Prints the counts.

    Returns:
        0; or 1 if an action was refused or a goal does not hold in the executor's graph.
    """
    counts: Counter[str] = Counter()
    for path in sorted(installed().glob("dataset/*/init_and_final_graphs/*/*/*.json")):
        scene = read_scene(str(path))
        maker = TaskMaker(scene.home)
        counts["graphs"] += 1
        for name in CLASSES:
            task = maker.task(name, 1, seed=SEED)
            actions = trajectory(task).actions
            found = replay(task, scene, actions)
            counts["tasks"] += 1
            counts["actions"] += len(actions)
            counts["taken"] += sum(not step.refusal for step in found.steps)
            counts["reached"] += found.reached
            if found.refusal:
                print(f"{path.name}, {name}: {found.refusal}", file=sys.stderr)
    print(
        f"{counts['graphs']} graphs, {counts['tasks']:,} tasks: the executor took "
        f"{counts['taken']:,} of {counts['actions']:,} actions, and {counts['reached']:,} goals "
        "hold in its graph"
    )
    return int(counts["taken"] < counts["actions"] or counts["reached"] < counts["tasks"])


if __name__ == "__main__":
    sys.exit(main())
