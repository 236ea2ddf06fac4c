"""The figures behind the response headers, as far as stages have set them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UNSET, Struct, UnsetType, field


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
