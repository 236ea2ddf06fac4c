"""What an upstream may do to a stream: events more or fewer, in another order, that repeat a text otherwise; lines that readers read apart."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from proxy.config.settings import Api
from tests.clients.oracle import changes
from tests.clients.oracle.right import DONE, Event
from tests.clients.oracle.words import WORD, Words
from tests.wire.translation import chat_api

Change = Callable[[Api, list[Event], random.Random, Words], None]
RESPONSES_EVENTS = str.split("""response.output_text.delta response.output_text.done response.refusal.delta response.refusal.done
response.reasoning_text.delta response.reasoning_text.done response.reasoning_summary_text.delta response.reasoning_summary_text.done
response.reasoning_summary_part.added response.reasoning_summary_part.done response.reasoning_summary.delta
response.content_part.added response.content_part.done response.output_item.added response.output_item.done response.created
response.in_progress response.queued response.completed response.incomplete response.failed response.audio.delta
response.audio.transcript.delta response.audio.transcript.done response.output_text.annotation.added
response.function_call_arguments.delta response.function_call_arguments.done response.custom_tool_call_input.delta
response.custom_tool_call_input.done response.mcp_call_arguments.delta response.mcp_call_arguments.done response.mcp_call.failed
response.code_interpreter_call_code.delta response.code_interpreter_call_code.done response.web_search_call.searching
response.image_generation_call.partial_image response.text.delta response.x_unknown keepalive error""")
MESSAGES_EVENTS = str.split("""message_start content_block_start content_block_delta content_block_stop message_delta message_stop ping error
completion x_unknown""")
DELTAS = str.split("""text_delta input_json_delta thinking_delta signature_delta citations_delta compaction_delta x_delta""")


def event_of(api: Api, rng: random.Random, words: Words) -> Event:
    """An event of any type, with text in the places of its type."""
    if api == "chat":
        delta = rng.choice(({rng.choice(changes.FIELDS): changes.said(rng, words)}, {"content": words.word()}))
        if rng.random() < 0.4:
            return Event({rng.choice(changes.FIELDS): changes.said(rng, words)})
        choice = {"index": rng.choice((0, 0, 1, 7, -1, "0", None, True)), "delta": delta, "finish_reason": rng.choice((None, "stop"))}
        return Event({**chat_api.HEAD, "object": "chat.completion.chunk", "choices": [choice]})
    if api == "responses":
        kind = rng.choice(RESPONSES_EVENTS)
        where = {"item_id": "msg_1", "output_index": rng.choice((0, 0, 1)), "content_index": rng.choice((0, 0, 1)), "summary_index": 0}
        names = ("delta", "text", "part", "item", "response", "annotation", "refusal", "arguments", "input", "code", "partial_image_b64")
        fields = {name: _filled(name, rng, words) for name in rng.sample(names, 3)}
        return Event({"type": kind, "sequence_number": rng.randrange(30), **where, **fields}, kind)
    kind = rng.choice(MESSAGES_EVENTS)
    delta = {"type": rng.choice(DELTAS), rng.choice(("text", "thinking", "partial_json", "citation", "content")): changes.said(rng, words)}
    block = changes.thing(rng, words)
    data = {"type": kind, "index": rng.choice((0, 0, 1, 2)), "delta": delta, "content_block": block}
    if kind in ("message_start", "completion", "ping", "x_unknown"):
        data |= {"message": {"type": "message", "role": "assistant", "content": [block]}, "completion": words.word()}
    return Event(data, kind)


def _filled(name: str, rng: random.Random, words: Words) -> Any:
    if name in ("part", "item", "annotation"):
        return changes.thing(rng, words)
    if name == "response":
        part = {"type": "output_text", "text": words.word(), "annotations": [], "logprobs": []}
        item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
        return {"id": "resp_1", "object": "response", "output": rng.choice(([], [item])), "output_text": words.word()}
    return changes.said(rng, words) if rng.random() < 0.5 else words.word()


def new_event(api: Api, events: list[Event], rng: random.Random, words: Words) -> None:
    """One more, anywhere: also behind the end."""
    events.insert(rng.randrange(len(events) + 1), event_of(api, rng, words))


def event_behind_the_end(api: Api, events: list[Event], rng: random.Random, words: Words) -> None:
    """The answer goes on where it is over."""
    spoken = _spoken(events)
    events.append(Event(changes.renamed(rng.choice(spoken).data, words)) if spoken else event_of(api, rng, words))


def repeated(api: Api, events: list[Event], rng: random.Random, words: Words) -> None:
    """An event comes once more, with other words, anywhere."""
    event = rng.choice(events)
    events.insert(rng.randrange(len(events) + 1), Event(changes.renamed(event.data, words), event.name))


def retold(api: Api, events: list[Event], rng: random.Random, words: Words) -> None:
    """One event says other words than the others do of the same text."""
    if spoken := _spoken(events):
        event = rng.choice(spoken)
        event.data = changes.renamed(event.data, words)


def moved(api: Api, events: list[Event], rng: random.Random, words: Words) -> None:
    """An event comes earlier or later."""
    event = events.pop(rng.randrange(len(events)))
    events.insert(rng.randrange(len(events) + 1), event)


def left_out(api: Api, events: list[Event], rng: random.Random, words: Words) -> None:
    """One does not come."""
    if len(events) > 1:
        events.pop(rng.randrange(len(events)))


def other_place(api: Api, events: list[Event], rng: random.Random, words: Words) -> None:
    """A delta names another place, or none that is a number."""
    places = ("index", "output_index", "content_index", "item_id", "summary_index", "sequence_number")
    found = [
        (node, key) for event in events for node in changes.nodes(event.data) if isinstance(node, dict) for key in node if key in places
    ]
    if found:
        node, key = rng.choice(found)
        node[key] = rng.choice((1, 2, 99, -1, "0", None, True, 0.0, 2**70, words.word()))


def spread(api: Api, events: list[Event], rng: random.Random, words: Words) -> None:
    """A word comes over several places: choices, blocks, items, parts."""
    spoken = [event for event in _spoken(events) if isinstance(event.data, dict)]
    if not spoken:
        return
    event = rng.choice(spoken)
    at = next(i for i, one in enumerate(events) if one is event)
    first, second = (changes._copy(event.data) for _ in range(2))
    for (node, key), (other, _) in zip(changes._text_fields(first), changes._text_fields(second), strict=True):
        node[key], other[key] = changes.cut(node[key], rng)
    for node in [*_choices(second), second]:
        for name in ("index", "content_index", "output_index"):
            if isinstance(node.get(name), int) and rng.random() < 0.7:
                node[name] += 1
    between = [event_of(api, rng, words)] if rng.random() < 0.3 else []
    events[at : at + 1] = [Event(first, event.name), *between, Event(second, event.name)]


def other_choice(api: Api, events: list[Event], rng: random.Random, words: Words) -> None:
    """From some event on, the text comes as another choice's or block's."""
    at = rng.randrange(len(events))
    for event in events[at : at + rng.randrange(1, 4)]:
        for node in [*_choices(event.data), *([event.data] if isinstance(event.data, dict) else [])]:
            if isinstance(node.get("index"), int):
                node["index"] += 1


def snapshot(api: Api, events: list[Event], rng: random.Random, words: Words) -> None:
    """An event that repeats the answer, or begins it, says something else, or more."""
    holders = [node for event in events for node in changes.nodes(event.data) if isinstance(node, dict) and _is_snapshot(node)]
    if holders:
        node = rng.choice(holders)
        key = rng.choice(
            ("output_text", "output", "content", "text", "instructions", "error", "incomplete_details", "stop_reason", "usage")
        )
        node[key] = _filled("response", rng, words)["output"] if key == "output" else changes.said(rng, words)


def _is_snapshot(node: dict[str, Any]) -> bool:
    return node.get("object") == "response" or node.get("type") == "message" or "content_block" in node or "part" in node


def bare(api: Api, events: list[Event], rng: random.Random, words: Words) -> None:
    """An event is no object."""
    made = rng.choice((words.word(), json.dumps(words.word()), json.dumps([words.word()]), str(words.number()), f"[DONE] {words.word()}"))
    events.insert(rng.randrange(len(events) + 1), Event(made))


def other_name(api: Api, events: list[Event], rng: random.Random, words: Words) -> None:
    """An event's name is not its type."""
    names = (*MESSAGES_EVENTS, *RESPONSES_EVENTS[:6], words.word(), "")
    rng.choice(events).name = rng.choice(names)


