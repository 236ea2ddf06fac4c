"""`proxy.grounding.judging.grounder`: what becomes of each claim, and what happens when nobody can judge."""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from proxy.errors import ModelUnavailable
from proxy.exchange import Evidence
from proxy.exchange.judgements import Claim, ClaimPair, Judgement, Support
from proxy.grounding.claims.claims import claims_of
from proxy.grounding.evidence.gathering import EvidenceBase, LocatedEvidence, gather
from proxy.grounding.evidence.retrieval import EVIDENCE_CHARS
from proxy.grounding.judging.grounder import Grounder
from proxy.offloop import LARGE
from proxy.testing import HashEmbedder, ScriptedVerifiers, make_exchange

PARIS = "The Eiffel Tower is in Paris. It was finished in 1889."
FILLER = [f"Report {i} tells of gardens and rain in the valley." for i in range(80)]


def claim(text: str, **fields: object) -> Claim:
    return Claim(text, 0, len(text), **fields)


async def judged(
    texts: Sequence[str], content: str = PARIS, script: object = None, embedder: object = None, **fields: object
) -> tuple[list[Judgement], ScriptedVerifiers]:
    verifiers = ScriptedVerifiers(script)
    grounder = Grounder(verifiers, embedder=embedder, **fields)
    return await grounder.judge([claim(text) for text in texts], EvidenceBase([Evidence(content)]), tongue="en"), verifiers


async def test_a_supported_claim_has_its_sentence_with_its_place() -> None:
    (found,), _ = await judged(["The Eiffel Tower is in Paris"])

    assert (found.label, found.score, found.verifier, found.reason) == ("supported", 0.95, "scripted@1", "")
    assert found.evidence is not None
    assert found.evidence.text == PARIS[found.evidence.start : found.evidence.end] == "The Eiffel Tower is in Paris."


async def test_of_several_models_the_one_that_judged_is_named() -> None:
    found, _ = await judged(
        ["The Eiffel Tower is tall", "It was built in a hurry"],
        script=lambda pair: Support(0.9, by="large@1" if "tall" in pair.claim else ""),
    )

    assert ["large@1", "scripted@1"] == [one.verifier for one in found]


async def test_a_contradicted_claim_has_what_the_evidence_says_instead() -> None:
    (found,), _ = await judged(["The Eiffel Tower is in London"], script=lambda pair: Support(0.1, 0.8))

    assert (found.label, found.contradiction, found.instead) == ("contradicted", 0.8, "Paris")
    assert found.evidence is not None
    assert found.evidence.text == "The Eiffel Tower is in Paris."


async def test_a_claim_without_support_says_what_is_missing() -> None:
    (found,), _ = await judged(["The Eiffel Tower was finished in 1923"], script=lambda pair: Support(0.1, 0.2))

    assert found.label == "unsupported"
    assert "1923" in found.reason


@pytest.mark.parametrize(
    ("support", "label"),
    [
        (Support(0.5, 0.5), "supported"),
        (Support(0.49, 0.5), "contradicted"),
        (Support(0.49, 0.49), "unsupported"),
        (None, "error"),
    ],
)
async def test_labels_follow_the_thresholds(support: Support | None, label: str) -> None:
    (found,), _ = await judged(["The Eiffel Tower is in Paris"], script=lambda pair: support)

    assert found.label == label


async def test_thresholds_can_be_set() -> None:
    (found,), _ = await judged(["It is in Paris"], script=lambda pair: Support(0.6, 0.3), min_support=0.7, min_contradiction=0.3)

    assert found.label == "contradicted"


async def test_what_is_not_checkable_is_not_asked() -> None:
    verifiers = ScriptedVerifiers()
    claims = [claim("Hello!", checkable=False, reason="greeting"), claim("It was finished in 1889")]

    found = await Grounder(verifiers).judge(claims, EvidenceBase([Evidence(PARIS)]), tongue="en")

    assert [(j.label, j.reason, j.claim) for j in found] == [("not_checkable", "greeting", claims[0]), ("supported", "", claims[1])]
    assert [[pair.claim for pair in batch] for batch in verifiers.asked] == [["It was finished in 1889"]]


