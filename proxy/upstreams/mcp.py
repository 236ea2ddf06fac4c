"""One MCP server: a connection that is made again when it breaks, its tools as listed last, and calls of them. After
https://modelcontextprotocol.io, by the official client (`mcp`), which is imported when the first server starts.

A task of its own holds the connection, as the client's task groups want it; calls come from the exchanges' tasks. A server that is away
keeps nobody from starting: calls of its tools say so to the model at once. Texts of servers pass `_mask_secrets`, so that no secret of the
server's settings comes back in one.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio

from proxy.config.mcp import McpServerSettings
from proxy.ports.tool_servers import ServerResult

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client import Transport
    from mcp.types import CallToolResult
    from mcp.types import Tool as ListedTool

log = logging.getLogger("groundwire.mcp")

MASK = "[masked]"
"""As the store writes it."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 60.0
"""Between two tries to connect: exponential, with jitter."""
CONNECT_S = 20.0
"""For a connection, a handshake and a list; a program may have to be installed by its runner first, and is tried again."""
STABLE_S = 30.0
"""A connection that lasted so long is no failed try."""
LEAVE_S = 1.0
"""For a connection to end by itself when it is stopped; then what a server is still asked for is given up."""
STOP_S = 8.0
"""For a program to end, which is asked, told and then killed."""
WAIT_S = 2.0
"""A call waits so long for a server that is just being connected with."""
LIST_GAP_S = 1.0
"""From one list of the tools to the next at least: a server may say with each that they have changed."""
MAX_TOOLS = 512
"""Of one server, those of its allow list first; the rest is left out, with a line in the log."""
MAX_LISTED = 10_000
"""Tools that are read to find those of the allow list."""
MIN_MESSAGE_BYTES = 4_000_000
"""A message may be so long at least: a list of many tools is."""
_PROBLEM_CHARS = 300
_BLOCKS = {"text": "text", "image": "data", "audio": "data", "resource": "resource", "resource_link": "uri"}
"""Kinds of content, and the field that each has."""
_COMPARED_CHARS, _COMPARED_VALUES = 100_000, 200
"""Of a result's text and structured content, to see whether one says all that the other does."""
Listing = Callable[[Sequence["ListedTool"]], Awaitable[None]]
"""Takes the tools of a server."""


