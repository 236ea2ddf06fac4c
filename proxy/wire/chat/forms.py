"""A completion as chunks, and chunks as a completion: nothing of it is lost on the way.

For upstreams that answer in one form though the other was asked for. Reference: https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from proxy.exchange import Answer, Choice, Exchange, Usage
from proxy.exchange.answers import OutputRequirements
from proxy.wire import sse
from proxy.wire.answers import end_of
from proxy.wire.bodies import entries_of, object_of
from proxy.wire.chat.message import MessageParts
from proxy.wire.requests import fits

_HEAD = ("id", "created", "model", "system_fingerprint", "service_tier")
_WANTS_USAGE = re.compile(rb'"include_usage"\s*:\s*true')


def to_events(completion: Mapping[str, Any], asked: bytes) -> bytes:
    """The chunks of a completion; `asked` is the request's body. Raises `ValueError` for what is none."""
    chunks = payloads(completion, apart=_WANTS_USAGE.search(asked) is not None)
    return b"".join(sse.encode_json(chunk) for chunk in chunks) + sse.DONE


def payloads(completion: Mapping[str, Any], *, apart: bool = False) -> list[dict[str, Any]]:
    """The same parsed; with `apart`, the usage is a chunk of its own. Raises `ValueError`."""
    choices = completion.get("choices")
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        raise ValueError("not a chat completion")
    head = {**{name: completion[name] for name in _HEAD if name in completion}, "object": "chat.completion.chunk"}
    usage = completion.get("usage")
    made: list[dict[str, Any]] = []
    for position, choice in enumerate(choices):
        index = {"index": choice.get("index", position)}
        begun = {"delta": _delta(object_of(choice.get("message"))), "logprobs": choice.get("logprobs"), "finish_reason": None}
        made.append({**head, "choices": [{**index, **begun}]})
        rest = {name: value for name, value in choice.items() if name not in ("index", "message", "logprobs")}
        made.append({**head, "choices": [{**index, "delta": {}, **rest, "finish_reason": end_of(choice.get("finish_reason")) or "stop"}]})
    if usage is not None and apart:
        made.append({**head, "choices": [], "usage": usage})
    elif usage is not None and made:
        made[-1]["usage"] = usage
    return made


def _delta(message: Mapping[str, Any]) -> dict[str, Any]:
    calls = message.get("tool_calls")
    said = {"role": "assistant", **{name: value for name, value in message.items() if name != "tool_calls"}}
    if isinstance(calls, list) and calls:
        said["tool_calls"] = [{"index": index, **call} for index, call in enumerate(calls) if isinstance(call, dict)]
    return said


def to_whole(chunks: Iterable[Mapping[str, Any]], *, marked: bool) -> dict[str, Any] | None:
    """The completion that a stream's chunks come to, `marked` where its end mark came; None where it broke off, or is none."""
    head: dict[str, Any] = {}
    usage: Any = None
    found: dict[int, _Choice] = {}
    for chunk in chunks:
        head |= {name: chunk[name] for name in _HEAD if not head.get(name) and chunk.get(name) is not None}
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
        for name, tokens in object_of(choice.get("logprobs")).items():
            self._logprobs.setdefault(name, []).extend(entries_of(tokens))
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


_MAX_CHOICES = 128
"""OpenAI's limit of ``n``."""


def own_answer(exchange: Exchange) -> Answer:
    """`exchange.answer` as the request asked for it: ``n`` choices, each ended, with the client's model name and its usage."""
    made = exchange.answer or Answer(())
    choices = made.choices or (Choice(0),)
    wants = exchange.original.wants
    choices += choices[:1] * (min(wants.choices, _MAX_CHOICES) - len(choices))
    fitted = tuple(_fit_choice(choice, index, wants) for index, choice in enumerate(choices))
    return Answer(fitted, made.model or exchange.original.model, made.usage or Usage(0, 0))


def own_body(exchange: Exchange, answer: Answer) -> dict[str, Any]:
    """The completion."""
    choices = [
        {"index": c.index, "message": {"role": "assistant", **_content_and_refusal(c)}, "logprobs": None, "finish_reason": c.finish_reason}
        for c in answer.choices
    ]
    return {**_head(exchange, answer, "chat.completion"), "choices": choices, "usage": _usage(answer)}


def own_events(exchange: Exchange, answer: Answer, verdict: Mapping[str, object] | None) -> bytes:
    """The completion as events: role, text and end of each choice, usage if it was asked for, the inline verdict, the end mark."""
    head = _head(exchange, answer, "chat.completion.chunk")
    with_usage = exchange.original.wants.stream_usage
    rest = {"usage": None} if with_usage else {}
    chunks = [{**head, "choices": [choice], **rest} for choice in _deltas(answer)]
    if with_usage:
        chunks.append({**head, "choices": [], "usage": _usage(answer)})
    if verdict is not None:
        chunks.append({**head, "choices": [], "groundwire": verdict})
    return b"".join(sse.encode_json(chunk) for chunk in chunks) + sse.DONE


def _deltas(answer: Answer) -> Iterator[dict[str, Any]]:
    for choice in answer.choices:
        part = {"index": choice.index, "logprobs": None, "finish_reason": None}
        empty = None if choice.refusal else ""
        yield {**part, "delta": {"role": "assistant", "content": empty, "refusal": None}}
        yield {**part, "delta": {"refusal": choice.refusal} if choice.refusal else {"content": choice.text}}
        yield {**part, "delta": {}, "finish_reason": choice.finish_reason}


def _fit_choice(choice: Choice, index: int, wants: OutputRequirements) -> Choice:
    outside = not fits(choice.text, wants) and not choice.refusal
    text, refusal = ("", choice.text) if outside else (choice.text, choice.refusal)
    return replace(choice, index=index, text=text, refusal=refusal, finish_reason=choice.finish_reason or "stop")


def _content_and_refusal(choice: Choice) -> dict[str, str | None]:
    return {"content": None if choice.refusal else choice.text, "refusal": choice.refusal or None}


def _head(exchange: Exchange, answer: Answer, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{exchange.id}", "object": kind, "created": int(exchange.received_at), "model": answer.model}


def _usage(answer: Answer) -> dict[str, int]:
    usage = answer.usage or Usage(0, 0)
    total = usage.prompt_tokens + usage.completion_tokens
    return {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens, "total_tokens": total}
