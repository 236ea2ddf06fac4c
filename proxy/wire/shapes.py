"""Shapes of JSON: what is recognised in a decoded value is built anew, and everything else stays behind and is named.

In: what `orjson` made of an upstream's bytes. Out: a new value of the fields that a dialect's table names, each of the type that stands
there. A shape is a function ``(value, reading) -> value | ABSENT | SILENT``: `ABSENT` is what is not of its type and counts as left out,
`SILENT` is left out without being counted (padding, say). ``null`` is of every type. The tables are `proxy.wire.*.shapes`; they parse
nothing: what leaves is read by the dialects' readers.

Text that nobody judges is recognised in three forms only: a word (`word`), what the client itself sent (`quoted`), and `figures`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import orjson

from proxy.exchange import Exchange, Tool, tool_name
from proxy.wire.answers import WORD_FIELDS

ABSENT, SILENT = object(), object()
_MAX_PATHS = 64
"""Paths of one answer that are told apart; further ones count together."""
_MAX_URL = 2048
_MAX_SEARCHED = 50_000_000
"""Characters that are searched through for what one answer quotes of its request: a twentieth of a second."""
OTHERS = "others"
_TYPES = ("function", "custom", "namespace")
"""Of tools that the client calls."""


class AnswerBounds:
    """What a request asked for, as far as it says what its answer may hold."""

    def __init__(
        self,
        body: bytes = b"{}",
        *,
        choices: int = 1,
        functions: Collection[str] = (),
        customs: Collection[str] = (),
        kinds: Collection[str] = (),
        any_tool: bool = False,
    ) -> None:
        """`functions` and `customs` are names of tools, `kinds` types of the provider's own; with `any_tool` it knows of others."""
        self._body = body
        self.choices = choices
        self._names = {"function": frozenset(functions), "custom": frozenset(customs)}
        self.kinds, self.any_tool = tuple(kinds), any_tool
        self._text: str | None = None
        self._texts: frozenset[str] = frozenset()
        self._search_chars_left = _MAX_SEARCHED

    def offers(self, name: str, kind: str = "function") -> bool:
        """Whether the model may call a tool of this name."""
        return self.any_tool or name in self._names[kind]

    def may_offer(self, beginning: str) -> bool:
        """Whether a name that begins so may still become one of the tools'."""
        return self.any_tool or any(name.startswith(beginning) for names in self._names.values() for name in names)

    def provides(self, *kinds: str) -> bool:
        """Whether a tool of the provider's own is offered whose type begins with one of `kinds`."""
        return self.any_tool or any(kind.startswith(kinds) for kind in self.kinds)

    def holds(self, text: str) -> bool:
        """Whether `text` stands in the request as it was sent."""
        if self._text is None:
            texts = [*strings(orjson.loads(self._body))]
            self._texts, self._text = frozenset(texts), "\0".join(texts)
        if text in self._texts:
            return True
        self._search_chars_left -= len(self._text)
        return self._search_chars_left >= 0 and text in self._text


def answer_bounds(exchange: Exchange, body: bytes, others: Sequence[Tool] = (), *, any_tool: bool = False) -> AnswerBounds:
    """What an exchange's request, sent as `body`, asked for; `others` are tools that it offers elsewhere than in its list, and with
    `any_tool` the provider knows of such as are not in it.
    """
    params = exchange.original.params
    tools = [tool for tool in (*exchange.original.tools, *exchange.tools, *others) if isinstance(tool, Mapping)]
    inner = [one for tool in tools if tool.get("type") == "namespace" for one in tool.get("tools") or () if isinstance(one, Mapping)]
    named = [(one.get("type", "function"), tool_name(one) or str(one.get("name") or "")) for one in (*tools, *inner)]
    kinds = [str(tool["type"]) for tool in tools if tool.get("type") not in (None, *_TYPES)]
    return AnswerBounds(
        body,
        choices=exchange.original.wants.choices,
        functions=[name for kind, name in named if kind not in ("custom", "namespace") and name],
        customs=[name for kind, name in named if kind == "custom" and name],
        kinds=kinds + ["mcp"] * bool(params.get("mcp_servers")) + ["code_execution"] * bool(params.get("container")),
        any_tool=any_tool or "tool_search" in kinds,
    )


def strings(value: object) -> Iterator[str]:
    """Every text in a JSON value, and every key."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, list):
            waiting += one
        elif isinstance(one, dict):
            waiting += one.values()
            yield from one


class Reading:
    """One answer, while it is looked at."""

    def __init__(self, bounds: AnswerBounds) -> None:
        self.bounds = bounds
        self.omissions: dict[str, int] = {}
        """How often something of a name did not pass."""
        self.lacks_words = False
        """Whether something did not pass that may have been what the answer says."""

    def leave_out(self, *path: str, rider: bool = False) -> None:
        """Note that something of the upstream's stays behind; a `rider` stands beside what an answer says and is none of it."""
        self.lacks_words = self.lacks_words or not rider
        name = ".".join(re.sub(r"[^\w.\[\]-]", "_", step[:60], flags=re.ASCII) for step in path)
        name = name if name in self.omissions or len(self.omissions) < _MAX_PATHS else OTHERS
        self.omissions[name] = self.omissions.get(name, 0) + 1


