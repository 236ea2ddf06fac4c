"""What is to be validated, with what it is judged by: the question it is to help with, and what the context says already. Pure.

A caller of the library gives a text, or a mapping with its text and what is known of it (`content_of`). In a conversation it is what is new
on each turn (`newcomers`). A turn is what stands between two assistant messages. All that a piece is judged by stands before it or in its
own turn, so that it is judged the same when the client sends it again on later turns, by any worker: its question is the last one before
it (a passage's, that of its own message), and the existing context is what came before its turn. A tool's result is also read against the
call that asked for it: "Book it, please" says nothing of what a search should bring.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from proxy.context.conversation import answered_calls_of
from proxy.context.pieces import ContextPiece, pieces_of
from proxy.context.question import Question, question_among
from proxy.exchange import Evidence, Exchange, Message, tool_name
from proxy.grounding.clashes.kinds import Origin
from proxy.grounding.evidence.gathering import EvidenceBase
from proxy.language.json.strings import parse_json
from proxy.language.text import text_of
from proxy.language.words import content_words
from proxy.offloop import each
from proxy.stages.validation.quality import ValidationOptions, matches, seconds_of, time_in

FEW_WORDS = 8
"""A result with fewer content words ("305.0", "Transfer successful", "[]") says too little for its relevance to be told: of those in
tau-bench's airline runs none reaches 0.7, though all were asked for. Of the longer ones 90% do, by question or call; 15% by the question
alone, and none by another task's."""
MAX_CALL_CHARS = 500
MAX_EXISTING_CHARS = 20_000
"""Of the existing context, its end: what a claim is compared with is found in 10 ms."""
_SAMPLE_CHARS = 2000
_TEXT_KEYS = ("content", "text")
_OWN_KEYS = frozenset(("content", "text", "timestamp", "source", "fields", "required_fields"))


class Content(Struct, frozen=True):
    """One piece of context."""

    text: str
    timestamp: float | None = None
    """Seconds since the epoch at which it was so; None where nobody says."""
    source: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """All that was given with it, by name: a field that it must have may be any of them."""
    required_fields: tuple[str, ...] = ()
    """What it must have, as names or paths."""
    purposes: tuple[str, ...] = ()
    """What it was asked for, beside the question: the call that a tool's result answers. Relevant to one of them is relevant."""
    max_age_s: float | None = None
    """For this piece; None for what holds for all."""
    origin: Origin = "system"
    """Who says it, as far as it bears on what it may say of the user."""


class Candidate(Struct, frozen=True):
    """What wants to enter the context."""

    content: Content
    questions: tuple[str, ...] = ()
    """Readings of the question; the best counts."""
    unasked: str = ""
    """Why its relevance is not to be measured."""
    existing: EvidenceBase | None = None
    """What the context says already; the same object for all that are compared with the same."""


class Newcomer(Struct, frozen=True):
    """A piece of the context, as it came."""

    piece: ContextPiece
    turn: int
    """Position of its turn's first message; the number of messages for passages that came with the request itself."""
    tool: str
    """Whose result it is, or stands in; "" for anything else."""
    candidate: Candidate
    new: bool
    """Whether it came with this request: behind the last assistant message."""
    shown_as: str = ""
    """The name under which the run remembers when it first showed it: its hash, and a number where the same text stands there before. ""
    for a passage of the request itself, which the client has chosen anew and which is as old as it is now."""


# ---- what a caller gives ----


def content_of(given: object, required_fields: Sequence[str] = ()) -> Content:
    """Read what a caller gives. Raises `TypeError` for what is neither a text, a mapping nor a list of either.

    A mapping's text stands in ``content`` or ``text``. One without either is data: its own fields are the content. ``timestamp``,
    ``source``, ``fields`` and ``required_fields`` say more of it; a timestamp is also looked for among the fields.
    """
    if isinstance(given, Content):
        return given
    if isinstance(given, str):
        return Content(given, time_in(parse_json(given)), required_fields=tuple(required_fields))
    if isinstance(given, Mapping):
        return _of_mapping(given, required_fields)
    if isinstance(given, Sequence) and not isinstance(given, bytes | bytearray):
        return Content(json.dumps(given, ensure_ascii=False, default=str), required_fields=tuple(required_fields))
    raise TypeError(f"expected a text or a mapping, got {type(given).__name__}")


def _of_mapping(given: Mapping[str, Any], required_fields: Sequence[str]) -> Content:
    key = next((key for key in _TEXT_KEYS if key in given), "")
    value = given.get(key)
    text = text_of(value) if isinstance(value, str | list) else ""
    own = {name: value for name, value in given.items() if name not in _OWN_KEYS}
    if not text and (isinstance(value, Mapping | list) or not key):
        text = json.dumps(value if key else own, ensure_ascii=False, default=str)
    extra = given.get("fields")
    given_fields = {name: value for name, value in given.items() if name not in ("fields", "required_fields")}
    fields = {**given_fields, **extra} if isinstance(extra, Mapping) else given_fields
    required = given.get("required_fields")
    required = tuple(map(str, required)) if isinstance(required, list | tuple) else tuple(required_fields)
    times = (seconds_of(given.get("timestamp")), time_in(fields), time_in(parse_json(text)))
    return Content(text, _first(times), str(given.get("source") or ""), fields, required)


