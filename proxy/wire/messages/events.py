"""Events of a Messages stream, as the proxy writes them: ``event: TYPE`` and the same type in the data.

Reference: https://docs.anthropic.com/en/api/messages-streaming
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from proxy.wire import sse

STOP = "message_stop"


def encode(payload: Mapping[str, Any]) -> bytes:
    """One event."""
    return b"event: " + str(payload["type"]).encode() + b"\n" + sse.encode(orjson.dumps(payload))


def read(data: bytes) -> dict[str, Any] | None:
    """An event's data; None for what is no event of the API."""
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("type"), str) else None


def started(index: int, block: Mapping[str, Any]) -> dict[str, Any]:
    """A block begins."""
    return {"type": "content_block_start", "index": index, "content_block": block}


def text_delta(index: int, text: str) -> dict[str, Any]:
    """Some of its text."""
    return {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}}


def stopped(index: int) -> dict[str, Any]:
    """It ends."""
    return {"type": "content_block_stop", "index": index}


def ended(reason: str, usage: Mapping[str, Any], sequence: str | None = None) -> dict[str, Any]:
    """The message ends; `sequence` is the stop sequence that ended it."""
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": sequence}, "usage": usage}


def stop(verdict: Mapping[str, object] | None) -> bytes:
    """The stream ends. The inline verdict is a field of this event: clients' accumulators read none of its fields, and an event of another
    type, or a field of ``message_delta``, could become part of the message.
    """
    return encode({"type": STOP} if verdict is None else {"type": STOP, "groundwire": verdict})
