"""DRIP: planning by backward decomposition, its baseline ReAct, and DRIP+.

A goal is broken down into the subtasks right before it. Subtasks that can be carried out are; the
others are broken down again. The subtasks form a reasoning tree (`tree`). Three roles are asked:

    decompose   which subtasks come right before this one?           Domain.decompose
    judge       done already, executable ('true') or not ('false')?  Domain.judge
    apply       what is the state after this subtask?                Domain.step

`levels` is Algorithm 1, level by level, as printed (`literal`) and with our reading `redo`.

`agenda` is DRIP+, depth first. Each entry is judged when its turn comes, so no verdict goes stale:

    achieve(n):  judge n in the present state
                 done  -> close n
                 true  -> apply what `Domain.spared` puts in its place, close n
                 false -> decompose n; nothing new to do: give n up
                          achieve(child) for every child, in order; judge n again
    root:        until the goal holds: decompose what is open of the goal, achieve(child) in order

`acting` is what a plan is made with: the state, as the planner believes it, and the limits.

Source: "DRIP: Decompositional Reasoning for Robust and Iterative Planning with LLM Agent",
Algorithm 1, Sections 3 and 4, Tables 5 to 11.
"""
