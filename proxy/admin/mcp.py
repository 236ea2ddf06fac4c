"""``POST /mcp``: Groundwire's own tools for MCP clients: read the archive, search tools, check an answer, list a run's failures.

Streamable HTTP (https://modelcontextprotocol.io, revision 2025-11-25) without sessions and streams: each message is answered in JSON, and a
client that probes for a later revision falls back to ``initialize``. It is plain JSON-RPC: four methods take less than to fit the package's
server in, and need no extra. Served where ``mcp.endpoint`` says so. A client has the keys of its chat requests, and gets at what is its
own alone; a call of a tool is a request of its key, whose limits hold. Where clients have no keys, only this machine's own programs are
answered.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any
from uuid import uuid4

import msgspec
import orjson
from msgspec import Meta, Struct
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from proxy import __version__
from proxy.admin.access import AdminAuth, json_answer, read_body
from proxy.admin.verdicts import ClientAccess, ListedClaims
from proxy.context import archive
from proxy.errors import InvalidApiKey, InvalidRequest, PolicyNotAllowed, ProxyError, StoreUnavailable
from proxy.exchange import Answer, Choice, Evidence, Exchange, Prompt, Request
from proxy.exchange.judgements import support
from proxy.pipeline import Pipeline
from proxy.ports import Ports
from proxy.stages.claims import Claims
from proxy.stages.claims.options import ClaimsOptions
from proxy.stages.tool_rag.find import found_reply, nothing_reply, relevance_to, search
from proxy.stages.tool_rag.selection import catalogue_of, tools_of
from proxy.store.failures import DatabaseFailures
from proxy.wire.http.headers import client_headers
from proxy.wire.http.peers import reason_for_remote

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
"""Of the protocol, the newest first."""
PLACES, PLACES_OF_ONE = 8, 4
"""Calls that are worked on at once in one process, and of those one client's; one more is told to come again."""
_FOUND, _FAILURES = 10, 20
"""Tools that a search gives, and failures that a list gives, at most."""
_LEAST = 0.02
"""Probability of being needed from which a tool is found."""
_CHECK_MS = 30_000.0
_PARSE_ERROR, _INVALID_REQUEST, _NO_METHOD, _INVALID_PARAMS = -32700, -32600, -32601, -32602
Text = Annotated[str, Meta(max_length=20_000)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]


class _Arguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Of a tool."""


class ReadArchive(_Arguments, frozen=True):
    """Read what was moved out of a conversation: where it was, there is a reference, [archived WHAT, SIZE: groundwire_read_archive ID]."""

    id: Annotated[str, Meta(pattern="^sp_[0-9a-f]{12,32}$", description="The ID in the reference.")]
    page: Annotated[int, Meta(ge=1, description="Which page to read.")] | None = None
    search: Annotated[str, Meta(max_length=200, description="Text to look for instead.")] = ""


class SearchTools(_Arguments, frozen=True):
    """Search the tools of this server's operator, with their descriptions and parameters."""

    query: Annotated[str, Meta(min_length=1, max_length=1000, description="What the tool should do, in a few words.")]


class CheckClaims(_Arguments, frozen=True):
    """Check an answer against evidence: for each of its statements whether the evidence supports or contradicts it."""

    answer: Annotated[Text, Meta(min_length=1, description="The answer to check.")]
    evidence: Annotated[tuple[Text, ...], Meta(min_length=1, max_length=50, description="Texts that it must rest on.")]
    question: Annotated[Text, Meta(description="What was asked.")] = ""


class ListFailures(_Arguments, frozen=True):
    """What has failed in a run of yours and is not resolved: tools, schemas, loops, corrections, with what to do instead."""

    run_id: Annotated[Name, Meta(description="The run, as in x-groundwire-run-id of your requests.")]


TOOLS: Mapping[str, type[_Arguments]] = {
    "read_archive": ReadArchive,
    "search_tools": SearchTools,
    "check_claims": CheckClaims,
    "list_failures": ListFailures,
}


