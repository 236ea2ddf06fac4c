"""A completion as chunks, and chunks as a completion: nothing of it is lost on the way.

For upstreams that answer in one form though the other was asked for. Reference: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from proxy.wire import sse
from proxy.wire.chat.message import MessageParts
from proxy.wire.ends import end_of

_HEAD = ("id", "created", "model", "system_fingerprint", "service_tier")
_WANTS_USAGE = re.compile(rb'"include_usage"\s*:\s*true')


def to_events(completion: Mapping[str, Any], asked: bytes) -> bytes:
    """The chunks of a completion; `asked` is the request's body. Raises `ValueError` for what is none."""
    choices = completion.get("choices")
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        raise ValueError("not a chat completion")
    head = {**{name: completion[name] for name in _HEAD if name in completion}, "object": "chat.completion.chunk"}
    usage = completion.get("usage")
    apart = _WANTS_USAGE.search(asked) is not None
    made: list[dict[str, Any]] = []
    for position, choice in enumerate(choices):
        message = choice.get("message")
        index = {"index": choice.get("index", position)}
        begun = {"delta": _delta(message if isinstance(message, dict) else {}), "logprobs": choice.get("logprobs"), "finish_reason": None}
        made.append({**head, "choices": [{**index, **begun}]})
        rest = {name: value for name, value in choice.items() if name not in ("index", "message", "logprobs")}
        made.append({**head, "choices": [{**index, "delta": {}, **rest, "finish_reason": end_of(choice.get("finish_reason")) or "stop"}]})
    if usage is not None and apart:
        made.append({**head, "choices": [], "usage": usage})
    elif usage is not None and made:
        made[-1]["usage"] = usage
    return b"".join(sse.encode(orjson.dumps(chunk)) for chunk in made) + sse.DONE


def _delta(message: Mapping[str, Any]) -> dict[str, Any]:
    calls = message.get("tool_calls")
    said = {"role": "assistant", **{name: value for name, value in message.items() if name != "tool_calls"}}
    if isinstance(calls, list) and calls:
        said["tool_calls"] = [{"index": index, **call} for index, call in enumerate(calls) if isinstance(call, dict)]
    return said


def to_whole(payloads: Iterable[Mapping[str, Any]], *, marked: bool) -> dict[str, Any] | None:
    """The completion that a stream's chunks come to, `marked` where its end mark came; None where it broke off, or is none."""
    head: dict[str, Any] = {}
    usage: Any = None
    found: dict[int, _Choice] = {}
    for chunk in payloads:
        head |= {name: chunk[name] for name in _HEAD if name not in head and chunk.get(name) is not None}
        usage = chunk.get("usage") or usage
        for choice in chunk.get("choices") or ():
            if isinstance(choice, dict):
                found.setdefault(index if isinstance(index := choice.get("index"), int) else 0, _Choice()).absorb(choice)
    if not found or not (marked or all(choice.finish is not None for choice in found.values())):
        return None
    choices = [{"index": index, **choice.whole()} for index, choice in sorted(found.items())]
    return {**head, "object": "chat.completion", "choices": choices, **({"usage": usage} if usage else {})}


class _Choice:
    """One choice, growing."""

    def __init__(self) -> None:
        self.finish: str | None = None
        self._message = MessageParts()
        self._logprobs: dict[str, list[Any]] = {}

    def absorb(self, choice: Mapping[str, Any]) -> None:
        """Its part in a chunk; some servers send a whole message as one."""
        whole = isinstance(choice.get("message"), dict)
        delta = choice["message"] if whole else choice.get("delta")
        if isinstance(delta, dict):
            self._message.absorb(delta, whole=whole)
        logprobs = choice.get("logprobs")
        for name, tokens in logprobs.items() if isinstance(logprobs, dict) else ():
            self._logprobs.setdefault(name, []).extend(tokens if isinstance(tokens, list) else [])
        self.finish = end_of(choice.get("finish_reason")) or self.finish

    def whole(self) -> dict[str, Any]:
        """The choice of a completion, but for its index."""
        message: dict[str, Any] = {"role": "assistant", "content": None, **self._message.fields}
        parts = self._message.calls.parts
        called = [{"name": part.name, "arguments": "".join(part.arguments)} for part in parts]
        if parts and parts[0].legacy:
            message["function_call"] = called[0]
        elif parts:
            message["tool_calls"] = [
                {"id": part.id, "type": "function", **part.fields, **({} if "custom" in part.fields else {"function": one})}
                for part, one in zip(parts, called, strict=True)
            ]
        return {"message": message, "logprobs": self._logprobs or None, "finish_reason": self.finish or "stop"}
