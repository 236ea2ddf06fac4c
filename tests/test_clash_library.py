"""The library: from a plain function, from a running loop, with rules and with a verifier."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.clash import Resolution, StatementClash, detect_clash, resolve_clash
from proxy.exchange.judgements import ClaimPair, Support
from proxy.testing import HashEmbedder, ScriptedVerifiers

BUDGETS = [
    {"role": "user", "content": "A hotel in Rome, please. My budget is 500 €.", "timestamp": 1000.0},
    {"role": "assistant", "content": "With pleasure."},
    {"role": "user", "content": "My budget is 900 €.", "timestamp": 8200.0},
]


def models() -> dict[str, object]:
    return {"embedder": HashEmbedder(), "verifier": ScriptedVerifiers(opens_twice)}


def opens_twice(pair: ClaimPair) -> Support:
    return Support(0.01, 0.99) if "opens" in pair.claim and "opens" in pair.evidence else Support(0.05, 0.05)


def test_a_plain_call_finds_the_clash_and_resolves_it() -> None:
    (found,) = detect_clash(BUDGETS, **models())
    assert isinstance(found, StatementClash)
    assert ("CONTRADICTORY_PREFERENCES", "My budget is 500 €.", "My budget is 900 €.") == (found.type, found.older.text, found.newer.text)
    done = resolve_clash(found, "prefer_recent", now=11_800.0)
    assert isinstance(done, Resolution)
    assert ((found.older,), "new statement is more recent (1 h against 3 h)") == (done.dropped, done.reason)


def test_a_verifier_finds_what_no_rule_knows() -> None:
    said = ["The city museum opens at nine in the morning.", "The city museum opens at noon."]
    assert [True] == [found.score > 0.5 for found in detect_clash(said, **models())]


def test_pairs_that_are_known_are_not_judged_again() -> None:
    (found,) = detect_clash(BUDGETS, **models())
    assert [] == detect_clash(BUDGETS, known=[found.pair_hash], **models())


def test_a_change_of_mind_is_told_as_one() -> None:
    (found,) = detect_clash(["I prefer budget hotels.", "Actually, make it luxury."], **models())
    assert ("OUTDATED_INFORMATION", True) == (found.type, found.update)


def test_times_in_iso_8601_say_which_statement_is_the_newer_one_wherever_it_stands() -> None:
    said = [
        {"role": "user", "content": "I live in Oslo.", "timestamp": "2025-11-16T09:30:00"},
        {"role": "user", "content": "I live in Rome.", "timestamp": "2025-11-14T10:30:00"},
    ]
    (found,) = detect_clash(said, **models())
    done = resolve_clash(found, "prefer_recent", now=1763289000.0)
    assert ("I live in Rome.", "new statement is more recent (1 h against 48 h)") == (done.dropped[0].text, done.reason)


def test_a_memory_in_the_system_message_is_older_than_what_the_user_says() -> None:
    said = [
        {"role": "system", "content": "Be brief.\n\n## User memory\nThe user lives in Oslo.\n"},
        {"role": "user", "content": "I live in Rome."},
    ]
    (found,) = detect_clash(said, **models())
    assert ("memory", "user", True) == (found.older.origin, found.newer.origin, found.certain)


@pytest.mark.parametrize("said", [[1], [None], 5])
def test_what_is_neither_a_text_nor_a_message_is_refused(said: Any) -> None:
    with pytest.raises(TypeError):
        detect_clash(said, **models())