Admit = Callable[[str, str], Awaitable[None]]
"""Takes a client and the call's id, and counts the call as a request of the client's key; raises `RateLimited`, `Overloaded`."""


class OwnTools:
    """What the tools do, for one client at a time."""

    def __init__(
        self, ports: Ports, servers_of: Callable[[str], Sequence[str]], failures: DatabaseFailures, admit: Admit | None = None
    ) -> None:
        """`servers_of` gives the MCP servers whose tools a client's policies may offer."""
        self._ports, self._servers_of, self._failures, self._admit = ports, servers_of, failures, admit
        self._claims = Pipeline([Claims(ClaimsOptions(timeout_ms=_CHECK_MS), ports)])
        self._does: Mapping[type[_Arguments], Callable[[Any, str], Awaitable[str]]] = {
            ReadArchive: self._read,
            SearchTools: self._search,
            CheckClaims: self._check,
            ListFailures: self._list,
        }

    async def call(self, arguments: _Arguments, client: str) -> str:
        """The result's text. Raises `StoreUnavailable`, `ProxyError`, `RateLimited` among them."""
        if self._admit is not None:
            await self._admit(client, f"mcp_{uuid4().hex}")
        return await self._does[type(arguments)](arguments, client)

    async def _read(self, asked: ReadArchive, client: str) -> str:
        item = await self._ports.scratchpad.find(asked.id, client=client)
        if item is None:
            raise InvalidRequest(f"{asked.id}: nothing of yours is archived under this id")
        return await asyncio.to_thread(archive.read, item.content, asked.page, asked.search)

    async def _search(self, asked: SearchTools, client: str) -> str:
        catalogue = catalogue_of([one.tool for one in await self._ports.tool_servers.tools(self._servers_of(client))])
        relevance = await relevance_to(asked.query, catalogue, self._ports.ranker, client)
        keys = search(catalogue, relevance, asked.query, _LEAST)
        if not keys:
            return nothing_reply((), len(catalogue.positions))
        return found_reply(tools_of(catalogue, keys[:_FOUND]), (), max(0, len(keys) - _FOUND))

    async def _check(self, asked: CheckClaims, client: str) -> str:
        passages = tuple(Evidence(text, source=f"evidence {i}") for i, text in enumerate(asked.evidence, 1))
        size = len(asked.answer) + sum(map(len, asked.evidence))
        messages = ({"role": "user", "content": asked.question},) if asked.question else ()
        request = Request("", messages, (), {}, stream=False, passages=passages, has_context=True, size=size)
        prompt = Prompt(messages, (), {}, evidence=passages, passages=passages)
        exchange = Exchange(f"mcp_{id(asked):x}", "", "mcp@00000000", "", client, original=request, model="", prompt=prompt)
        try:
            await self._claims.request(exchange)
            exchange.answer = exchange.upstream_answer = Answer((Choice(0, asked.answer, finish_reason="stop"),), model="")
            await self._claims.answer(exchange)
        finally:
            self._claims.release(exchange)
        listed = [msgspec.convert(one.detail, ListedClaims) for one in exchange.verdicts if one.detail.get("claims")]
        claims = [
            {
                "statement": one.text,
                "verdict": one.label,
                "probability": None if one.label == "not_checkable" else support(one),
                "evidence": {"text": one.evidence.text, "source": one.evidence.source} if one.evidence is not None else None,
            }
            for one in (listed[-1].claims if listed else ())
        ]
        return orjson.dumps({"verdict": self._claims.verdict(exchange), "counts": exchange.facts.claims or {}, "claims": claims}).decode()

    async def _list(self, asked: ListFailures, client: str) -> str:
        found, more = await self._failures.list(_FAILURES, client=client, run_id=asked.run_id, status="active")
        names = ("id", "signal_type", "code", "severity", "subject", "occurrence_count", "recommended_adjustment")
        failures = [{name: getattr(record, name) for name in names} for record in found]
        return orjson.dumps({"failures": failures, "has_more": more}).decode()


