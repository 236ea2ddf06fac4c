"""For this project's tests and for its users': a scripted provider, a running proxy, exchanges out of nothing.

`ScriptedUpstream` is a real HTTP server on loopback: the fake comes in by the front door, so nothing needs patching. It answers from
a list of replies (the last one repeats) and keeps every call it got.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxy.exchange import ContextUse, Exchange, Message, Prompt, Tool
from proxy.exchange import Request as ChatRequest
from proxy.exchange.judgements import ClaimPair, Support
from proxy.exchange.wishes import Wishes
from proxy.ports import ModelInfo, Ports, ToolRanking
from proxy.testing.failures import MemoryFailures as MemoryFailures
from proxy.testing.knowledge import MemoryKnowledge as MemoryKnowledge
from proxy.testing.review import MemoryClashes as MemoryClashes
from proxy.testing.review import MemoryQuarantine as MemoryQuarantine
from proxy.testing.store import MemoryCompactions as MemoryCompactions
from proxy.testing.store import MemoryFirstSeen as MemoryFirstSeen
from proxy.testing.store import MemoryScratchpad as MemoryScratchpad
from proxy.testing.store import MemoryToolOutcomes as MemoryToolOutcomes
from proxy.testing.store import MemoryToolRuns as MemoryToolRuns
from proxy.wire.chat.wishes import wishes_of


@dataclass(slots=True, frozen=True)
class ReceivedCall:
    """A call that the upstream got."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)


ScriptedReply = Callable[[asyncio.StreamWriter, ReceivedCall], Awaitable[None]]


