"""Tree of Options (ToO): options are proposed, checked, imagined and judged in a tree.

    algorithm.py   Algorithm 1 (Section 3.1, Appendix A.6)
                       SEARCH       `search`
                       SIMULATE     `llm_planning.search.search`, which all planners share
                       ROLLOUT      `evaluate` (24, 27, 33), and `options` for Ω (25, 26, 30)
                       LLM_propose, LLM_feasibility: `propose`, `check`; LLM_termination: `options`
                       LLM_dynamics: `predict` (28, 31); LLM_reward: `imagine` (29)
    baselines.py   Section 4.4: ToO w/o WM, ToO w/o FC; Section 4.1: ToT-MCTS, and both ReActs
    plus.py        ToO+ (ours): it watches the execution and plans again; effects.py remembers
    roles.py       what is asked, and what is right: equations 1 to 6, Appendix A
    asking.py      who answers; what rules see where nobody predicts
    older_words.py the words in which the bundled adapter was taught
    exercises.py   questions with right answers, to measure and to teach by
    settings.py    Table 3; `d`, its L as well, is in execution/option_settings.py
    specs.py       the planners' names
    outcome.py     the tree in traces and metrics

Shared with DRIP, in `llm_planning/execution/`:

    options.py      Algorithm 2 (Section 3.2, Appendix B): `Executing.execute`
    policies.py     in-option policies π_ω: verbs, skills, programs
    option_roles.py LLM_in-option, LLM_β, and the whole plan of Chain of Thought
    whole_plans.py  a plan is written at once, executed, and told

Source: "Tree of Options: Temporally Extended World Modeling, Planning, and Execution with Large
Language Models". docs/tree-of-options.md has where Section 3.1 and Algorithm 1 differ, how that is
read, and what differs from the paper.
"""
