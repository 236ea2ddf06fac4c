"""What a provider of OpenAI's Responses says: whole responses, and the events of streamed ones."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Item = dict[str, Any]
USAGE = {
    "input_tokens": 9,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
    "output_tokens": 3,
    "output_tokens_details": {"reasoning_tokens": 1},
    "total_tokens": 12,
}


def text_item(*texts: str, identity: str = "msg_1", annotations: Sequence[Item] = (), **more: object) -> Item:
    """A message of the model's, one part a text."""
    content = [{"type": "output_text", "text": text, "annotations": list(annotations), "logprobs": []} for text in texts]
    return {"id": identity, "type": "message", "status": "completed", "role": "assistant", "content": content, **more}


def refusal_item(refusal: str) -> Item:
    return {**text_item(), "content": [{"type": "refusal", "refusal": refusal}]}


def call_item(name: str, arguments: str, call_id: str = "call_1") -> Item:
    return {"id": "fc_" + call_id, "type": "function_call", "status": "completed", "call_id": call_id, "name": name, "arguments": arguments}


def reasoning_item(identity: str = "rs_1") -> Item:
    return {"id": identity, "type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "gAAAB=="}


def response(*output: Item, **more: object) -> dict[str, Any]:
    """A whole response."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1700000000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "model": "gpt-5-2025-08-07",
        "output": list(output),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": USAGE,
        **more,
    }


def event(kind: str, **fields: object) -> Item:
    return {"type": kind, **fields}


def events(*output: Item, words: int = 2, ends: str = "completed", **more: object) -> list[bytes]:
    """The events of a streamed response, its texts in pieces of so many words."""
    numbered = enumerate(_events(output, words, ends, more))
    return [encode({**one, "sequence_number": number}) for number, one in numbered]


def encode(one: Mapping[str, Any]) -> bytes:
    return b"event: " + one["type"].encode() + b"\ndata: " + json.dumps(one, ensure_ascii=False).encode() + b"\n\n"


def decoded(stream: bytes) -> list[Item]:
    """The data of the events in a stream; the names are the types."""
    found = []
    for block in stream.decode().split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines and lines[0].startswith("event: "):
            data = json.loads(lines[1].removeprefix("data: "))
            assert lines[0].removeprefix("event: ") == data["type"]
            found.append(data)
    return found


def _events(output: Sequence[Item], words: int, ends: str, more: Mapping[str, object]) -> Iterator[Item]:
    begun = response(status="in_progress", usage=None, **more)
    yield event("response.created", response=begun)
    yield event("response.in_progress", response=begun)
    for i, item in enumerate(output):
        yield from _item_events(i, item, words)
    yield event(f"response.{ends}", response=response(*output, **({"status": ends} | dict(more))))


def _item_events(i: int, item: Item, words: int) -> Iterator[Item]:
    where = {"item_id": item["id"], "output_index": i}
    kind = item["type"]
    empty = {"message": {"content": []}, "function_call": {"arguments": ""}, "reasoning": {"summary": []}}.get(kind, {})
    yield event("response.output_item.added", output_index=i, item={**item, "status": "in_progress", **empty})
    if kind == "message":
        for j, part in enumerate(item["content"]):
            yield from _part_events({**where, "content_index": j}, part, words)
    elif kind == "function_call":
        half = len(item["arguments"]) // 2
        for piece in (item["arguments"][:half], item["arguments"][half:]):
            yield event("response.function_call_arguments.delta", **where, delta=piece)
        yield event("response.function_call_arguments.done", **where, name=item["name"], arguments=item["arguments"])
    elif kind == "reasoning":
        summary = item["summary"][0]
        yield event("response.reasoning_summary_part.added", **where, summary_index=0, part={**summary, "text": ""})
        yield event("response.reasoning_summary_text.delta", **where, summary_index=0, delta=summary["text"])
        yield event("response.reasoning_summary_text.done", **where, summary_index=0, text=summary["text"])
        yield event("response.reasoning_summary_part.done", **where, summary_index=0, part=summary)
    yield event("response.output_item.done", output_index=i, item=item)


def _part_events(where: Mapping[str, object], part: Item, words: int) -> Iterator[Item]:
    name, kind = ("refusal", "refusal") if part["type"] == "refusal" else ("text", "output_text")
    listed = {"logprobs": []} if kind == "output_text" else {}
    yield event("response.content_part.added", **where, part={**part, name: "", **({"annotations": []} if listed else {})})
    pieces = part[name].split(" ")
    for at in range(0, len(pieces), words):
        text = " ".join(pieces[at : at + words]) + (" " if at + words < len(pieces) else "")
        yield event(f"response.{kind}.delta", **where, delta=text, **listed)
    for index, annotation in enumerate(part.get("annotations", ())):
        yield event("response.output_text.annotation.added", **where, annotation_index=index, annotation=annotation)
    yield event(f"response.{kind}.done", **where, **{name: part[name]}, **listed)
    yield event("response.content_part.done", **where, part=part)
