"""The wire: a client's bytes <-> `Exchange`. The only parsers of request and answer bodies.

A dialect is one folder that knows one API: `chat` is OpenAI's chat completions, `messages` Anthropic's Messages. It turns a body into a
`Request` in chat form, an exchange back into a body, and an answer (whole, or event by event) into an `Answer` and back; its errors, its
end mark, its blocks and its clients' keys are its own, too. What no stage touched is sent in the bytes it came in. No stage knows which
dialect it serves; they are listed in `proxy.app`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import msgspec
import orjson
from msgspec import DecodeError, Struct
from msgspec.structs import replace

from proxy.config.settings import Api
from proxy.errors import ProxyError
from proxy.exchange import Answer, Choice, Exchange, Request, Usage
from proxy.wire import sse
from proxy.wire.answers import added_up
from proxy.wire.api_errors import code_in
from proxy.wire.bodies import EXTENSION, encode_raw, object_in, raw_fields
from proxy.wire.own_tools import OwnToolFilter
from proxy.wire.requests import RequestRendering, fits, withhold
from proxy.wire.shapes import AnswerBounds, Reading, Shape


class Changes(Struct, frozen=True):
    """What stages changed in an answer, by choice: texts, refusals, and, by their index, the arguments of calls."""

    texts: Mapping[int, str] = {}
    refusals: Mapping[int, str] = {}
    arguments: Mapping[int, Mapping[int, str]] = {}


NO_CHANGES = Changes()


def changes_of(before: Answer, after: Answer) -> Changes:
    """From `before` to `after`."""
    return Changes(after.changed_texts(before), after.changed_refusals(before), after.changed_arguments(before))


class StreamPiece(Struct, frozen=True):
    """One event of a streamed answer, as the gate sees it."""

    raw: bytes
    """The event as it goes out."""
    choice: int | None = None
    """The choice it belongs to; None for usage, comments and the end mark."""
    text: str = ""
    """Answer text in it."""
    finish: bool = False
    """Whether it ends its choice."""
    done: bool = False
    """The end mark, or what comes behind it."""
    divisible: bool = True
    """Whether its text may be cut in two without loss (not when it carries log probabilities)."""
    refusal: bool = False
    """Whether it carries words of a refusal."""
    waits: bool = False
    """Whether it may not leave before the text in front of it: what opens or closes the part of an answer in which text stands."""
    parts: bool = False
    """Whether it waits, and a sentence ends before it though it may lack its full stop: a tool's call between two texts."""
    acts: bool = False
    """Whether it waits, and a client may act on it as soon as it comes (a whole call of its tool): it leaves, with all that is behind it,
    only when the whole answer has been judged."""
    has_call_input: bool = False
    """Whether it tells what a call of a client's tool takes: under a policy that refuses what it cannot check it leaves as what `acts`."""
    payload: Mapping[str, object] | None = None
    """The dialect's parsed form."""


