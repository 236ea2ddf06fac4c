"""One exchange between two APIs: the request in the server's, the answer in the client's.

In: a client's body as it would go to a server of its own API, and the server's answer in bytes. Out: the server's body, and the answer as
the client's API writes it, whole, or event by event as it comes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Protocol, get_args

import orjson
from msgspec import Struct, structs

from proxy.config.settings import Api
from proxy.errors import UpstreamUnreachable
from proxy.ports.upstream import Past
from proxy.wire.api_errors import envelope, failure_in, is_own
from proxy.wire.bodies import EXTENSION, exact, load
from proxy.wire.chat import forms as chat_forms
from proxy.wire.gemini import answers as gemini_answers
from proxy.wire.gemini.address import GENERATE
from proxy.wire.messages import events as messages_events
from proxy.wire.responses import events as responses_events
from proxy.wire.sse import Event, EventSplitter
from proxy.wire.translation import chat_requests, gemini_requests, messages_requests, pieces, responses_requests
from proxy.wire.translation.chat_answers import ChatReader, ChatWriter
from proxy.wire.translation.gemini_answers import GeminiReader, GeminiWriter
from proxy.wire.translation.messages_answers import MessagesReader, MessagesWriter
from proxy.wire.translation.neutral import Bounds, NeutralRequest, results_behind_calls, shorten_names
from proxy.wire.translation.responses_answers import ResponsesReader, ResponsesWriter

APIS: tuple[Api, ...] = get_args(Api)
PATHS: Mapping[Api, str] = {"chat": "/chat/completions", "responses": "/responses", "messages": "/messages", "gemini": GENERATE}
"""Below ``/v1``."""
API_OF_PATH: Mapping[str, Api] = {path: api for api, path in PATHS.items()}
TITLES: Mapping[Api, str] = {
    "chat": "Chat Completions",
    "responses": "Responses",
    "messages": "Messages",
    "gemini": "Gemini's generateContent",
}
_LONGEST_NAME: Mapping[Api, int] = {"chat": 64, "responses": 64, "messages": 128, "gemini": 128}
"""Of a tool, in characters."""
BYTES_PER_TOKEN = 4
"""Of a request's body, about."""
_READ = {"chat": chat_requests.read, "messages": messages_requests.read, "gemini": gemini_requests.read}
_READERS: Mapping[Api, Callable[[], pieces.AnswerReader]] = {
    "chat": ChatReader,
    "responses": ResponsesReader,
    "messages": MessagesReader,
    "gemini": GeminiReader,
}


class AnswerForms(Protocol):
    """An API's answers, whole and as a stream: implemented by modules. Each raises `ValueError` for what is none."""

    def payloads(self, answer: Mapping[str, Any], /) -> Iterable[dict[str, Any]]:
        """The data of the events that tell it."""

    def to_events(self, answer: Mapping[str, Any], asked: bytes, /) -> bytes:
        """The events, for the request that was `asked`."""

    def to_whole(self, payloads: Iterable[Mapping[str, Any]], /, *, marked: bool) -> dict[str, Any] | None:
        """The answer that a stream's events come to, `marked` where its end mark came; None where it broke off."""


FORMS: Mapping[Api, AnswerForms] = {
    "chat": chat_forms,
    "responses": responses_events,
    "messages": messages_events,
    "gemini": gemini_answers,
}


class Server(Struct, frozen=True):
    """Whom a request is put to."""

    name: str
    """Of the upstream."""
    api: Api
    newest: bool = False
    """Whether chat's limit goes as ``max_completion_tokens``, which OpenAI wants and other servers do not know."""
    limit_of: Callable[[str], int | None] = lambda model: None
    """The longest answer of a model, in tokens."""
    dropped: tuple[str, ...] = ()
    """Fields of clients that may be left out."""


