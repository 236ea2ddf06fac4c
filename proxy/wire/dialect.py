"""The wire: a client's bytes <-> `Exchange`. The only parsers of request and answer bodies.

A dialect is one module that knows one API: `chat.py` is OpenAI's chat completions. It turns a body into a `Request` in chat form,
an exchange back into a body, and an answer (whole, or event by event) into an `Answer` and back. What no stage touched is sent in
the bytes it came in. No stage knows which dialect it serves; another API (OpenAI's Responses, Anthropic's Messages) is another
module with these two classes, listed in `proxy.app`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from proxy.exchange import Answer, Exchange, Message, Request, ToolCall


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

    def with_text(self, piece: StreamPiece, text: str) -> bytes:
        """`piece` as an event that says `text` instead."""

    def with_refusal(self, piece: StreamPiece, text: str) -> bytes:
        """`piece`, which carries words of a refusal, as an event that refuses with `text` instead."""

    def with_arguments(self, pieces: Sequence[StreamPiece], changed: Mapping[int, Mapping[int, str]]) -> list[StreamPiece]:
        """A whole stream's `pieces`, in which the calls of each choice named in `changed`, by their index, have these arguments instead."""

    def with_usage(self, piece: StreamPiece, others: Sequence[Mapping[str, object]]) -> StreamPiece:
        """`piece` with the usage of the exchange's other answers added to what it reports; itself where it reports none."""

    def blocked(self, choices: Sequence[int]) -> bytes:
        """The events that end `choices` with ``finish_reason: "content_filter"``."""

    def failed(self, envelope: Mapping[str, object]) -> bytes:
        """The event that tells the client of an error after bytes have left."""

    def inline(self, verdict: Mapping[str, object]) -> bytes:
        """The event that carries the verdict."""


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

    def call_filter(self, exchange: Exchange, *, whole: bool) -> CallFilter:
        """For an exchange in which the proxy's own tools are offered; with `whole`, no answer leaves before it has ended."""

    def refuse_calls(self, exchange: Exchange, own: Collection[str]) -> None:
        """Change the request so that the model cannot call the tools `own` any more."""

    def stream(self, *, separate: bool = False) -> AnswerStream:
        """A reader for one streamed answer; with `separate`, an event that does several things (several choices, text and an end,
        text and a tool call) becomes a piece for each."""
