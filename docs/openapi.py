"""The HTTP API as OpenAPI 3.1 (docs/reference/openapi.json), and the operator's part of it as the table of docs/reference/http-api.md.

In: `OPERATIONS`, which a test holds against what the server serves, the filters of the stores' lists, the types that check bodies and those
that are stored; what clients call is in `docs.openapi_clients`. Source of the format: https://spec.openapis.org/oas/v3.1.0
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import Struct

from docs import openapi_clients
from docs.schemas import attribute_docs
from proxy import __version__
from proxy.admin.api import _FILTERS as RECORD_FILTERS
from proxy.admin.api import _KNOWN as RECORDS_KNOWN
from proxy.admin.decisions import DecisionBody, ResolutionBody, UndoBody
from proxy.admin.failures import _KNOWN as FAILURES_KNOWN
from proxy.admin.failures import GuidanceBody, StatusBody
from proxy.admin.feedback import ORDERS, FeedbackBody, Finding, TakeBackBody
from proxy.admin.keys import KeyBody, LimitsBody, RotateBody
from proxy.admin.verdicts import MAX_WAIT_MS, ExchangeVerdict
from proxy.ports.failures import FailureRecord
from proxy.ports.review import ClashRecord, ClashStatus, QuarantineItem, QuarantineStatus
from proxy.store import clashes, failures, feedback, quarantine
from proxy.store.feedback import Feedback
from proxy.store.records import Record

FILE = Path(__file__).parent / "reference" / "openapi.json"
PAGE = ("limit", "after")
API = "/groundwire/v1"
KEYS = {
    "admin_key": {"type": "http", "scheme": "bearer", "description": "server.admin_key"},
    "client_key": {"type": "http", "scheme": "bearer", "description": "where keys: are set one of them, else what the upstream wants"},
}
_SCHEMAS = openapi_clients.SCHEMAS


class Operation(Struct, frozen=True):
    """One address under one method."""

    method: str
    path: str
    said: str
    query: tuple[str, ...] = ()
    body: type[Struct] | None = None
    gives: type[Struct] | str = "object"
    """The type of an object or of a list's entries; else ``object``, ``list``, ``bytes`` or ``text``."""
    open: bool = False
    """Whether it needs no admin key."""
    clients: bool = False
    """Whether a client may ask, of what is its own."""
    known: Mapping[str, Sequence[str]] = {}
    """The values that some of the query can have."""


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "GET", "/", "the start page, as HTML or JSON; the SDKs of Anthropic and Google take a `base_url` without its `/v1`", open=True
    ),
    Operation("GET", "/health", "the process is alive", open=True),
    Operation(
        "GET",
        "/ready",
        "this node can answer; else 503, with what is missing. The store's state beside it, counted with `?store=1`",
        open=True,
    ),
    Operation("GET", "/metrics", "figures for Prometheus, added up over workers", gives="text", open=True),
    Operation(
        "GET",
        f"{API}/verdicts/{{id}}",
        "what was found of one exchange, for the client whose it was; 202 and `pending` while its checks run",
        ("wait_ms",),
        gives=ExchangeVerdict,
        clients=True,
    ),
    Operation(
        "GET",
        f"{API}/metrics",
        "the figures as JSON: exchanges, tokens, cost, latency by stage, upstreams, quality, thresholds, warnings; poisoning, "
        "distraction, tools, clashes, compression",
    ),
    Operation(
        "GET",
        f"{API}/report",
        "a period's figures (the last day without `since`) beside those of the period before, as `groundwire report` has them; "
        "`exchanges.statuses` leave out what a policy refused, which `blocked` has",
        ("since", "until", "route"),
    ),
    Operation(
        "GET",
        f"{API}/records",
        "what was asked, decided, changed and how long it took; newest first",
        (*PAGE, *RECORD_FILTERS, "since", "until"),
        gives=Record,
        known=RECORDS_KNOWN,
    ),
    Operation("GET", f"{API}/records/{{id}}", "one record, whole", gives=Record),
    Operation("GET", f"{API}/scratchpad", "what left a prompt, without the bytes", (*PAGE, "run_id", "client"), gives="list"),
    Operation("GET", f"{API}/scratchpad/{{id}}", "a piece that left a prompt, byte for byte", gives="bytes"),
    Operation(
        "GET",
        f"{API}/quarantine",
        "what is kept from the model",
        (*PAGE, *quarantine.FILTERS),
        gives=QuarantineItem,
        known={"status": get_args(QuarantineStatus)},
    ),
    Operation("GET", f"{API}/quarantine/{{id}}", "one item with its content and its audit trail", gives=QuarantineItem),
    Operation("GET", f"{API}/quarantine/{{id}}/content", "its content alone, byte for byte", gives="bytes"),
    Operation("POST", f"{API}/quarantine/{{id}}/approve", "let it through from now on", body=DecisionBody, gives=QuarantineItem),
    Operation("POST", f"{API}/quarantine/{{id}}/reject", "keep it out", body=DecisionBody, gives=QuarantineItem),
    Operation("POST", f"{API}/quarantine/{{id}}/undo", "take the last decision back", body=UndoBody, gives=QuarantineItem),
    Operation(
        "GET",
        f"{API}/clashes",
        "statements that contradict each other",
        (*PAGE, *clashes.FILTERS),
        gives=ClashRecord,
        known={"status": get_args(ClashStatus)},
    ),
    Operation("GET", f"{API}/clashes/{{id}}", "one clash with its audit trail", gives=ClashRecord),
    Operation("POST", f"{API}/clashes/{{id}}/resolve", "decide what holds from now on", body=ResolutionBody, gives=ClashRecord),
    Operation("POST", f"{API}/clashes/{{id}}/undo", "take the last resolution back", body=UndoBody, gives=ClashRecord),
    Operation(
        "GET",
        f"{API}/feedback",
        "what people said of findings",
        (*PAGE, *feedback.FILTERS),
        gives=Feedback,
        known={"said": ("right", "wrong")},
    ),
    Operation("POST", f"{API}/feedback", "say that a finding is right or wrong", body=FeedbackBody, gives=Feedback),
    Operation("POST", f"{API}/feedback/{{id}}/undo", "take a word back: the finding waits again", body=TakeBackBody, gives=Feedback),
    Operation(
        "GET", f"{API}/review", "findings that wait for a person's word", (*PAGE, "stage", "order"), gives=Finding, known={"order": ORDERS}
    ),
    Operation("GET", f"{API}/failures", "failures of runs", (*PAGE, *failures.FILTERS), gives=FailureRecord, known=FAILURES_KNOWN),
    Operation("GET", f"{API}/failures/{{id}}", "one failure record", gives=FailureRecord),
    Operation("GET", f"{API}/failures/{{id}}/revisions", "what became of it, the latest first", PAGE, gives="list"),
    Operation("POST", f"{API}/failures/{{id}}/resolve", "set its status", body=StatusBody, gives=FailureRecord),
    Operation("POST", f"{API}/failures/{{id}}/feedback", "count it as helpful or as harmful", body=GuidanceBody, gives=FailureRecord),
    Operation("GET", f"{API}/keys", "client keys: what each may, how its limits stand, what it spent in 30 days", gives="list"),
    Operation("POST", f"{API}/keys", "make a key; the answer has its text, as nothing has afterwards", body=KeyBody),
    Operation("POST", f"{API}/keys/{{name}}/limits", "its limits from now on", body=LimitsBody),
    Operation("POST", f"{API}/keys/{{name}}/rotate", "another text for it; the one before works for `overlap_s` more", body=RotateBody),
    Operation("POST", f"{API}/keys/{{name}}/revoke", "end it: within 5 s it works nowhere"),
    Operation("GET", f"{API}/teams", "teams that have limits", gives="list"),
    Operation("POST", f"{API}/teams/{{name}}/limits", "a team's limits from now on", body=LimitsBody),
    Operation("GET", f"{API}/spending", "sums since a day, by some of day, client, team, model", ("by", "since"), gives="list"),
    Operation("GET", f"{API}/tool-outcomes", "what tool calls taught, by client and tool", (*PAGE, "client"), gives="list"),
    Operation("DELETE", f"{API}/tool-outcomes", "forget a client's, all of them without `tool`", ("client", "tool")),
)