class McpConnection:
    """One server of ``mcp.servers``."""

    def __init__(self, name: str, settings: McpServerSettings, listing: Listing) -> None:
        self.name, self.settings, self._listing, self._secrets = name, settings, listing, settings.secrets
        self.problem = "not connected yet"
        """Why it cannot be called; "" while it can."""
        self._client: Client | None = None
        self._connected, self._look_again, self._stopping = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._scope: anyio.CancelScope | None = None
        """Of the task: what is given up through it lets a program end in order, as a plain cancellation would not."""
        self._has_more = False
        """Whether it had more tools than are taken when it was asked last."""
        self._version: str | None = None
        """Of the protocol, as the server and the client have agreed."""
        self._malformed = ""
        """Names of those that break the protocol's form, as it was asked last."""

    def start(self) -> None:
        """Connect, in the background."""
        self._scope = anyio.CancelScope()
        self._task = asyncio.create_task(self._keep(self._scope))

    async def stop(self) -> None:
        """End the connection, and the program."""
        self._stopping.set()
        self._look_again.set()
        if self._task is not None and self._scope is not None:
            await asyncio.wait((self._task,), timeout=LEAVE_S)
            self._scope.cancel()
            await asyncio.wait((self._task,), timeout=STOP_S)
            self._task.cancel()
            await asyncio.wait((self._task,), timeout=1)

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> ServerResult:
        """Never raises but for being cancelled. A call that failed is not repeated: it may have done what it was to do."""
        try:
            async with asyncio.timeout(WAIT_S):
                await self._connected.wait()
        except TimeoutError:
            return ServerResult(
                f"Error: the server {self.name} cannot be reached at the moment. Go on without it, or try later.", "server_away"
            )
        client, settings = self._client, self.settings
        assert client is not None
        try:
            async with asyncio.timeout(settings.timeout_s):
                result = await client.call_tool(tool, dict(arguments))
        except TimeoutError:
            return ServerResult(f"Error: {tool} gave no result within {settings.timeout_s:g} seconds: timeout.", "call_timeout")
        except Exception as error:  # the library's, the transport's, a result that is no result
            self._look_again.set()
            return ServerResult(f"Error: {tool} failed: {self._error_text(error)}", "call_failed")
        text = clipped(self._mask_secrets(text_of(result)), settings.max_result_bytes)
        if not result.is_error:
            return ServerResult(text)
        return ServerResult(text if text.lower().startswith("error") else f"Error: {text or f'{tool} failed.'}", "tool_failed")

    # ---- the connection ----

    async def _keep(self, scope: anyio.CancelScope) -> None:
        """Until it is stopped."""
        pause_s = FIRST_PAUSE_S
        with scope:
            while not self._stopping.is_set():
                began = time.monotonic()
                try:
                    await self._connect()
                except Exception as error:  # of any kind: the server's, the program's, the network's
                    self._now(self._error_text(error))
                pause_s = FIRST_PAUSE_S if time.monotonic() - began > STABLE_S else pause_s
                await _wait(self._stopping, pause_s * random.uniform(0.5, 1))
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _connect(self) -> None:
        """Connect, and be so until it is stopped; raises when the server is away."""
        with anyio.fail_after(CONNECT_S) as limit:
            async with self._open() as client:
                client.session.validate_tool_result = _accept_any_result  # type: ignore[method-assign]
                self._version = client.protocol_version
                await self._list(client)
                limit.deadline = float("inf")
                self._client = client
                self._now("")
                try:
                    async with anyio.create_task_group() as beside:
                        beside.start_soon(self._listen, client)
                        await self._watch(client)
                        beside.cancel_scope.cancel()
                finally:  # before a program ends, which takes its time
                    self._connected.clear()
                    self._client = None

    async def _watch(self, client: Client) -> None:
        """List the tools from time to time, at once where a call failed or the server says that they changed; raises when it is away."""
        refresh_s = self.settings.refresh_s
        while not self._stopping.is_set():
            await _wait(self._stopping, min(LIST_GAP_S, refresh_s))
            await _wait(self._look_again, refresh_s)
            if not self._stopping.is_set():
                self._look_again.clear()
                with anyio.fail_after(CONNECT_S + self.settings.timeout_s):  # it may answer one at a time, and be at a call
                    await self._list(client)

    async def _listen(self, client: Client) -> None:
        """Hear that the tools have changed, at a server of protocol 2026-07-28; older ones say so unasked (`_on_notification`)."""
        from mcp.client.subscriptions import ListenNotSupportedError

        while True:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    async for _ in changes:
                        self._look_again.set()
            except ListenNotSupportedError:
                return
            except Exception as error:  # it is listed from time to time all the same
                log.debug("MCP server %s does not say when its tools change: %s", self.name, self._error_text(error))
            await asyncio.sleep(self.settings.refresh_s)

    async def _list(self, client: Client) -> None:
        found: list[ListedTool] = []
        wanted, cursor, cursors = set(self.settings.tools), None, set[str]()
        while len(found) <= MAX_TOOLS or (len(found) < MAX_LISTED and wanted.difference(tool.name for tool in found)):
            page = await client.list_tools(cursor=cursor, cache_mode="bypass")
            found += page.tools
            cursor = page.next_cursor
            if not cursor or cursor in cursors:  # the end, or a server that gives the same page without end
                break
            cursors.add(cursor)
        has_more = len(found) > MAX_TOOLS
        if has_more and not self._has_more:
            log.warning("MCP server %s has more than %d tools: the rest is left out", self.name, MAX_TOOLS)
        self._has_more = has_more
        found.sort(key=lambda tool: tool.name not in wanted)
        await self._listing(found[:MAX_TOOLS])

    async def _on_notification(self, message: object) -> None:
        """A notification: the tools may have changed."""
        if getattr(message, "method", "") == "notifications/tools/list_changed":
            self._look_again.set()

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Client]:
        from mcp import StdioServerParameters, stdio_client
        from mcp.client.streamable_http import streamable_http_client

        from proxy.upstreams.mcp_http import bounded_client

        logging.getLogger("mcp").setLevel(logging.CRITICAL)  # it writes what it cannot read, and addresses, with secrets in them
        settings = self.settings
        if settings.command:
            program = StdioServerParameters(command=settings.command, args=list(settings.args), env=dict(settings.env))
            with open(os.devnull, "w") as nowhere:  # noqa: ASYNC230 - it says what it likes, secrets among it
                async with self._client_over(stdio_client(program, nowhere)) as client:
                    yield client
            return
        most = max(MIN_MESSAGE_BYTES, 4 * settings.max_result_bytes)
        async with bounded_client(settings.url, settings.headers, settings.timeout_s, most) as http:
            transport = streamable_http_client(settings.url, http_client=http, max_sse_event_size=most)
            async with self._client_over(transport) as client:
                yield client

    def _client_over(self, transport: Transport) -> Client:
        from mcp import Client

        from proxy.upstreams.mcp_http import without_malformed_tools

        return Client(without_malformed_tools(transport, lambda: self._version, self._leave_out), message_handler=self._on_notification)

    def _leave_out(self, tools: Sequence[object]) -> None:
        """Say of tools that break the protocol's form, once for the same."""
        names = ", ".join(repr(tool.get("name") if isinstance(tool, Mapping) else tool)[:100] for tool in tools[:10])
        if names != self._malformed:
            log.warning("MCP server %s has tools in no form of the protocol's, which are left out: %s", self.name, names)
        self._malformed = names

    # ---- what is said of it ----

    def _now(self, problem: str) -> None:
        """It is connected, or why not; a line in the log for each change."""
        if problem:
            if problem != self.problem:
                log.warning("MCP server %s is away: %s", self.name, problem)
        else:
            log.info("MCP server %s is connected", self.name)
            self._connected.set()
        self.problem = problem

    def _error_text(self, error: BaseException) -> str:
        """In one line, without secrets."""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, FileNotFoundError) and self.settings.command:
            return f"there is no program {self._mask_secrets(self.settings.command)!r}: install it, or mend mcp.servers.{self.name}.command"
        words = " ".join(self._mask_secrets(str(error)).split())[:_PROBLEM_CHARS]
        return f"{type(error).__name__}: {words}" if words else type(error).__name__

    def _mask_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return text


