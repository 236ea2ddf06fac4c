"""A second opinion: a model of an upstream is asked about just those claims of which the built-in verifier is not sure.

In: judgements with their claims and evidence. Out: the same, those decided that the model is clear about: it says that a claim is
supported, or, of one that nothing supports, that it is contradicted. One call for all of them, with a deadline; what does not fit into it,
and everything where the call fails, stays as it was, and says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from proxy.errors import ModelUnavailable
from proxy.exchange.judgements import UNKNOWN_LANGUAGE, ClaimPair, Judgement, Support
from proxy.grounding.judging.asking import LLMOptions
from proxy.grounding.judging.llm import LLMVerifier, LLMVerifierOptions
from proxy.ports import ChatModel

MAX_CLAIMS = 32
"""Claims of one call; the rest of a longer answer stays unsure."""
MAX_CHARS = 48_000
"""Characters of claims and evidence of one call."""
CLEAR = 0.6
"""Confidence from which the model's word counts."""


class SecondOpinion(LLMOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``second_opinion:`` of a policy."""


class Opinions(Struct, frozen=True):
    """What came of asking."""

    judgements: Sequence[Judgement]
    asked: int
    failure: str = ""
    """Why nothing came of it."""


def open_to(judgement: Judgement) -> bool:
    """Whether a second opinion on it is wanted: nothing exact decides it, and nobody who counts has supported it."""
    undecided = judgement.decided_by in ("model", "recomputed") or judgement.reason == UNKNOWN_LANGUAGE
    return judgement.label in ("unsure", "unsupported") and judgement.evidence is not None and undecided


class SecondOpinions:
    """Asks the model. One for a stage."""

    def __init__(self, chat: ChatModel, options: SecondOpinion) -> None:
        self._options = options
        whole = LLMVerifierOptions(
            upstream=options.upstream,
            model=options.model,
            timeout_s=options.timeout_s,
            params=options.params,
            max_claims=MAX_CLAIMS,
            max_chars=MAX_CHARS,
        )
        self._verifier = LLMVerifier(chat, whole)

    @property
    def name(self) -> str:
        """``UPSTREAM/MODEL``."""
        return self._verifier.name

    async def on(self, judgements: Sequence[Judgement], evidence: Mapping[int, str], client: str, deadline_s: float) -> Opinions:
        """`judgements` with the model's word on those that are open; `evidence` is the text each is judged by, by position."""
        pairs = _bounded({i: ClaimPair(judgements[i].claim.question_and_text, text) for i, text in evidence.items() if text})
        if not pairs:
            return Opinions(judgements, 0)
        try:
            async with asyncio.timeout(min(deadline_s, self._options.timeout_s)):
                words = await self._verifier.for_client(client).verify(list(pairs.values()))
        except (ModelUnavailable, TimeoutError) as error:
            reason = str(error) or f"no answer from {self.name} in time"
            failed = [replace(j, reason=f"second opinion: {reason}"[:300]) if i in pairs else j for i, j in enumerate(judgements)]
            return Opinions(failed, len(pairs), reason[:300])
        given = dict(zip(pairs, words, strict=True))
        return Opinions([self._decided(j, given.get(i)) for i, j in enumerate(judgements)], len(pairs))

    def _decided(self, judgement: Judgement, word: Support | None) -> Judgement:
        label = None if word is None else "supported" if word.supported >= CLEAR else "contradicted" if word.contradicted >= CLEAR else None
        if word is None or label is None:
            return judgement
        reason = "" if label == "supported" else word.detail or judgement.reason
        figures = {"score": word.supported, "contradiction": word.contradicted}
        return replace(judgement, label=label, decided_by="second_opinion", verifier=self.name, reason=reason, **figures)


def _bounded(pairs: Mapping[int, ClaimPair]) -> dict[int, ClaimPair]:
    """As many as fit into one call."""
    found: dict[int, ClaimPair] = {}
    chars = 0
    for i, pair in pairs.items():
        chars += len(pair.claim) + len(pair.evidence)
        if len(found) >= MAX_CLAIMS or (found and chars > MAX_CHARS):
            break
        found[i] = pair
    return found
