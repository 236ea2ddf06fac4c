"""``compression:`` of a policy, and from which size on a prompt is compressed by it, and to which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

from proxy.context.compaction.notes import SUMMARY_TOKENS_HELP
from proxy.context.summaries.summariser import SUMMARISER_HELP, SummariserOptions
from proxy.exchange import ContextUse
from proxy.ports.stage import Positive, Share, StageOptions

Strategy = Literal["trim", "summarize", "archive"]


class CompressionOptions(StageOptions, frozen=True, kw_only=True):
    """``compression:``"""

    removed = {"summariser.timeout_s": "leave it out: deadline_ms is the longest wait for a summary, and nothing goes on behind it"}
    at: Annotated[
        Share, Meta(description="share of the window from which a prompt is compressed; earlier where the answer would have no room")
    ] = 0.80
    aggressive_at: Annotated[
        Share, Meta(description="share from which the whole conversation is summarised and every tool result that was read archived")
    ] = 0.90
    target: Annotated[Share, Meta(description="share of the window to come down to")] = 0.60
    pays_within: Annotated[
        Share | None,
        Meta(
            description="a prompt that still fits is compressed only where the tokens saved outweigh the provider's cache that is written "
            "anew within this share of the run's turns so far; null does not wait"
        ),
    ] = None
    strategies: Annotated[tuple[Strategy, ...], Meta(description="in order; the next one is tried while the target is not met")] = (
        "trim",
        "summarize",
        "archive",
    )
    max_age_s: Annotated[
        float, Meta(gt=0, description="age in seconds from which trim takes messages out: by their timestamp, or since first seen")
    ] = 3600
    max_summary_tokens: Annotated[Positive | None, Meta(description=SUMMARY_TOKENS_HELP)] = None
    keep_recent: Annotated[
        Positive, Meta(description="blocks at the end that stay as they are: a message, or a tool call with its results; 1 when aggressive")
    ] = 4
    summariser: Annotated[SummariserOptions | None, Meta(description=SUMMARISER_HELP)] = None
    timeout_ms: Annotated[
        float, Meta(gt=0, description="time budget of each of its hooks, in milliseconds; past it the stage is an error")
    ] = 15000

    def __post_init__(self) -> None:
        if not 0 < self.target < self.at <= self.aggressive_at:
            raise ValueError("expected 0 < target < at <= aggressive_at")
        if not self.strategies or len(set(self.strategies)) != len(self.strategies):
            raise ValueError("expected at least one strategy, each once")


_ADVICE: Mapping[str, str] = {
    "system_instructions": "shorten the system message, or move reference text out of it",
    "tool_descriptions": "offer fewer tools, or use the stage tool_rag",
    "current_query": "split the last message, or send what it quotes as passages",
    "conversation_history": "lower keep_recent, or have tools return less",
}


class CompressionThresholds(Struct, frozen=True):
    """All in tokens of the prompt."""

    compress: int
    """From here a prompt is compressed."""
    aggressive: int
    """From here it is compressed hard."""
    target: int
    """What compression aims for."""
    room: int
    """The most that fits, beside the answer."""


def thresholds(window_tokens: int, reserve_tokens: int, at: float, aggressive_at: float, target: float) -> CompressionThresholds:
    """Shares of the window; where the answer's reserve leaves less than `at`, a prompt is compressed before it would be refused.

    The target then is as far below that as `target` is below `at`.
    """
    room = max(window_tokens - reserve_tokens, 0)
    compress = min(at * window_tokens, room + 1)
    return CompressionThresholds(int(-(-compress // 1)), int(-(-aggressive_at * window_tokens // 1)), int(compress * target / at), room)


def turns_to_pay(used_tokens: int, target_tokens: int, rewrite_ratio: float) -> float:
    """After how many turns a cut to `target_tokens` has saved what it cost.

    The provider writes what is left into its cache anew, once, at `rewrite_ratio` times the price of reading more than it would have read
    it for; what was cut is not read in any turn that follows.
    """
    return rewrite_ratio * target_tokens / max(used_tokens - target_tokens, 1)


def advice(use: ContextUse) -> str:
    """What would help most: by the largest component that is left."""
    largest = max(use.components, key=lambda name: (use.components[name], name), default="")
    return _ADVICE.get(largest, "use a model with a larger window")
