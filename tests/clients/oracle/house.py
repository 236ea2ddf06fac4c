"""The proxy before an upstream that answers with a shape, and the clients that are then given what the proxy sent, byte for byte.

A shape goes through the proxy once: what its check read and what left belong together, and the clients (processes that stay) do not cost
the proxy a request each. They read from a socket as ever.
"""

from __future__ import annotations

import asyncio
import json
import select
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from proxy.config.settings import Api
from proxy.exchange import Answer, Exchange, Sentence, Verdict
from proxy.ports.stage import SentenceStage
from proxy.stages.registry import STAGES
from proxy.testing import ReceivedCall, raw
from tests.clients.conftest import HERE, client_python, environment, node
from tests.clients.oracle import right
from tests.clients.oracle.generate import ELSEWHERE, right_shape
from tests.clients.oracle.shape import APIS, DELIVERIES, Shape
from tests.clients.servers import Servers

PATHS: Mapping[Api, str] = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
REPLAY, DIRECT = "/replay", "/direct"
TIMEOUT_S = 30
HEADERS = (
    "host: 127.0.0.1\r\ncontent-type: application/json\r\nconnection: close\r\nauthorization: Bearer k\r\nanthropic-version: 2023-06-01\r\n"
)
ASK: Mapping[Api, dict[str, Any]] = {
    "chat": {"model": "gpt-5", "messages": [{"role": "user", "content": "Where is it?"}]},
    "responses": {"model": "gpt-5", "input": "Where is it?"},
    "messages": {"model": "claude-sonnet-4-6", "max_tokens": 99, "messages": [{"role": "user", "content": "Where is it?"}]},
}
_FUNCTION = {"name": right.TOOL, "parameters": right.SCHEMA}
TOOLS: Mapping[Api, dict[str, Any]] = {
    "chat": {"type": "function", "function": _FUNCTION},
    "responses": {"type": "function", "strict": False, **_FUNCTION},
    "messages": {"name": right.TOOL, "input_schema": right.SCHEMA},
}


MORE_TOOLS: Mapping[Api, list[dict[str, Any]]] = {
    "chat": [{"type": "custom", "custom": {"name": right.CUSTOM}}],
    "responses": [
        {"type": "custom", "name": right.CUSTOM},
        {"type": "web_search"},
        {"type": "file_search", "vector_store_ids": ["vs_1"]},
        {"type": "code_interpreter", "container": {"type": "auto"}},
        {"type": "mcp", "server_label": "s", "server_url": "https://a.example/"},
        {"type": "local_shell"},
    ],
    "messages": [{"type": "web_search_20250305", "name": "web_search"}, {"type": "code_execution_20250825", "name": "code_execution"}],
}


class Read(SentenceStage[Any]):
    """Reads everything that a check is given of an answer, changes nothing, remembers it."""

    name = "read"
    by_exchange: dict[str, dict[str, str]] = {}
    """Texts by exchange, each by where it stands."""

    async def on_sentence(self, exchange: Exchange, sentence: Sentence) -> Verdict | None:
        found = self.by_exchange.setdefault(exchange.id, {})
        place = f"sentences {sentence.choice}"
        found[place] = found.get(place, "") + sentence.text
        return Verdict(self.name, "pass")

    async def on_answer(self, exchange: Exchange) -> Verdict | None:
        await super().on_answer(exchange)
        found = self.by_exchange.setdefault(exchange.id, {})
        for name, answer in (("answer", exchange.answer), ("upstream", exchange.upstream_answer)):
            if answer is not None:
                found.update((f"{name}{path}", text) for path, text in texts_of(answer))
        return Verdict(self.name, "pass")