class AnswerStream(Protocol):
    """Reads a streamed answer, event by event."""

    done: bool
    """Whether the end mark has come."""
    error: Mapping[str, object] | None
    """An error that the upstream sent inside the stream."""
    usage: dict[str, Any] | None
    """The usage that the stream has reported, as it stands there."""
    _splitter: sse.EventSplitter
    _problem: str
    _strange: int
    """Events that are none of the API's."""
    _events: str = ""
    """What those of the API are called."""

    def __init__(self) -> None:
        self._splitter = sse.EventSplitter()
        self.done, self.error, self.usage, self._problem, self._strange = False, None, None, "", 0

    def feed(self, chunk: bytes) -> list[StreamPiece]:
        """The pieces that `chunk` completes."""
        return [piece for event in self._splitter.feed(chunk) for piece in self._pieces(event)]

    def finish(self) -> list[StreamPiece]:
        """What was left without a blank line, made whole."""
        event = self._splitter.finish()
        return [] if event is None else [*self._pieces(event)]

    def _pieces(self, event: sse.Event) -> Iterable[StreamPiece]:
        """The pieces of an event."""

    def _miss(self, problem: str) -> None:
        """Note what cannot be read; the first counts."""
        self._problem = self._problem or problem

    @property
    def answer(self) -> Answer:
        """Everything so far, put together."""

    @property
    def complete(self) -> bool:
        """Whether every choice has ended; a stream that stops before that broke off."""

    @property
    def unreadable(self) -> str:
        """What of it was not what the dialect knows, or says something that it does not read; "" for nothing."""
        if self._strange:
            return f"{self._strange} events are not {self._events}"
        return f"text in {self._problem} is not read" if self._problem else ""

    def encode_outgoing(self, piece: StreamPiece) -> bytes:
        """The bytes of `piece`, which leaves as it is. Of a stream that is judged, every piece that leaves comes here or to `with_text`
        or `with_refusal`, in the order of leaving, so that what repeats a text further on can follow a change of it."""
        return piece.raw

    def with_text(self, piece: StreamPiece, text: str) -> bytes:
        """`piece`, which leaves, as an event that says `text` instead."""

    def with_refusal(self, piece: StreamPiece, text: str) -> bytes:
        """`piece`, which carries words of a refusal, as an event that refuses with `text` instead."""
        return self.with_text(piece, text)

    def apply_changes(self, pieces: Sequence[StreamPiece], changes: Changes) -> list[StreamPiece]:
        """A whole stream's `pieces`, of which those that `changes` are about say that instead."""

    def with_usage(self, piece: StreamPiece, others: Sequence[Mapping[str, object]]) -> StreamPiece:
        """`piece` with the usage of the exchange's other answers added to what it reports; itself where it reports none."""

    def encode_block(self, choices: Sequence[int]) -> bytes:
        """The events that end `choices` as the API ends what a filter stops; `end` follows."""

    def encode_failure(self, error: ProxyError) -> bytes:
        """The last events of a stream that fails after bytes have left."""

    def end(self, verdict: Mapping[str, object] | None = None, mark: bytes = b"") -> bytes:
        """The last events of a stream, with the verdict if one was asked for; `mark` is the end mark as it came, where it may stay so."""


class ChunkStream(AnswerStream, Protocol):
    """One whose events are chunks: each is an answer with some of what its choices say. With `separate`, one that does several things
    becomes a piece for each."""

    usage_field: str = "usage"
    choices_field: str = "choices"
    _separate: bool

    def __init__(self, *, separate: bool = False) -> None:
        super().__init__()
        self._separate = separate

    def _split(self, raw: bytes, chunk: dict[str, Any], choices: Sequence[dict[str, Any]]) -> list[StreamPiece]:
        """The pieces of a chunk; its usage is the last one's."""
        steps = [step for one in choices for step in self._steps(one)] if self._separate else choices
        if len(steps) == 1:
            return [self._piece(raw, chunk, steps[0])]
        if not self._separate or not steps:
            for one in steps:
                self._piece(raw, chunk, one)
            return [StreamPiece(raw, payload=chunk)]
        last = len(steps) - 1
        kept = ({name: value for name, value in chunk.items() if i == last or name != self.usage_field} for i in range(len(steps)))
        alone = [{**rest, self.choices_field: [step]} for rest, step in zip(kept, steps, strict=True)]
        return [self._piece(sse.encode_json(one), one, step) for one, step in zip(alone, steps, strict=True)]

    def _steps(self, choice: dict[str, Any]) -> list[dict[str, Any]]:
        """A choice of a chunk as choices that do one thing each."""

    def _piece(self, raw: bytes, chunk: dict[str, Any], choice: dict[str, Any]) -> StreamPiece:
        """The piece of a chunk with this choice, which is taken in."""

    def with_usage(self, piece: StreamPiece, others: Sequence[Mapping[str, object]]) -> StreamPiece:
        """`piece` with the usage of the exchange's other answers added to its own, if it has one."""
        own = (piece.payload or {}).get(self.usage_field)
        if not isinstance(own, dict) or not others:
            return piece
        payload = {**(piece.payload or {}), self.usage_field: added_up([*others, own])}
        return replace(piece, raw=sse.encode_json(payload), payload=payload)