def table() -> str:
    """Markdown."""
    rows = ["| operation | what | query, or fields of the body |", "| --- | --- | --- |"]
    for made in OPERATIONS:
        names = made.body.__struct_fields__ if made.body is not None else made.query
        rows.append(f"| `{made.method} {made.path}` | {made.said} | {', '.join(_named(name, made) for name in names)} |")
    return "\n".join(rows)


def _named(name: str, made: Operation) -> str:
    values = f" ({', '.join(made.known[name])})" if name in made.known else ""
    return f"`{name}`{values}"


def text() -> str:
    """The whole description, as JSON."""
    described: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "Groundwire",
            "version": __version__,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:4000"}],
        "security": [{"admin_key": []}],
        "paths": openapi_clients.paths() | _paths(),
        "components": {**openapi_clients.components(), "schemas": openapi_clients.schemas() | _schemas(), "securitySchemes": KEYS},
    }
    return json.dumps(described, indent=1, ensure_ascii=False) + "\n"


def _paths() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for made in OPERATIONS:
        found.setdefault(made.path, {})[made.method.lower()] = _operation(made)
    return found


def _operation(made: Operation) -> dict[str, Any]:
    words = [made.method.lower(), *made.path.replace(API, "operator").replace("{id}", "one").strip("/").split("/")]
    parameters = [{"name": name, "in": "query", "schema": _query(name, made.known)} for name in made.query]
    if "{id}" in made.path:
        parameters.insert(0, {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}})
    described: dict[str, Any] = {
        "operationId": "_".join(word.replace("-", "_") for word in words if word) if made.path != "/" else "get_start_page",
        "summary": made.said,
        **({"security": []} if made.open else {"security": [{"client_key": []}, {"admin_key": []}, {}]} if made.clients else {}),
        **({"parameters": parameters} if parameters else {}),
        "responses": {"200": {"description": "done", "content": _content(made)}},
    }
    if made.clients:
        described["responses"]["202"] = {"description": "not yet", "content": _content(made)}
    described["responses"]["default"] = {"description": "an error in OpenAI's envelope", "content": _json({"$ref": f"{_SCHEMAS}Error"})}
    if made.body is not None:
        described["requestBody"] = {"required": True, "content": _json(_ref(made.body))}
    return described


