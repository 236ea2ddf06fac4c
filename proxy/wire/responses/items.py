"""A Responses request's input as messages in chat form, each with the items that it stands for.

In: ``instructions`` and ``input``, a string or a list of items. Out: messages, and for each where it came from, so that what no stage
changes can leave as it came (`rendering`). Items and messages map n to m: what the model put out in one turn (messages, calls of tools,
reasoning, calls of the provider's own tools) is one assistant message; an item that says nothing a stage could read, and belongs to no turn
(a reference, a compaction, a type that is not known), is *pinned*: it stays, whatever goes around it.

Reference: https://platform.openai.com/docs/api-reference/responses/create
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from msgspec import Struct, field

from proxy.errors import InvalidRequest
from proxy.exchange import Message
from proxy.wire.bodies import EXTENSION, entries_of, hint_of, object_at, object_in, object_of, objects_of, string_at, unexpected

_MODELS_OWN = frozenset(
    str.split(
        "reasoning web_search_call file_search_call code_interpreter_call image_generation_call mcp_call mcp_list_tools "
        "mcp_approval_request tool_search_call tool_search_output program program_output"
    )
)
"""What the model, or the provider for it, adds to a turn beside messages and calls."""
_UNSEEN = ("item_reference", "compaction", "compaction_summary")
"""Types of items that stand for something that was said."""
TOOLS_ITEM = "additional_tools"
"""The type of items that offer tools beside the request's own, as Codex sends them to some models."""


class Origin(Struct):
    """Where a message came from."""

    items: list[int] = field(default_factory=list)
    """Positions of its items in ``input``, in order; none for ``instructions``, and for an ``input`` that is a string."""
    parts: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By the identity of a part of its content: the item, and the part's position in it."""
    calls: dict[str, int] = field(default_factory=dict)
    """Items of its calls, by the call's id."""
    texts: list[int] = field(default_factory=list)
    """Those of its items that are messages, or results."""
    instructions: bool = False
    is_held_by_provider: bool = False
    """Whether the provider holds it: nothing of it is sent."""
    is_unsent: bool = False
    """Whether it stands in no body, and is to be sent all the same."""


class Reading(Struct):
    """A request's messages."""

    messages: list[Message] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    """One for each message."""
    pinned: list[tuple[int, int]] = field(default_factory=list)
    """How many messages stand before it, and the item."""
    hints: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    """The extension of a message, by its position."""
    hinted: set[int] = field(default_factory=set)
    """Items that carry the extension."""
    unseen: int = 0
    """References to what is not known, and what only the provider can read of the conversation."""
    references: list[str] = field(default_factory=list)
    """Ids of items that are only named."""
    stand_ins: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    """What those of them say that are known, by position."""
    tools: list[dict[str, Any]] = field(default_factory=list)
    """Those that items offer."""


def read(instructions: object, given: object, known: Mapping[str, Mapping[str, Any]]) -> Reading:
    """With the items that are `known`, by their ids, in place of references to them. Raises `InvalidRequest` with the field."""
    found = Reading()
    if instructions is not None:
        found.messages.append({"role": "system", "content": string_at(instructions, "instructions")})
        found.origins.append(Origin(instructions=True))
    if isinstance(given, str):
        found.messages.append({"role": "user", "content": given})
        found.origins.append(Origin())
    elif isinstance(given, list):
        _Reader(found, given, known).run()
    elif given is not None:
        raise unexpected("input", "a string or a list of items", given)
    return found


