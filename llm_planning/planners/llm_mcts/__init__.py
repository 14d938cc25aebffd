"""LLM-MCTS: tree search in a home, with a model's belief and a model's policy.

A model knows two things by common sense: where things lie, which makes a belief over the states of
a home, and what one does next, which makes a policy. Before every move a search draws states from
the belief, and the policy guides it. What is seen updates the belief.

    algorithm       Algorithm 1
    roles           whom a planner asks; the policy by rules
    positions       Section 2.2, C.2: where may the things of the goal be?  role `position`
    interpretation  Section 2.2, Listing 3: what does an instruction want?  role `goal`
    prior           Section 2.3: π̂ from answers in free words               role `prior`
    settings        the paper's numbers, and what the authors' code does otherwise
    baselines       the policy alone
    plus            LLM-MCTS+ (ours)
    playing         an episode at home, and what a run reports
    analysis/       Section 4 (policy against model, in bits, in travel and in multiplication);
                    Section 3.2 and Appendix D (why a run failed)
    exercises       questions of the three roles with right answers

The paper's UCT and uniform priors are settings of `llm-mcts`; `specs` names them. The home, its
belief and its fast rollouts are in `environments/household`.

Source: "Large Language Models as Commonsense Knowledge for Large-Scale Task Planning".
docs/llm_mcts.md has where Algorithm 1 is open, and what differs from the paper.
"""
