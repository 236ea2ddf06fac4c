"""Several upstream answers in one exchange: what is known of each, so that any of them can be the one that is delivered.

In: an exchange whose answer is held. A stage that wants another answer sets `exchange.retry`: what was found of the present one is then
set aside (`set_aside`), and the next is judged from the same start (`present`). A stage that prefers an earlier one sets
`exchange.deliver`: what the stages before it had found of that one comes back (`choose`). Used by `proxy.pipeline` and
`proxy.delivery.hold`.
"""

from __future__ import annotations

from copy import copy

from msgspec import Struct

from proxy.exchange import Answer, Attempt, Exchange, Facts, Usage, Verdict
from proxy.exchange.judgements import Judgement


class AttemptMark(Struct, frozen=True):
    """What an exchange held at one point of its way."""

    verdicts: int
    """How many there were."""
    changes: int
    facts: Facts
    judgements: dict[int, list[Judgement]]
    answer: Answer | None


def mark(exchange: Exchange) -> AttemptMark:
    """The present point."""
    judgements = {choice: list(found) for choice, found in exchange.judgements.items()}
    return AttemptMark(len(exchange.verdicts), len(exchange.changes), copy(exchange.facts), judgements, exchange.answer)


def present(exchange: Exchange, answer: Answer, ms: float) -> None:
    """A further upstream answer is there, to be judged."""
    exchange.attempts.append(answer)
    exchange.trail.append(Attempt(exchange.upstream, ms, exchange.messages, exchange.tools, exchange.params, before=copy(exchange.facts)))
    exchange.upstream_answer = exchange.answer = answer


def set_aside(exchange: Exchange, start: AttemptMark) -> None:
    """Another answer is to be asked for: keep what was found of this one since `start`, and take it out of the exchange."""
    attempt = exchange.trail[-1]
    attempt.facts, attempt.judgements, attempt.answer = exchange.facts, exchange.judgements, exchange.answer
    attempt.verdicts, attempt.changes = exchange.verdicts[start.verdicts :], exchange.changes[start.changes :]
    del exchange.verdicts[start.verdicts :], exchange.changes[start.changes :]
    _restore(exchange, attempt, attempt.before)
    exchange.judgements, exchange.deliver = {}, None


def resume(exchange: Exchange) -> None:
    """The next attempt has failed: the one before it is the present one again, not yet judged."""
    attempt = exchange.trail[-1]
    attempt.facts, attempt.verdicts, attempt.judgements, attempt.changes, attempt.answer = None, (), {}, (), None
    _restore(exchange, attempt, attempt.before)
    exchange.upstream_answer = exchange.answer = exchange.attempts[-1]


def choose(exchange: Exchange, stage: str, start: AttemptMark, asked: AttemptMark) -> None:
    """`stage` has set `exchange.deliver`: make that attempt the exchange's answer.

    `start` is the point before any stage looked at the present attempt, `asked` the one before this stage did. What the stages before it
    found, and made of the answer, is replaced by what they had found and made of the chosen attempt; what this stage has just found stays,
    and so does an answer that it has set itself. Raises `IndexError`.
    """
    index = exchange.deliver
    if index is None or index == len(exchange.attempts) - 1:
        exchange.deliver = None
        return
    if not 0 <= index < len(exchange.attempts):
        raise IndexError(f"deliver: there is no attempt {index}")
    attempt = exchange.trail[index]
    own = {name: value for name in Facts.__struct_fields__ if (value := getattr(exchange.facts, name)) != getattr(asked.facts, name)}
    judgements = exchange.judgements if exchange.judgements != asked.judgements else attempt.judgements
    earlier = [v for v in attempt.verdicts if v.stage != stage]
    exchange.verdicts[start.verdicts :] = [*earlier, *exchange.verdicts[asked.verdicts :]]
    changes = [c for c in attempt.changes if c.get("stage") != stage]
    exchange.changes[start.changes :] = [*changes, *exchange.changes[asked.changes :]]
    _restore(exchange, attempt, attempt.facts or attempt.before)
    for name, value in own.items():
        setattr(exchange.facts, name, value)
    exchange.judgements = judgements
    exchange.upstream_answer = exchange.attempts[index]
    if exchange.answer is asked.answer:
        exchange.answer = exchange.upstream_answer if attempt.answer is None else attempt.answer


def _restore(exchange: Exchange, attempt: Attempt, facts: Facts) -> None:
    """The facts, and the request, as they were for `attempt`; how often the upstream was asked is the exchange's, whichever it is."""
    retries = exchange.facts.retries
    exchange.facts = copy(facts)
    exchange.facts.retries = retries
    exchange.upstream = attempt.upstream
    exchange.messages, exchange.tools, exchange.params = attempt.messages, attempt.tools, attempt.params


def impossible(exchange: Exchange, stage: str) -> None:
    """`stage` has asked for another answer where none can be had."""
    exchange.retry = None
    exchange.verdicts.append(Verdict(stage, "warn", code="retry_impossible", detail={"attempts": len(exchange.attempts)}))


def total_usage(exchange: Exchange) -> Usage | None:
    """Of all attempts that reported theirs; None where none did."""
    found = [answer.usage for answer in exchange.attempts if answer.usage is not None]
    if not found:
        return None
    return Usage(
        sum(usage.prompt_tokens for usage in found),
        sum(usage.completion_tokens for usage in found),
        sum(usage.cached_tokens for usage in found),
    )