class _Reader:
    """Goes through the items of one request."""

    def __init__(self, found: Reading, items: Sequence[Any], known: Mapping[str, Mapping[str, Any]]) -> None:
        self._reading, self._items, self._known_items = found, list(items), known
        self._turn: list[int] = []
        """Items of the model's turn that is being read."""

    def run(self) -> None:
        for i, item in enumerate(self._items):
            self._items[i] = self._looked_up(i, object_at(item, f"input[{i}]"))
            self._take(i, self._items[i])
        self._end_turn()

    def _looked_up(self, i: int, item: dict[str, Any]) -> dict[str, Any]:
        """What a reference stands for, if that is known."""
        identity = item.get("id")
        if item_type(item) != "item_reference" or not isinstance(identity, str):
            return item
        self._reading.references.append(identity)
        known = self._known_items.get(identity)
        if known is None:
            return item
        self._reading.stand_ins[i] = known
        return dict(known)

    def _take(self, i: int, item: dict[str, Any]) -> None:
        kind = item_type(item)
        role = item.get("role")
        if kind == "message":
            string_at(role, f"input[{i}].role")
        if is_of_turn(kind, role, item.get("call_id")):
            self._turn.append(i)
        elif kind == "message":
            self._alone(i, item, {"role": role}, item.get("content"))
        elif is_result(item):
            self._alone(i, item, {"role": "tool", "tool_call_id": item["call_id"]}, item.get("output"))
        else:
            self._end_turn()
            self._reading.unseen += kind in _UNSEEN
            self._reading.tools += objects_of(item.get("tools")) if kind == TOOLS_ITEM else ()
            self._reading.pinned.append((len(self._reading.messages), i))

    def _alone(self, i: int, item: dict[str, Any], head: dict[str, Any], content: object) -> None:
        """An item that is a message of its own."""
        self._end_turn()
        origin = Origin([i], texts=[i])
        self._add({**head, "content": _content(content, i, origin)}, origin, [item])

    def _add(self, message: Message, origin: Origin, items: Sequence[dict[str, Any]]) -> None:
        for i, item in zip(origin.items, items, strict=True):
            if EXTENSION in item:
                self._reading.hints[len(self._reading.messages)] = hint_of(item, f"input[{i}]")
                self._reading.hinted.add(i)
        self._reading.messages.append(message)
        self._reading.origins.append(origin)

    def _end_turn(self) -> None:
        """What the model put out in one turn, as one message."""
        turn, self._turn = self._turn, []
        if not turn:
            return
        origin = Origin(turn)
        origin.texts = [i for i in turn if item_type(self._items[i]) == "message"]
        contents = [_content(self._items[i].get("content"), i, origin) for i in origin.texts]
        message: dict[str, Any] = {"role": "assistant", "content": contents[0] if len(contents) == 1 else None}
        if len(contents) > 1:
            message["content"] = [part for i, content in zip(origin.texts, contents, strict=True) for part in _as_parts(content, i, origin)]
        calls = [(i, self._items[i]) for i in turn if is_call(self._items[i])]
        if calls:
            message["tool_calls"] = [chat_call(item) for _, item in calls]
            origin.calls = {item["call_id"]: i for i, item in calls}
        self._add(message, origin, [self._items[i] for i in turn])


def item_type(item: Mapping[str, Any]) -> str:
    """An item's type; a message may leave it out, and so may a reference."""
    kind = item.get("type")
    if isinstance(kind, str):
        return kind
    return "message" if "role" in item else "item_reference"


def is_call(item: Mapping[str, Any]) -> bool:
    """Whether it is a call whose result the client brings: of its own tool, or of one that the provider described (a shell, a computer)."""
    kind = item_type(item)
    return kind.endswith("_call") and kind not in _MODELS_OWN and isinstance(item.get("call_id"), str)


def is_of_turn(kind: str, role: object, call_id: object) -> bool:
    """Whether an item of this type is of what the model puts out in one turn."""
    if kind == "message":
        return role == "assistant"
    return kind in _MODELS_OWN or (kind.endswith("_call") and isinstance(call_id, str))


def is_result(item: Mapping[str, Any]) -> bool:
    """Whether it is the result of such a call."""
    return item_type(item).endswith("_call_output") and isinstance(item.get("call_id"), str)


def chat_call(item: Mapping[str, Any]) -> dict[str, Any]:
    """A call in chat form."""
    kind = item_type(item)
    if kind == "custom_tool_call":
        return {"id": item["call_id"], "type": "custom", "custom": {"name": item.get("name"), "input": item.get("input")}}
    given = item.get("arguments")
    if not isinstance(given, str):
        given = orjson.dumps(item.get("action") or item.get("operation") or {}).decode()
    name = item.get("name") if isinstance(item.get("name"), str) else kind.removesuffix("_call")
    return {"id": item["call_id"], "type": "function", "function": {"name": name, "arguments": given}}


def _content(content: object, item: int, origin: Origin) -> Any:
    """A message's content, or a result's output, in chat form."""
    if not isinstance(content, list):
        return content if content is None or isinstance(content, str) else []
    found = []
    for position, part in enumerate(content):
        chat = _chat_part(part)
        origin.parts[id(chat)] = (item, position)
        found.append(chat)
    return found