Shape = Callable[[Any, Reading], Any]
AnyShape = Shape | str
"""A shape, or the name of a simple one: ``word``."""
_NUMBERS = (bool, int, float)


class Fields:
    """An object with the fields of a `table`."""

    __slots__ = ("_fields", "_name")

    def __init__(self, name: str, fields: Mapping[str, AnyShape] | None = None, /, **simple: str) -> None:
        self._name, self._fields = name, table(fields, **simple)

    def __call__(self, value: Any, reading: Reading) -> Any:
        """The object with what is known of it."""
        if value.__class__ is not dict:
            return ABSENT
        made: dict[str, Any] = {}
        fields = self._fields
        for key, given in value.items():
            shape = fields.get(key)
            if shape is None:
                if given or given.__class__ in _NUMBERS:
                    reading.leave_out(self._name, key, rider=not _may_speak(key, given))
            elif given is None:
                made[key] = None
            elif (new := shape(given, reading)) is ABSENT:
                reading.leave_out(self._name, key, rider=shape in _RIDERS)
            elif new is not SILENT:
                made[key] = new
        return made

    def but(self, **fields: AnyShape) -> Fields:
        """The same object with these fields in place of its own, or beside them."""
        return Fields(self._name, {**self._fields, **fields})


def list_of(shape: AnyShape, name: str = "[]") -> Shape:
    """A list of such values; others in it stay behind."""
    of_item = _shape(shape)

    def each(value: Any, reading: Reading) -> Any:
        if value.__class__ is not list:
            return ABSENT
        made = []
        for given in value:
            new = of_item(given, reading)
            if new is ABSENT:
                reading.leave_out(name, _kind(given), rider=of_item in _RIDERS)
            else:
                made.append(new)
        return made

    return each


def by_type(shapes: Mapping[str, Shape]) -> Shape:
    """An object whose shape its ``type`` tells."""

    def one(value: Any, reading: Reading) -> Any:
        kind = value.get("type") if value.__class__ is dict else None
        shape = shapes.get(kind) if kind.__class__ is str else None
        return ABSENT if shape is None else shape(value, reading)

    return one


def either(*shapes: AnyShape) -> Shape:
    """What is of the first of these shapes that it is of."""
    tried = [_shape(shape) for shape in shapes]

    def one(value: Any, reading: Reading) -> Any:
        return next((made for shape in tried if (made := shape(value, reading)) is not ABSENT), ABSENT)

    return one


def among(*words: str) -> Shape:
    """One of these words."""
    return lambda value, reading: value if value.__class__ is str and value in words else ABSENT


def constant(made: str) -> Shape:
    """A field that always says the same: libraries leave out what says otherwise there."""

    def one(value: Any, reading: Reading) -> Any:
        if value != made:
            reading.leave_out("a name that is another", rider=True)
        return made

    return one


def text(value: Any, reading: Reading) -> Any:
    """Words that are read by whoever reads what leaves."""
    return value if value.__class__ is str else ABSENT


def number(value: Any, reading: Reading) -> Any:
    """A number."""
    return value if value.__class__ is int or value.__class__ is float else ABSENT


def flag(value: Any, reading: Reading) -> Any:
    """True or false."""
    return value if value.__class__ is bool else ABSENT


def word(value: Any, reading: Reading) -> Any:
    """ASCII without a blank, as names, ids, enumerations and what is encoded or encrypted are; or what the client itself sent."""
    if value.__class__ is not str:
        return ABSENT
    return value if is_word(value) or reading.bounds.holds(value) else ABSENT


def label(value: Any, reading: Reading) -> Any:
    """A word where clients need the field; an empty one in place of others."""
    made = word(value, reading)
    if made is ABSENT:
        reading.leave_out("a name that is no word", rider=True)
        return ""
    return made


def quoted(value: Any, reading: Reading) -> Any:
    """Words that stand in the request; an empty text in place of others, where clients need the field."""
    if value.__class__ is not str:
        return ABSENT
    if value and not reading.bounds.holds(value):
        reading.leave_out("a text that nobody reads", rider=True)
        return ""
    return value


def nothing(value: Any, reading: Reading) -> Any:
    """A field that is known and never passes: words or sounds that no check reads."""
    return ABSENT


def padding(value: Any, reading: Reading) -> Any:
    """A field that says nothing to anybody."""
    return SILENT


