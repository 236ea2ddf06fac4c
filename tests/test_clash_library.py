"""The library: from a plain function, from a running loop, with rules and with a verifier."""

from __future__ import annotations

from proxy.clash import Resolution, StatementClash, detect_clash, detect_clash_async, resolve_clash
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


async def test_it_can_be_awaited_in_any_loop() -> None:
    assert ["budget"] == [found.topic for found in await detect_clash_async(BUDGETS, **models())]


def test_a_verifier_finds_what_no_rule_knows() -> None:
    said = ["The city museum opens at nine in the morning.", "The city museum opens at noon."]
    assert [True] == [found.score > 0.5 for found in detect_clash(said, **models())]


def test_pairs_that_are_known_are_not_judged_again() -> None:
    (found,) = detect_clash(BUDGETS, **models())
    assert [] == detect_clash(BUDGETS, known=[found.pair_hash], **models())


def test_a_change_of_mind_is_told_as_one() -> None:
    (found,) = detect_clash(["I prefer budget hotels.", "Actually, make it luxury."], **models())
    assert ("OUTDATED_INFORMATION", True) == (found.type, found.update)
