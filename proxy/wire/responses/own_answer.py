"""An answer that a stage gave in the model's stead -> a response, whole or as events.

In: an exchange whose `answer` a stage set before the model was asked. Out: what OpenAI's API would send for that text, with one message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from proxy.exchange import Answer, Exchange, Usage
from proxy.wire.responses import events

ECHOED: Mapping[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": None,
    "store": True,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "truncation": "disabled",
}
"""Fields of a request that its response says again, and what they are where it left them out."""


def own_body(exchange: Exchange, answer: Answer, verdict: Mapping[str, object] | None) -> bytes:
    """The response, with the inline verdict if there is one."""
    response = _response(exchange, answer, "completed", [_item(exchange, answer)])
    return orjson.dumps(response if verdict is None else {**response, "groundwire": verdict})


def own_events(exchange: Exchange, answer: Answer, verdict: Mapping[str, object] | None) -> bytes:
    """The response as events, one after another as the API sends them."""
    numbered = enumerate(_events(exchange, answer, verdict))
    return b"".join(events.encode({**event, "sequence_number": number}, named=True) for number, event in numbered)


def _events(exchange: Exchange, answer: Answer, verdict: Mapping[str, object] | None) -> Iterator[dict[str, Any]]:
    begun = _response(exchange, answer, "in_progress", [])
    item = _item(exchange, answer)
    part = item["content"][0]
    where = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    yield {"type": events.ITEM, "output_index": 0, "item": {**item, "status": "in_progress", "content": []}}
    if part["type"] == "refusal":
        yield {"type": events.PART, **where, "part": {**part, "refusal": ""}}
        yield {"type": events.REFUSAL, **where, "delta": part["refusal"]}
        yield {"type": events.REFUSAL_DONE, **where, "refusal": part["refusal"]}
    else:
        yield {"type": events.PART, **where, "part": {**part, "text": ""}}
        yield {"type": events.TEXT, **where, "delta": part["text"], "logprobs": []}
        yield {"type": events.TEXT_DONE, **where, "text": part["text"], "logprobs": []}
    yield {"type": events.PART_DONE, **where, "part": part}
    yield {"type": events.ITEM_DONE, "output_index": 0, "item": item}
    done = _response(exchange, answer, "completed", [item])
    yield {"type": "response.completed", "response": done if verdict is None else {**done, "groundwire": verdict}}


def _item(exchange: Exchange, answer: Answer) -> dict[str, Any]:
    choice = answer.choices[0]
    text = {"type": "output_text", "text": choice.text, "annotations": [], "logprobs": []}
    part: dict[str, Any] = {"type": "refusal", "refusal": choice.refusal} if choice.refusal else text
    return {"id": f"msg_{exchange.id}", "type": "message", "status": "completed", "role": "assistant", "content": [part]}


def _response(exchange: Exchange, answer: Answer, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
    asked = {**exchange.original.params, **_asked(exchange)}
    echoed = {name: asked[name] if asked.get(name) is not None else value for name, value in ECHOED.items()}
    created = int(exchange.received_at)
    return {
        "id": own_id(exchange),
        "object": "response",
        "created_at": created,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "model": answer.model,
        "output": output,
        **echoed,
        "usage": _usage(answer) if status == "completed" else None,
    }


def own_id(exchange: Exchange) -> str:
    """The id of a response that the proxy gave itself."""
    return f"resp_{exchange.id}"


def _asked(exchange: Exchange) -> dict[str, Any]:
    """Fields of the body that a stage knows by other names."""
    fields = orjson.loads(exchange.original.wire.body)
    return {name: fields[name] for name in ("tools", "instructions") if name in fields}


def _usage(answer: Answer) -> dict[str, Any]:
    usage = answer.usage or Usage(0, 0)
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