def empty(made: Any) -> Shape:
    """A list or text that is to come later, and is not read here."""

    def one(value: Any, reading: Reading) -> Any:
        return ABSENT if value.__class__ is not made.__class__ else made if value == made else _note_content(made, reading)

    return one


def _note_content(made: Any, reading: Reading) -> Any:
    reading.leave_out("content before its events")
    return made


def url(value: Any, reading: Reading) -> Any:
    """An address on the web; nothing that a program would run."""
    if value.__class__ is not str or len(value) > _MAX_URL or any(c.isspace() or not c.isprintable() for c in value):
        return ABSENT
    return value if value.startswith(("https://", "http://")) or reading.bounds.holds(value) else ABSENT


_NAMING = frozenset(
    str.split("""type id model status state object role name code reason format version ttl encoding severity effort verbosity summary
        quality size modality category probability
    background moderation service_tier inference_geo speed signature thought_signature ranker search_context_size require_approval
    input_fidelity output_format server_label country timezone modelStage serviceTier trafficType urlRetrievalStatus""")
)
"""Fields in objects of no fixed form that hold a name, a state or a seal, which is one word: elsewhere many such make a sentence."""


def figures(value: Any, reading: Reading) -> Any:
    """Numbers and flags in objects and lists of any form; of keys, words; of texts, names and what stands in the request."""
    return _tree(value, reading, "")


def data(value: Any, reading: Reading) -> Any:
    """What a tool is called with: any JSON."""
    return value


def _tree(value: Any, reading: Reading, field: str) -> Any:
    if value is None or value.__class__ in (bool, int, float):
        return value
    if value.__class__ is str:
        named = (field in _NAMING or field.endswith("_id")) and is_word(value)
        return value if named or reading.bounds.holds(value) else ABSENT
    made: Any
    if value.__class__ is list:
        made = [new for item in value if (new := _tree(item, reading, "")) is not ABSENT]
    else:
        pairs = ((key, _tree(item, reading, key)) for key, item in value.items() if word(key, reading) is not ABSENT)
        made = {key: new for key, new in pairs if new is not ABSENT}
    if len(made) != len(value):
        reading.leave_out("a text that nobody reads", rider=True)
    return made


def with_host(made: dict[str, Any], reading: Reading) -> dict[str, Any]:
    """A source with its ``title`` as the client sent it, else with its host: what a page is called nobody checks."""
    title, host = made.get("title"), _host(made.get("url"))
    if title and title != host and not reading.bounds.holds(title):
        reading.leave_out("a title that nobody reads", rider=True)
        made["title"] = host
    return made


def _host(address: str | None) -> str:
    try:
        host = urlsplit(address or "").hostname or ""
    except ValueError:
        return ""
    return host if is_word(host) else ""


def with_title(fields: Fields) -> Shape:
    """A source (`with_host`)."""

    def one(value: Any, reading: Reading) -> Any:
        made = fields(value, reading)
        return made if made is ABSENT else with_host(made, reading)

    return one


def is_word(value: str) -> bool:
    """Whether it is ASCII without a blank."""
    return value.isascii() and value.isprintable() and " " not in value


_SIMPLE: Mapping[str, Shape] = {
    shape.__name__: shape for shape in (word, number, text, flag, quoted, figures, url, label, padding, nothing, data)
}
_RIDERS = frozenset((word, number, flag, quoted, figures, url, label, padding))
"""Shapes of fields that stand beside what an answer says: names, figures, and what is not the model's."""


def _may_speak(name: str, value: object) -> bool:
    """Whether a field that is not known may be words that a client would show as the answer's, and not only names and numbers."""
    return any(text in WORD_FIELDS or not is_word(text) for text in (name, *strings(value)))


def table(fields: Mapping[str, AnyShape] | None = None, /, **simple: str) -> dict[str, Shape]:
    """Shapes by field: those of `fields`, and for each simple shape the names of the fields that have it, as ``word="id type"``."""
    named = {name: shape for shape, names in simple.items() for name in names.split()}
    return {name: _shape(shape) for name, shape in {**(fields or {}), **named}.items()}


def _shape(shape: AnyShape) -> Shape:
    return _SIMPLE[shape] if isinstance(shape, str) else shape


def glues(before: str, after: str) -> bool:
    """Whether two texts that no reader reads as one would go on with a word, a number or a sentence where they are joined with nothing."""
    end, begin = before.rstrip(), after.lstrip()
    joint = before[len(end) :] + after[: len(after) - len(begin)]
    if not end or not begin or "\n" in joint:
        return False
    ends = end[-1] in ".!?:;…\"')]}”»。！？" and len(end.split()[-1]) > 2
    return not (ends and (joint or begin[0].isupper() or begin[0] in "#*-`>[\"'“«" or ord(begin[0]) > 0x2E80))


def _kind(value: object) -> str:
    return str(value.get("type", "object")) if isinstance(value, dict) else type(value).__name__
