"""The fixed texts of prompts, which a ledger keeps with the provenance of its results."""

import hashlib

from ledger_samples import PROVENANCE, USAGE, result_of, sweep_of_seeds, trial_number

from llm_planning.experiments.ledger import Ledger


def test_what_prompts_say_is_kept_once_for_each_provenance(tmp_path):
    prompts = {"propose": ("You propose.", "You go on."), "reward": ("You judge. \ud800",)}
    with Ledger.create(tmp_path / "new", sweep_of_seeds(3), PROVENANCE) as ledger:
        for seed in range(2):
            ledger.record(result_of(trial_number(seed), prompts=prompts), attempt=1, final=True)
    with Ledger.resume(tmp_path / "new", {"commit": "beef"}) as ledger:
        ledger.record(result_of(trial_number(2)), attempt=1, final=True)
        first, second = ledger.provenances.values()
        assert [row.result.usage["propose"] for row in ledger.rows()] == [USAGE] * 3
    assert "prompts" not in second
    texts_by_role = {role: list(texts.values()) for role, texts in first["prompts"]["too"].items()}
    assert texts_by_role == {
        "propose": ["You propose.", "You go on."],
        "reward": ["You judge. \\ud800"],
    }
    propose = first["prompts"]["too"]["propose"]
    assert propose[hashlib.sha256(b"You propose.").hexdigest()] == "You propose."