class Recogniser:
    """Takes an answer's parsed JSON apart into what its API's answers are made of, before anybody reads it."""

    api: Api
    end_mark = b""
    """What the last event's data is where that is no JSON."""
    failure: Shape
    """Of the API's own error."""

    def __init__(self, bounds: AnswerBounds) -> None:
        self.reading = Reading(bounds)
        """What was left out."""
        self.says = False
        """Whether anything of it has words, or calls a tool."""

    def answer(self, fields: Any) -> Any:
        """A whole answer with what is recognised of it; `proxy.wire.shapes.ABSENT` where it is none."""
        raise NotImplementedError

    def events(self, fields: Any) -> list[dict[str, Any]]:
        """What leaves for an event of a stream."""
        raise NotImplementedError

    def error(self, fields: Any) -> Any:
        """The API's own error with what is recognised of it; `proxy.wire.shapes.ABSENT` where it is none."""
        return type(self).failure(fields, self.reading)


class Dialect(RequestRendering, Protocol):
    """One API; what is not overridden is OpenAI's."""

    path: str
    """Below ``/v1``: ``/chat/completions``."""
    conversation_field: str
    """The field of a body that the conversation stands in."""
    key_headers: tuple[str, ...] = ("authorization",)
    """Where a client's key stands: the first of these that it sends says who it is."""
    own_tools: type[OwnToolFilter]
    """Takes calls of the proxy's own tools out of its answers."""
    client_header: str = ""
    """A header that only clients of this API send, also to paths that are nobody's own; "" where there is none."""
    usage_field: str = "usage"
    """The field of an answer that tells its usage."""

    def merge_address(self, body: bytes, path: str) -> bytes:
        """A request's body with what the API says in its address alone."""
        return body

    def withheld(self, error: ProxyError, *, streams: bool, answered: bool) -> tuple[str, bytes] | None:
        """Content type and body of an answer that tells of a block, where the API has that for one; `answered` is whether the model's
        answer was blocked, and not the request. None for an error."""
        return None

    def error(self, error: ProxyError) -> bytes:
        """The body that tells a client of an error."""
        return orjson.dumps(error.envelope())

    def error_code(self, body: bytes) -> str:
        """The code inside an upstream's error body, "" without a plain one; ``context_length_exceeded`` whatever the API calls that."""
        return code_in(body)

    def parse_request(self, body: bytes) -> Request:
        """With `wants` and `read_wants`, by which stages know the parameters. Raises `InvalidRequest` with the field in ``param``."""

    def parse_answer(self, body: bytes) -> Answer:
        """Raises `ValueError` when the body is not this API's."""

    def usage_of(self, body: bytes) -> Mapping[str, object] | None:
        """The usage that an answer's body reports, as it stands there."""
        usage = orjson.loads(body).get(self.usage_field)
        return usage if isinstance(usage, dict) else None

    def render_answer(
        self, body: bytes, before: Answer, after: Answer, verdict: Mapping[str, object] | None, others: Sequence[Mapping[str, object]] = ()
    ) -> bytes:
        """The body for the client: `body` itself when nothing changed and no inline verdict was asked for. Of `after`, the texts, the
        refusals and the arguments of calls may differ from `before`. `others` is the usage of the exchange's other answers, which is
        added to the body's own.
        """
        own = self.usage_of(body) if others else None
        changes = changes_of(before, after)
        if changes == NO_CHANGES and verdict is None and own is None:
            return body
        raw = raw_fields(body)
        if changes != NO_CHANGES:
            self._change(raw, changes)
        if own is not None:
            raw[self.usage_field] = encode_raw(added_up([*others, own]))
        if verdict is not None:
            raw[EXTENSION] = encode_raw(verdict)
        return msgspec.json.encode(raw)

    def _change(self, raw: dict[str, msgspec.Raw], changes: Changes) -> None:
        """Bring what changed into an answer's fields."""

    def own_answer(self, exchange: Exchange) -> Answer:
        """`exchange.answer`, which a stage gave in the model's stead, in the form that the request asks for: here one text. One without the
        form that the client asked for is withheld, where the API promises none of its refusals."""
        made = exchange.answer or Answer(())
        choice = made.choices[0] if made.choices else Choice(0)
        text = choice.text or choice.refusal
        given = Choice(0, text=text, finish_reason="stop" if fits(text, exchange.original.wants) else "content_filter")
        return Answer((given,), made.model or exchange.original.model, made.usage or Usage(0, 0))

    def render_own(self, exchange: Exchange, verdict: Mapping[str, object] | None) -> tuple[str, bytes]:
        """Content type and body, or whole event stream, of an `own_answer`; with the inline verdict, if one was asked for."""
        answer = exchange.answer or self.own_answer(exchange)
        if exchange.original.stream:
            return "text/event-stream; charset=utf-8", self.own_events(exchange, answer, verdict)
        body = self.own_body(exchange, answer)
        return "application/json", orjson.dumps(body if verdict is None else {**body, EXTENSION: verdict})

    def own_body(self, exchange: Exchange, answer: Answer) -> dict[str, Any]:
        """The fields of an `own_answer`."""

    def own_events(self, exchange: Exchange, answer: Answer, verdict: Mapping[str, object] | None) -> bytes:
        """Its events."""

    def recogniser(self, exchange: Exchange, body: bytes) -> Recogniser:
        """For one answer to the exchange's request as `body` asked for it."""

    def own_tool_filter(self, exchange: Exchange, *, whole: bool) -> OwnToolFilter:
        """For an exchange in which the proxy's own tools are offered; with `whole`, no answer leaves before it has ended. Nor does one for
        which a form was asked: text before a call would not be JSON with the text after it.
        """
        stored = exchange.original.params.get("store") is not False
        return self.own_tools(whole=whole or exchange.wants.form != "text", stored=stored)

    def refuse_calls(self, exchange: Exchange, own: Collection[str]) -> None:
        """Change the request so that the model cannot call the tools `own` any more."""
        withhold(exchange, own, {"tool_choice": "none"})

    def stream(self, *, separate: bool = False) -> AnswerStream:
        """A reader for one streamed answer; with `separate`, an event that does several things (several choices, text and an end,
        text and a tool call) becomes a piece for each."""