def _first(times: Sequence[float | None]) -> float | None:
    return next((time for time in times if time is not None), None)


# ---- what the context says already ----


def existing_base(existing: str | Sequence[str | Evidence] | None) -> EvidenceBase | None:
    """The existing context, ready to be searched; None where it says nothing."""
    given = [existing] if isinstance(existing, str) else list(existing or ())
    evidence = [Evidence(one, kind="system") if isinstance(one, str) else one for one in given]
    base = EvidenceBase(newest(evidence))
    return base if len(base) else None


def newest(evidence: Sequence[Evidence], most: int = MAX_EXISTING_CHARS) -> list[Evidence]:
    """The last of `evidence` that together have at most `most` characters, and always the last one."""
    newest_first: list[Evidence] = []
    for one in reversed(evidence):
        most -= len(one.content)
        if most < 0 and newest_first:
            break
        newest_first.append(one)
    return newest_first[::-1]


def context_before(turn: int, evidence: Sequence[Evidence], dropped: frozenset[str]) -> EvidenceBase | None:
    """What the context said before a turn, in order, without what was taken out of it (by its text)."""
    there = [(one.message_index, one) for one in evidence if one.message_index is not None and one.content.strip() not in dropped]
    found = [(i, one) for i, one in there if i < turn or one.kind == "system"]
    return existing_base([one for _, one in sorted(found, key=lambda pair: pair[0])])


# ---- what is new in a conversation ----


def newcomers(exchange: Exchange, options: ValidationOptions, *, older: bool) -> list[Newcomer]:
    """What came on the last turn, in order; with `older`, on every turn."""
    reader = _Reader(exchange, options)
    times_there: Counter[str] = Counter()
    found = []
    for piece in each(pieces_of(exchange)):
        if piece.kind not in options.kinds and not matches((piece.source,), options.memory):
            continue
        times_there[piece.hash] += 1
        if older or reader.turn_of(piece) >= reader.last:
            found.append(reader.newcomer(piece, times_there[piece.hash]))
    return found


def turn_starts(messages: Sequence[Message]) -> list[int]:
    """For each message the position of the first one behind the assistant message before it; and one more for what would come next."""
    found, start = [], 0
    for i, message in enumerate(messages):
        found.append(start)
        if message.get("role") == "assistant":
            start = i + 1
    return [*found, start]


def purpose_of(call: Mapping[str, Any]) -> str:
    """A tool call as a text that its result can be compared with."""
    arguments = str(call.get("function", {}).get("arguments") or "")
    return f"{re.sub(r'[_.-]+', ' ', tool_name(call))} {arguments}"[:MAX_CALL_CHARS]


class _Reader:
    """Reads one exchange's pieces."""

    def __init__(self, exchange: Exchange, options: ValidationOptions) -> None:
        self._messages, self._options = exchange.conversation, options
        self._starts, self._calls = turn_starts(self._messages), answered_calls_of(exchange)
        self._users = [i for i, message in enumerate(self._messages) if message.get("role") == "user"]
        self._questions: dict[int, Question] = {}
        self.last = self._starts[-1]

    def turn_of(self, piece: ContextPiece) -> int:
        return len(self._messages) if piece.message is None else self._starts[piece.message]

    def newcomer(self, piece: ContextPiece, occurrence: int) -> Newcomer:
        """`occurrence` counts, from 1, the pieces of the same text up to this one."""
        options, turn = self._options, self.turn_of(piece)
        message: Message = self._messages[piece.message] if piece.message is not None else {}
        call = self._calls.get(piece.message) if piece.message is not None else None
        tool = tool_name(call) if call else str(message.get("name") or "") if piece.role in ("tool", "function") else ""
        question = self._question(piece)
        content = Content(
            piece.text,
            _first((piece.timestamp, time_in(piece.fields), time_in(parse_json(piece.text)))),
            piece.source,
            piece.fields,
            options.required_of(tool, piece.source),
            (purpose_of(call),) if call else (),
            options.max_age_s,
            "memory" if matches((piece.source, tool), options.memory) else piece.kind,
        )
        short = piece.kind == "tool_result" and len(content_words(piece.text[:_SAMPLE_CHARS])) < FEW_WORDS
        unasked = "too short to tell" if short else "" if call else question.reason
        shown_as = "" if piece.message is None else piece.hash if occurrence == 1 else f"{piece.hash}#{occurrence}"
        return Newcomer(piece, turn, tool, Candidate(content, question.readings, unasked), turn >= self.last, shown_as)

    def _question(self, piece: ContextPiece) -> Question:
        """What it is to help with: the last question up to it; for the system's, the first one behind it."""
        asked = len(self._users) if piece.message is None else bisect_right(self._users, piece.message)
        if piece.role in ("system", "developer"):
            asked = min(asked + 1, len(self._users))
        if asked not in self._questions:
            self._questions[asked] = question_among(self._messages[self._users[k]] for k in range(asked - 1, -1, -1))
        return self._questions[asked]
