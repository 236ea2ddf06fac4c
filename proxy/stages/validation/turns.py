"""What is new on each turn of a conversation, with the question it came for and the context it came into. Pure.

A turn is what stands between two assistant messages. All that a piece is judged by stands before it or in its own turn, so that it is
judged the same when the client sends it again on later turns, by any worker: its question is the last one before it (a passage's, that of
its own message), and the existing context is what came before its turn. A tool's result is also read against the call that asked for it:
"Book it, please" says nothing of what a search should bring.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from proxy.context.pieces import ContextPiece, pieces_of
from proxy.context.question import Question, question_among
from proxy.exchange import Evidence, Exchange, Message
from proxy.language.word_overlap import content_words
from proxy.offloop import each
from proxy.stages.validation.metrics.content import Content, timestamp_in
from proxy.stages.validation.metrics.freshness import seconds_of, time_in
from proxy.stages.validation.options import ValidationOptions, matches

FEW_WORDS = 8
"""A result with fewer content words ("305.0", "Transfer successful", "[]") says too little for its relevance to be told: of those in
tau-bench's airline runs none reaches 0.7, though all were asked for. Of the longer ones 90% do, by question or call; 15% by the question
alone, and none by another task's."""
MAX_CALL_CHARS = 500
_SAMPLE_CHARS = 2000


class Newcomer(Struct, frozen=True):
    """A piece of the context, as it came."""

    piece: ContextPiece
    turn: int
    """Position of its turn's first message; the number of messages for passages that came with the request itself."""
    tool: str
    """Whose result it is, or stands in; "" for anything else."""
    content: Content
    questions: tuple[str, ...]
    unasked: str
    """Why its relevance is not to be measured."""
    new: bool
    """Whether it came with this request: behind the last assistant message."""
    shown_as: str = ""
    """The name under which the run remembers when it first showed it: its hash, and a number where the same text stands there before. ""
    for a passage of the request itself, which the client has chosen anew and which is as old as it is now."""


class RetrievalCall(Struct, frozen=True):
    """A tool call of the conversation."""

    name: str
    arguments: str

    @property
    def purpose(self) -> str:
        """The call as a text that its result can be compared with."""
        return f"{re.sub(r'[_.-]+', ' ', self.name)} {self.arguments}"[:MAX_CALL_CHARS]


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


def calls_of(messages: Sequence[Message]) -> dict[str, RetrievalCall]:
    """The tool calls of a conversation, by id."""
    found: dict[str, RetrievalCall] = {}
    for message in messages:
        made = message.get("tool_calls")
        for call in made if isinstance(made, list) else ():
            function = call.get("function") if isinstance(call, Mapping) else None
            if isinstance(function, Mapping):
                found[str(call.get("id"))] = RetrievalCall(str(function.get("name") or ""), str(function.get("arguments") or ""))
    return found


def before(turn: int, evidence: Sequence[Evidence], dropped: frozenset[str]) -> list[Evidence]:
    """What the context said before a turn, in order, without what was taken out of it (by its text)."""
    there = [one for one in evidence if one.message_index is not None and one.content.strip() not in dropped]
    found = [one for one in there if one.message_index is not None and (one.message_index < turn or one.kind == "system")]
    return sorted(found, key=lambda one: one.message_index or 0)


class _Reader:
    """Reads one exchange's pieces."""

    def __init__(self, exchange: Exchange, options: ValidationOptions) -> None:
        self._messages, self._hints, self._options = exchange.conversation, exchange.original.message_hints, options
        self._starts, self._calls = turn_starts(self._messages), calls_of(self._messages)
        self._users = [i for i, message in enumerate(self._messages) if message.get("role") == "user"]
        self._questions: dict[int, Question] = {}
        self.last = self._starts[-1]

    def turn_of(self, piece: ContextPiece) -> int:
        return len(self._messages) if piece.message is None else self._starts[piece.message]

    def newcomer(self, piece: ContextPiece, occurrence: int) -> Newcomer:
        """`occurrence` counts, from 1, the pieces of the same text up to this one."""
        options, turn = self._options, self.turn_of(piece)
        message: Message = self._messages[piece.message] if piece.message is not None else {}
        call = self._calls.get(str(message.get("tool_call_id"))) if piece.role == "tool" else None
        tool = call.name if call else str(message.get("name") or "") if piece.role in ("tool", "function") else ""
        question = self._question(piece)
        content = Content(
            piece.text,
            self._timestamp(piece),
            piece.source,
            piece.fields,
            options.required_of(tool, piece.source),
            (call.purpose,) if call else (),
            options.max_age_of(tool, piece.source),
            "memory" if matches((piece.source, tool), options.memory) else piece.kind,
        )
        short = piece.kind == "tool_result" and len(content_words(piece.text[:_SAMPLE_CHARS])) < FEW_WORDS
        unasked = "too short to tell" if short else "" if call else question.reason
        shown_as = "" if piece.message is None else piece.hash if occurrence == 1 else f"{piece.hash}#{occurrence}"
        return Newcomer(piece, turn, tool, content, question.readings, unasked, turn >= self.last, shown_as)

    def _question(self, piece: ContextPiece) -> Question:
        """What it is to help with."""
        asked = self._asked_before(piece)
        if asked not in self._questions:
            self._questions[asked] = question_among(self._messages[self._users[k]] for k in range(asked - 1, -1, -1))
        return self._questions[asked]

    def _asked_before(self, piece: ContextPiece) -> int:
        """How many of the user's messages there are up to the one that asks: for the system's, the first one behind it."""
        i = piece.message
        if i is None:
            return len(self._users)
        before = bisect_right(self._users, i)
        return min(before + 1, len(self._users)) if piece.role in ("system", "developer") else before

    def _timestamp(self, piece: ContextPiece) -> float | None:
        """As the client said it, or the content itself."""
        names = self._options.timestamp_fields
        hint = self._hints.get(piece.message, {}) if piece.message is not None else {}
        said = (piece.timestamp, seconds_of(hint.get("timestamp")), time_in(piece.fields, ("timestamp", *names)))
        found = next((time for time in said if time is not None), None)
        return timestamp_in(piece.text, names) if found is None else found
