"""XENON: an agent that learns what items require and which actions obtain them.

It sets itself goals, plans by a graph of what it believes, and acts. Where all actions fail at an
item, it doubts the requirements rather than the actions. Asked are

    predict   what does this item require?       before the first step
    choose    which action obtains this item?    where none is known to work

`algorithm` is the paper's class `Xenon`: Algorithm 1 (`learn`, `pursue`, `carry_out`), Algorithm 3
(`revise`), Algorithm 4 (`select_action`), and DEX (`select_goal`). What it stands on:

    graph     Ĝ, aggregated requirements, Algorithm 2, the human-written plans
    memory    what experience has shown (Appendix C), FAM's counts, similar names
    roles     the questions, their words, what is right; `asking` says who answers
    beliefs   answers with the errors of Table 12

`baselines` overrides what SC, DECKARD, ADAM, RAND and the ablations do otherwise. `plus` is XENON+.

    learning        a run of episodes; the names of the agents; `learning_report`, `saved`
    given_goal      one goal with the true graph (Figure 25)
    goal_planning   one goal on a controller, with reprompting (Table 3)
    cooking         runs in the kitchen (Table 6); `cooking_agent`, `cooking_roles`

Source: "Experience-based Knowledge Correction for Robust Planning in Minecraft". docs/xenon.md has
what is decided here beyond the algorithms, and what differs from the paper.
"""
