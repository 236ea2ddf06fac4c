"""From which size a prompt is compressed, and to which. Pure functions over tokens."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from proxy.exchange import ContextUse

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


def advice(use: ContextUse) -> str:
    """What would help most: by the largest component that is left."""
    largest = max(use.components, key=lambda name: (use.components[name], name), default="")
    return _ADVICE.get(largest, "use a model with a larger window")