async def _wait(event: asyncio.Event, seconds: float) -> None:
    """Until it happens, `seconds` at most."""
    with anyio.move_on_after(seconds):
        await event.wait()


async def _accept_any_result(name: str, result: CallToolResult) -> None:
    """In place of the client's check against the tool's output schema, which raises: the tool has run, and the model reads what it gave."""


def text_of(result: CallToolResult) -> str:
    """What a result says; of what is no text, what it is. Structured content as well, where a value of it is not in the text."""
    parts = [_part(block.model_dump(mode="json", by_alias=True, exclude_none=True)) for block in result.content]
    structured = _without_blocks(result.structured_content)
    if structured is not None and not _states_all("\n".join(parts), structured):
        parts.append(json.dumps(structured, ensure_ascii=False, separators=(",", ":")))
    return "\n".join(parts)


def _without_blocks(structured: Any) -> Any:
    """Structured content in which what is a block of content, as servers repeat theirs with all its data, is what `_part` says of it."""
    if isinstance(structured, list):
        return [_without_blocks(value) for value in structured]
    if not isinstance(structured, Mapping):
        return structured
    if _BLOCKS.get(str(structured.get("type"))) in structured:
        return _part(structured)
    return {name: _without_blocks(value) for name, value in structured.items()}


def _states_all(text: str, structured: object) -> bool:
    """Whether the first values of structured content are in a text, plain or as JSON writes them; False where there is no text."""
    text = text[:_COMPARED_CHARS]
    for value in itertools.islice(_values(structured), _COMPARED_VALUES):
        forms = value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]
        if not any(form in text for form in forms):
            return False
    return bool(text)


def _values(structured: object) -> Iterator[str]:
    """What JSON says beside its keys, in its order."""
    if isinstance(structured, Mapping):
        structured = list(structured.values())
    if isinstance(structured, list):
        for value in structured:
            yield from _values(value)
    elif structured is not None:
        yield structured if isinstance(structured, str) else json.dumps(structured)


def _part(block: Mapping[str, Any]) -> str:
    kind, inner = block.get("type"), block.get("resource")
    if kind == "text":
        return str(block.get("text", ""))
    if isinstance(inner, Mapping) and isinstance(inner.get("text"), str) and inner["text"]:
        return str(inner["text"])
    about = inner if isinstance(inner, Mapping) else block
    named = " ".join(str(about[name]) for name in ("name", "uri", "mimeType") if about.get(name))
    return f"[{kind}{' ' if named else ''}{named}: not shown here]"


def clipped(text: str, most_bytes: int) -> str:
    """`text`, or as much of it as may be, with a word on the rest."""
    data = text.encode("utf-8", "replace")
    if len(data) <= most_bytes:
        return data.decode()
    return f"{data[:most_bytes].decode('utf-8', 'ignore')}\n[Cut here: {most_bytes} of {len(data)} bytes. Ask for less at a time.]"
