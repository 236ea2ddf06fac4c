"""The events of a Responses stream: their types, where they belong, and how one is written.

Reference: https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from proxy.wire import sse

Place = tuple[int, int]
"""An output item's position, and a part's position in its content."""
TEXT, TEXT_DONE = "response.output_text.delta", "response.output_text.done"
REFUSAL, REFUSAL_DONE = "response.refusal.delta", "response.refusal.done"
ARGUMENTS, ARGUMENTS_DONE = "response.function_call_arguments.delta", "response.function_call_arguments.done"
ANNOTATION = "response.output_text.annotation.added"
ITEM, ITEM_DONE = "response.output_item.added", "response.output_item.done"
PART, PART_DONE = "response.content_part.added", "response.content_part.done"
BEGINS = ("response.created", "response.in_progress", "response.queued")
ENDS = ("response.completed", "response.incomplete", "response.failed")
THOUGHTS = ("response.reasoning_text.delta", "response.reasoning_summary_text.delta")
GIVEN: Mapping[str, str] = {
    "response.function_call_arguments": "arguments",
    "response.custom_tool_call_input": "input",
    "response.mcp_call_arguments": "arguments",
    "response.code_interpreter_call_code": "code",
}
"""Beginnings of the types that tell what a call takes, with the field of its item that says it again."""
_OWNERS: Mapping[str, str] = {
    "output_text": "message",
    "refusal": "message",
    "content_part": "message",
    "reasoning_text": "reasoning",
    "reasoning_summary_text": "reasoning",
    "reasoning_summary_part": "reasoning",
    "function_call_arguments": "function_call",
    "custom_tool_call_input": "custom_tool_call",
    "mcp_call_arguments": "mcp_call",
    "code_interpreter_call_code": "code_interpreter_call",
}
"""The type of the items that events are of, by the second part of their own; of others, that is it."""
_SILENT = tuple(
    str.split(
        "response.reasoning response.function_call response.custom_tool_call response.mcp_ response.code_interpreter "
        "response.web_search response.file_search response.image_generation response.audio.delta response.audio.done error"
    )
)
"""Beginnings of the types whose words are no part of the answer's text."""


def event_of(data: bytes) -> dict[str, Any] | None:
    """An event's data; None for what is none of this API's."""
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("type"), str) else None


def place_of(event: Mapping[str, Any]) -> Place:
    """The item and the part of it that an event is about."""
    return index_of(event), _whole(event.get("content_index"))


def index_of(event: Mapping[str, Any]) -> int:
    """The position of the item that an event is about."""
    return _whole(event.get("output_index"))


def response_of(event: Mapping[str, Any]) -> dict[str, Any]:
    """The response that an event carries; empty where there is none."""
    response = event.get("response")
    return response if isinstance(response, dict) else {}


def owner_of(kind: str) -> str:
    """The type of the items that events of this type are about."""
    name = kind.split(".")[1]
    return _OWNERS.get(name, name)


def given_in(kind: str) -> tuple[str, bool] | None:
    """Of an event that tells what a call takes: the field of its item that says it again, and whether all of it is told."""
    begin, _, step = kind.rpartition(".")
    return (GIVEN[begin], step == "done") if begin in GIVEN else None


def said(event: Mapping[str, Any]) -> str:
    """The words of a delta; "" for what is no text, which no client shows."""
    delta = event.get("delta")
    return delta if isinstance(delta, str) else ""


def is_unread(event: Mapping[str, Any]) -> bool:
    """Whether it is of a type that is not known, and has words that a client may show."""
    if str(event["type"]).startswith(_SILENT):
        return False
    return any(isinstance(event.get(name), str) and event[name] for name in ("delta", "text", "refusal", "transcript"))


def encode(event: Mapping[str, Any], *, named: bool) -> bytes:
    """An event as the API writes it: with its type as its name, where the upstream does so too."""
    data = sse.encode(orjson.dumps({name: value for name, value in event.items() if not name.startswith("_")}))
    return b"event: " + str(event["type"]).encode() + b"\n" + data if named else data


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