class Exchange:
    """One request with its answer."""

    def __init__(self, client: Api, server: Server, created: int, identity: str = "") -> None:
        """`created` is the time of the answer, in seconds since the epoch; `identity` its name where that is this proxy's to give, a
        random one by default.
        """
        self._client, self._server, self._created = client, server, created
        self._identity = identity or os.urandom(18).hex()
        self._fields: dict[str, Any] = {}
        self._usage = False
        self._splitter = EventSplitter()
        self._reader: pieces.AnswerReader = _READERS[server.api]()
        self._in_turn = pieces.InTurn() if client != "chat" else None
        self._has_begun = self._is_finished = self._is_closed = False
        self._halves = pieces.Halves()
        self._problem: UpstreamUnreachable | None = None
        """What ends a stream of which there was still something to tell."""
        self._request_bytes = 0
        self._names: dict[str, str] = {}
        """The client's names of tools that have another before the server, by that."""

    def request(self, body: bytes, past: Past) -> bytes:
        """The server's body; what it only names of its conversation stands in `past`.
        Raises `InvalidRequest` with the field that is malformed, or has no counterpart."""
        self._fields = fields = load(body, integers=exact)
        self._request_bytes = len(body)
        fields.pop(EXTENSION, None)
        server = self._server
        bounds = Bounds(f"upstream {server.name} is asked in the API {TITLES[server.api]}", server.dropped)
        ask = responses_requests.read(fields, bounds, past) if self._client == "responses" else _READ[self._client](fields, bounds)
        self._usage = "include_usage" in ask.settings
        return orjson.dumps(self._written(ask, bounds))

    def _written(self, ask: NeutralRequest, bounds: Bounds) -> dict[str, Any]:
        server = self._server
        if not ask.tools:  # nothing to choose among: some servers let nobody say so
            choice = ask.settings.get("tool_choice")
            skipped = ("parallel", *(["tool_choice"] if choice is not None and choice.value.mode == "none" else []))
            ask.settings = {name: setting for name, setting in ask.settings.items() if name not in skipped}
        self._names = shorten_names(ask, _LONGEST_NAME[server.api])
        if server.api != "responses":
            ask.turns = results_behind_calls(ask.turns)
        match server.api:
            case "messages":
                return messages_requests.write(ask, bounds, limit=server.limit_of(ask.model))
            case "responses":
                return responses_requests.write(ask, bounds)
            case "gemini":
                return gemini_requests.write(ask, bounds)
        return chat_requests.write(ask, bounds, newest=server.newest)

    @cached_property
    def _writer(self) -> pieces.AnswerWriter:
        match self._client:
            case "chat":
                return ChatWriter(self._created, usage=self._usage)
            case "responses":
                return ResponsesWriter(self._created, self._fields, self._identity, self._server.api)
            case "gemini":
                return GeminiWriter()
        return MessagesWriter(self._request_bytes // BYTES_PER_TOKEN, self._server.api)

    def answer(self, body: bytes) -> bytes:
        """A whole answer. Raises `UpstreamUnreachable` for what is none of the server's API."""
        try:
            fields = exact(body)
            if not isinstance(fields, dict):
                raise ValueError("not an object")
            for piece in self._pieces_of(fields):
                if isinstance(piece, pieces.StreamError):
                    raise UpstreamUnreachable(f"upstream {self._server.name} failed: {piece.message}")
                self._write(piece)
        except ValueError as error:
            raise self._unreadable(error) from error
        return self._writer.whole()

    def _pieces_of(self, fields: Mapping[str, Any]) -> Iterator[pieces.Piece]:
        """Of a whole answer."""
        closed = False
        if not (payloads := [*FORMS[self._server.api].payloads(fields)]):
            raise ValueError("it says nothing")
        for payload in payloads:
            for piece in self._reader.payload(payload):
                closed = closed or isinstance(piece, pieces.AnswerEnd)
                yield piece
        if not closed:
            yield pieces.AnswerEnd()

    def _pieces(self, event: Event) -> Iterator[pieces.Piece]:
        if event.done:
            yield pieces.AnswerEnd()
        elif (payload := pieces.payload_of(event)) is not None:
            yield from self._reader.payload(payload)

    def feed(self, chunk: bytes) -> bytes:
        """Some of a streamed answer: the client's events for what it completes. Raises `UpstreamUnreachable`."""
        if self._problem is not None:
            raise self._problem
        found = []
        try:
            for event in self._splitter.feed(chunk):
                for piece in self._pieces(event):
                    found.append(self._put(piece))
        except ValueError as error:
            self._problem = self._unreadable(error)
            if not any(found):
                raise self._problem from error
        return b"".join(found)

    def finish(self) -> bytes:
        """The stream is over: what is left of it, and its end where the server left that out. One that broke off gets none."""
        if self._problem is not None:
            raise self._problem
        try:
            last = self._splitter.finish()
            left = b"".join(self._put(piece) for piece in self._pieces(last)) if last is not None else b""
        except ValueError:
            left = b""
        return left + (self._put(pieces.AnswerEnd()) if self._is_finished else b"")

    def _put(self, piece: pieces.Piece) -> bytes:
        if self._is_closed:
            return b""
        if isinstance(piece, pieces.AnswerEnd) and not self._is_finished:  # its end mark is there, and no reason
            return self._put(pieces.Finish("stop")) + self._put(piece)
        piece = self._halves.mend(piece)
        begun = b"" if self._has_begun or isinstance(piece, pieces.AnswerStart) else self._writer.feed(pieces.AnswerStart("", ""))
        self._has_begun = True
        self._is_finished = self._is_finished or isinstance(piece, pieces.Finish)
        self._is_closed = isinstance(piece, pieces.AnswerEnd | pieces.StreamError)
        return begun + self._write(piece)

    def _write(self, piece: pieces.Piece) -> bytes:
        if isinstance(piece, pieces.CallStart) and piece.name in self._names:
            piece = structs.replace(piece, name=self._names[piece.name])
        if self._in_turn is None:
            return self._writer.feed(piece)
        return b"".join(self._writer.feed(one) for one in self._in_turn.feed(piece))

    def error(self, status: int, body: bytes) -> bytes:
        """The server's error."""
        related = len({api if api in ("messages", "gemini") else "openai" for api in (self._client, self._server.api)}) == 1
        return body if related and is_own(self._client, body) else orjson.dumps(envelope(self._client, failure_in(body), status))

    def _unreadable(self, error: ValueError) -> UpstreamUnreachable:
        return UpstreamUnreachable(f"upstream {self._server.name}: its answer cannot be told in the client's API ({error})")
