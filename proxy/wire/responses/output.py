"""A Responses answer that came whole: its output items -> an `Answer`, and back into the body with what stages changed.

The answer's text is every text of its messages, in order, with a blank line between two. Its calls are the ``function_call`` items. Pure
functions over the parsed response and over its raw bytes; an item in which nothing changed stays in its own bytes.

Reference: https://platform.openai.com/docs/api-reference/responses/object
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

import msgspec
import orjson

from proxy.exchange import Answer, Exchange, Usage
from proxy.wire.answers import common, has_words, spread
from proxy.wire.bodies import as_raw, encode_raw, object_of, raw_items
from proxy.wire.dialect import Changes
from proxy.wire.responses.events import Place

GAP = "\n\n"
"""Between two texts of one answer."""


def texts_of(output: Sequence[Any], kind: str = "output_text", name: str = "text") -> dict[Place, str]:
    """Every text of the answer's messages, or every refusal, by its place."""
    return {
        (i, j): part[name]
        for i, item in enumerate(output)
        if isinstance(item, dict) and item.get("type") == "message"
        for j, part in enumerate(item.get("content") or () if isinstance(item.get("content"), list) else ())
        if isinstance(part, dict) and part.get("type") == kind and isinstance(part.get(name), str)
    }


def refusals_of(output: Sequence[Any]) -> dict[Place, str]:
    """Every refusal."""
    return texts_of(output, "refusal", "refusal")


def once_more(output: Sequence[Any]) -> str:
    """What some servers say beside `output` as ``output_text``: its texts, joined as the SDKs join them."""
    return "".join(texts_of(output).values())


def join_texts(texts: Mapping[Any, str]) -> str:
    """The answer's text."""
    return GAP.join(text for text in texts.values() if text)


def split_text(texts: Mapping[Place, str], text: str) -> dict[Place, str]:
    """The parts' texts where the answer is to say `text`; only those that change."""
    said = {place: part for place, part in texts.items() if part}
    if not said:
        return dict.fromkeys(list(texts)[:1], text)
    found = dict(zip(said, _spread(list(said.values()), text), strict=True))
    return {place: part for place, part in found.items() if part != said[place]}


def _spread(parts: Sequence[str], text: str) -> list[str]:
    """`text` over as many parts: by its paragraphs, where there are as many as there were, else by the sentences that stayed."""
    counts, paragraphs = [part.count(GAP) + 1 for part in parts], text.split(GAP)
    if len(paragraphs) == sum(counts):
        ends = list(accumulate(counts))
        return [GAP.join(paragraphs[end - count : end]) for end, count in zip(ends, counts, strict=True)]
    spaced = spread([part if i == 0 else GAP + part for i, part in enumerate(parts)], text)
    return [part if i == 0 else part.removeprefix(GAP) for i, part in enumerate(spaced)]


def functions_of(output: Sequence[Any]) -> list[tuple[int, dict[str, Any]]]:
    """The calls of functions, each with its position."""
    return [(i, item) for i, item in enumerate(output) if isinstance(item, dict) and item.get("type") == "function_call"]


def items_of(output: Sequence[Any]) -> dict[str, Mapping[str, Any]]:
    """The items that a later request may name by their ids; of reasoning, that it was there."""
    named = [item for item in output if isinstance(item, dict) and isinstance(item.get("id"), str)]
    return {item["id"]: item if item.get("type") != "reasoning" else {"type": "reasoning", "id": item["id"]} for item in named}


def sendable(output: Sequence[Any]) -> Sequence[Any]:
    """Items of an answer that its provider does not keep, as they can be sent: thoughts that came without their content can not, and what
    followed them then has no ids."""
    items = [item for item in output if object_of(item).get("type") != "reasoning" or item.get("encrypted_content")]
    if len(items) == len(output):
        return output
    return [{name: value for name, value in object_of(item).items() if name != "id"} for item in items]


def streamed_places(streamed: Mapping[int, Any], output: Sequence[Any]) -> list[int]:
    """Where each item of a response's end stood in its stream, whose items these are by position: some servers order them anew at the end,
    or count them otherwise. An item that the stream did not tell stands where it is.
    """
    known = {name: at for at, item in streamed.items() for name in _names_of(item)}
    found = []
    for i, item in enumerate(output):
        names = _names_of(item)
        here = not set(names).isdisjoint(_names_of(streamed.get(i)))
        found.append(i if here else next((known[name] for name in names if name in known), i))
    return found


def _names_of(item: object) -> list[tuple[str, str]]:
    """By what an item is known again: its id, its call's, else what it says or asks for."""
    if not isinstance(item, dict):
        return []
    told = {name: item.get(name) for name in ("id", "call_id", "arguments", "input")} | {"text": "".join(texts_of([item]).values())}
    return [(str(item.get("name")) + "." + name, value) for name, value in told.items() if isinstance(value, str) and value]