def texts_of(answer: Answer) -> Iterator[tuple[str, str]]:
    """Every text of an answer that a stage is given to judge: not the provider's own items, names and ids, which are for memory."""
    plain = {key: one for key, one in msgspec.to_builtins(answer, str_keys=True).items() if key not in ("items", "id", "model", "unread")}
    yield from _leaves(plain, "")
    for choice in answer.choices:
        for call in choice.tool_calls:
            yield from _leaves(call.parsed, f".choices[{choice.index}].parsed")


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield f"{path}.{key} key", str(key)
            yield from _leaves(one, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for i, one in enumerate(value):
            yield from _leaves(one, f"{path}[{i}]")
    elif isinstance(value, str | int | float):
        yield path, str(value)


@dataclass(slots=True)
class Seen:
    """What came of one shape."""

    status: int
    """That the client got; 0 where the proxy closed the connection without an answer."""
    read: dict[str, str] = field(default_factory=dict)
    """What the check was given."""
    shown: dict[str, Any] = field(default_factory=dict)
    """By client: ``texts``, ``strings``, ``error``."""
    answer: bytes = b""
    """What left the proxy."""


class Client:
    """A process with client libraries, as long as the house stands."""

    def __init__(self, command: Sequence[str | Path], home: Path) -> None:
        self._log = (home / f"{Path(command[-1]).stem}.log").open("w")
        self._process = subprocess.Popen(
            [*map(str, command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment(home, "", LANGCHAIN_TRACING_V2="false", NO_PROXY="*"),
            text=True,
            encoding="utf-8",
        )

    def ask(self, question: Mapping[str, object]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        assert self._process.stdout is not None
        assert select.select([self._process.stdout], [], [], TIMEOUT_S * 4)[0], f"{self._process.args} does not answer"
        line = self._process.stdout.readline()
        assert line, f"{self._process.args} has ended"
        return json.loads(line)

    def close(self) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.communicate(timeout=10)
        self._process.kill()
        self._process.wait()
        self._log.close()


class House:
    """Use with ``with``. With `strict`, routes ``strict`` have the shipped policy, beside those of one stage that reads."""

    def __init__(self, folder: Path, *, strict: bool = False, clients: bool = True) -> None:
        policies = {one: f"name: {one}\ndelivery: {one}\nstages: [read: {{on_error: closed}}]\n" for one in DELIVERIES}
        if strict:
            policies["strict"] = (HERE.parents[1] / "policies/strict.yaml").read_text(encoding="utf-8")
        self._servers = Servers(folder, self._reply, _config(policies), policies, stages=(*STAGES, Read))
        self._folder, self._wants_clients = folder, clients
        self._clients: list[Client] = []
        self._shape: Shape | None = None
        self._captured = b""
        self._number = 0

    def __enter__(self) -> House:
        if self._wants_clients:
            commands = (
                [client_python(), HERE / "scripts/oracle_clients.py"],
                [sys.executable, HERE / "scripts/oracle_litellm.py"],
                [node("ai"), HERE / "node/oracle.mjs"],
            )
            self._clients = [Client(command, self._folder) for command in commands]
        self._servers.__enter__()
        for client in self._clients:
            assert client.answer() == "ready"
        return self

    def __exit__(self, *error: object) -> None:
        for client in self._clients:
            client.close()
        self._servers.__exit__(*error)

    # ---- the upstream ----

    async def _reply(self, writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
        """To the proxy and under `DIRECT` the shape; under `REPLAY` what left the proxy; elsewhere what nobody read."""
        shape = self._shape
        assert shape is not None
        if call.path.startswith(REPLAY):
            await raw(self._captured)(writer, call)
        elif call.path.startswith(ELSEWHERE):
            other, _ = right_shape(shape.client, shape.client, "sentences", streamed=shape.streamed)
            await raw(self._written(other))(writer, call)
        else:
            await raw(self._written(shape))(writer, call)

    def _written(self, shape: Shape) -> bytes:
        usual = {"content-type": "text/event-stream" if shape.streamed else "application/json", "content-length": str(len(shape.body))}
        headers = {
            **usual,
            **{name: value.replace("{upstream}", self._servers.provider_url.removesuffix("/v1")) for name, value in shape.headers},
        }
        lines = [f"HTTP/1.1 {shape.status} Scripted", "connection: close", *(f"{name}: {value}" for name, value in headers.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + shape.body

    # ---- the clients ----

    def see(self, shape: Shape, policy: str = "") -> Seen:
        """A shape through the proxy, and what each client shows of what comes out."""
        self._shape = shape
        tools = [TOOLS[shape.client], *(MORE_TOOLS[shape.client] if shape.tools > 1 else ())] if shape.tools else []
        body = ASK[shape.client] | ({"stream": True} if shape.streamed else {}) | ({"tools": tools} if tools else {})
        if shape.choices > 1:
            body |= {"n": shape.choices}
        Read.by_exchange.clear()
        self._captured = _post(
            self._servers.url, f"/{policy or shape.delivery}-{shape.server}{PATHS[shape.client]}", json.dumps(body).encode()
        )
        head = self._captured.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        seen = Seen(int(head[0].split()[1]) if self._captured else 0, answer=self._captured)
        seen.read = dict(Read.by_exchange.get(headers.get("x-groundwire-id", ""), {}))
        if self._captured:
            seen.shown = self._shown(shape, REPLAY)
        return seen

    def see_directly(self, shape: Shape) -> Seen:
        """What each client shows of the upstream's own answer."""
        self._shape = shape
        return Seen(shape.status, shown=self._shown(shape, DIRECT))

    def _shown(self, shape: Shape, where: str) -> dict[str, Any]:
        self._number += 1
        url = f"{self._servers.provider_url.removesuffix('/v1')}{where}/{self._number}"
        question = {"url": url, "api": shape.client, "streamed": shape.streamed, "choices": shape.choices, "tools": bool(shape.tools)}
        for client in self._clients:
            client.ask(question)
        return {name: shown for client in self._clients for name, shown in client.answer().items()}


def _config(policies: Iterable[str]) -> str:
    """config.yaml with ``{folder}`` and ``{upstream}`` to be filled in: a route for each policy and API of the upstream."""
    kinds = {
        "chat": {"kind": "openai", "apis": ["chat"]},
        "responses": {"kind": "openai", "apis": ["responses"]},
        "messages": {"kind": "anthropic"},
    }
    more = {"base_url": "<upstream>", "api_key": "k", "retries": {"attempts": 0}}
    settings = {
        "store": {"url": "sqlite+aiosqlite:///<folder>/store.db"},
        "upstreams": {api: {**kind, **more} for api, kind in kinds.items()},
        "routes": [{"prefix": f"/{name}-{api}", "upstream": api, "policy": f"{name}.yaml"} for name in policies for api in APIS],
    }
    return json.dumps(settings).replace("{", "{{").replace("}", "}}").replace("<upstream>", "{upstream}").replace("<folder>", "{folder}")


def _post(url: str, path: str, body: bytes) -> bytes:
    """The whole answer as it comes over the socket."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    with socket.create_connection((parts.hostname, parts.port or 80), timeout=TIMEOUT_S) as connection:
        connection.sendall(f"POST {path} HTTP/1.1\r\n{HEADERS}content-length: {len(body)}\r\n\r\n".encode() + body)
        found = bytearray()
        while piece := connection.recv(65536):
            found += piece
    return bytes(found)
