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
from msgspec import DecodeError, Struct

from proxy.config.settings import Api
from proxy.errors import ProxyError
from proxy.exchange import Answer, Exchange, Message, Request, ToolCall
from proxy.wire.shapes import Reading

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


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
    called: bool = False
    """Whether it tells what a call of a client's tool takes: under a policy that refuses what it cannot check it leaves as what `acts`."""
    payload: Mapping[str, object] | None = None
    """The dialect's parsed form."""


class AnswerStream(Protocol):
    """Reads a streamed answer, event by event."""

    def feed(self, chunk: bytes) -> list[StreamPiece]:
        """The pieces that `chunk` completes."""

    def finish(self) -> list[StreamPiece]:
        """What was left without an end."""

    @property
    def answer(self) -> Answer:
        """Everything so far, put together."""

    @property
    def complete(self) -> bool:
        """Whether every choice has ended; a stream that stops before that broke off."""

    @property
    def done(self) -> bool:
        """Whether the end mark has come."""

    @property
    def error(self) -> Mapping[str, object] | None:
        """An error that the upstream sent inside the stream."""

    @property
    def unreadable(self) -> str:
        """What of it was not what the dialect knows, or says something that it does not read; "" for nothing."""

    @property
    def usage(self) -> Mapping[str, object] | None:
        """The usage that the stream has reported, as it stands there."""

    def encode_outgoing(self, piece: StreamPiece) -> bytes:
        """The bytes of `piece`, which leaves as it is. Of a stream that is judged, every piece that leaves comes here or to `with_text`
        or `with_refusal`, in the order of leaving, so that what repeats a text further on can follow a change of it."""

    def with_text(self, piece: StreamPiece, text: str) -> bytes:
        """`piece`, which leaves, as an event that says `text` instead."""

    def with_refusal(self, piece: StreamPiece, text: str) -> bytes:
        """`piece`, which carries words of a refusal, as an event that refuses with `text` instead."""

    def with_texts(self, pieces: Sequence[StreamPiece], before: Answer, after: Answer) -> list[StreamPiece]:
        """A whole stream's `pieces`, in which the choices whose text or refusal `after` changes say that instead."""

    def with_arguments(self, pieces: Sequence[StreamPiece], changed: Mapping[int, Mapping[int, str]]) -> list[StreamPiece]:
        """A whole stream's `pieces`, in which the calls of each choice named in `changed`, by their index, have these arguments instead."""

    def with_usage(self, piece: StreamPiece, others: Sequence[Mapping[str, object]]) -> StreamPiece:
        """`piece` with the usage of the exchange's other answers added to what it reports; itself where it reports none."""

    def blocked(self, choices: Sequence[int]) -> bytes:
        """The events that end `choices` as the API ends what a filter stops; `end` follows."""

    def failed(self, error: ProxyError) -> bytes:
        """The last events of a stream that fails after bytes have left."""

    def end(self, verdict: Mapping[str, object] | None = None, mark: bytes = b"") -> bytes:
        """The last events of a stream, with the verdict if one was asked for; `mark` is the end mark as it came, where it may stay so."""


class Recogniser(Protocol):
    """Takes an answer's parsed JSON apart into what this API's answers are made of, before anybody reads it (`proxy.wire.shapes`)."""

    reading: Reading
    """What was left out."""
    says: bool
    """Whether anything of it has words, or calls a tool."""
    api: Api
    end_mark: bytes
    """What the last event's data is where that is no JSON."""

    def answer(self, fields: Any) -> Any:
        """A whole answer with what is recognised of it; `proxy.wire.shapes.ABSENT` where it is none."""

    def events(self, fields: Any) -> list[dict[str, Any]]:
        """What leaves for an event of a stream."""

    def end(self) -> list[dict[str, Any]]:
        """The stream is over: what is still to leave."""

    def error(self, fields: Any) -> Any:
        """The API's own error with what is recognised of it; `proxy.wire.shapes.ABSENT` where it is none."""


class OwnToolTurn(Struct, frozen=True):
    """What one upstream answer came to, where the model may call tools that the proxy answers itself."""

    calls: tuple[ToolCall, ...]
    """Calls of the proxy's own tools, each with an id."""
    mixed: bool
    """Whether it calls tools of the client's, too."""
    whole: bool
    """Whether it has ended of itself: nothing broke off, no limit cut it."""


