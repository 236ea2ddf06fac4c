"""Several verifiers as one: implements `proxy.ports.Verifier` over the verifiers that a policy lists.

- ``cascade``: the first is asked for all claims, the next only for those that the one before is unsure of or cannot judge. The last
  one's word stands; where it has none, or does not come in good time (`SHARE_OF_TIME`), the earlier one's. Each word says whose it is.
- ``mean``: all are asked, side by side; the mean of those that judged.
- ``strictest``: all are asked; the word of the one that supports the claim least, with the strongest contradiction of any.

A verifier that fails is left out: the others' word stands where at least one judged. `ModelUnavailable` when all of them fail.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

from msgspec.structs import replace

from proxy.errors import ModelUnavailable
from proxy.exchange.judgements import ClaimPair, Support
from proxy.ports import Verifier, knows
from proxy.ports.deadline import left_s

Combine = Literal["cascade", "mean", "strictest"]
Answer = Support | None
UNSURE = (0.2, 0.8)
"""Between these a verifier is unsure."""
SHARE_OF_TIME = 0.7
"""Of what is left until the deadline of the check (`proxy.ports.deadline.within`): how long a cascade waits for a further verifier."""


@runtime_checkable
class RemembersClients(Protocol):
    """A verifier whose memory is apart for each client."""

    def for_client(self, client: str) -> Verifier:
        """The same verifier, with `client`'s memory."""


class CombinedVerifier:
    """Implements `proxy.ports.Verifier`."""

    def __init__(self, members: Sequence[Verifier], combine: Combine = "cascade", unsure: tuple[float, float] = UNSURE) -> None:
        self._members, self._combine, self._unsure = tuple(members), combine, unsure

    @property
    def name(self) -> str:
        """Who judges: a lone verifier's own name, or ``cascade(builtin@1, judge/small)``."""
        names = [member.name for member in self._members]
        return names[0] if len(names) == 1 else f"{self._combine}({', '.join(names)})"

    def for_client(self, client: str) -> CombinedVerifier:
        """The same verifiers; those that remember what they were asked do so apart for each client, and without one not at all."""
        members = [member.for_client(client) if isinstance(member, RemembersClients) else member for member in self._members]
        return CombinedVerifier(members, self._combine, self._unsure)

    def knows(self, language: str) -> bool:
        """Implements `proxy.ports.KnowsLanguages`."""
        return any(knows(member, language) for member in self._members)

    async def verify(self, pairs: Sequence[ClaimPair]) -> list[Answer]:
        """Implements `proxy.ports.Verifier`."""
        if not pairs:
            return []
        if self._combine == "cascade":
            return await self._cascade(pairs)
        found = await asyncio.gather(*(_ask(member, pairs) for member in self._members))
        answers = [words for words in found if not isinstance(words, ModelUnavailable)]
        if not answers:
            raise _all_failed([words for words in found if isinstance(words, ModelUnavailable)])
        merge = _mean if self._combine == "mean" else _strictest
        return [merge([word for word in words if word is not None]) for words in zip(*answers, strict=True)]

    async def _cascade(self, pairs: Sequence[ClaimPair]) -> list[Answer]:
        answers: list[Answer] = [None] * len(pairs)
        failures: list[ModelUnavailable] = []
        for member in self._members:
            open_ = [i for i, answer in enumerate(answers) if self._is_open(answer)]
            if not open_:
                break
            found = await _ask(member, [pairs[i] for i in open_], None if member is self._members[0] else _time_for_more())
            if isinstance(found, ModelUnavailable):
                failures.append(found)
                continue
            for i, word in zip(open_, found, strict=True):
                answers[i] = answers[i] if word is None else self._signed(word, member)
        if len(failures) == len(self._members):
            raise _all_failed(failures)
        return answers

    def _signed(self, word: Support, member: Verifier) -> Support:
        return word if word.by or len(self._members) == 1 else replace(word, by=member.name)

    def _is_open(self, answer: Answer) -> bool:
        low, high = self._unsure
        return answer is None or low < answer.supported < high


async def _ask(member: Verifier, pairs: Sequence[ClaimPair], timeout_s: float | None = None) -> list[Answer] | ModelUnavailable:
    try:
        async with asyncio.timeout(timeout_s):
            return await member.verify(pairs)
    except ModelUnavailable as error:
        return error
    except TimeoutError:
        return ModelUnavailable(f"no word from {member.name} in time")


def _time_for_more() -> float | None:
    left = left_s()
    return None if math.isinf(left) else left * SHARE_OF_TIME


def _all_failed(failures: Sequence[ModelUnavailable]) -> ModelUnavailable:
    return failures[0] if len(failures) == 1 else ModelUnavailable("no verifier can judge: " + "; ".join(map(str, failures)))


def _mean(words: Sequence[Support]) -> Answer:
    if not words:
        return None
    n = len(words)
    return Support(sum(w.supported for w in words) / n, sum(w.contradicted for w in words) / n, _details(words), _any_decides(words))


def _strictest(words: Sequence[Support]) -> Answer:
    if not words:
        return None
    least = min(words, key=lambda w: w.supported)
    return Support(least.supported, max(w.contradicted for w in words), least.detail or _details(words), _any_decides(words))


def _any_decides(words: Sequence[Support]) -> bool:
    return any(word.decides for word in words)


def _details(words: Sequence[Support]) -> str:
    return " ".join(dict.fromkeys(w.detail for w in words if w.detail))
