"""The block of guidance at the end of a prompt, where the provider's cached prefix stays as it is. Pure functions over messages.

It goes into the last message and is no message of its own: chat templates refuse a system message that is not the first, and some
providers move it to the front, which would change the whole prefix; others refuse a user message behind a tool's result.
"""

from __future__ import annotations

from collections.abc import Sequence

from proxy.context.conversation import with_text_after
from proxy.exchange import Message

_ROLES = frozenset(("user", "tool", "function"))


def with_block(messages: Sequence[Message], block: str) -> list[Message] | None:
    """`messages` with `block` at the end of the last one; None where that is neither a user's words nor a tool's result."""
    last = messages[-1] if messages else {}
    if last.get("role") not in _ROLES:
        return None
    told = with_text_after(last, block)
    return None if told is None else [*messages[:-1], told]