def _query(name: str, known: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    if name in known:
        return {"enum": list(known[name])}
    if name == "limit":
        return {"type": "integer", "minimum": 1, "maximum": 1000, "default": 20}
    if name == "wait_ms":
        return {"type": "integer", "minimum": 0, "maximum": MAX_WAIT_MS, "default": 0}
    return {"type": "number"} if name in ("since", "until") else {"type": "string"}


def _content(made: Operation) -> dict[str, Any]:
    if made.gives in ("bytes", "text"):
        return {"application/octet-stream" if made.gives == "bytes" else "text/plain": {}}
    entry = {"type": "object"} if isinstance(made.gives, str) else _ref(made.gives)
    if made.gives != "list" and "limit" not in made.query:
        return _json(entry)
    page = {"object": {"const": "list"}, "data": {"type": "array", "items": entry}, "has_more": {"type": "boolean"}}
    return _json({"type": "object", "properties": page, "required": list(page)})


def _json(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _kinds() -> list[type[Struct]]:
    """Every type that a body or an answer has."""
    found = [made for operation in OPERATIONS for made in (operation.body, operation.gives) if isinstance(made, type)]
    return list(dict.fromkeys(found))


def _ref(kind: type[Struct]) -> dict[str, Any]:
    return {"$ref": f"{_SCHEMAS}{_name(kind)}"}


def _name(kind: type[Struct]) -> str:
    """Of two types with one name each has its module's before it."""
    alike = [other for other in _kinds() if other.__name__ == kind.__name__]
    return kind.__name__ if len(alike) == 1 else f"{kind.__module__.rpartition('.')[2].capitalize()}{kind.__name__}"


def _schemas() -> dict[str, Any]:
    parts: dict[str, Any] = {}
    for kind in _kinds():
        _, made = msgspec.json.schema_components([kind], ref_template=f"{_SCHEMAS}{{name}}")
        own = made.pop(kind.__name__)
        for name, said in attribute_docs(kind).items():
            own["properties"][name].setdefault("description", said)
        parts |= {**made, _name(kind): own}
    for name in ("request_body", "answer_body"):
        parts["Record"]["properties"][name] |= {"anyOf": [{"type": "string"}, {"type": "null"}]}  # told as text
    envelope = {name: {"type": ["string", "null"]} for name in ("message", "type", "param", "code")}
    parts["Error"] = {"type": "object", "properties": {"error": {"type": "object", "properties": envelope}}, "required": ["error"]}
    return parts
