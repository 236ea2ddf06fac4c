"""What of a Responses answer is recognised (`proxy.wire.shapes`): the tables of its items, parts, events and fields, and their reader.

Fields in which the API repeats the request (``instructions``, ``tools``, ``metadata``, …) pass as far as they stand in the request. Results
of the provider's own tools (logs, pages, files, what an MCP server said) are text that no check reads: of them figures and names pass.
Items that leave, and the parts of their content, are counted anew. A text behind another one begins with a blank line where clients, which
join texts with nothing, would read one word out of two; what repeats a text further on repeats that, too.

Reference: https://platform.openai.com/docs/api-reference/responses/object, …/responses-streaming
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proxy.wire.chat.shapes import TOKENS, tells
from proxy.wire.dialect import Recogniser
from proxy.wire.responses import events
from proxy.wire.responses.events import Place
from proxy.wire.responses.output import GAP
from proxy.wire.shapes import (
    ABSENT,
    AnswerBounds,
    AnyShape,
    Fields,
    Shape,
    among,
    by_type,
    either,
    empty,
    figures,
    glues,
    list_of,
    table,
    with_title,
)

_SPAN = table(word="type", number="start_index end_index index")
ANNOTATION = by_type(
    {
        "url_citation": with_title(Fields("annotation", _SPAN, url="url", text="title")),
        "file_citation": Fields("annotation", {**_SPAN, "filename": either("word", "quoted")}, word="file_id"),
        "container_file_citation": Fields("annotation", {**_SPAN, "filename": either("word", "quoted")}, word="file_id container_id"),
        "file_path": Fields("annotation", _SPAN, word="file_id"),
    }
)
_PARTS: Mapping[str, Shape] = {
    "output_text": Fields("output_text", {"annotations": list_of(ANNOTATION, "annotations"), "logprobs": TOKENS}, word="type", text="text"),
    "refusal": Fields("refusal", word="type", text="refusal"),
}
_THOUGHT = by_type({"reasoning_text": Fields("reasoning", word="type", text="text")})
_SUMMARY = by_type({"summary_text": Fields("reasoning", word="type", text="text")})
PART = by_type(_PARTS)
_SOURCES = list_of(Fields("source", word="type name", url="url"), "sources")
_SEARCH = Fields("action", {"queries": list_of("text", "queries"), "sources": _SOURCES}, word="type", text="query pattern", url="url")
_FILES = Fields(
    "result", {"filename": either("word", "quoted")}, word="file_id vector_store_id", number="score", quoted="text", figures="attributes"
)
_OUTPUT = by_type({"logs": Fields("output", word="type", quoted="logs"), "image": Fields("output", word="type", url="url")})
_LISTED_TOOL = Fields("tool", word="name", quoted="description", figures="input_schema annotations")
_CHECK = Fields("safety_check", word="id code", quoted="message")
_PRINTED = Fields("output", word="created_by", quoted="stdout stderr", figures="outcome")
_ITEM = table(word="id type status created_by")
_CALL = table(_ITEM, word="call_id namespace", figures="caller", flag="async")
_MCP = table(_ITEM, word="server_label name approval_request_id", text="arguments")
ITEMS: Mapping[str, Fields] = {
    "message": Fields("message", {**_ITEM, "content": list_of(PART, "content")}, word="role phase"),
    "reasoning": Fields(
        "reasoning", {**_ITEM, "summary": list_of(_SUMMARY, "summary"), "content": list_of(_THOUGHT, "content")}, word="encrypted_content"
    ),
    "function_call": Fields("function_call", _CALL, word="name", text="arguments"),
    "custom_tool_call": Fields("custom_tool_call", _CALL, word="name", text="input"),
    "web_search_call": Fields("web_search_call", {**_ITEM, "action": _SEARCH}),
    "file_search_call": Fields("file_search_call", {**_ITEM, "queries": list_of("text", "queries"), "results": list_of(_FILES, "results")}),
    "code_interpreter_call": Fields(
        "code_interpreter_call", {**_ITEM, "outputs": list_of(_OUTPUT, "outputs")}, text="code", word="container_id"
    ),
    "image_generation_call": Fields("image_generation_call", _ITEM, nothing="result"),
    "computer_call": Fields(
        "computer_call", {**_CALL, "pending_safety_checks": list_of(_CHECK, "pending_safety_checks")}, data="action actions"
    ),
    "local_shell_call": Fields("local_shell_call", _CALL, data="action"),
    "shell_call": Fields("shell_call", _CALL, data="action", figures="environment"),
    "shell_call_output": Fields("shell_call_output", {**_CALL, "output": list_of(_PRINTED, "output")}, number="max_output_length"),
    "apply_patch_call": Fields("apply_patch_call", _CALL, data="operation"),
    "tool_search_call": Fields("tool_search_call", _CALL, data="arguments", word="execution"),
    "tool_search_output": Fields("tool_search_output", _CALL, word="execution", figures="tools"),
    "program": Fields("program", _ITEM, word="call_id fingerprint", text="code"),
    "program_output": Fields("program_output", _ITEM, word="call_id", quoted="result"),
    "mcp_call": Fields("mcp_call", _MCP, quoted="output error"),
    "mcp_list_tools": Fields("mcp_list_tools", {**_MCP, "tools": list_of(_LISTED_TOOL, "tools")}, quoted="error"),
    "mcp_approval_request": Fields("mcp_approval_request", _MCP),
    "compaction": Fields("compaction", _ITEM, word="encrypted_content"),
}
ITEM = by_type(ITEMS)
_SOME_LATER: Mapping[str, Mapping[str, Shape]] = {
    "message": {"content": empty([])},
    "reasoning": {"summary": empty([]), "content": empty([])},
    **{begin.removeprefix("response.").rpartition("_")[0]: {field: empty("")} for begin, field in events.CALL_INPUT_FIELDS.items()},
}
ITEM_BEGINS = by_type({kind: shape.but(**_SOME_LATER.get(kind, {})) for kind, shape in ITEMS.items()})
"""An item whose words are still to come."""
PART_BEGINS = by_type(
    {
        "output_text": Fields("output_text", {"text": empty(""), "annotations": empty([]), "logprobs": empty([])}, word="type"),
        "refusal": Fields("refusal", {"refusal": empty("")}, word="type"),
        "reasoning_text": Fields("reasoning", {"text": empty("")}, word="type"),
    }
)
_HOSTED_TOOLS = "computer apply_patch mcp web_search file_search code_interpreter image_generation tool_search"
NEEDS: Mapping[str, tuple[str, ...]] = {
    **{f"{tool}_call": (tool,) for tool in _HOSTED_TOOLS.split()},
    **dict.fromkeys(("shell_call", "local_shell_call", "shell_call_output"), ("shell", "local_shell")),
    "tool_search_output": ("tool_search",),
    **dict.fromkeys(("program", "program_output"), ("programmatic_tool_calling",)),
    **{f"mcp_{what}": ("mcp",) for what in ("approval_request", "list_tools")},
}
"""Items that are calls, or what came of them, with the tools of the provider's that they are calls of."""