def finish_reason(response: Mapping[str, Any], calls: bool) -> str | None:
    """In chat's words."""
    if response.get("status") == "incomplete":
        details = response.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) else None
        return "content_filter" if reason == "content_filter" else "length"
    return "tool_calls" if calls else "stop"


def is_read(part: object) -> bool:
    """Whether what a part of a message says is read, or it says nothing."""
    if not isinstance(part, dict):
        return False
    if part.get("type") in ("output_text", "refusal"):
        name = "text" if part["type"] == "output_text" else "refusal"
        return isinstance(part.get(name), str | None)
    return not has_words(part)


def change(raw: dict[str, msgspec.Raw], changes: Changes) -> None:
    """Bring what changed into a response's fields."""
    items, output = raw_items(raw["output"]), orjson.loads(bytes(raw["output"]))
    said = {place: text for new in changes.texts.values() for place, text in split_text(texts_of(output), new).items()}
    refused = {place: text for new in changes.refusals.values() for place, text in split_text(refusals_of(output), new).items()}
    given = changes.arguments.get(0, {})
    arguments = {i: given[index] for index, (i, _) in enumerate(functions_of(output)) if index in given}
    for i in {place[0] for place in (*said, *refused)} | arguments.keys():
        items[i] = encode_raw(changed_item(output[i], i, said, refused, arguments))
    raw["output"] = as_raw(items)
    if changes.texts and bytes(raw.get("output_text", b"")).startswith(b'"'):
        raw["output_text"] = encode_raw(once_more(orjson.loads(bytes(raw["output"]))))


def changed_item(
    item: dict[str, Any], position: int, texts: Mapping[Place, str], refusals: Mapping[Place, str], arguments: Mapping[int, str]
) -> dict[str, Any]:
    """An output item that says what these say at its position; itself where nothing changes."""
    if position in arguments and item.get("arguments") != arguments[position]:
        return {**item, "arguments": arguments[position]}
    content = item.get("content")
    if item.get("type") != "message" or not isinstance(content, list):
        return item
    parts = [changed_part(part, texts.get((position, j)), refusals.get((position, j))) for j, part in enumerate(content)]
    return item if all(new is old for new, old in zip(parts, content, strict=True)) else {**item, "content": parts}


def changed_part(part: Any, text: str | None, refusal: str | None = None) -> Any:
    """A part that says `text`, or refuses with `refusal`; itself where that is what it says, or None."""
    if not isinstance(part, dict):
        return part
    if part.get("type") == "refusal":
        return part if refusal in (None, part.get("refusal")) else {**part, "refusal": refusal}
    old = part.get("text")
    if part.get("type") != "output_text" or text is None or text == old or not isinstance(old, str):
        return part
    new = {**part, "text": text}
    if isinstance(part.get("annotations"), list):
        new["annotations"] = [now for one in part["annotations"] if (now := move_annotation(one, old, text)) is not None]
    if part.get("logprobs"):  # they belong to the words that were replaced
        new["logprobs"] = []
    return new


def move_annotation(annotation: Any, old: str, new: str) -> Any:
    """An annotation of `old`, whose offsets count its characters, as one of `new`; None where its words may have been changed.

    What lies between the first and the last change counts as changed.
    """
    if not isinstance(annotation, dict):
        return annotation
    start, end, index = (annotation.get(name) for name in ("start_index", "end_index", "index"))
    head, tail = _same_ends(old, new)
    by = len(new) - len(old)
    if isinstance(start, int) and isinstance(end, int):
        if end <= head:
            return annotation
        return {**annotation, "start_index": start + by, "end_index": end + by} if start >= tail else None
    if isinstance(index, int) and "filename" in annotation:  # a single character's place
        return {**annotation, "index": index + by if index >= tail else min(index, head)}
    return annotation


@lru_cache(maxsize=8)
def _same_ends(old: str, new: str) -> tuple[int, int]:
    """Where `old` ends to be as `new` is, and from where on it is so again."""
    head = common(old, new)
    return head, len(old) - common(old[head:][::-1], new[head:][::-1])


ECHOED_FIELDS: Mapping[str, Any] = {
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
    choice = answer.choices[0]
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
        **{name: asked[name] if asked.get(name) is not None else value for name, value in ECHOED_FIELDS.items()},
        "usage": usage_object(answer.usage or Usage(0, 0)),
    }


def usage_object(usage: Usage) -> dict[str, Any]:
    """As a response tells it."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": usage.written_tokens},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def own_id(exchange: Exchange) -> str:
    """The id of a response that the proxy gave itself."""
    return f"resp_{exchange.id}"
