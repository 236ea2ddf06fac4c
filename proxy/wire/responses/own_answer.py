"""An answer that a stage gave in the model's stead -> a response, whole or as events.

In: an exchange whose `answer` a stage set before the model was asked. Out: what OpenAI's API would send for that text, with one message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from proxy.exchange import Answer, Exchange, Usage

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


def own_response(exchange: Exchange, answer: Answer) -> dict[str, Any]:
    """The response."""
    fields = orjson.loads(exchange.original.wire.body)  # a stage knows some by other names
    asked = {**exchange.original.params, **{name: fields[name] for name in ("tools", "instructions") if name in fields}}
    choice, usage = answer.choices[0], answer.usage or Usage(0, 0)
    text = {"type": "output_text", "text": choice.text, "annotations": [], "logprobs": []}
    part: dict[str, Any] = {"type": "refusal", "refusal": choice.refusal} if choice.refusal else text
    message = {"id": f"msg_{exchange.id}", "type": "message", "status": "completed", "role": "assistant", "content": [part]}
    return {
        "id": own_id(exchange),
        "object": "response",
        "created_at": int(exchange.received_at),
        "status": "completed",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "model": answer.model,
        "output": [message],
        **{name: asked[name] if asked.get(name) is not None else value for name, value in ECHOED.items()},
        "usage": {
            "input_tokens": usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": usage.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        },
    }


def own_id(exchange: Exchange) -> str:
    """The id of a response that the proxy gave itself."""
    return f"resp_{exchange.id}"
