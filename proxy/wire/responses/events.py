"""The events of a Responses stream: their types, where they belong, and how one is written.

Reference: https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from proxy.wire import sse
from proxy.wire.bodies import EXTENSION, object_of, objects_of

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
CALLS: Mapping[str, tuple[str, str]] = {
    "function_call": ("response.function_call_arguments", "arguments"),
    "custom_tool_call": ("response.custom_tool_call_input", "input"),
}
"""The beginning of the types of a call's events, and the field of what it is given, by the item's type."""
CALL_INPUT_FIELDS: Mapping[str, str] = {
    **dict(CALLS.values()),
    "response.mcp_call_arguments": "arguments",
    "response.code_interpreter_call_code": "code",
}
"""Beginnings of the types that tell what a call takes, with the field of its item that says it again."""
_DEEPER_INPUT_FIELDS: Mapping[str, str] = {"response.shell_call_command": "command", "response.apply_patch_call_operation_diff": "diff"}
"""The same of calls whose items say it deeper inside; the field is that of the event."""
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
        "response.web_search response.file_search response.image_generation response.shell_call response.apply_patch_call "
        "response.audio.delta response.audio.done error"
    )
)
"""Beginnings of the types whose words are no part of the answer's text."""


def place_of(event: Mapping[str, Any]) -> Place:
    """The item and the part of it that an event is about."""
    return index_of(event), _whole(event.get("content_index"))


def index_of(event: Mapping[str, Any]) -> int:
    """The position of the item that an event is about."""
    return _whole(event.get("output_index"))


def response_of(event: Mapping[str, Any]) -> dict[str, Any]:
    """The response that an event carries; empty where there is none."""
    return object_of(event.get("response"))


def owner_of(kind: str) -> str:
    """The type of the items that events of this type are about."""
    name = kind.split(".")[1]
    return _OWNERS.get(name, name)


def call_input_of(kind: str) -> tuple[str, bool] | None:
    """Of an event that tells what a call takes: the field that says it whole, and whether all of it is told."""
    begin, _, step = kind.rpartition(".")
    field = CALL_INPUT_FIELDS.get(begin) or _DEEPER_INPUT_FIELDS.get(begin)
    return (field, step == "done") if field else None


def delta_in(event: Mapping[str, Any]) -> str:
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


Payload = dict[str, Any]
_SUMMARY = "response.reasoning_summary_"


def to_events(response: Mapping[str, Any], asked: bytes) -> bytes:
    """The events of a response. Raises `ValueError` for what is none."""
    numbered = enumerate(payloads(response))
    return b"".join(encode({**payload, "sequence_number": number}, named=True) for number, payload in numbered)


def payloads(response: Mapping[str, Any]) -> Iterator[Payload]:
    """The same parsed. Raises `ValueError`."""
    if not isinstance(response.get("output"), list) or _end_of(response) not in ENDS:  # one in the background has not ended
        raise ValueError("not a response that has ended")
    begun = {**response, "status": "in_progress", "output": [], "usage": None, "error": None, "incomplete_details": None}
    begun.pop(EXTENSION, None)
    for kind in BEGINS[:2]:
        yield {"type": kind, "response": begun}
    for index, item in enumerate(response["output"]):
        if isinstance(item, dict):
            yield from _item(index, item)
    end = _end_of(response)
    yield {"type": end, "response": {**response, "status": end.removeprefix("response.")}}


def _end_of(response: Mapping[str, Any]) -> str:
    return f"response.{response.get('status') or 'completed'}"


def _item(index: int, item: Payload) -> Iterator[Payload]:
    at = {"item_id": item.get("id"), "output_index": index}
    kind, given = str(item.get("type")), CALLS.get(str(item.get("type")))
    empty: Payload = {given[1]: ""} if given else {"content": []} if kind == "message" else {"summary": []} if "summary" in item else {}
    yield {"type": ITEM, "output_index": index, "item": {**item, "status": "in_progress", **empty}}
    if given and isinstance(said := item.get(given[1]), str):
        yield {"type": f"{given[0]}.delta", **at, "delta": said}
        yield {"type": f"{given[0]}.done", **at, **({"name": item.get("name")} if kind == "function_call" else {}), given[1]: said}
    for place, part in enumerate(objects_of(item.get("content")) if kind == "message" else ()):
        yield from _part({**at, "content_index": place}, part)
    for place, part in enumerate(objects_of(item.get("summary")) if kind == "reasoning" else ()):
        where, text = {**at, "summary_index": place}, str(part.get("text") or "")
        yield {"type": _SUMMARY + "part.added", **where, "part": {**part, "text": ""}}
        yield {"type": _SUMMARY + "text.delta", **where, "delta": text}
        yield {"type": _SUMMARY + "text.done", **where, "text": text}
        yield {"type": _SUMMARY + "part.done", **where, "part": part}
    yield {"type": ITEM_DONE, "output_index": index, "item": item}


def _part(at: Payload, part: Payload) -> Iterator[Payload]:
    refuses = part.get("type") == "refusal"
    name = "refusal" if refuses else "text"
    empty = {name: ""} if refuses else {name: "", **({"annotations": []} if "annotations" in part else {})}
    yield {"type": PART, **at, "part": {**part, **empty}}
    if isinstance(text := part.get(name), str):
        listed: Payload = {} if refuses else {"logprobs": part.get("logprobs") or []}
        if text:
            yield {"type": REFUSAL if refuses else TEXT, **at, "delta": text, **listed}
        for place, one in enumerate(objects_of(part.get("annotations"))):
            yield {"type": ANNOTATION, **at, "annotation_index": place, "annotation": one}
    yield from part_ends(at, part)


def part_ends(at: Payload, part: Payload) -> Iterator[Payload]:
    """A part has ended: its text, or refusal, once more, and all of it."""
    if part.get("type") == "refusal" and isinstance(part.get("refusal"), str):
        yield {"type": REFUSAL_DONE, **at, "refusal": part["refusal"]}
    elif part.get("type") != "refusal" and isinstance(part.get("text"), str):
        yield {"type": TEXT_DONE, **at, "text": part["text"], "logprobs": part.get("logprobs") or []}
    yield {"type": PART_DONE, **at, "part": part}


def to_whole(payloads: Iterable[Mapping[str, Any]], *, marked: bool) -> Payload | None:
    """The response that a stream's last event has, with the items of those before it where it has none; None where it broke off."""
    items: dict[int, Payload] = {}
    for payload in payloads:
        if payload.get("type") == ITEM_DONE and isinstance(payload.get("item"), dict):
            items[index_of(payload)] = payload["item"]
        if payload.get("type") in ENDS:
            response = response_of(payload)
            return {**response, "output": response.get("output") or [items[index] for index in sorted(items)]}
    return None
