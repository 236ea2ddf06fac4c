"""For this project's tests and for its users': a scripted provider, a running proxy, exchanges out of nothing.

The scripted provider, a real server on loopback, is in `proxy.testing.upstream`: the fake comes in by the front door.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxy.exchange import ContextUse, Exchange, Message, Prompt, Tool
from proxy.exchange import Request as ChatRequest
from proxy.exchange.answers import OutputRequirements
from proxy.exchange.judgements import ClaimPair, Support
from proxy.ports import Completion, ModelInfo, Ports, ToolRanking
from proxy.testing.memory import MemoryClashes as MemoryClashes
from proxy.testing.memory import MemoryCompactions as MemoryCompactions
from proxy.testing.memory import MemoryFailures as MemoryFailures
from proxy.testing.memory import MemoryFirstSeen as MemoryFirstSeen
from proxy.testing.memory import MemoryQuarantine as MemoryQuarantine
from proxy.testing.memory import MemoryScratchpad as MemoryScratchpad
from proxy.testing.memory import MemoryToolOutcomes as MemoryToolOutcomes
from proxy.testing.memory import MemoryToolRuns as MemoryToolRuns
from proxy.testing.models import MemoryKnowledge as MemoryKnowledge
from proxy.testing.models import ScriptedDecisions as ScriptedDecisions
from proxy.testing.models import ScriptedJudge as ScriptedJudge
from proxy.testing.upstream import ReceivedCall as ReceivedCall
from proxy.testing.upstream import ScriptedReply as ScriptedReply
from proxy.testing.upstream import ScriptedUpstream as ScriptedUpstream
from proxy.testing.upstream import chunk as chunk
from proxy.testing.upstream import completion as completion
from proxy.testing.upstream import hang as hang
from proxy.testing.upstream import raw as raw
from proxy.testing.upstream import reply as reply
from proxy.testing.upstream import stream as stream
from proxy.testing.upstream import streamed as streamed
from proxy.wire.requests import output_requirements_of


@asynccontextmanager
async def serving(app: Any, port: int = 0) -> AsyncIterator[str]:
    """Run an ASGI application on a port of this machine, a free one for 0; gives its address, ``http://127.0.0.1:PORT``."""
    import uvicorn

    from proxy.server.startup import HTTP
    from proxy.testing.server import PromptServer

    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=port,
        log_config=None,
        lifespan="on",
        timeout_graceful_shutdown=2,
        ws="none",
        ws_per_message_deflate=False,
        http=HTTP,
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

    async def count_request(
        self, messages: Sequence[Message], tools: Sequence[Tool], wants: OutputRequirements, model: ModelInfo
    ) -> ContextUse:
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


@lru_cache(maxsize=10_000)
def _vector_of(word: str, dimensions: int) -> NDArray[np.float32]:
    seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "big")
    return np.random.default_rng(seed).standard_normal(dimensions, np.float32)


class HashEmbedder:
    """A `proxy.ports.Embedder` without a model: the mean of a random vector for each word, so texts that share words are close."""

    name = "hash-64"
    dimensions = 64

    async def embed(self, texts: Sequence[str], *, bulk: bool = False, together: bool = False) -> NDArray[np.float32]:
        """``(len(texts), 64)`` float32, unit length."""
        found = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in zip(found, texts, strict=True):
            for word in re.findall(r"\w+", text.lower()) or [""]:
                row += _vector_of(word, self.dimensions)
        unit: NDArray[np.float32] = found / np.linalg.norm(found, axis=1, keepdims=True)
        return unit

    async def unknown(self, texts: Sequence[str]) -> int:
        """None: it needs no model."""
        return 0

    async def rough(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        """Its own are no dearer."""
        return await self.embed(texts) if texts else None


@dataclass
class ScriptedChat:
    """A `proxy.ports.ChatModel` that gives its answers in order (the last one repeats) and keeps what it was asked."""

    answers: Sequence[str | Exception | Completion] = ("",)
    asked: list[Sequence[Message]] = field(default_factory=list)
    params: list[Mapping[str, Any]] = field(default_factory=list)
    """Of each call."""

    async def complete(
        self, upstream: str, model: str, messages: Sequence[Message], *, params: Mapping[str, Any] | None = None, timeout_s: float = 30.0
    ) -> str:
        """The next answer's text."""
        return (await self.answer(upstream, model, messages, params=params, timeout_s=timeout_s)).text

    async def answer(
        self, upstream: str, model: str, messages: Sequence[Message], *, params: Mapping[str, Any] | None = None, timeout_s: float = 30.0
    ) -> Completion:
        """The next answer."""
        answer = self.answers[min(len(self.asked), len(self.answers) - 1)]
        self.asked.append(messages)
        self.params.append(params or {})
        if isinstance(answer, Exception):
            raise answer
        return Completion(answer) if isinstance(answer, str) else answer


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
        "decisions": ScriptedDecisions(),
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
    request = ChatRequest(
        model, tuple(messages), tuple(tools), params, stream=False, wants=output_requirements_of(params), read_wants=output_requirements_of
    )
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
