"""A request in no API's own form: turns, tools and settings, each with the place in the client's body where it stands."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from msgspec import Struct, field, structs

from proxy.errors import InvalidRequest
from proxy.wire.bodies import exact_object, object_at, string_at, unexpected

_INDEX = re.compile(r"\[\d+\]")


class Text(Struct, frozen=True):
    """Words."""

    text: str
    at: str


class Image(Struct, frozen=True):
    """A picture."""

    url: str
    """Of the web, or a data URL."""
    at: str
    detail: str = "auto"


class File(Struct, frozen=True):
    """A file whose content is in the request, or at an address."""

    url: str
    """Of the web, or a data URL."""
    at: str
    name: str = ""


class ThinkingPart(Struct, frozen=True):
    """What the model thought in an earlier turn."""

    text: str
    signature: str
    """See `wrap`."""
    at: str


class Refusal(Struct, frozen=True):
    """What the model said instead of an answer."""

    text: str
    at: str


class Call(Struct, frozen=True):
    """A call of a tool of the client's."""

    id: str
    name: str
    arguments: str
    """As the model wrote them: JSON, or any text where the tool is a custom one."""
    at: str
    custom: bool = False


class Result(Struct, frozen=True):
    """What a tool gave back."""

    id: str
    """Of the call."""
    content: tuple[Text | Image | File, ...]
    at: str
    failed: bool = False


Part = Text | Image | File | ThinkingPart | Refusal | Call | Result


class Turn(Struct):
    """What one side said."""

    role: str
    """``system``, ``user`` or ``assistant``; the result of a call is the user's."""
    parts: list[Part]
    at: str


class Tool(Struct, frozen=True):
    """A tool of the client's."""

    name: str
    at: str
    description: str | None = None
    parameters: Any = None
    """JSON Schema."""
    strict: bool | None = None
    custom: Mapping[str, Any] | None = None
    """For a custom tool, which takes any text: the fields of its own."""


CUSTOM_FIELDS = ("name", "description", "format")
"""Of a custom tool's own."""


class Choice(Struct, frozen=True):
    """Whether tools are to be called, and which."""

    mode: str
    """``auto``, ``none``, ``required``, or ``tool`` for the one that is named."""
    name: str = ""
    custom: bool = False
    allowed: tuple[str, ...] | None = None
    """Names of the only ones that may be called."""


class Form(Struct, frozen=True):
    """The form that the answer is to have: JSON."""

    schema: Any = None
    """None for any object."""
    name: str = ""
    description: str | None = None
    strict: bool | None = None


class Setting(Struct, frozen=True):
    """What the client set."""

    value: Any
    at: str


class NeutralRequest(Struct):
    """A request."""

    model: str
    turns: list[Turn] = field(default_factory=list)
    tools: list[Tool] = field(default_factory=list)
    settings: dict[str, Setting] = field(default_factory=dict)
    stream: bool = False


_UNSET: tuple[Any, ...] = (None, False, [], {}, {"enabled": False}, {"type": "direct"}, ["direct"])
"""What a field says that asks for nothing; the last two say that the model itself makes a call, as in every API."""


class Bounds:
    """What the server's API has no form for: refused, unless the operator lets it be left out."""

    def __init__(self, server: str, dropped: Collection[str] = ()) -> None:
        """`server` says whom the request cannot be put to; `dropped` are fields without positions, as ``messages.content.citations``."""
        self._server, self._dropped = server, frozenset(dropped)

    def refuse(self, at: str, why: str = "has nothing for it") -> None:
        """Returns where it may be left out. Raises `InvalidRequest` with the field."""
        plain = _INDEX.sub("", at)
        if not any(plain == name or plain.startswith(name + ".") for name in self._dropped):
            raise InvalidRequest(f"{at}: {self._server}, which {why}", param=at)

    def others(self, given: Mapping[str, Any], known: Collection[str], at: str) -> None:
        """Refuse the fields of an object that are set and not `known`."""
        for name, value in given.items():
            if name not in known and value not in _UNSET:
                self.refuse(f"{at}.{name}" if at else name)


