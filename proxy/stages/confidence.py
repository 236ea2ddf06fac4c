"""The stage `confidence`: is the answer as sure of itself as its evidence allows, and is it supported well enough?

After `claims` and `citations`, whatever the policy's order. The answer's own rating (``Confidence: HIGH``, as `faithful` asks for) is
compared with what its claims carry: the share of them that is supported, less the share that is contradicted, since a wrong statement
misleads more than a bare one. The header says where the rating promises more; it is a warning, and the answer can be replaced or refused,
only where the evidence contradicts a claim and the faithfulness is below `min_confidence`. Where the upstream gave log probabilities, what
they say is reported beside it; it decides nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from proxy.context.conversation import last_user_text
from proxy.context.faithful import extract_confidence
from proxy.context.faithful_texts import no_answer
from proxy.exchange import Choice, Exchange, Outcome, Verdict
from proxy.exchange.judgements import faithfulness, share_labelled
from proxy.grounding.quality import refresh
from proxy.language.json.strings import strings_of
from proxy.offloop import SENTENCES, run_in_thread_if_large
from proxy.ports.stage import Action, Share, Stage, StageHeader, StageOptions

REASON = "insufficient confidence in claim accuracy"
INSUFFICIENT = "insufficient_confidence"


PROMISED_SHARE = {"HIGH": 0.9, "MEDIUM": 0.5}
"""Share of claims supported, less the share contradicted, that a rating promises; below it is overclaimed. LOW promises nothing."""


class ConfidenceOptions(StageOptions, frozen=True, kw_only=True):
    """``confidence:``"""

    removed = dict.fromkeys(("high", "medium"), "leave it out: HIGH promises 0.9 of the claims, MEDIUM half of them")
    min_confidence: Annotated[
        Share,
        Meta(
            description="support (the answer's faithfulness) below which an answer is not trusted that "
            "rates itself higher than claims which its evidence contradicts allow"
        ),
    ] = 0.8
    action: Annotated[
        Literal["annotate", "replace", "block"],
        Meta(
            description="what becomes of such an answer: annotate (a warning), replace (the no-answer text; under gate, where text has "
            "left, as block) or block (400 policy_blocked); what is not annotate needs the stage claims"
        ),
    ] = "annotate"
    replacement: Annotated[
        str | Mapping[str, str],
        Meta(description="replace: the text, or texts by language; without one of the answer's language, relevance's"),
    ] = {}


class Assessment(Struct, frozen=True):
    """What was found of one choice."""

    rating: str | None
    """Its own: HIGH, MEDIUM or LOW."""
    support: float | None
    """Its faithfulness: the expected share of supported claims."""
    carried: float | None
    """Share of claims supported, less the share contradicted, not below 0."""
    promised: float
    """What its rating promises."""
    unchecked: bool
    """Whether a claim's check could not run."""

    @property
    def overclaimed(self) -> bool:
        """Whether the rating promises more than the claims carry."""
        return self.carried is not None and self.carried < self.promised

    wrong: bool = False
    """Whether the evidence contradicts a claim."""

    @property
    def misleads(self) -> bool:
        """Whether it promises more than its claims carry, of which one is plainly wrong."""
        return self.overclaimed and self.wrong

    @property
    def calibration(self) -> float | None:
        """1, or the share of the promise that is kept; None without a rating or checked claims."""
        if self.rating is None or self.carried is None:
            return None
        return self.carried / self.promised if self.overclaimed else 1.0


COUNTERS = {
    "confidence.checked_count": "claims with a rating of their own",
    "confidence.overclaimed_count": "claims rated higher than the evidence carries",
    "confidence.underclaimed_count": "answers rated lower",
    "confidence.rejected_count": "claims taken out as too weak",
}


