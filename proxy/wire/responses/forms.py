"""A response as events, and events as a response: nothing of it is lost on the way.

For upstreams that answer in one form though the other was asked for.
Reference: https://platform.openai.com/docs/api-reference/responses-streaming
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from proxy.wire.bodies import EXTENSION
from proxy.wire.responses import events

Payload = dict[str, Any]
_GIVEN: Mapping[str, tuple[str, str]] = {
    "function_call": ("response.function_call_arguments", "arguments"),
    "custom_tool_call": ("response.custom_tool_call_input", "input"),
}
"""The beginning of the names of a call's events, and the field of what it is given, by the item's type."""
_SUMMARY = "response.reasoning_summary_"


def to_events(response: Mapping[str, Any], asked: bytes) -> bytes:
    """The events of a response. Raises `ValueError` for what is none."""
    if not isinstance(response.get("output"), list) or _end_of(response) not in events.ENDS:  # one in the background has not ended
        raise ValueError("not a response that has ended")
    numbered = enumerate(_payloads(response))
    return b"".join(events.encode({**payload, "sequence_number": number}, named=True) for number, payload in numbered)


def _payloads(response: Mapping[str, Any]) -> Iterator[Payload]:
    begun = {**response, "status": "in_progress", "output": [], "usage": None, "error": None, "incomplete_details": None}
    begun.pop(EXTENSION, None)
    for kind in events.BEGINS[:2]:
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
    kind, given = str(item.get("type")), _GIVEN.get(str(item.get("type")))
    empty: Payload = {given[1]: ""} if given else {"content": []} if kind == "message" else {"summary": []} if "summary" in item else {}
    yield {"type": events.ITEM, "output_index": index, "item": {**item, "status": "in_progress", **empty}}
    if given and isinstance(said := item.get(given[1]), str):
        yield {"type": f"{given[0]}.delta", **at, "delta": said}
        yield {"type": f"{given[0]}.done", **at, **({"name": item.get("name")} if kind == "function_call" else {}), given[1]: said}
    for place, part in enumerate(_parts(item, "content") if kind == "message" else ()):
        yield from _part({**at, "content_index": place}, part)
    for place, part in enumerate(_parts(item, "summary") if kind == "reasoning" else ()):
        where, text = {**at, "summary_index": place}, str(part.get("text") or "")
        yield {"type": _SUMMARY + "part.added", **where, "part": {**part, "text": ""}}
        yield {"type": _SUMMARY + "text.delta", **where, "delta": text}
        yield {"type": _SUMMARY + "text.done", **where, "text": text}
        yield {"type": _SUMMARY + "part.done", **where, "part": part}
    yield {"type": events.ITEM_DONE, "output_index": index, "item": item}


def _part(at: Payload, part: Payload) -> Iterator[Payload]:
    refuses = part.get("type") == "refusal"
    name = "refusal" if refuses else "text"
    empty = {name: ""} if refuses else {name: "", **({"annotations": []} if "annotations" in part else {})}
    yield {"type": events.PART, **at, "part": {**part, **empty}}
    if isinstance(text := part.get(name), str):
        listed: Payload = {} if refuses else {"logprobs": part.get("logprobs") or []}
        if text:
            yield {"type": events.REFUSAL if refuses else events.TEXT, **at, "delta": text, **listed}
        for place, one in enumerate(_parts(part, "annotations")):
            yield {"type": events.ANNOTATION, **at, "annotation_index": place, "annotation": one}
        yield {"type": events.REFUSAL_DONE if refuses else events.TEXT_DONE, **at, name: text, **listed}
    yield {"type": events.PART_DONE, **at, "part": part}


def _parts(item: Mapping[str, Any], name: str) -> list[Payload]:
    given = item.get(name)
    return [part for part in given if isinstance(part, dict)] if isinstance(given, list) else []


def to_whole(payloads: Iterable[Mapping[str, Any]], *, marked: bool) -> Payload | None:
    """The response that a stream's last event has, with the items of those before it where it has none; None where it broke off."""
    items: dict[int, Payload] = {}
    for payload in payloads:
        if payload.get("type") == events.ITEM_DONE and isinstance(payload.get("item"), dict):
            items[events.index_of(payload)] = payload["item"]
        if payload.get("type") in events.ENDS:
            response = events.response_of(payload)
            return {**response, "output": response.get("output") or [items[index] for index in sorted(items)]}
    return None
