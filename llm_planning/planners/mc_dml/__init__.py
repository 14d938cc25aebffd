"""MC-DML: Monte Carlo planning with a dynamic memory-guided LLM, its ablations and baselines.

Before every move a tree is grown from the present state. An LLM policy π guides it, which reads the
last turn (the in-trial memory ℳ_i) and reflections on simulations that failed (the cross-trial
memory ℳ_c). If nothing of value is found, a deeper tree is grown (dynamic pruning).

    algorithm    Algorithm 1, and the dynamic pruning of Section 4.1
    roles        Section 3.1: the two questions, `prior` and `reflection`, in words and by rules
    settings     Section 4.1, Appendix B, and what the authors' code does otherwise
    baselines    Appendix B: the LLM agent and the Reflection agent
    specs        Table 3: every ablation and baseline as a row of parts
    playing      how a game is played, what a run reports, the statistics of a bait (Table 4)
    walkthrough  Table 5
    exercises    questions about π with right answers, of generated games

It plans in any world that does not hide its state. A text game says itself what it is about; of any
other world, the goal is told where a game lists the player's belongings (`roles.observe`).

Source: "Monte Carlo Planning with Large Language Model for Text-Based Games". docs/mc_dml.md
has what the paper leaves open, and what differs.
"""