async def test_all_claims_are_asked_at_once_and_the_same_one_once() -> None:
    texts = ["It was finished in 1889", "The Eiffel Tower is in Paris", "It was finished in 1889"]

    found, verifiers = await judged(texts)

    assert [j.claim.text for j in found] == texts
    assert [len(batch) for batch in verifiers.asked] == [2]


async def test_each_place_of_the_same_claim_keeps_its_own_offsets() -> None:
    claims = [Claim("It was finished in 1889", 0, 23), Claim("It was finished in 1889", 40, 63)]

    found = await Grounder(ScriptedVerifiers()).judge(claims, EvidenceBase([Evidence(PARIS)]), tongue="en")

    assert [j.claim for j in found] == claims


async def test_the_same_words_of_two_things_are_judged_for_each() -> None:
    rows = "van,driver,battery\nVan 15,Lindqvist,40%\nVan 16,Dahl,81%"
    answer = "Van 15 is driven by Lindqvist. Its battery is at 81%. Van 16 is driven by Dahl. Its battery is at 81%."
    verifiers = ScriptedVerifiers(None)

    found = await Grounder(verifiers, only_certain=True).judge(claims_of(answer), EvidenceBase([Evidence(rows)]), tongue="en")

    assert [judgement.label for judgement in found] == ["supported", "contradicted", "supported", "supported"]


async def test_without_evidence_nothing_is_supported_and_nobody_asked() -> None:
    verifiers = ScriptedVerifiers(lambda pair: Support(1.0))

    (found,) = await Grounder(verifiers).judge([claim("Paris is large")], EvidenceBase([]))

    assert (found.label, found.reason, found.score) == ("unsupported", "no_evidence", None)
    assert verifiers.asked == []


@pytest.mark.parametrize("result", ["[]", '{"flights": []}'])
async def test_that_nothing_was_found_follows_from_an_empty_result_alone(result: str) -> None:
    evidence = EvidenceBase([Evidence(result, kind="tool_result")])

    found = await Grounder(ScriptedVerifiers(None)).judge([claim("No flights were found."), claim("Paris is large.")], evidence)

    assert [("supported", "recomputed"), ("unsupported", "")] == [(one.label, one.decided_by) for one in found]


async def test_evidence_that_has_nothing_to_do_with_a_claim_is_none() -> None:
    (found,), verifiers = await judged(["Xylophones sound"], " ".join(FILLER), lambda pair: Support(1.0))

    assert (found.label, found.reason, verifiers.asked) == ("unsupported", "no_evidence", [])


async def test_an_unavailable_verifier_makes_errors() -> None:
    verifiers = ScriptedVerifiers()
    verifiers.failure = ModelUnavailable("not loaded")
    claims = [claim("It was finished in 1889"), claim("Hello!", checkable=False, reason="greeting")]

    found = await Grounder(verifiers).judge(claims, EvidenceBase([Evidence(PARIS)]), tongue="en")

    assert [(j.label, j.reason) for j in found] == [("error", "verifier_unavailable"), ("not_checkable", "greeting")]


