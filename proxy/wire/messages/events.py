"""Events of a Messages stream, as the proxy writes them: ``event: TYPE`` and the same type in the data.

Reference: https://docs.anthropic.com/en/api/messages-streaming
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from proxy.wire import sse
from proxy.wire.bodies import exact, object_of

STOP = "message_stop"


def encode(payload: Mapping[str, Any]) -> bytes:
    """One event."""
    return b"event: " + str(payload["type"]).encode() + b"\n" + sse.encode(orjson.dumps(payload))


def block_start(index: int, block: Mapping[str, Any]) -> dict[str, Any]:
    """A block begins."""
    return {"type": "content_block_start", "index": index, "content_block": block}


def text_delta(index: int, text: str) -> dict[str, Any]:
    """Some of its text."""
    return {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}}


def block_stop(index: int) -> dict[str, Any]:
    """It ends."""
    return {"type": "content_block_stop", "index": index}


def message_delta(reason: str, usage: Mapping[str, Any], sequence: str | None = None) -> dict[str, Any]:
    """The message ends; `sequence` is the stop sequence that ended it."""
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": sequence}, "usage": usage}


def stop(verdict: Mapping[str, object] | None) -> bytes:
    """The stream ends. The inline verdict is a field of this event: clients' accumulators read none of its fields, and an event of another
    type, or a field of ``message_delta``, could become part of the message.
    """
    return encode({"type": STOP} if verdict is None else {"type": STOP, "groundwire": verdict})


_PROMPT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_OF_PROMPT = (*_PROMPT, "cache_creation")


def merge_usage(before: Mapping[str, Any] | None, told: object) -> dict[str, Any] | None:
    """A message's usage with what a later event tells, whose figures are totals; one that has only zeros for the prompt, as some servers
    send it at the end, says nothing of the prompt.
    """
    known, new = dict(before or {}), object_of(told)
    silent = () if any(new.get(name) for name in _PROMPT) else _OF_PROMPT
    known |= {name: value for name, value in new.items() if value is not None and not (name in silent and known.get(name))}
    return known if before is not None or isinstance(told, Mapping) else None


_TEXTS: Mapping[str, str] = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
_GROWING: Mapping[str, tuple[tuple[str, str], ...]] = {
    **{kind: ((name, name),) for kind, name in _TEXTS.items()},
    "input_json_delta": (("partial_json", "input"),),
    "citations_delta": (("citation", "citations"),),
    "compaction_delta": (("content", "content"), ("encrypted_content", "encrypted_content")),
}
"""By the type of a delta: its fields, each with that of the block which it goes on with."""


def to_events(message: Mapping[str, Any], asked: bytes) -> bytes:
    """The events of a message. Raises `ValueError` for what is none."""
    return b"".join(encode(payload) for payload in payloads(message))


def payloads(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The same parsed. Raises `ValueError`."""
    if not isinstance(message.get("content"), list):
        raise ValueError("not a message")
    yield from payloads_of(message, message["usage"] if isinstance(message.get("usage"), dict) else {})
    yield {"type": STOP}


def payloads_of(message: Mapping[str, Any], final_usage: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The events of a message but for the last, with the usage at its end."""
    usage = message["usage"] if isinstance(message.get("usage"), dict) else {}
    begun = {**message, "content": [], "stop_reason": None, "stop_sequence": None, "usage": {**usage, "output_tokens": 0}}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(block for block in message["content"] if isinstance(block, dict)):
        yield from _block(index, block)
    yield message_delta(message.get("stop_reason") or "end_turn", final_usage, message.get("stop_sequence"))


def _block(index: int, block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    deltas: list[dict[str, Any]] = []
    start = dict(block)
    for kind, name in _TEXTS.items():
        if isinstance(text := block.get(name), str):
            start[name] = ""
            deltas += [{"type": kind, name: text}] if text else []
    if isinstance(block.get("input"), dict):
        start["input"] = {}
        deltas.append({"type": "input_json_delta", "partial_json": orjson.dumps(block["input"]).decode()})
    if isinstance(cited := block.get("citations"), list) and block.get("type") == "text":
        start["citations"] = []
        deltas += [{"type": "citations_delta", "citation": one} for one in cited]
    yield block_start(index, start)
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield block_stop(index)


def to_whole(payloads: Iterable[Mapping[str, Any]], *, marked: bool) -> dict[str, Any] | None:
    """The message that a stream's events come to; None where it broke off, or is none."""
    message: dict[str, Any] = {}
    blocks = Blocks()
    for payload in payloads:
        kind, delta = payload.get("type"), payload.get("delta")
        if kind == "message_start" and isinstance(payload.get("message"), dict):
            message = dict(payload["message"])
        elif kind == "message_delta" and isinstance(delta, dict):
            message |= {**delta, "usage": merge_usage(object_of(message.get("usage")), payload.get("usage"))}
        else:
            blocks.absorb(payload)
    if not message or not message.get("stop_reason"):
        return None
    content = [
        {**block, "input": exact(block["input"])} if isinstance(block.get("input"), str) else block for block in blocks.whole().values()
    ]
    return {"type": "message", "role": "assistant", "stop_sequence": None, **message, "content": content}


class Blocks:
    """The blocks of a message, growing."""

    def __init__(self) -> None:
        self.start_events: dict[Any, dict[str, Any]] = {}
        """As they began, by index."""
        self._deltas: dict[tuple[Any, str], list[Any]] = {}
        """What came of a block's field behind that."""

    def absorb(self, payload: Mapping[str, Any]) -> None:
        """Add an event."""
        index, block, delta = payload.get("index"), payload.get("content_block"), payload.get("delta")
        if payload.get("type") == "content_block_start" and isinstance(block, dict):
            self.start_events[index] = block
        elif payload.get("type") == "content_block_delta" and isinstance(delta, dict) and index in self.start_events:
            for name, into in _GROWING.get(str(delta.get("type")), ()):
                if delta.get(name) or name == "citation":
                    self._deltas.setdefault((index, into), []).append(delta.get(name))

    def whole(self) -> dict[Any, dict[str, Any]]:
        """As they are now; what a call takes is text as far as it came in pieces."""
        found = {index: dict(block) for index, block in self.start_events.items()}
        for (index, into), pieces in self._deltas.items():
            begun = found[index].get(into)
            if into == "citations":
                found[index][into] = [*(begun or ()), *pieces]
            else:
                found[index][into] = "".join([begun if isinstance(begun, str) else "", *map(str, pieces)])
        return found