def objects(value: object, at: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a list, each with its place. Raises `InvalidRequest`."""
    if not isinstance(value, list):
        raise unexpected(at, "a list", value)
    for i, item in enumerate(value):
        yield f"{at}[{i}]", object_at(item, f"{at}[{i}]")


def parts_of(content: object, at: str, read: Callable[[str, dict[str, Any], Bounds], Part | None], bounds: Bounds) -> list[Part]:
    """Of a message's content, or a result's: none, a text, or a list of which `read` reads each. Raises `InvalidRequest`."""
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(content, at)] if content else []
    return [part for where, given in objects(content, at) if (part := read(where, given, bounds)) is not None]


def of_result(parts: Sequence[Part], bounds: Bounds) -> tuple[Text | Image | File, ...]:
    """What a tool's result may hold; anything else is refused."""
    for part in parts:
        if not isinstance(part, Text | Image | File):
            bounds.refuse(part.at, "has no such part in the result of a call")
    return tuple(part for part in parts if isinstance(part, Text | Image | File))


def string(given: Mapping[str, Any], name: str, at: str) -> str:
    """A field that must be a string. Raises `InvalidRequest`."""
    return string_at(given.get(name), f"{at}.{name}" if at else name)


def text_of(part: Mapping[str, Any], at: str, name: str = "text") -> Text:
    """The words of a part."""
    return Text(string(part, name, at), f"{at}.{name}")


def arguments_of(call: Call, bounds: Bounds) -> dict[str, Any]:
    """A call's arguments as an object."""
    found = exact_object(call.arguments or "{}")
    if found is not None and not call.custom:
        return found
    bounds.refuse(call.at, "knows calls with a JSON object alone")
    return {}


def object_schema(parameters: Any) -> Any:
    """A tool's schema with what other APIs want of one: that it is of an object, and its properties, be there none."""
    if not isinstance(parameters, Mapping) or parameters.get("type", "object") != "object":
        return parameters
    return parameters if {"type", "properties"} <= parameters.keys() else {"type": "object", "properties": {}, **parameters}


def with_failure(result: Result) -> tuple[Text | Image | File, ...]:
    """A result's content for an API without a field for a call that failed: its words say so."""
    first = result.content[0] if result.content else None
    if not result.failed or (isinstance(first, Text) and "error" in first.text[:40].lower()):
        return result.content
    if not isinstance(first, Text):
        return (Text("Error: the call failed.", result.at), *result.content)
    return (Text("Error: " + first.text, first.at), *result.content[1:])


_SIGNATURE_PREFIX = "groundwire:"


def wrap(kind: str, data: str) -> str:
    """What a client brings back with a thought, so that it goes to the API that it came from: ``chat``, ``messages``, ``redacted`` (of
    Messages) or ``responses``, and what that API gave with it."""
    return f"{_SIGNATURE_PREFIX}{kind}:{data}"


def unwrap(seal: object) -> tuple[str, str] | None:
    """The kind and data of a seal; None for what was not sealed here."""
    text = seal if isinstance(seal, str) and seal.startswith(_SIGNATURE_PREFIX) else ""
    kind, parted, data = text.removeprefix(_SIGNATURE_PREFIX).partition(":")
    return (kind, data) if parted else None


def own_thought(thought: ThinkingPart, bounds: Bounds, *kinds: str) -> tuple[str, str] | None:
    """What came with a thought, for the API that has seals of these kinds; any other is refused."""
    found = unwrap(thought.signature)
    if found is not None and found[0] in kinds:
        return found
    bounds.refuse(thought.at, "cannot read what another API's model has thought")
    return None


def fitting(identity: str, prefix: str, longest: int, allowed: re.Pattern[str] | None = None) -> str:
    """An id that another API takes: itself where it is short and plain enough, else a name made of it, the same every time."""
    if len(identity) <= longest and (allowed is None or allowed.fullmatch(identity)):
        return identity
    return prefix + sha256(identity.encode()).hexdigest()[:24]


def shorten_names(ask: NeutralRequest, longest: int) -> dict[str, str]:
    """Give the tools of `ask` whose names are longer another, the same every time, wherever they are named. Returns theirs by the new."""
    found: dict[str, str] = {}

    def name_of(name: str) -> str:
        if len(name) <= longest:
            return name
        made = f"{name[: longest - 17]}_{sha256(name.encode()).hexdigest()[:16]}"
        return made if found.setdefault(made, name) == name else name

    for i, tool in enumerate(ask.tools):
        name = name_of(tool.name)
        ask.tools[i] = structs.replace(tool, name=name, custom=None if tool.custom is None else {**tool.custom, "name": name})
    for turn in ask.turns:
        turn.parts = [structs.replace(part, name=name_of(part.name)) if isinstance(part, Call) else part for part in turn.parts]
    choice = ask.settings.get("tool_choice")
    if choice is not None:
        allowed = choice.value.allowed
        chosen = structs.replace(
            choice.value, name=name_of(choice.value.name), allowed=None if allowed is None else tuple(map(name_of, allowed))
        )
        ask.settings["tool_choice"] = Setting(chosen, choice.at)
    return found


def split_data_url(url: str) -> tuple[str, str] | None:
    """Media type and base64 data; None for any other address."""
    head, found, data = url.partition(";base64,")
    return (head.removeprefix("data:"), data) if found and head.startswith("data:") else None


def refuse_prefill(ask: NeutralRequest, bounds: Bounds) -> None:
    """Raises `InvalidRequest` for an answer that the client has begun."""
    last = ask.turns[-1] if ask.turns else None
    if last is not None and last.role == "assistant" and not any(isinstance(part, Call) for part in last.parts):
        bounds.refuse(last.at, "does not go on with a begun answer")


def results_behind_calls(turns: Sequence[Turn]) -> list[Turn]:
    """`turns` with the results of calls directly behind these, before what was said while the tools ran: only in Responses may that stand
    in between.
    """
    found: list[Turn] = []
    behind = 0
    for turn in turns:
        if turn.role != "assistant" and any(isinstance(part, Result) for part in turn.parts):
            found.insert(behind, turn)
            behind += 1
        else:
            found.append(turn)
            behind = len(found) if turn.role == "assistant" else behind
    return found


_LATER = "<system>\n{}\n</system>"
"""A system message behind the first turn, in the user's: its place tells from when on it holds."""
BLANK = "(blank message)"
"""For a user's turn without a word where an API takes none: left out, the model's own turn would be the last."""
ASSISTANT_OPENING = "(The assistant begins.)"
"""For APIs in which the user has the first word, also where nobody but the system has spoken."""


def fit_template(turns: Sequence[Turn]) -> list[Turn]:
    """`turns` with one system turn at most, the first, and no two of one side in a row."""
    begin = next((i for i, turn in enumerate(turns) if turn.role != "system"), len(turns))
    found = [_join_turns(turns[:begin])] if begin else []
    for turn in turns[begin:]:
        said = _as_user(turn) if turn.role == "system" else turn
        if found and found[-1].role == said.role and not any(isinstance(part, Result) for part in said.parts):
            found[-1] = _join_turns([found[-1], said])
        else:
            found.append(said)
    return found


def _as_user(turn: Turn) -> Turn:
    text = "\n\n".join(part.text for part in turn.parts if isinstance(part, Text))
    return Turn("user", [Text(_LATER.format(text), turn.at)], turn.at)


def _join_turns(turns: Sequence[Turn]) -> Turn:
    """One turn that says all of it: texts that meet are one text, which every template takes."""
    parts: list[Part] = []
    for turn in turns:
        for i, part in enumerate(turn.parts):
            last = parts[-1] if parts else None
            if not i and isinstance(part, Text) and isinstance(last, Text) and last.text.strip():
                parts[-1] = Text(f"{last.text}\n\n{part.text}", last.at)
            else:
                parts.append(part)
    return Turn(turns[0].role, parts, turns[0].at)


def opened_by_user(every: Sequence[Turn], begin: int) -> list[Turn]:
    """The turns from `begin` on, behind those of the system, with a user's first, and none of a user's without a word."""
    turns = every[begin:]
    blank = [turn.role == "user" and not any(not isinstance(part, Text) or part.text.strip() for part in turn.parts) for turn in turns]
    filled = [Turn("user", [Text(BLANK, turn.at)], turn.at) if empty else turn for turn, empty in zip(turns, blank, strict=True)]
    opens = filled[0].role == "assistant" if filled else begin > 0
    return [Turn("user", [Text(ASSISTANT_OPENING, "")], ""), *filled] if opens else filled