class CallFilter(Protocol):
    """Takes the calls of the proxy's own tools out of an exchange's upstream answers, which come one after another."""

    def begin(self, own: Collection[str]) -> None:
        """The next answer is about to come; the client must not see calls of the tools `own`."""

    def feed(self, chunk: bytes) -> bytes:
        """A piece of a streamed answer: what may leave now."""

    def finish(self) -> bytes:
        """The stream is over: what still may leave now."""

    def read(self, body: bytes) -> None:
        """An answer that is one body. Raises `ValueError` when it is not this API's."""

    @property
    def turn(self) -> OwnToolTurn:
        """What the answer came to, after `finish` or `read`."""

    def messages(self, calls: Sequence[ToolCall], results: Sequence[str]) -> list[Message]:
        """The answer and the results of its `calls`, as the next request carries them."""

    def close(self) -> bytes:
        """No further answer comes: the rest of this one."""

    def failed(self, status: int, body: bytes) -> bytes:
        """An upstream's error answer as the event that tells a client after bytes have left."""


class Dialect(Protocol):
    """One API."""

    path: str
    """Below ``/v1``: ``/chat/completions``."""
    conversation_field: str
    """The field of a body that the conversation stands in."""
    key_headers: tuple[str, ...]
    """Where a client's key stands, as ``authorization``: the first of these that it sends says who it is."""
    told_by: str
    """A header that only clients of this API send, also to paths that are nobody's own; "" where there is none."""

    def error(self, error: ProxyError) -> bytes:
        """The body that tells a client of an error."""

    def error_code(self, body: bytes) -> str:
        """The code inside an upstream's error body, "" without a plain one; ``context_length_exceeded`` whatever the API calls that."""

    def parse_request(self, body: bytes) -> Request:
        """With `wants` and `read_wants`, by which stages know the parameters. Raises `InvalidRequest` with the field in ``param``."""

    def render_request(self, exchange: Exchange) -> bytes:
        """The body to send upstream: the client's own bytes wherever no stage changed anything."""

    def parse_answer(self, body: bytes) -> Answer:
        """Raises `ValueError` when the body is not this API's."""

    def usage_of(self, body: bytes) -> Mapping[str, object] | None:
        """The usage that an answer's body reports, as it stands there."""

    def render_answer(
        self, body: bytes, before: Answer, after: Answer, verdict: Mapping[str, object] | None, others: Sequence[Mapping[str, object]] = ()
    ) -> bytes:
        """The body for the client: `body` itself when nothing changed and no inline verdict was asked for. Of `after`, the texts, the
        refusals and the arguments of calls may differ from `before`. `others` is the usage of the exchange's other answers, which is
        added to the body's own.
        """

    def own_answer(self, exchange: Exchange) -> Answer:
        """`exchange.answer`, which a stage gave in the model's stead, in the form that the request asks for."""

    def render_own(self, exchange: Exchange, verdict: Mapping[str, object] | None) -> tuple[str, bytes]:
        """Content type and body, or whole event stream, of an `own_answer`; with the inline verdict, if one was asked for."""

    def recogniser(self, exchange: Exchange, body: bytes) -> Recogniser:
        """For one answer to the exchange's request as `body` asked for it."""

    def call_filter(self, exchange: Exchange, *, whole: bool) -> CallFilter:
        """For an exchange in which the proxy's own tools are offered; with `whole`, no answer leaves before it has ended."""

    def refuse_calls(self, exchange: Exchange, own: Collection[str]) -> None:
        """Change the request so that the model cannot call the tools `own` any more."""

    def stream(self, *, separate: bool = False) -> AnswerStream:
        """A reader for one streamed answer; with `separate`, an event that does several things (several choices, text and an end,
        text and a tool call) becomes a piece for each."""


class TokenCount(Protocol):
    """A path that counts a prompt's tokens, which is passed on, and answered here where the upstream does not know it."""

    path: str
    """Below ``/v1``."""

    def parse(self, body: bytes) -> Request:
        """What is to be counted. Raises `InvalidRequest`."""

    def missing(self, status: int, body: bytes) -> bool:
        """Whether an upstream's answer says that it has no such path."""

    def render(self, tokens: int) -> bytes:
        """The answer's body."""


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
            fields = _FIELDS.decode(body)
        except (DecodeError, RecursionError, UnicodeError):
            return None
        return (
            None
            if sent_to.conversation_field in fields
            else next((dialect for dialect in self._every if dialect.conversation_field in fields), None)
        )

    def for_client(self, path: str, headers: Iterable[tuple[bytes, bytes]]) -> Dialect:
        """The one that a client of `path` (below ``/v1``) understands, also where it is passed on, or served by nobody."""
        for dialect in self._every:
            if path == dialect.path or path.startswith(dialect.path + "/"):
                return dialect
        names = {name for name, _ in headers}
        return next((d for d in self._every if d.told_by and d.told_by.encode("ascii") in names), self._every[0])
