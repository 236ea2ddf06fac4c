"""An exchange again, from its record with bodies: the way back of `proxy.observe.recording`, for what replays stored traffic in shadow.

What was masked when the record was written stays so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from proxy.config.settings import SHADOW
from proxy.exchange import Answer, Choice, Exchange, Prompt, Request, Usage
from proxy.exchange.answers import OutputRequirements
from proxy.store.records import Record, RecordTexts
from proxy.wire import bodies
from proxy.wire.gemini.address import GENERATE
from proxy.wire.gemini.requests import output_requirements_of as of_gemini
from proxy.wire.messages.requests import output_requirements_of as of_messages
from proxy.wire.requests import output_requirements_of as of_chat
from proxy.wire.responses.dialect import output_requirements_of as of_responses

_READERS: Mapping[str, Callable[[Mapping[str, Any]], OutputRequirements]] = {
    GENERATE: of_gemini,
    "/messages": of_messages,
    "/responses": of_responses,
}
"""By path; that of chat completions reads what is of no other."""
_NOT_PARAMS = ("model", "messages", "tools", bodies.EXTENSION)


def answer_of(row: Record, detail: RecordTexts) -> Answer | None:
    """As it came from the upstream; None where none is there."""
    try:
        choices = msgspec.convert(msgspec.json.decode(row.answer_body or b"{}").get("choices"), tuple[Choice, ...])
    except (msgspec.DecodeError, AttributeError):
        return None
    usage = Usage(detail.usage.prompt, detail.usage.completion, detail.usage.cached) if detail.usage is not None else None
    return Answer(choices, row.model, usage) if choices else None


def exchange_of(row: Record, detail: RecordTexts, answer: Answer, policy: str, model: str) -> Exchange:
    """Not enforced, under the label `policy`, as it was before any stage saw it. Raises `ValueError`, `TypeError`, `KeyError`.

    `model` is its name in the list of prices and windows.
    """
    body = msgspec.json.decode(row.request_body or b"")
    extension = body.get(bodies.EXTENSION) or {}
    params = {name: value for name, value in body.items() if name not in _NOT_PARAMS}
    reader = _READERS.get(row.path, of_chat)
    request = Request(
        row.model,
        tuple(body["messages"]),
        tuple(body["tools"]),
        params,
        stream=row.stream,
        wants=reader(params),
        read_wants=reader,
        passages=bodies.passages_of(extension),
        message_hints={int(i): hint for i, hint in extension.get("messages", {}).items()},
        has_context="context" in extension,
        size=len(row.request_body or b""),
    )
    exchange = Exchange(
        id=row.id,
        route=row.route,
        policy=policy,
        upstream=row.upstream,
        client=row.client.removesuffix(SHADOW) + SHADOW,
        original=request,
        model=model,
        prompt=Prompt(request.messages, request.tools, request.params, evidence=request.passages),
        run_id=row.run_id,
        step_id=row.step_id,
        skip=frozenset(detail.skip),
        enforced=False,
        received_at=row.created_at,
    )
    exchange.answer = exchange.upstream_answer = answer
    return exchange
