"""The figures behind the response headers (`Facts`), and the upstream answers of an exchange that asks for several (`Attempts`).

A stage that wants another answer sets `exchange.retry`: what was found of the present answer is then set aside, and the next one is judged
from the same start. A stage that prefers an earlier answer sets `exchange.deliver`: what the stages before it had found of that one comes
back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct, UnsetType, field

from proxy.exchange.answers import Answer, Usage, total_usage

if TYPE_CHECKING:
    from proxy.exchange import Exchange, Findings, Message, Prompt, Verdict


class Attempt(Struct):
    """What is known of one upstream answer."""

    upstream_answer: Answer
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
        return self.upstream_answer if self.found is None or self.found.answer is None else self.found.answer

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
        exchange.upstream_answer = attempt.upstream_answer

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
        exchange.upstream_answer = attempt.upstream_answer
        exchange.answer = attempt.answer if mine.answer is before.answer else mine.answer

    def usage(self) -> Usage | None:
        """Of all attempts that reported theirs; None where none did."""
        found = [usage for attempt in self._all if (usage := attempt.upstream_answer.usage) is not None]
        return total_usage(found) if found else None


def _restore(exchange: Exchange, attempt: Attempt, findings: Findings) -> None:
    """The request and `findings` of `attempt`; how often the upstream was asked is the exchange's, whichever it is."""
    retries = exchange.facts.retries
    exchange.upstream, exchange.prompt, exchange.findings = attempt.upstream, attempt.prompt, findings.copy()
    exchange.facts.retries = retries


class ContextUse(Struct, frozen=True):
    """Tokens of a prompt against its model's window."""

    used_tokens: int
    window_tokens: int | None = None
    """None when the model's window is not known."""
    exact: bool = False
    """False when the model's tokenizer is not public, or something in the request is counted by rule of thumb."""
    components: Mapping[str, int] = field(default_factory=dict)
    """Tokens by component, in the names of the budget's allocations."""
    guessed_tokens: int | UnsetType = UNSET
    """Of `used_tokens`, those of documents, sound and video, which the provider alone can count: no reason to refuse a request."""

    @property
    def share(self) -> float:
        """Used part of the window, 0 when it is not known."""
        return self.used_tokens / self.window_tokens if self.window_tokens else 0.0

    def exceeded_by_answer(self, asked_tokens: int | None) -> bool:
        """Whether only the answer that a client asks for does not fit: beside the prompt there is as much room as policies reserve."""
        if self.window_tokens is None or asked_tokens is None or self.used_tokens + asked_tokens <= self.window_tokens:
            return False
        return self.used_tokens <= self.window_tokens - reserve_limit(self.window_tokens)


def reserve_limit(window_tokens: int) -> int:
    """Most tokens that a policy keeps free for an answer: its reserve must not make a small model unusable."""
    return window_tokens // 4


class CompressionResult(Struct, frozen=True):
    """What compression did: strategies in order, tokens before and after; or why it did nothing."""

    strategies: tuple[str, ...] = ()
    """``stored`` alone where only an earlier request's compaction was repeated."""
    before_tokens: int = 0
    after_tokens: int = 0
    reason: str = ""
    """Why nothing was done: ``below-threshold``, ``waits-until-it-pays``, ``nothing-left``, ``skipped`` (the window is not known),
    ``failed-kept-original``."""
    found_share: float | UnsetType = UNSET
    """Used part of the window when it set to work, with what was decided earlier repeated; not set where it had nothing to do."""
    fitted: tuple[str, ...] | UnsetType = UNSET
    """Components of the prompt that were above their allocation, and were brought back to it in this request."""


class ToolSelection(Struct, frozen=True):
    """How many of the offered tools go to the model; the reason when it is all of them."""

    offered: int
    kept: int
    reason: str = ""


class Distraction(Struct, frozen=True):
    """Of a history so long that it distracts the model, as it was sent."""

    severity: str
    """MEDIUM or HIGH."""
    messages: int
    tokens: int

    @property
    def text(self) -> str:
        """For a header."""
        return f"{self.severity};messages={self.messages};tokens={self.tokens}"


class JudgeUse(Struct, omit_defaults=True):
    """What the policy's judge was asked in an exchange, and what that took; added to as it is asked."""

    by: str
    """``UPSTREAM/MODEL``."""
    asked: int = 0
    """Questions, those whose answer was known among them."""
    cached: int = 0
    """Of these, answered from memory."""
    unanswered: int = 0
    """Of these, without an answer that can be used."""
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = None
    """By the list of prices; None where no price is known, or nothing was paid."""
    ms: float = 0.0
    """Waited for it, all batches together."""
    failed: list[str] = field(default_factory=list)
    """Why some had no answer, each reason once."""

    def add(self, input_tokens: int, output_tokens: int, usd: float | None) -> None:
        """One call."""
        self.input_tokens += input_tokens
        self.output_tokens += output_tokens
        self.usd = self.usd if usd is None else (self.usd or 0.0) + usd

    def fail(self, reason: str) -> None:
        """A call that brought nothing."""
        if reason not in self.failed:
            self.failed.append(reason)


class Facts(Struct, omit_defaults=True):
    """The figures behind the response headers; each is None until a stage sets it."""

    context_before: ContextUse | None = None
    """The prompt as the client sent it."""
    context: ContextUse | None = None
    """The prompt as sent upstream."""
    output_reserve_tokens: int | None = None
    """Tokens of the window that are kept free for the answer."""
    compression: CompressionResult | None = None
    tools: ToolSelection | None = None
    quality: float | None = None
    """Overall score of the answer, 0 to 1."""
    quality_parts: Mapping[str, float] | None = None
    """What `quality` is made of, each 0 to 1 (`proxy.grounding.quality`)."""
    faithfulness: float | None = None
    """Expected share of supported claims, 0 to 1 (`proxy.exchange.judgements.faithfulness`)."""
    claims: Mapping[str, int] | None = None
    """How many of the answer's checkable claims have each label."""
    citations: tuple[int, int] | None = None
    """Verified and total."""
    confidence: str | None = None
    """HIGH, MEDIUM, LOW or none, with ``;overclaimed`` where the evidence does not carry it."""
    relevance: float | None = None
    """Calibrated relevance of the context to the question, 0 to 1."""
    judge: JudgeUse | None = None
    """What the policy's judge was asked; None where it was asked nothing."""
    clashes: int | None = None
    distraction: Distraction | None = None
    failures_injected: int | None = None
    retries: int | None = None
    """How often the upstream was asked for another answer."""
    allocations: Mapping[str, int] | None = None
    """Most tokens of each component that has an allocation of its own."""
