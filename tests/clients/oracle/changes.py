"""What an upstream may do to one JSON value of an answer: text where none belongs, values of other types, a key twice, a text in parts.

Each change edits the value in place, and gives every place that it fills a word of its own. `rng` is a `random.Random`, or hypothesis's.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.clients.oracle.right import CUSTOM, TOOL
from tests.clients.oracle.words import WORD, Words

TWICE = "@twice@"
"""Before a key that `generate.written` writes without it: so a key stands twice in one object."""
FIELDS = str.split("""text content output_text refusal reasoning reasoning_content reasoning_details thinking thought transcript summary annotations
citations citation logprobs top_logprobs audio data message delta output choices tool_calls function_call function arguments input name
title url cited_text partial_json images image_url provider_specific_fields parsed result results logs code container queries snippet
completion error part item content_block response documents note x_note instructions metadata status_text stdout quote file_id
encrypted_content signature obfuscation value parts role type""")
KINDS = str.split("""text output_text input_text refusal reasoning reasoning_text summary_text thinking redacted_thinking tool_use server_tool_use
mcp_tool_use tool_result web_search_tool_result web_fetch_tool_result mcp_tool_result code_execution_tool_result
bash_code_execution_tool_result text_editor_code_execution_tool_result container_upload compaction image audio output_audio document
search_result function_call custom_tool_call function_call_output custom_tool_call_output web_search_call file_search_call
code_interpreter_call image_generation_call computer_call local_shell_call shell_call mcp_call mcp_list_tools mcp_approval_request
apply_patch_call message url_citation file_citation container_file_citation char_location text_delta citations_delta x_unknown""")
Value = Any
Change = Callable[[Any, random.Random, Words], None]


def said(rng: random.Random, words: Words, depth: int = 0) -> Value:
    """Text in one of the forms in which it may come."""
    way = rng.randrange(12 if depth < 2 else 4)
    if way < 3:
        return words.word() if way else words.sentence()
    if way == 3:
        return words.number() if rng.random() < 0.5 else words.number() + 0.5
    if way == 4:
        return [said(rng, words, depth + 1)]
    if way == 5:
        return {rng.choice(FIELDS): said(rng, words, depth + 1)}
    if way == 6:
        return [thing(rng, words)]
    if way == 7:
        return thing(rng, words)
    if way == 8:
        return {words.word(): rng.choice((1, "x", None, {}))}
    if way == 9:
        return [words.word(), thing(rng, words), words.number()]
    if way == 10:
        return [[words.word()]]
    return {"value": words.word(), "annotations": [words.word()]}


def thing(rng: random.Random, words: Words) -> dict[str, Any]:
    """A part, block or item of some type, known to one API or to none, with text wherever such things have it."""
    kind = rng.choice(KINDS)
    made: dict[str, Any] = {"type": kind, "id": f"x_{rng.randrange(100)}"}
    fields = rng.sample(("text", "content", "refusal", "summary", "thinking", "transcript", "arguments", "input", "output", "code"), 2)
    for name in (*fields, *_usual(kind)):
        made[name] = _of_field(name, rng, words)
    return made


def _usual(kind: str) -> Sequence[str]:
    """Fields that a thing of this type has."""
    if kind.endswith(("_result", "_output")):
        return ("tool_use_id", "call_id", "content", "output")
    if kind.endswith(("_use", "_call", "_request")):
        return ("call_id", "name", "input", "arguments", "action", "results", "outputs", "status")
    if kind.endswith(("citation", "location")):
        return ("title", "url", "cited_text", "document_title", "start_index", "end_index")
    return {"message": ("role", "content"), "reasoning": ("summary", "content"), "citations_delta": ("citation",)}.get(kind, ("text",))


def _of_field(name: str, rng: random.Random, words: Words) -> Value:
    if name == "name":
        return rng.choice((words.word(), TOOL, CUSTOM, "web_search"))
    if name in ("call_id", "tool_use_id"):
        return "call_1"
    if name in ("start_index", "end_index"):
        return rng.randrange(9)
    if name in ("status", "role"):
        return {"status": "completed", "role": "assistant"}[name]
    if name in ("summary", "content", "output", "results", "outputs"):
        kinds = ("output_text", "text", "summary_text", "reasoning_text", "refusal", "logs", "web_search_result")
        listed = [{"type": rng.choice(kinds), "text": words.word(), "title": words.word(), "annotations": []}]
        return rng.choice((words.word(), listed, listed))
    if name in ("input", "action", "citation"):
        return rng.choice(({"query": words.word()}, words.word()))
    if name == "arguments":
        return json.dumps({"path": words.word()})
    return words.word()


def nodes(value: Value) -> Iterator[Value]:
    """Every object and list in a value."""
    if isinstance(value, dict | list):
        yield value
        for one in value.values() if isinstance(value, dict) else value:
            yield from nodes(one)


def _objects(value: Value) -> list[dict[str, Any]]:
    return [node for node in nodes(value) if isinstance(node, dict)]


def _text_fields(value: Value) -> list[tuple[dict[str, Any], str]]:
    """Where the answer's own words stand."""
    return [(node, key) for node in _objects(value) for key, one in node.items() if isinstance(one, str) and WORD.search(one)]