class McpApi:
    """The handler."""

    def __init__(self, tools: OwnTools, access: ClientAccess, auth: AdminAuth) -> None:
        self._tools, self._access, self._auth = tools, access, auth
        self._running = Counter[str]()
        """Calls by client."""

    async def serve(self, request: HttpRequest) -> Response:
        """One message. Raises `InvalidApiKey`, `RateLimited`, `PolicyNotAllowed`, `RequestTooLarge`."""
        client, body = await self._client(request), await read_body(request)
        try:
            message = orjson.loads(body)
        except orjson.JSONDecodeError:
            return _failed(None, _PARSE_ERROR, "the body is not JSON", 400)
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or not isinstance(message.get("method", ""), str):
            return _failed(None, _INVALID_REQUEST, "expected one JSON-RPC 2.0 message", 400)
        if "id" not in message or "method" not in message:  # a notification, or a response to nothing that was asked
            return Response(status_code=202)
        params = message.get("params")
        return await self._answer(message["id"], message["method"], params if isinstance(params, dict) else {}, client)

    async def _client(self, request: HttpRequest) -> str:
        clients = self._access.clients
        if not clients.keyed and (problem := reason_for_remote(request.scope)):
            raise PolicyNotAllowed(f"without client keys {problem}")
        keys = client_headers(request.scope["headers"], raw=True).keys
        try:
            return clients.identify([(name, keys[name]) for name in ("authorization", "x-api-key") if name in keys], None)
        except InvalidApiKey:
            if keys:
                await self._auth.wrong_key(request)
            raise

    async def _answer(self, identity: Any, method: str, params: Mapping[str, Any], client: str) -> Response:
        if method == "initialize":
            wanted = params.get("protocolVersion")
            about = {"serverInfo": {"name": "groundwire", "version": __version__}, "capabilities": {"tools": {}}}
            return _done(identity, about | {"protocolVersion": wanted if wanted in VERSIONS else VERSIONS[0]})
        if method == "ping":
            return _done(identity, {})
        if method == "tools/list":
            return _done(identity, {"tools": [_described(name, kind) for name, kind in TOOLS.items()]})
        if method != "tools/call":
            return _failed(identity, _NO_METHOD, f"there is no {method[:100]} here")
        kind = TOOLS.get(str(params.get("name")))
        if kind is None:
            return _failed(identity, _INVALID_PARAMS, f"there is no such tool; known: {', '.join(TOOLS)}")
        return _done(identity, await self._called(kind, params.get("arguments") or {}, client))

    async def _called(self, kind: type[_Arguments], given: object, client: str) -> dict[str, Any]:
        """A tool's result; what goes wrong in it is for the model to read."""
        if self._running.total() >= PLACES or self._running[client] >= PLACES_OF_ONE:
            return _result("too many calls at once: try again in a moment", failed=True)
        self._running[client] += 1
        try:
            return _result(await self._tools.call(msgspec.convert(given, kind), client))
        except msgspec.ValidationError as error:
            return _result(f"the arguments are refused: {error}", failed=True)
        except StoreUnavailable:
            return _result("the store is not available: try again in a moment", failed=True)
        except ProxyError as error:
            return _result(error.message, failed=True)
        finally:
            self._running -= Counter((client,))


def _described(name: str, kind: type[_Arguments]) -> dict[str, Any]:
    _, defined = msgspec.json.schema_components((kind,))
    parameters = {key: value for key, value in defined[kind.__name__].items() if key not in ("title", "description")}
    return {"name": name, "description": inspect.getdoc(kind), "inputSchema": parameters, "annotations": {"readOnlyHint": True}}


def _result(text: str, *, failed: bool = False) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": f"Error: {text}" if failed else text}], "isError": failed}


def _done(identity: Any, result: Mapping[str, Any]) -> Response:
    return json_answer({"jsonrpc": "2.0", "id": identity, "result": result})


def _failed(identity: Any, code: int, message: str, status: int = 200) -> Response:
    return json_answer({"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": message}}, status)
