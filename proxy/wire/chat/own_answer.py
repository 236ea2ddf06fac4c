"""An answer that a stage gave in the model's stead -> a chat completion, whole or as events.

In: an exchange whose `answer` a stage set before the model was asked. Out: what OpenAI's API would send for that text. A client that
asked for a form (JSON, a choice, a grammar) gets text without that form as a ``refusal``, OpenAI's own field for it:
https://platform.openai.com/docs/guides/structured-outputs#refusals
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson
from msgspec.structs import replace

from proxy.exchange import Answer, Choice, Exchange, Usage
from proxy.exchange.output_requirements import OutputRequirements
from proxy.wire import sse

_MAX_CHOICES = 128
"""OpenAI's limit of ``n``."""


def own_answer(exchange: Exchange) -> Answer:
    """`exchange.answer` as the request asked for it: ``n`` choices, each ended, with the client's model name and its usage."""
    made = exchange.answer or Answer(())
    choices = made.choices or (Choice(0),)
    wants = exchange.original.wants
    choices += choices[:1] * (min(wants.choices, _MAX_CHOICES) - len(choices))
    fitted = tuple(_fitted(choice, index, wants) for index, choice in enumerate(choices))
    return Answer(fitted, made.model or exchange.original.model, made.usage or Usage(0, 0))


def own_body(exchange: Exchange, answer: Answer, verdict: Mapping[str, object] | None) -> bytes:
    """The completion, with the inline verdict if there is one."""
    choices = [
        {"index": c.index, "message": {"role": "assistant", **_said(c)}, "logprobs": None, "finish_reason": c.finish_reason}
        for c in answer.choices
    ]
    body = {**_head(exchange, answer, "chat.completion"), "choices": choices, "usage": _usage(answer)}
    return orjson.dumps(body if verdict is None else {**body, "groundwire": verdict})


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
    return b"".join(sse.encode(orjson.dumps(chunk)) for chunk in chunks) + sse.DONE


def _deltas(answer: Answer) -> Iterator[dict[str, Any]]:
    for choice in answer.choices:
        part = {"index": choice.index, "logprobs": None, "finish_reason": None}
        empty = None if choice.refusal else ""
        yield {**part, "delta": {"role": "assistant", "content": empty, "refusal": None}}
        yield {**part, "delta": {"refusal": choice.refusal} if choice.refusal else {"content": choice.text}}
        yield {**part, "delta": {}, "finish_reason": choice.finish_reason}


def _fitted(choice: Choice, index: int, wants: OutputRequirements) -> Choice:
    fits = wants.form == "text" or (wants.form == "json" and _is_json_object(choice.text))
    outside = not fits and not choice.refusal
    text, refusal = ("", choice.text) if outside else (choice.text, choice.refusal)
    return replace(choice, index=index, text=text, refusal=refusal, finish_reason=choice.finish_reason or "stop")


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError:
        return False


def _said(choice: Choice) -> dict[str, str | None]:
    return {"content": None if choice.refusal else choice.text, "refusal": choice.refusal or None}


def _head(exchange: Exchange, answer: Answer, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{exchange.id}", "object": kind, "created": int(exchange.received_at), "model": answer.model}


def _usage(answer: Answer) -> dict[str, int]:
    usage = answer.usage or Usage(0, 0)
    total = usage.prompt_tokens + usage.completion_tokens
    return {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens, "total_tokens": total}