ERROR = Fields("error", {"code": either("word", "number")}, word="type param", text="message")
"""Of a response that failed, or of none."""
RESPONSE = Fields(
    "response",
    {
        "error": ERROR,
        "incomplete_details": Fields("incomplete_details", word="reason"),
        "output": list_of(ITEM, "output"),
        "access_programs": Fields("access_programs", word="cyber"),
        "input_transformations": list_of(Fields("transformation", word="id type action reason"), "input_transformations"),
        "tool_choice": either(among("auto", "none", "required"), figures),
    },
    label="id model",
    word="object status previous_response_id prompt_cache_retention service_tier truncation",
    number="created_at completed_at max_output_tokens max_tool_calls temperature top_logprobs top_p frequency_penalty presence_penalty",
    flag="background parallel_tool_calls store",
    figures="instructions metadata conversation prompt prompt_cache_options reasoning text tools usage content_filters billing"
    " content_filter_results moderation image prompt_cache_diagnostics tool_usage",
    quoted="prompt_cache_key safety_identifier user",
)
_AT = table(word="type item_id", number="output_index sequence_number", padding="obfuscation")
_IN = table(_AT, number="content_index")


def _event(**fields: AnyShape) -> Fields:
    return Fields("event", {**_AT, **fields})


_RUNNING = ("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call", "mcp_list_tools")
_STEPS = ("in_progress", "searching", "interpreting", "generating", "completed", "failed")
_PIECE = table(number="summary_index content_index", word="status")
EVENT = by_type(
    {
        **dict.fromkeys(events.BEGINS, _event(response=RESPONSE.but(output=empty([]), output_text="nothing"))),
        **dict.fromkeys(events.ENDS, _event(response=RESPONSE)),
        events.ITEM: _event(item=ITEM_BEGINS),
        events.ITEM_DONE: _event(item=ITEM),
        events.PART: Fields("event", {**_IN, "part": PART_BEGINS}),
        events.PART_DONE: Fields("event", {**_IN, "part": either(PART, _THOUGHT)}),
        events.TEXT: Fields("event", {**_IN, "logprobs": TOKENS}, text="delta"),
        events.TEXT_DONE: Fields("event", {**_IN, "logprobs": TOKENS}, text="text"),
        events.REFUSAL: Fields("event", _IN, text="delta"),
        events.REFUSAL_DONE: Fields("event", _IN, text="refusal"),
        events.ANNOTATION: Fields("event", {**_IN, "annotation": ANNOTATION}, number="annotation_index"),
        **{f"{begin}.delta": _event(delta="text") for begin in events.CALL_INPUT_FIELDS},
        **{f"{begin}.done": _event(**{field: "text"}) for begin, field in events.CALL_INPUT_FIELDS.items()},
        events.ARGUMENTS_DONE: _event(arguments="text", name="word"),
        **{f"response.{kind}.delta": _event(**_PIECE, delta="text") for kind in ("reasoning_text", "reasoning_summary_text")},
        **{f"response.{kind}.done": _event(**_PIECE, text="text") for kind in ("reasoning_text", "reasoning_summary_text")},
        "response.reasoning_summary_part.added": _event(
            **_PIECE, part=by_type({"summary_text": Fields("reasoning", {"text": empty("")}, word="type")})
        ),
        "response.reasoning_summary_part.done": _event(**_PIECE, part=_SUMMARY),
        **{f"response.{kind}.{step}": _event() for kind in _RUNNING for step in _STEPS},
        "error": Fields("error", {**_AT, "code": either("word", "number"), "error": ERROR}, text="message", word="param"),
    }
)