class Waiting(ScriptedVerifiers):
    """Never answers."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()
        self.cancelled = False

    async def verify(self, pairs: Sequence[ClaimPair]) -> list[Support | None]:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return []


async def test_a_missed_deadline_makes_errors() -> None:
    (found,) = await Grounder(Waiting()).judge(
        [claim("It was finished in 1889")], EvidenceBase([Evidence(PARIS)]), tongue="en", deadline_s=0.01
    )

    assert (found.label, found.reason) == ("error", "timeout")


async def test_cancelling_reaches_the_verifier_and_the_caller() -> None:
    verifier = Waiting()
    task = asyncio.create_task(
        Grounder(verifier).judge([claim("It was 1889")], EvidenceBase([Evidence(PARIS)]), tongue="en", deadline_s=60)
    )
    await verifier.begun.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert verifier.cancelled


async def test_evidence_for_each_claim_stays_within_the_budget() -> None:
    texts = ["Report 7 tells of rain", "Gardens and rain in the valley", "The Eiffel Tower is in Paris"]

    _, verifiers = await judged(texts, " ".join([*FILLER[:40], PARIS, *FILLER[40:]]))

    assert len(verifiers.asked[0]) == 3
    assert all(0 < len(pair.evidence) <= EVIDENCE_CHARS for pair in verifiers.asked[0])
    assert "The Eiffel Tower is in Paris." in verifiers.asked[0][2].evidence


class Twins(HashEmbedder):
    """One German sentence and its English translation are the same to it."""

    def __init__(self) -> None:
        self.embedded: list[str] = []
        self.failure: Exception | None = None

    async def embed(self, texts: Sequence[str], *, bulk: bool = False) -> np.ndarray:
        self.embedded += texts
        if self.failure is not None:
            raise self.failure
        same = {"Der Turm wurde 1889 fertig.": "finished", "Completion happened long ago": "finished"}
        return await super().embed([same.get(text, text) for text in texts])


MIXED = " ".join([*FILLER[:40], "Der Turm wurde 1889 fertig.", *FILLER[40:]])


async def test_another_language_is_found_by_similarity() -> None:
    _, verifiers = await judged(["Completion happened long ago"], MIXED, embedder=Twins())

    assert "Der Turm wurde 1889 fertig." in verifiers.asked[0][0].evidence


async def test_a_claim_that_words_explain_is_not_embedded() -> None:
    embedder = Twins()

    await judged(["Report 7 tells of gardens and rain"], MIXED, embedder=embedder)

    assert embedder.embedded == []


async def test_evidence_that_is_taken_whole_is_not_embedded() -> None:
    embedder = Twins()

    await judged(["Completion happened long ago"], embedder=embedder)

    assert embedder.embedded == []


async def test_without_the_embedder_evidence_is_found_by_words() -> None:
    embedder = Twins()
    embedder.failure = ModelUnavailable("not loaded")

    (found,), _ = await judged(["Report 7 tells of unicorns, dragons and elves"], MIXED, lambda pair: Support(0.1), embedder)

    assert embedder.embedded
    assert found.label == "unsupported"


async def test_of_much_evidence_only_the_nearest_pieces_are_embedded() -> None:
    embedder = Twins()
    content = "\n".join(f"Entry {i} speaks of gardens and rain in valley {i % 7}." for i in range(3000))

    await judged(["Entry 70 mentions unicorns, dragons and elves"], content, lambda pair: Support(0.1), embedder)

    assert 1 < len(embedder.embedded) <= 97


async def test_the_language_is_that_of_the_answer() -> None:
    verifiers = ScriptedVerifiers()
    base = EvidenceBase([Evidence("Der Turm steht in Paris.")])

    await Grounder(verifiers).judge([claim("Der Turm")], base, answer="Der Turm steht in Paris, und er ist sehr hoch.")

    assert verifiers.asked[0][0].language == "de"


@pytest.mark.parametrize("times", [1, LARGE // 10])
async def test_the_base_of_a_request_holds_what_it_said(times: int) -> None:
    exchange = make_exchange([{"role": "user", "content": "My number is 4711. " * times}])

    found = EvidenceBase(gather(exchange))

    assert found.sentences == ["My number is 4711."] * times
    assert found.distinct == 1


class EnglishOnly(ScriptedVerifiers):
    """Judges English alone."""

    def knows(self, language: str) -> bool:
        return language == "en"

    async def verify(self, pairs: Sequence[ClaimPair]) -> list[Support | None]:
        return [word if self.knows(pair.language) else None for pair, word in zip(pairs, await super().verify(pairs), strict=True)]


@pytest.mark.parametrize("only_certain", [False, True])
async def test_nobody_is_sure_of_a_claim_in_a_language_that_the_verifier_does_not_know(only_certain: bool) -> None:
    grounder = Grounder(EnglishOnly(), only_certain=only_certain)
    base = EvidenceBase([Evidence("The museum is closed on Mondays.")])

    (found,) = await grounder.judge([claim("Il museo del 1932 è chiuso.")], base, tongue="it")

    assert ("unsure", "unknown_language", None) == (found.label, found.reason, found.score)


async def test_nobody_is_sure_of_a_translation_of_what_the_verifier_cannot_read() -> None:
    class ReadsEnglish(EnglishOnly):
        async def verify(self, pairs: Sequence[ClaimPair]) -> list[Support | None]:
            return [word if "museum" in pair.evidence else None for pair, word in zip(pairs, await super().verify(pairs), strict=True)]

    base = EvidenceBase([Evidence("Музей закритий щопонеділка, а в неділю працює лише до обіду, до дванадцятої години.")])

    (found,) = await Grounder(ReadsEnglish()).judge([claim("It is closed on Mondays, and open until noon on Sundays.")], base, tongue="en")

    assert ("unsure", "unknown_language", "uk") == (found.label, found.reason, found.language)


ORDERS = "order,customer,status,total\nA-12,Lena Vogt,open,59\nA-13,Tom Reyes,cancelled,120"


@pytest.mark.parametrize(
    ("outdated", "text", "label"),
    [
        (True, "The status of A-12 is cancelled.", "unsupported"),
        (False, "The status of A-12 is cancelled.", "contradicted"),
        (True, "The total of A-12 is 120.", "unsupported"),
        (True, "2 + 2 = 5", "contradicted"),
    ],
)
async def test_what_a_call_may_have_changed_contradicts_nothing(outdated: bool, text: str, label: str) -> None:
    base = EvidenceBase([LocatedEvidence(ORDERS, "list_orders", "tool_result", 1, outdated=outdated)])

    (found,) = await Grounder(ScriptedVerifiers(None), only_certain=True).judge([claim(text)], base, tongue="en")

    assert label == found.label


async def test_a_verifiers_contradiction_by_what_may_have_changed_is_unsure() -> None:
    verifiers = ScriptedVerifiers(lambda pair: Support(0.02, 0.97, decides=True))
    base = EvidenceBase([LocatedEvidence("The kitchen light is on.", "states", "tool_result", 1, outdated=True)])

    (found,) = await Grounder(verifiers, only_certain=True).judge([claim("The kitchen light is off.")], base, tongue="en")

    assert ("unsure", "outdated") == (found.label, found.reason)


@pytest.mark.parametrize(("text", "label"), [("2 + 2 = 5", "contradicted"), ("Ответ 2 + 2 = 5 был бы ошибкой.", "unsure")])
async def test_other_words_of_an_unknown_language_may_say_that_a_calculation_is_wrong(text: str, label: str) -> None:
    base = EvidenceBase([Evidence("Сколько будет два плюс два?")])

    (found,) = await Grounder(EnglishOnly(), only_certain=True).judge([claim(text)], base, tongue="ru")

    assert label == found.label


async def test_what_the_evidence_says_word_by_word_is_supported_in_any_language() -> None:
    text = "Il museo è chiuso il lunedì."

    (found,) = await Grounder(EnglishOnly(), only_certain=True).judge([claim(text)], EvidenceBase([Evidence(text)]), tongue="it")

    assert ("supported", "literal") == (found.label, found.decided_by)


async def test_each_sentence_of_a_mixed_answer_is_judged_in_its_own_language() -> None:
    verifiers = EnglishOnly()
    claims = [
        claim("The museum in the old town is closed on Mondays and Tuesdays."),
        claim("Il museo della città vecchia è aperto anche il martedì mattina."),
    ]

    found = await Grounder(verifiers, only_certain=True).judge(claims, EvidenceBase([Evidence("The museum is closed.")]), tongue="en")

    assert ["", "it"] == [one.language for one in found]
    assert ("unsure", "unknown_language") == (found[1].label, found[1].reason)


@pytest.mark.parametrize(
    ("said", "label"),
    [("The old tower is 300 m tall. Is that much?", "unsure"), ("Our old tower is 300 m tall. Is that much?", "contradicted")],
)
async def test_what_a_user_says_of_the_world_contradicts_no_answer(said: str, label: str) -> None:
    verifiers = ScriptedVerifiers(lambda pair: Support(0.9) if "300" in pair.claim else Support(0.02, 0.95))

    (found,) = await Grounder(verifiers, only_certain=True).judge(
        [claim("The old tower is 330 m tall.")], EvidenceBase([Evidence(said, kind="user")]), tongue="en"
    )

    assert label == found.label