def ends_early(api: Api, events: list[Event], rng: random.Random, words: Words) -> None:
    """The end mark comes before the end."""
    events.insert(rng.randrange(len(events)), Event(DONE))


def breaks_off(api: Api, events: list[Event], rng: random.Random, words: Words) -> None:
    """Nothing comes behind some event; or an error does, and then the rest."""
    at = rng.randrange(1, len(events) + 1)
    if rng.random() < 0.6:
        del events[at:]
    else:
        error = {"type": "server_error", "code": "server_error", "message": "no"}
        events.insert(at, Event({"error": error} if api == "chat" else {"type": "error", "error": error, **error}))


def value(api: Api, events: list[Event], rng: random.Random, words: Words) -> None:
    """One event's data, changed."""
    rng.choice(changes.CHANGES)(rng.choice(events).data, rng, words)


def _choices(data: Any) -> list[dict[str, Any]]:
    found = data.get("choices") if isinstance(data, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _spoken(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if isinstance(event.data, dict) and WORD.search(json.dumps(event.data))] or [
        event for event in events if isinstance(event.data, dict) and changes._text_fields(event.data)
    ]


CHANGES: tuple[Change, ...] = (
    value,
    value,
    value,
    new_event,
    new_event,
    event_behind_the_end,
    repeated,
    retold,
    moved,
    left_out,
    other_place,
    spread,
    spread,
    other_choice,
    snapshot,
    snapshot,
    bare,
    breaks_off,
    breaks_off,
    other_name,
    ends_early,
)

# ---- lines ----

BREAKS = ("\u2028", "\u2029", "\x0b", "\x0c", "\x1c", "\x85", "\r")
"""Where some readers end a line, and the standard does not; but for the last."""


def written(events: Sequence[Event], texts: Sequence[str], rng: random.Random, words: Words, api: Api) -> bytes:
    """The stream in bytes; `texts` are the events' data. In one of three, some of its lines are none for every reader."""
    blocks = [_block(event, text) for event, text in zip(events, texts, strict=True)]
    if rng.random() < 0.33:
        for _ in range(rng.choice((1, 1, 2))):
            _line_trick(blocks, rng, words, api)
    return "".join(blocks).encode("utf-8", "surrogatepass")


def _block(event: Event, text: str) -> str:
    return (f"event: {event.name}\n" if event.name is not None else "") + f"data: {text}\n\n"


def _line_trick(blocks: list[str], rng: random.Random, words: Words, api: Api) -> None:
    at = rng.randrange(len(blocks))
    lie = json.dumps(event_of(api, rng, words).data) if rng.random() < 0.4 else _lie(api, words)
    mark, block = rng.choice(BREAKS), blocks[at]
    blocks[at] = rng.choice(
        (
            f": k{mark}data: {lie}{mark}\n" + block,
            f": k{mark}data: {lie}\n\n" + block,
            f" data: {lie}\n\n" + block,
            f"{mark}data: {lie}\n\n" + block,
            f"\ufeffdata: {lie}\n\n" + block,
            f"DATA: {lie}\n\n" + block,
            f"Data:{lie}\n\n" + block,
            f"data : {lie}\n\n" + block,
            f"data\t: {lie}\n\n" + block,
            f"id: 1{mark}data: {lie}\n" + block,
            f"retry: {lie}\n" + block,
            f"id: {lie}\n" + block,
            f"x: {lie}\n" + block,
            f"{lie}\n\n" + block,
            f"data: {lie}\n" + block,
            block.removesuffix("\n") + f"data: {lie}\n\n",
            block.replace("data: ", f"event: x{mark}data: {lie}\ndata: ", 1),
            block.replace("\n", "\r"),
            block.replace("\n", "\r\n").replace("data: ", "data:", 1),
            block.replace("data: ", f"data: {lie}\r", 1),
            block.replace(", ", ",\ndata: ", 1),
            block.replace(", ", f",{mark} ", 1),
            block.rstrip("\n") + mark + f"data: {lie}" + "\n\n",
            block + f"data: {lie}",
            block + f"data: [DONE]\n\ndata: {lie}\n\n",
        )
    )


def _lie(api: Api, words: Words) -> str:
    """The data of a usual event that says a text."""
    if api == "chat":
        choice = {"index": 0, "delta": {"content": words.word()}, "finish_reason": None}
        return json.dumps({**chat_api.HEAD, "object": "chat.completion.chunk", "choices": [choice]})
    if api == "responses":
        where = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "logprobs": []}
        return json.dumps({"type": "response.output_text.delta", "delta": words.word(), "sequence_number": 4, **where})
    return json.dumps({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": words.word()}})