class TokenCounting(Protocol):
    """A path that counts a prompt's tokens: it is passed on, and answered here where the upstream does not know it."""

    path: str
    """Below ``/v1``."""

    def merge_address(self, body: bytes, path: str) -> bytes:
        """As `Dialect.merge_address`."""
        return body

    def parse(self, body: bytes) -> Request:
        """The prompt that is to be counted. Raises `InvalidRequest`."""

    def missing(self, status: int, body: bytes) -> bool:
        """Whether an upstream's answer says that it has no such path; a model that it does not have it names in the API's envelope."""
        return status in (404, 405, 501) and not self.knows_path(object_in(body) or {})

    def knows_path(self, refusal: Mapping[str, Any]) -> bool:
        """Whether such an answer is one of the API's own."""

    def render(self, tokens: int) -> bytes:
        """The answer."""


class Dialects:
    """The dialects of one server; the first is that of clients who tell nothing else."""

    def __init__(self, every: Iterable[Dialect]) -> None:
        self._every = tuple(every)
        self._by_path = {dialect.path: dialect for dialect in self._every}

    def __iter__(self) -> Iterator[Dialect]:
        return iter(self._every)

    def of(self, path: str) -> Dialect | None:
        """The one that serves a path below ``/v1``, without its query."""
        return self._by_path.get(path)

    def for_body(self, path: str, body: bytes) -> Dialect | None:
        """The one that a body is meant for, which has none of the conversation of the API it was sent to; None for what is nobody's."""
        sent_to = self._by_path[path]
        try:
            fields = raw_fields(body)
        except (DecodeError, RecursionError, UnicodeError):
            return None
        if sent_to.conversation_field in fields:
            return None
        return next((dialect for dialect in self._every if dialect.conversation_field in fields), None)

    def for_client(self, path: str, headers: Iterable[tuple[bytes, bytes]]) -> Dialect:
        """The one that a client of `path` (below ``/v1``) understands, also where it is passed on, or served by nobody."""
        for dialect in self._every:
            if path == dialect.path or path.startswith(dialect.path + "/"):
                return dialect
        names = {name for name, _ in headers}
        return next((d for d in self._every if d.client_header and d.client_header.encode("ascii") in names), self._every[0])