def _as_parts(content: Any, item: int, origin: Origin) -> list[Any]:
    if not isinstance(content, str):
        return content or []
    part = {"type": "text", "text": content}
    origin.parts[id(part)] = (item, -1)
    return [part]


def _chat_part(part: Any) -> Any:
    """A part in chat form, always a new object."""
    if not isinstance(part, dict):
        return {"type": "unknown", "value": part}
    kind = part.get("type")
    if kind in ("input_text", "output_text", "text"):
        return {"type": "text", "text": part.get("text")}
    if isinstance(part.get("stdout"), str):  # of a shell that the client runs
        return {
            "type": "text",
            "text": "\n".join(said for name in ("stdout", "stderr") if isinstance(said := part.get(name), str) and said),
        }
    if kind == "input_image":
        image = {"url": part.get("image_url") or ""} | ({"detail": part["detail"]} if part.get("detail") else {})
        return {"type": "image_url", "image_url": image}
    if kind == "input_file":
        return {"type": "file", "file": {name: value for name, value in part.items() if name != "type"}}
    return dict(part)


# ---- ids of what a provider keeps: those that a request names, and those that an answer brings ----
# https://platform.openai.com/docs/guides/conversation-state. Names of fields are compared without case, as some servers do.

_NAMING = (b"previous_response_id", b"conversation", b'"id"', b"\\u", "\u017f".encode())
"""Without any of these (in any case) a body names nothing. The last is the long s, which servers in Go take for an s."""
_ENDS = (b"response.completed", b"response.incomplete", b"response.failed")
_SAYS = (
    "content",
    "arguments",
    "input",
    "output",
    "outputs",
    "action",
    "actions",
    "operation",
    "code",
    "queries",
    "result",
    "results",
    "tools",
)
"""Fields in which an item says what it is about: of one that has any, its provider looks nothing up."""
_SAYS_ALONE = {
    "reasoning": ("encrypted_content",),
    "compaction": ("encrypted_content",),
    "compaction_summary": ("encrypted_content",),
    "image_generation_call": ("result",),
}
"""The same of types whose other fields are no more than a part of what the provider has under their id."""


SEARCH_SPEEDUP = 16
"""To look for some names in a body is so many times as fast as a pass that `run_in_thread_if_large` counts with."""


def may_name(body: bytes) -> bool:
    """Whether it is worth reading."""
    lower = body.lower()
    return any(name in lower for name in _NAMING)


def named_in(body: bytes) -> tuple[set[str], set[str]]:
    """What a request goes on from or refers to, and ids of items that it brings a part of: one that it brings whole is the client's own
    words, whoever has another of that name. Raises `InvalidRequest` for what is no JSON here: other readers may find names in it.
    """
    try:
        fields = _casefold_keys(orjson.loads(body))
    except ValueError as error:
        raise InvalidRequest(f"the body is not valid JSON: {error}") from error
    conversation = fields.get("conversation")
    named = [fields.get("previous_response_id"), _casefold_keys(conversation).get("id") if isinstance(conversation, dict) else conversation]
    brought = list[Any]()
    for item in (*entries_of(fields.get("input")), *entries_of(fields.get("items"))):
        found = _casefold_keys(item)
        bare = found.get("type") == "item_reference" or not found.keys() - {"id", "type"}
        if bare or not any(found.get(name) for name in _SAYS_ALONE.get(str(found.get("type")), _SAYS)):
            (named if bare else brought).append(found.get("id"))
    return _texts(named), _texts(brought)


def ids_of_body(body: bytes) -> list[str]:
    """Of an answer, if it is JSON: its own id and those of its items."""
    return _ids(object_in(body))


def ids_of_event(data: bytes, *, first: bool) -> list[str]:
    """Of an event: those of the response that is in its first one and in its last."""
    if not first and not any(end in data for end in _ENDS):
        return []
    return _ids(object_of(object_in(data)).get("response"))


def _ids(answer: Any) -> list[str]:
    if not isinstance(answer, dict):
        return []
    return sorted(_texts([answer.get("id"), *(item.get("id") for item in objects_of(answer.get("output")))]))


def _casefold_keys(value: Any) -> Mapping[str, Any]:
    return {name.casefold(): found for name, found in value.items()} if isinstance(value, dict) else {}


def _texts(values: Sequence[Any]) -> set[str]:
    return {value for value in values if isinstance(value, str) and value}