def unknown_field(value: Value, rng: random.Random, words: Words) -> None:
    """One more field with text, at any level."""
    if found := _objects(value):
        rng.choice(found).setdefault(rng.choice(FIELDS), said(rng, words))


def other_value(value: Value, rng: random.Random, words: Words) -> None:
    """A known field says something of any type."""
    if found := [node for node in _objects(value) if node]:
        node = rng.choice(found)
        key = rng.choice(list(node))
        if key not in ("type", "object", "id", "model", "created", "index", "sequence_number") or rng.random() < 0.2:
            node[key] = said(rng, words)


def wrong_type(value: Value, rng: random.Random, words: Words) -> None:
    """The answer's text is a list, an object, a number."""
    if found := _text_fields(value):
        node, key = rng.choice(found)
        text = node[key]
        node[key] = rng.choice(
            (
                [text],
                [{"type": "text", "text": text}],
                [{"type": "text", "text": {"value": text}}],
                {"text": text},
                {"value": text, "annotations": []},
                [{"type": "output_text", "text": text, "annotations": [words.word()]}, words.word()],
                words.number(),
                [words.number()],
                [[text]],
            )
        )


def twice(value: Value, rng: random.Random, words: Words) -> None:
    """A key stands twice in one object, with something else the first or the second time."""
    if found := [node for node in _objects(value) if node]:
        node = rng.choice(found)
        texts = [key for key, one in node.items() if isinstance(one, str) and WORD.search(one)]
        key = rng.choice(texts or [key for key in node if not key.startswith(TWICE)] or ["text"])
        other = words.sentence() if texts or rng.random() < 0.3 else said(rng, words)
        before = dict(node)
        node.clear()
        node.update({TWICE + key: other, **before} if rng.random() < 0.5 else {**before, TWICE + key: other})


def one_more(value: Value, rng: random.Random, words: Words) -> None:
    """Something stands in a list beside what is there: a part, block, item, choice, or a bare text."""
    if found := [node for node in nodes(value) if isinstance(node, list)]:
        listed = rng.choice(found)
        copied = _renamed(rng.choice(listed), words) if listed else thing(rng, words)
        made = rng.choice((copied, thing(rng, words), words.word(), None, [words.word()]))
        listed.insert(rng.randrange(len(listed) + 1), made)


def other_case(value: Value, rng: random.Random, words: Words) -> None:
    """A known key with text stands there once more in another spelling."""
    if found := _text_fields(value):
        node, key = rng.choice(found)
        node[rng.choice((key.upper(), key.title(), f" {key}", f"{key}s"))] = words.word()