class Confidence(Stage[ConfidenceOptions]):
    """Compares the answer's own confidence with its measured support; warns of, replaces or refuses one that is surer than it may be."""

    name = "confidence"
    Options = ConfidenceOptions
    changes = ("answer",)
    counters = COUNTERS
    headers = (
        StageHeader(
            "confidence",
            "the answer's own rating: HIGH, MEDIUM, LOW or none; ;overclaimed where the evidence does not carry it",
            lambda facts, _: facts.confidence,
        ),
    )
    reports = ("x-groundwire-quality", "overclaimed", INSUFFICIENT, "confidence_unchecked")
    answers_after = ("schema", "claims", "citations")

    @classmethod
    def blocks_answers(cls, options: ConfidenceOptions) -> bool:
        """Every action but annotate."""
        return options.action != "annotate"

    @classmethod
    def actions(cls, options: ConfidenceOptions) -> tuple[Action, ...]:
        """All about answers with a claim that `claims` found contradicted: what is left is a comparison of numbers."""
        refused = (Action("block", INSUFFICIENT),) if options.action != "annotate" else ()
        return (Action("warn", "overclaimed"), Action("warn", INSUFFICIENT), *refused)

    @classmethod
    def needs(cls, options: ConfidenceOptions) -> tuple[str, ...]:
        """The claims, where it acts on their support."""
        return ("claims",) if options.action != "annotate" else ()

    async def on_answer(self, exchange: Exchange) -> Verdict | None:
        """Assess every choice, act on the least supported, and sum up."""
        if exchange.answer is None:
            return None
        says = [choice for choice in exchange.answer.choices if _says(choice)]
        found = {c.index: await run_in_thread_if_large(len(c.text) * SENTENCES, self._assess, exchange, c) for c in says}
        if not found:
            return Verdict(self.name, "unchecked", detail={"reason": "no text"})
        rated = _header(list(found.values()), verified=_all_verified(exchange))
        exchange.facts.confidence = rated.removesuffix(";underclaimed")
        calibrations = [known for one in found.values() if (known := one.calibration) is not None]
        refresh(exchange, {"calibration": min(calibrations, default=None)})
        detail = self._detail(found, rated)
        self._count(found.values(), rated)
        least = self.options.min_confidence
        weak = {index: one for index, one in found.items() if one.misleads and one.support is not None and one.support < least}
        if weak:
            return self._reject(exchange, weak, found, detail)
        score = min((one.support for one in found.values() if one.support is not None), default=None)
        if self.options.action != "annotate" and (any(one.unchecked for one in found.values()) or self._without_claims(exchange)):
            return Verdict(self.name, "error", code="confidence_unchecked", score=score, detail=detail)
        over = any(one.misleads for one in found.values())
        outcome: Outcome = "warn" if over else "unchecked" if score is None else "pass"
        return Verdict(self.name, outcome, code="overclaimed" if over else "", score=score, detail=detail)

    def _assess(self, exchange: Exchange, choice: Choice) -> Assessment:
        judgements = exchange.judgements.get(choice.index, ())
        rating = extract_confidence(exchange.marked.get(choice.index, choice.text))
        right, wrong = (share_labelled(label, judgements) or 0.0 for label in ("supported", "contradicted"))
        share = faithfulness(judgements)
        carried = None if share is None else max(0.0, right - wrong)
        promised = PROMISED_SHARE.get(rating or "", 0.0)
        unchecked = any(judgement.label == "error" for judgement in judgements)
        return Assessment(rating, share, carried, promised, unchecked, bool(wrong))

    @staticmethod
    def _without_claims(exchange: Exchange) -> bool:
        """Whether the client has left out the stage that this one acts upon."""
        return bool(exchange.skip & {"claims", "all"})

    # ---- acting ----

    def _reject(
        self, exchange: Exchange, weak: Mapping[int, Assessment], found: Mapping[int, Assessment], detail: Mapping[str, Any]
    ) -> Verdict:
        """An answer that misleads, with too little support: warn, replace or block."""
        lowest = min(one.support or 0.0 for one in weak.values())
        self.ports.counters.count("confidence.rejected_count", len(weak))
        if any(one.misleads for one in found.values()):
            exchange.verdicts.append(Verdict(self.name, "warn", code="overclaimed"))
        told = {**detail, "reason": REASON, "action": self.options.action}
        if self.options.action == "block" or (self.options.action == "replace" and exchange.gated):
            message = f"{REASON}: support {lowest:.2f}, the policy asks for {self.options.min_confidence:.2f}"
            return Verdict(self.name, "block", code=INSUFFICIENT, score=lowest, detail=told, message=message)
        if self.options.action == "replace" and exchange.answer is not None:
            for choice in exchange.answer.choices:
                if choice.index in weak and (text := self._instead(exchange, choice)) is not None:
                    exchange.answer = exchange.answer.with_text(choice.index, text)
                    exchange.changes.append({"stage": self.name, "what": "replace", "choice": choice.index})
        return Verdict(self.name, "warn", code=INSUFFICIENT, score=lowest, detail=told)

    def _instead(self, exchange: Exchange, choice: Choice) -> str | None:
        """The no-answer text in the answer's language; None where it would not be the JSON that the answer is."""
        if choice.text.lstrip()[:1] in ("{", "[") and strings_of(choice.text) is not None:
            return None
        return no_answer(self.options.replacement, choice.text, last_user_text(exchange.conversation))

    # ---- summing up ----

    def _detail(self, found: Mapping[int, Assessment], rated: str) -> dict[str, Any]:
        detail: dict[str, Any] = {"rating": rated, "min_confidence": self.options.min_confidence}
        choices = []
        for index, one in found.items():
            figures = {"support": one.support, "carried": one.carried, "calibration": one.calibration}
            measured = {name: round(value, 4) for name, value in figures.items() if value is not None}
            choices.append({"choice": index, "rating": one.rating or "none", **measured})
        return {**detail, "choices": choices}

    def _count(self, found: Collection[Assessment], rated: str) -> None:
        self.ports.counters.count("confidence.checked_count", len(found))
        if over := sum(one.overclaimed for one in found):
            self.ports.counters.count("confidence.overclaimed_count", over)
        if rated.endswith(";underclaimed"):
            self.ports.counters.count("confidence.underclaimed_count")


def _says(choice: Choice) -> bool:
    return bool(choice.text.strip())


def _all_verified(exchange: Exchange) -> bool:
    """Whether every citation holds, where they were checked."""
    cited = exchange.facts.citations
    return cited is None or cited[0] == cited[1]


def _header(found: Sequence[Assessment], *, verified: bool) -> str:
    """The rating of the first choice that claims too much, or else of the first; ``;underclaimed`` where the evidence carries more."""
    worst = next((one for one in found if one.overclaimed), None)
    if worst is not None:
        return f"{worst.rating};overclaimed"
    first = found[0]
    modest = first.rating in ("MEDIUM", "LOW") and first.carried == 1.0 and verified and not first.unchecked
    return f"{first.rating or 'none'}{';underclaimed' if modest else ''}"
