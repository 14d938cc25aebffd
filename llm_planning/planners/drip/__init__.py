"""DRIP: planning by backward decomposition, its baselines, and DRIP+.

A goal is broken down into the subtasks right before it. Subtasks that can be carried out are; the
others are broken down again. The subtasks form a reasoning tree. Three roles are asked:

    decompose   which subtasks come right before this one?           Domain.decompose
    judge       done already, executable ('true') or not ('false')?  Domain.judge
    apply       what is the state after this subtask?                Domain.step

`algorithm` is Algorithm 1 (Section 3), level by level, with the readings that it lists.

`plus` is ours: the reading `redo`, and DRIP+, depth first. There each entry is judged when its turn
comes, so no verdict goes stale:

    achieve(n):  judge n in the present state
                 done  -> close n
                 true  -> apply what `Domain.spared` puts in its place, close n
                 false -> decompose n; nothing new to do: give n up
                          achieve(child) for every child, in order; judge n again
    root:        until the goal holds: decompose what is open of the goal, achieve(child) in order

    baselines   ReAct, Chain of Thought, Plan-and-Solve (Sections 4.1.2 and 4.2.1)
    roles       what is asked, in which words, and what is right (Tables 7 to 11)
    acting      S_t and π: who decomposes, judges and applies; the limits; programs (Section 4.2.1,
                Table 12)
    tree        T
    outcome     whose error a failed plan is (Table 2)
    exercises   questions with right answers, to measure and to teach by

Source: "DRIP: Decompositional Reasoning for Robust and Iterative Planning with LLM Agent",
Algorithm 1, Sections 3 and 4, Tables 1 to 12. docs/drip.md has its open lines, and what differs.
"""