def name_with_words(value: Value, rng: random.Random, words: Words) -> None:
    """A field that is to hold a name or a state holds words."""
    names = ("role", "finish_reason", "stop_reason", "stop_sequence", "status", "service_tier", "system_fingerprint", "object", "type")
    if found := [(node, key) for node in _objects(value) for key in node if key in names]:
        node, key = rng.choice(found)
        node[key] = words.sentence()


def call_never_offered(value: Value, rng: random.Random, words: Words) -> None:
    """A message or delta of chat calls a tool, of a type or name that nobody offered."""
    if found := [node[key] for node in _objects(value) for key in ("message", "delta") if isinstance(node.get(key), dict)]:
        name, given = words.word(), json.dumps({"path": words.word()})
        custom = {"index": 0, "id": "call_9", "type": "custom", "custom": {"name": name, "input": words.sentence()}}
        function = {"index": 0, "id": "call_9", "type": "function", "function": {"name": name, "arguments": given}}
        rng.choice(found).update(
            rng.choice(({"tool_calls": [custom]}, {"tool_calls": [function]}, {"function_call": function["function"]}))
        )


def parts(value: Value, rng: random.Random, words: Words) -> None:
    """A word of the answer is cut in two, which stand in two parts of one content."""
    if found := _text_fields(value):
        node, key = rng.choice(found)
        left, right = cut(node[key], rng)
        kind = node.get("type") if isinstance(node.get("type"), str) else "text"
        around = [one for one in nodes(value) if isinstance(one, list) and any(part is node for part in one)]
        if around and key in ("text", "refusal", "thinking"):
            at = next(i for i, part in enumerate(around[0]) if part is node)
            between = [thing(rng, words)] if rng.random() < 0.4 else []
            around[0][at : at + 1] = [{**node, key: left}, *between, {**node, key: right}]
        else:
            node[key] = [{"type": kind if kind in KINDS else "text", "text": one} for one in (left, right)]


def split_item(value: Value, rng: random.Random, words: Words) -> None:
    """A word is cut in two, which stand in two items or choices."""
    lists = [node for node in nodes(value) if isinstance(node, list) and any(isinstance(one, dict) and _text_fields(one) for one in node)]
    if lists:
        listed = rng.choice(lists)
        at = rng.choice([i for i, one in enumerate(listed) if isinstance(one, dict) and _text_fields(one)])
        first, second = _copy(listed[at]), _copy(listed[at])
        pairs = list(zip(_text_fields(first), _text_fields(second), strict=True))
        for (node, key), (other, _) in pairs:
            node[key], other[key] = cut(node[key], rng)
        if "index" in second and isinstance(second["index"], int):
            second["index"] += rng.choice((1, 1, 2))
        between = [thing(rng, words)] if rng.random() < 0.3 else []
        listed[at : at + 1] = [first, *between, second]


def cut(text: str, rng: random.Random) -> tuple[str, str]:
    """A text in two, in the middle of a word where it has one."""
    found = WORD.search(text)
    at = found.start() + 1 + rng.randrange(4) if found else len(text) // 2
    return text[:at], text[at:]


def _copy(value: Value) -> Value:
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in value.items()}
    return [_copy(one) for one in value] if isinstance(value, list) else value


def _renamed(value: Value, words: Words) -> Value:
    """A copy that says other words."""
    if isinstance(value, str):
        return WORD.sub(lambda found: words.word(), value)
    if isinstance(value, dict):
        return {key: _renamed(one, words) for key, one in value.items()}
    return [_renamed(one, words) for one in value] if isinstance(value, list) else value


renamed = _renamed
CHANGES: tuple[Change, ...] = (
    unknown_field,
    unknown_field,
    other_value,
    wrong_type,
    twice,
    one_more,
    other_case,
    name_with_words,
    call_never_offered,
    parts,
    split_item,
)