def reply(body: bytes | object, status: int = 200, headers: Mapping[str, str] | None = None) -> ScriptedReply:
    """A whole answer; anything but bytes is sent as JSON."""
    payload = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()

    async def write(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
        fields = {"content-type": "application/json", "content-length": str(len(payload)), **(headers or {})}
        writer.write(_head(status, fields) + payload)
        await writer.drain()

    return write


def stream(chunks: Iterable[bytes], *, wait: Mapping[int, asyncio.Event] | None = None, broken: bool = False) -> ScriptedReply:
    """An event stream in exactly these chunks; before chunk i it waits for ``wait[i]``. `broken` leaves it without its end."""
    pieces = list(chunks)

    async def write(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
        writer.write(_head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"}))
        for i, piece in enumerate(pieces):
            if wait and i in wait:
                await wait[i].wait()
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
        if broken:
            writer.transport.abort()
        else:
            writer.write(b"0\r\n\r\n")
            await writer.drain()

    return write


def raw(data: bytes, *, close: bool = True) -> ScriptedReply:
    """Exactly these bytes on the connection."""

    async def write(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
        writer.write(data)
        await writer.drain()
        if close:
            writer.close()

    return write


async def hang(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
    """No answer, until the connection is closed."""
    await asyncio.Event().wait()


def completion(text: str = "Hello.", **more: object) -> dict[str, Any]:
    """A chat completion."""
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": "gpt-4o-2024-08-06"}
    return {**head, "choices": [choice], "usage": usage, **more}


def chunk(delta: Mapping[str, object], finish: str | None = None, index: int = 0, **more: object) -> bytes:
    """One event of a streamed completion."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "gpt-4o-2024-08-06"}
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
    return b"data: " + json.dumps({**head, "choices": [choice], **more}, ensure_ascii=False).encode() + b"\n\n"


def streamed(words: Sequence[str], finish: str = "stop") -> list[bytes]:
    """The events of a streamed completion that says `words`."""
    return [
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"content": word}) for word in words),
        chunk({}, finish),
        b"data: [DONE]\n\n",
    ]


class ScriptedUpstream:
    """An OpenAI-compatible server that says what it is told to. Use with ``async with``."""

    def __init__(self, *replies: ScriptedReply) -> None:
        self._replies = list(replies)
        self.calls: list[ReceivedCall] = []
        """Every call, in order."""
        self.gone = asyncio.Event()
        """Set when a connection is closed from the other side before its reply has ended."""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> ScriptedUpstream:
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", 0, limit=2**20)
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._server is None:
            return
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._server = None

    @property
    def base_url(self) -> str:
        """For an upstream's ``base_url``."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    def say(self, *replies: ScriptedReply) -> None:
        """Answer the next calls with these; the last one repeats."""
        self._replies = list(replies)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while (call := await _read_call(reader)) is not None:
                self.calls.append(call)
                answer = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
                await self._answer(answer, reader, writer, call)
                if writer.is_closing():
                    return
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, answer: ScriptedReply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
        """Write the reply, unless the other side closes first."""
        writing = asyncio.ensure_future(answer(writer, call))
        closing = asyncio.ensure_future(_closed(reader))
        try:
            await asyncio.wait({writing, closing}, return_when=asyncio.FIRST_COMPLETED)
            if not writing.done():
                self.gone.set()
                writer.close()
            else:
                writing.result()
        finally:
            for task in (writing, closing):
                task.cancel()
            await asyncio.gather(writing, closing, return_exceptions=True)


async def _closed(reader: asyncio.StreamReader) -> None:
    """Return when the peer has closed. A peer that sends on (HTTP pipelining) is not expected."""
    while not reader.at_eof():  # noqa: ASYNC110 - a stream reader has no event for its end that leaves the data in place
        await asyncio.sleep(0.005)


async def _read_call(reader: asyncio.StreamReader) -> ReceivedCall | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    lines = head.decode("latin-1").split("\r\n")
    method, path, _ = lines[0].split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
    if "chunked" in headers.get("transfer-encoding", ""):
        body = b""
        while size := int((await reader.readline()).strip(), 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
    else:
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    return ReceivedCall(method, path, headers, body)


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


@asynccontextmanager
async def serving(app: Any, port: int = 0) -> AsyncIterator[str]:
    """Run an ASGI application on a port of this machine, a free one for 0; gives its address, ``http://127.0.0.1:PORT``."""
    import uvicorn

    from proxy.server.startup import HTTP
    from proxy.testing.server import PromptServer

    config = uvicorn.Config(
        app, host="127.0.0.1", port=port, log_config=None, lifespan="on", timeout_graceful_shutdown=2, ws="none", http=HTTP
    )
    server = PromptServer(config)
    task = asyncio.create_task(server._serve())
    try:
        while not server.started:
            if task.done():
                task.result()
                raise RuntimeError("the application did not start; see the log")
            await asyncio.sleep(0.001)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.leave()
        await task


class WordCounter:
    """A `proxy.ports.TokenCounter` in which every word is a token and every model's window is `window_tokens`."""

    def __init__(self, window_tokens: int | None = 8192) -> None:
        self._window_tokens = window_tokens

    def model(self, name: str) -> ModelInfo:
        """The same for every name."""
        return ModelInfo(name, self._window_tokens, encoding="words")

    def count_text(self, text: str, model: ModelInfo) -> int:
        """Words."""
        return len(text.split())

    async def count_request(self, messages: Sequence[Message], tools: Sequence[Tool], wants: Wishes, model: ModelInfo) -> ContextUse:
        """Words of all string contents; tools count the words of their JSON."""
        parts = {"system_instructions": 0, "conversation_history": 0, "current_query": 0, "tool_descriptions": 0}
        last_user = max((i for i, m in enumerate(messages) if m.get("role") == "user"), default=-1)
        for i, message in enumerate(messages):
            system = message.get("role") in ("system", "developer")
            name = "system_instructions" if system else "current_query" if i == last_user else "conversation_history"
            parts[name] += len(str(message.get("content") or "").split())
        parts["tool_descriptions"] = sum(len(json.dumps(tool).split()) for tool in tools)
        return ContextUse(sum(parts.values()), model.window_tokens, True, parts)


@dataclass
class CountedNames:
    """A `proxy.ports.Counters` that remembers."""

    counts: dict[str, int] = field(default_factory=dict)

    def count(self, name: str, value: int = 1) -> None:
        """Raise `name`."""
        self.counts[name] = self.counts.get(name, 0) + value


class HashEmbedder:
    """A `proxy.ports.Embedder` without a model: the mean of a random vector for each word, so texts that share words are close."""

    name = "hash-64"
    dimensions = 64

    async def embed(self, texts: Sequence[str], *, bulk: bool = False, together: bool = False) -> NDArray[np.float32]:
        """``(len(texts), 64)`` float32, unit length."""
        found = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in zip(found, texts, strict=True):
            for word in re.findall(r"\w+", text.lower()) or [""]:
                seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "big")
                row += np.random.default_rng(seed).standard_normal(self.dimensions, np.float32)
        unit: NDArray[np.float32] = found / np.linalg.norm(found, axis=1, keepdims=True)
        return unit


@dataclass
class ScriptedChat:
    """A `proxy.ports.ChatModel` that gives its answers in order (the last one repeats) and keeps what it was asked."""

    answers: Sequence[str | Exception] = ("",)
    asked: list[Sequence[Message]] = field(default_factory=list)

    async def complete(
        self, upstream: str, model: str, messages: Sequence[Message], *, params: Mapping[str, Any] | None = None, timeout_s: float = 30.0
    ) -> str:
        """The next answer."""
        answer = self.answers[min(len(self.asked), len(self.answers) - 1)]
        self.asked.append(messages)
        if isinstance(answer, Exception):
            raise answer
        return answer


class SharedWords:
    """A `proxy.ports.ToolRanker`: a tool's relevance is the share of its name's words that the query has."""

    def __init__(self) -> None:
        self.learned: list[tuple[str, str, tuple[str, ...]]] = []
        """Client, query and called tools of each `learn`."""

    async def rank(self, tools: Sequence[Tool], query: str, *, context: str = "", client: str = "") -> ToolRanking | None:
        """Never None."""
        said = set(re.findall(r"[a-z0-9]+", query.lower()))
        names = [re.findall(r"[a-z0-9]+", str(tool["function"]["name"]).lower()) for tool in tools]
        return ToolRanking(tuple(sum(word in said for word in words) / max(1, len(words)) for words in names))

    async def learn(self, tools: Sequence[Tool], query: str, called: Sequence[str], *, context: str = "", client: str = "") -> None:
        """Keep it in `learned`."""
        self.learned.append((client, query, tuple(called)))


class ScriptedVerifiers:
    """A verifier that says what it was told: implements `proxy.ports.Verifiers` and `proxy.ports.Verifier`.

    Without a script, a claim is supported when every word of it stands in its evidence, in any order.
    """

    name = "scripted@1"

    def __init__(self, script: Callable[[ClaimPair], Support | None] | None = None) -> None:
        self._script = script or _words_there
        self.asked: list[list[ClaimPair]] = []
        """Every batch, in order."""
        self.failure: Exception | None = None
        """Raised instead of an answer, when set."""

    def get(self, model: str = "") -> ScriptedVerifiers:
        """Implements `proxy.ports.Verifiers`."""
        return self

    async def verify(self, pairs: Sequence[ClaimPair]) -> list[Support | None]:
        """Implements `proxy.ports.Verifier`."""
        self.asked.append(list(pairs))
        if self.failure is not None:
            raise self.failure
        return [self._script(pair) for pair in pairs]


def _words_there(pair: ClaimPair) -> Support:
    there = set(re.findall(r"\w+", pair.evidence.casefold()))
    return Support(0.95, 0.02) if set(re.findall(r"\w+", pair.claim.casefold())) <= there else Support(0.05, 0.1)


def make_ports(**parts: Any) -> Ports:
    """Ports with this module's parts, or those given."""
    embedder = parts.get("embedder") or HashEmbedder()
    made = {
        "tokens": WordCounter(),
        "counters": CountedNames(),
        "scratchpad": MemoryScratchpad(),
        "embedder": embedder,
        "chat": ScriptedChat(),
        "ranker": SharedWords(),
        "tool_runs": MemoryToolRuns(),
        "compactions": MemoryCompactions(),
        "first_seen": MemoryFirstSeen(),
        "verifiers": ScriptedVerifiers(),
        "knowledge": MemoryKnowledge(),
        "quarantine": MemoryQuarantine(),
        "clashes": MemoryClashes(),
        "failures": MemoryFailures(),
    }
    return Ports(**{**made, **parts})


def make_exchange(
    messages: Sequence[Message] = ({"role": "user", "content": "Hello"},),
    tools: Sequence[Tool] = (),
    model: str = "gpt-4o",
    **params: Any,
) -> Exchange:
    """An exchange as a dialect would make it."""
    request = ChatRequest(model, tuple(messages), tuple(tools), params, stream=False, wants=wishes_of(params), read_wants=wishes_of)
    return Exchange(
        id="gw_test",
        route="",
        policy="test@00000000",
        upstream="openai",
        client="anonymous",
        original=request,
        model=model,
        prompt=Prompt(request.messages, request.tools, request.params),
        run_id="run_test",
        step_id="1",
    )