_FAILED = ("failed", "cancelled")
_CALLS = {"function_call": "function", "custom_tool_call": "custom"}
_TEXT_FIELD_OF_EVENT = {events.TEXT: "delta", events.TEXT_DONE: "text", events.REFUSAL: "delta", events.REFUSAL_DONE: "refusal"}
_CALL_INPUTS = tuple(dict.fromkeys(events.CALL_INPUT_FIELDS.values()))
Item = dict[str, Any]


class ResponsesShapes(Recogniser):
    """Of Responses."""

    api = "responses"
    failure = Fields("error", {"error": ERROR})

    def __init__(self, bounds: AnswerBounds) -> None:
        super().__init__(bounds)
        self._items: dict[int, int | None] = {}
        """Where items of the upstream's stand among those that leave; None for one that does not."""
        self._parts: dict[Place, int | None] = {}
        """The same of parts, by the place that the upstream gives them."""
        self._counts: dict[int, int] = {}
        """How many parts of an item leave, by its upstream's position."""
        self._kinds: dict[int, str] = {}
        """Of items that leave."""
        self._over: set[int] = set()
        """Those of them that are done."""
        self._inputs: dict[tuple[int, str], list[str]] = {}
        """What calls take, as it was told first, by their items among those that leave and the field that says it."""
        self._gaps: dict[Place, str] = {}
        """What each text begins with, by its place among those that leave."""
        self._last = ""
        """The end of the text that was said last."""
        self._is_over = False
        self._next_number: int | None = None
        """Of the events that leave."""

    # ---- whole ----

    def answer(self, fields: Any) -> Any:
        """A response with what is recognised of it."""
        made = RESPONSE(fields, self.reading)
        return made if made is ABSENT else self._response(made)

    def _response(self, made: Item) -> Item:
        if made.get("error") is not None and made.get("status") not in _FAILED:
            self.reading.leave_out("response.error")
            made["error"] = None
        output = made.get("output")
        if output.__class__ is list:
            made["output"] = items = [item for item in output if self._is_offered(item)]
            for i, item in enumerate(items):
                self._item(item, i)
        return made

    def _is_offered(self, item: Mapping[str, Any]) -> bool:
        """Whether it is an item that the request could have brought about."""
        kind, bounds = str(item["type"]), self.reading.bounds
        offered = bounds.provides(*NEEDS[kind]) if kind in NEEDS else True
        if kind in _CALLS:
            offered = bounds.offers(str(item.get("name") or ""), _CALLS[kind])
        if not offered:
            self.reading.leave_out("a call of a tool that was not offered")
        self.says = self.says or (offered and kind.endswith(("_call", "_request")) and kind != "image_generation_call")
        return offered

    def _item(self, item: Item, position: int) -> None:
        for field in _CALL_INPUTS:
            if item.get(field).__class__ is str:
                item[field] = self._match_deltas(position, field, item[field])
        if item["type"] != "message":
            return
        item.setdefault("content", [])
        for j, part in enumerate(item["content"] or ()):
            self._part(part, (position, j))

    def _part(self, part: Item, place: Place) -> None:
        name = "refusal" if part["type"] == "refusal" else "text"
        said = part[name] = part.get(name) or ""
        if part.get("logprobs") and not tells(part["logprobs"], said):
            self.reading.leave_out("output_text.logprobs")
            part["logprobs"] = []
        gap = self._gap(said, place)
        part[name] = gap + said
        for annotation in part.get("annotations") or ():
            _shift(annotation, len(gap))

    def _gap(self, said: str, place: Place) -> str:
        """What is to stand before a text, once its first word is there."""
        if said and place not in self._gaps:
            self._gaps[place] = GAP if glues(self._last, said) else ""
        if said:
            self._last, self.says = (self._last + said)[-24:], True
        return self._gaps.get(place, "")

    # ---- event by event ----

    def events(self, fields: Any) -> list[Item]:
        """An event with what is recognised of it, numbered behind those that left; none where nothing is left."""
        made = self._recognise(fields)
        for one in made:
            if (given := one.get("sequence_number")).__class__ is int:
                number = given if self._next_number is None else self._next_number
                one["sequence_number"], self._next_number = number, number + 1
        return made

    def _recognise(self, fields: Any) -> list[Item]:
        made = EVENT(fields, self.reading)
        kind = str(fields.get("type")) if isinstance(fields, dict) else ""
        if made is ABSENT or self._is_over:
            self.reading.leave_out("event", kind if made is ABSENT else "after the end")
            return []
        if kind in events.BEGINS or kind in events.ENDS:
            return self._whole(kind, made)
        if kind == "error":
            return [made]
        index = made.get("output_index")
        if index.__class__ is not int:
            self.reading.leave_out(kind, "output_index")
            return []
        if kind == events.ITEM:
            return self._begin(index, made)
        at = self._items[index] if index in self._items else self._open_item(index, kind, made)
        if at is None:
            return []
        made["output_index"] = at
        if kind == events.ITEM_DONE:
            return self._end_item(at, made)
        if not self._is_of(kind, at, made):
            self.reading.leave_out(kind, "of another item")
            return []
        if "content_index" in made and self._kinds[at] == "message":
            return self._place_part(kind, index, at, made)
        return [self._of_call(kind, at, made)]

    def _open_item(self, index: int, kind: str, made: Item) -> int | None:
        """The place of an item that no event has opened: of some servers' texts, and of one that is told whole at once."""
        item = made.get("item")
        whole = kind == events.ITEM_DONE and isinstance(item, dict) and self._is_offered(item)
        owner = item["type"] if whole and item is not None else events.owner_of(kind)
        if not whole and owner not in ("message", "reasoning"):
            self.reading.leave_out(kind, "of an item that has not begun")
            return None
        at = self._items[index] = len(self._kinds)
        self._kinds[at] = owner
        return at

    def _is_of(self, kind: str, at: int, made: Item) -> bool:
        """Whether it is an event of such an item as it is said to be of, and that goes on."""
        owner = events.owner_of(kind)
        if isinstance(part := made.get("part"), dict) and part["type"] == "reasoning_text":
            owner = "reasoning"
        return self._kinds[at] == owner and not (at in self._over and events.call_input_of(kind))

    def _of_call(self, kind: str, at: int, made: Item) -> Item:
        """An event of an item that is no message; what it tells of a call once more is what was told first."""
        field, whole = events.call_input_of(kind) or ("", False)
        if whole and made.get(field).__class__ is str:
            made[field] = self._match_deltas(at, field, made[field])
        elif field and not whole:
            self._inputs.setdefault((at, field), []).append(made.get("delta") or "")
        return made

    def _match_deltas(self, at: int, field: str, text: str) -> str:
        """What a call takes: `text`, unless that does not begin with what was told of it before."""
        known = "".join(self._inputs.get((at, field), ()))
        if not text.startswith(known):
            self.reading.leave_out("what a call takes, told otherwise")
            text = known
        self._inputs[at, field] = [text]
        return text

    def _whole(self, kind: str, made: Item) -> list[Item]:
        response = made.get("response")
        if not isinstance(response, dict):
            self.reading.leave_out(kind, "response")
            return []
        self._is_over = kind in events.ENDS
        if not self._is_over:
            response["output"] = []
        made["response"] = self._response(response)
        return [made]

    def _begin(self, index: int, made: Item) -> list[Item]:
        item = made.get("item")
        if index in self._items or not isinstance(item, dict) or not self._is_offered(item):
            self.reading.leave_out(events.ITEM, "again" if index in self._items else "item")
            self._items.setdefault(index, None)
            return []
        at = self._items[index] = len(self._kinds)
        self._kinds[at] = item["type"]
        return [{**made, "output_index": at}]

    def _end_item(self, at: int, made: Item) -> list[Item]:
        item = made.get("item")
        if not isinstance(item, dict) or not self._is_offered(item) or self._kinds[at] != item["type"]:
            self.reading.leave_out(events.ITEM_DONE, "item")
            return []
        self._over.add(at)
        self._item(item, at)
        return [made]

    def _place_part(self, kind: str, index: int, at: int, made: Item) -> list[Item]:
        """An event of a part of a message."""
        given = made["content_index"]
        place = (index, given)
        if given.__class__ is not int or (kind == events.PART and not isinstance(made.get("part"), dict)):
            self.reading.leave_out(kind, "part")
            self._parts.setdefault(place, None)
            return []
        if place not in self._parts:
            self._parts[place] = self._counts.get(index, 0)
            self._counts[index] = self._counts.get(index, 0) + 1
        part_at = self._parts[place]
        if part_at is None:
            return []
        made["content_index"] = part_at
        self._words(kind, made, (at, part_at))
        return [made]

    def _words(self, kind: str, made: Item, place: Place) -> None:
        if kind == events.PART_DONE and isinstance(made.get("part"), dict):
            self._part(made["part"], place)
        elif kind == events.ANNOTATION and isinstance(made.get("annotation"), dict):
            _shift(made["annotation"], len(self._gaps.get(place, "")))
        elif kind in _TEXT_FIELD_OF_EVENT:
            name = _TEXT_FIELD_OF_EVENT[kind]
            said = made.get(name) or ""
            if made.get("logprobs") and not tells(made["logprobs"], said):
                self.reading.leave_out("output_text.logprobs")
                made["logprobs"] = []
            first = place not in self._gaps
            gap = self._gap(said, place)
            if gap and (first or name != "delta"):
                made[name] = gap + said


def _shift(annotation: Item, by: int) -> None:
    for name in ("start_index", "end_index"):
        if by and annotation.get(name).__class__ is int:
            annotation[name] += by
