"""The wire: a client's bytes <-> `Exchange`. The only parsers of request and answer bodies.

A dialect is one module that knows one API: `chat.py` is OpenAI's chat completions. It turns a body into a `Request` in chat form,
an exchange back into a body, and an answer (whole, or event by event) into an `Answer` and back. What no stage touched is sent in
the bytes it came in. No stage knows which dialect it serves; another API (OpenAI's Responses, Anthropic's Messages) is another
module with these two classes, listed in `proxy.app`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from proxy.exchange import Answer, Exchange, Request


class Piece(Struct, frozen=True):
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
    """The end mark."""
    divisible: bool = True
    """Whether its text may be cut in two without loss (not when it carries log probabilities)."""
    payload: Mapping[str, object] | None = None
    """The dialect's parsed form."""


class AnswerStream(Protocol):
    """Reads a streamed answer, event by event."""

    def feed(self, chunk: bytes) -> list[Piece]:
        """The pieces that `chunk` completes."""

    def finish(self) -> list[Piece]:
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
    def unreadable(self) -> int:
        """Events that were not what the dialect knows."""

    def with_text(self, piece: Piece, text: str) -> bytes:
        """`piece` as an event that says `text` instead."""

    def blocked(self, choices: Sequence[int]) -> bytes:
        """The events that end `choices` with ``finish_reason: "content_filter"``."""

    def failed(self, envelope: Mapping[str, object]) -> bytes:
        """The event that tells the client of an error after bytes have left."""

    def inline(self, verdict: Mapping[str, object]) -> bytes:
        """The event that carries the verdict."""


class Dialect(Protocol):
    """One API."""

    path: str
    """Below ``/v1``: ``/chat/completions``."""

    def parse_request(self, body: bytes) -> Request:
        """Raises `InvalidRequest` with the field in ``param``."""

    def render_request(self, exchange: Exchange) -> bytes:
        """The body to send upstream: the client's own bytes wherever no stage changed anything."""

    def parse_answer(self, body: bytes) -> Answer:
        """Raises `ValueError` when the body is not this API's."""

    def render_answer(self, body: bytes, before: Answer, after: Answer, verdict: Mapping[str, object] | None) -> bytes:
        """The body for the client: `body` itself when nothing changed and no inline verdict was asked for."""

    def stream(self, *, separate: bool = False) -> AnswerStream:
        """A reader for one streamed answer; with `separate`, an event that does several things (several choices, text and an end,
        text and a tool call) becomes a piece for each."""
