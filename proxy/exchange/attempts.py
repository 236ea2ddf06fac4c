"""Several upstream answers in one exchange: what is known of each, so that any of them can be the one that is delivered.

In: an exchange whose answer is held. A stage that wants another answer sets `exchange.retry`: what was found of the present one is then
set aside, and the next is judged from the same start. A stage that prefers an earlier one sets `exchange.deliver`: what the stages
before it had found of that one comes back. The pipeline and the delivery call the methods; stages read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from proxy.exchange.answers import Answer, Usage

if TYPE_CHECKING:
    from proxy.exchange import Exchange, Findings, Message, Prompt, Verdict


class Attempt(Struct):
    """What is known of one upstream answer."""

    came: Answer
    """As it came."""
    upstream: str
    """Name of the upstream that gave it."""
    ms: float
    """From its call to its last byte."""
    prompt: Prompt
    """As sent for it."""
    start: Findings
    """What had been found before any stage looked at it."""
    found: Findings | None = None
    """What had been found when another attempt was asked for; None as long as it is the present one."""

    @property
    def answer(self) -> Answer:
        """What the stages had made of it until then."""
        return self.came if self.found is None or self.found.answer is None else self.found.answer

    @property
    def verdicts(self) -> Sequence[Verdict]:
        """What the stages found of it until then."""
        return () if self.found is None else self.found.verdicts[len(self.start.verdicts) :]

    @property
    def changes(self) -> Sequence[Mapping[str, Any]]:
        """What they changed in it."""
        return () if self.found is None else self.found.changes[len(self.start.changes) :]


class Attempts(Struct, eq=False):
    """The upstream's answers that were held to be judged, in order; the last is the present one."""

    _all: list[Attempt] = field(default_factory=list)
    possible: bool = False
    """Whether another would be asked for. False under gate and tap, when the bounds of attempts or time are reached, and when another
    attempt has failed (a verdict ``retry_failed`` says so): the hooks then run once more on the answer before it, and must decide."""

    several: bool = False
    """Whether there is more than one."""

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Attempt]:
        return iter(self._all)

    def __getitem__(self, index: int) -> Attempt:
        return self._all[index]

    def present(self, exchange: Exchange, answer: Answer, ms: float) -> None:
        """A further upstream answer is there, to be judged."""
        exchange.upstream_answer = exchange.answer = answer
        self.several = bool(self._all)
        self._all.append(Attempt(answer, exchange.upstream, ms, exchange.prompt, exchange.findings.copy()))

    def ask_again(self, exchange: Exchange, messages: Sequence[Message]) -> None:
        """Another answer is asked for, with `messages`: keep what was found of this one, and take it out of the exchange."""
        attempt = self._all[-1]
        attempt.found = exchange.findings
        _restore(exchange, attempt, attempt.start)
        exchange.messages = messages

    def failed(self, exchange: Exchange, why: Verdict) -> None:
        """The next attempt has failed: the one before it is the present one again, not yet judged."""
        attempt = self._all[-1]
        _restore(exchange, attempt, attempt.start)
        exchange.verdicts.append(why)
        attempt.start, attempt.found = exchange.findings.copy(), None
        exchange.upstream_answer = attempt.came

    def settle(self, exchange: Exchange, stage: str, before: Findings) -> None:
        """The answer hook of `stage` has run: if it prefers an earlier attempt, that is the exchange's answer from now on.

        `before`: the findings before the hook. The first stage's choice stands, and none counts while another answer is asked for.
        Raises `IndexError`.
        """
        index, present = exchange.deliver, len(self._all) - 1
        if before.deliver is not None:
            exchange.deliver = before.deliver
        elif present < 0 or index is None or (exchange.retry is not None and self.possible):
            return
        elif index == present:
            exchange.deliver = None
        elif 0 <= index < present:
            self._choose(exchange, self._all[index], stage, before)
        else:
            raise IndexError(f"deliver: there is no attempt {index}")

    def _choose(self, exchange: Exchange, attempt: Attempt, stage: str, before: Findings) -> None:
        """What the stages before `stage` found of the present attempt, and made of it, is replaced by what they had found and made of the
        chosen one; what `stage` has just found stays, and so does an answer that it has set itself.
        """
        mine, start = exchange.findings, self._all[-1].start
        own = {name: value for name in mine.facts.__struct_fields__ if (value := getattr(mine.facts, name)) != getattr(before.facts, name)}
        _restore(exchange, attempt, attempt.found or attempt.start)
        for name, value in own.items():
            setattr(exchange.facts, name, value)
        earlier = [v for v in attempt.verdicts if v.stage != stage]
        exchange.verdicts = [*start.verdicts, *earlier, *mine.verdicts[len(before.verdicts) :]]
        changes = [c for c in attempt.changes if c.get("stage") != stage]
        exchange.changes = [*start.changes, *changes, *mine.changes[len(before.changes) :]]
        if mine.judgements != before.judgements:
            exchange.judgements = mine.judgements
        exchange.retry, exchange.deliver = mine.retry, mine.deliver
        exchange.upstream_answer = attempt.came
        exchange.answer = attempt.answer if mine.answer is before.answer else mine.answer

    def usage(self) -> Usage | None:
        """Of all attempts that reported theirs; None where none did."""
        found = [usage for attempt in self._all if (usage := attempt.came.usage) is not None]
        if not found:
            return None
        return Usage(
            sum(usage.prompt_tokens for usage in found),
            sum(usage.completion_tokens for usage in found),
            sum(usage.cached_tokens for usage in found),
        )


def _restore(exchange: Exchange, attempt: Attempt, findings: Findings) -> None:
    """The request and `findings` of `attempt`; how often the upstream was asked is the exchange's, whichever it is."""
    retries = exchange.facts.retries
    exchange.upstream, exchange.prompt, exchange.findings = attempt.upstream, attempt.prompt, findings.copy()
    exchange.facts.retries = retries
