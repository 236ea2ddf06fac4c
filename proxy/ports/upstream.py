"""Upstreams: where requests go. One protocol; `proxy.upstreams.making` has its kinds.

`openai.py` speaks byte for byte to servers of OpenAI's, Anthropic's and Google's APIs; `litellm.py` translates for every other provider;
`embedded.py` runs a small model beside this process, `builtin.py` asks the built-in verifier. `translating.py` wraps each for clients of
other APIs, `resilience.py` with retries, fallbacks and a bound of calls at a time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from proxy.errors import UpstreamUnreachable
from proxy.ledger import NOBODY, Party

Headers = Sequence[tuple[str, str]]


def header_of(headers: Headers, wanted: str) -> str:
    """The first header of that name, "" without one."""
    for name, value in headers:
        if name == wanted:
            return value
    return ""


def is_event_stream(headers: Headers) -> bool:
    """Whether an answer with these headers is a stream of server-sent events."""
    for name, value in headers:
        if name == "content-type":
            return value != "application/json" and value.strip().lower().startswith("text/event-stream")
    return False


OWN = "groundwire"
"""What a record names as upstream of an answer that a stage gave."""


class Past(Struct, frozen=True):
    """What a body only names of its conversation, as far as it came by here, for a server that does not keep it."""

    messages: Sequence[Mapping[str, Any]] | None = None
    """In chat form, what goes before the body's own; None where not all of it is known."""
    items: Mapping[str, Mapping[str, Any]] = {}
    """Items of answers, by their ids."""
    results: frozenset[str] = frozenset()
    """Calls whose results the body brings for the server that keeps the conversation alone, by id."""


class Call(Struct, frozen=True):
    """One call to an upstream."""

    method: str
    path: str
    """Below ``/v1``, with its query: ``/chat/completions``."""
    headers: Headers
    """The client's end-to-end headers; the upstream adds its key."""
    body: bytes | AsyncIterator[bytes]
    """The whole body, or its pieces for a path that is passed through (such a call is never retried)."""
    stream: bool = False
    """Whether server-sent events were asked for."""
    raw: bool = False
    """Pass-through: the answer's bytes are wanted as they are, content encoding included."""
    past: Past = Past()
    party: Party = NOBODY
    """Whose share of the upstream's places it takes."""


class Reply(Protocol):
    """An upstream's answer: status and headers are there, the body is still coming."""

    status: int
    headers: Headers
    upstream: str
    """Name of the upstream that answered."""
    attempts: int
    """Calls it took, fallbacks included."""

    async def read(self) -> bytes:
        """The whole body. Raises `UpstreamUnreachable`, `UpstreamTimeout`."""

    def chunks(self) -> AsyncIterator[bytes]:
        """The body in the pieces it arrives in. Raises `UpstreamUnreachable`, `UpstreamTimeout`."""

    async def close(self) -> None:
        """Give the connection up; before the body has ended this cancels the call."""


class BodyReply:
    """A reply whose body is there."""

    __slots__ = ("_body", "attempts", "headers", "status", "upstream")

    def __init__(self, upstream: str, status: int, headers: Headers, body: bytes, attempts: int = 1) -> None:
        self.upstream, self.status, self.headers, self.attempts, self._body = upstream, status, headers, attempts, body

    async def read(self) -> bytes:
        """The whole body; the next time nothing."""
        body, self._body = self._body, b""
        return body

    async def chunks(self) -> AsyncIterator[bytes]:
        """The same."""
        yield await self.read()

    async def close(self) -> None:
        """There is no connection to give up."""
        self._body = b""


class WrappedReply:
    """A reply around another: its body is what `chunks` makes of the other's."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self.status, self.headers, self.upstream, self.attempts = reply.status, reply.headers, reply.upstream, reply.attempts

    async def read(self) -> bytes:
        """The whole body."""
        return b"".join([chunk async for chunk in self.chunks()])

    def chunks(self) -> AsyncIterator[bytes]:
        """The body in pieces."""
        return self._reply.chunks()

    async def close(self) -> None:
        """Give the connection up."""
        await self._reply.close()


async def read_whole(reply: Reply, max_bytes: int) -> bytes:
    """The reply's body. Raises `UpstreamUnreachable` (also when it is too long to hold), `UpstreamTimeout`."""
    length = header_of(reply.headers, "content-length")
    if length.isdigit() and int(length) <= max_bytes:
        return await reply.read()
    chunks, size = [], 0
    async for chunk in reply.chunks():
        size += len(chunk)
        limit(size, max_bytes)
        chunks.append(chunk)
    return b"".join(chunks)


def limit(size: int, max_bytes: int) -> None:
    """Raises `UpstreamUnreachable` for an answer of more bytes than that."""
    if size > max_bytes:
        raise UpstreamUnreachable(
            f"the upstream's answer is longer than {max_bytes} bytes (server.max_answer_bytes, or 1 MiB for an error)"
        )


class Upstream(Protocol):
    """Something that answers calls."""

    name: str

    def catalogue_name(self, model: str) -> str:
        """The name under which the model catalogue knows a model of this upstream."""

    async def start(self) -> None:
        """Open what it needs. Raises `ConfigError` when it can never work, with what to do."""

    async def stop(self) -> None:
        """Close it."""

    async def send(self, call: Call) -> Reply:
        """Make the call. Raises `UpstreamUnreachable`, `UpstreamTimeout`, `Overloaded`."""
