"""The paths that clients call, in OpenAPI: the four dialects, and what a route passes on. Part of `docs.openapi`.

Made from the dialects that the application serves, the paths that it passes on and the headers that it reads and writes. A body is
described as far as the proxy asks something of it; the rest is its provider's, and goes there as it came.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from proxy.app import DIALECTS
from proxy.config.access import PASSED, PassthroughRules
from proxy.stages.registry import STAGES
from proxy.wire.gemini.address import COUNT, GENERATE
from proxy.wire.http.headers import PREFIX, REQUEST, RESPONSE

SCHEMAS = "#/components/schemas/"
TAG = "for clients"
SERVER = {
    "url": "http://127.0.0.1:4000{prefix}",
    "description": "a route of config.yaml",
    "variables": {"prefix": {"default": "", "description": "the route's prefix, as /openai; empty for the route without one"}},
}
_TEXT = {"type": "string"}
_ERROR = {"$ref": "#/components/responses/ClientError"}
_OBJECTS = {"type": "array", "items": {"type": "object"}, "minItems": 1}
_CONTEXT: dict[str, Any] = {
    "type": "object",
    "description": "Groundwire's own; it never goes upstream",
    "properties": {
        "context": {"type": "array", "items": {"$ref": f"{SCHEMAS}ContextPassage"}, "description": "passages for this question"}
    },
    "additionalProperties": False,
}
_PASSAGE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "content": _TEXT,
        "source": {**_TEXT, "description": "where it comes from, as shown in records"},
        "score": {"type": "number", "description": "the retriever's own"},
        "timestamp": {"type": ["number", "string"], "description": "when it was written: seconds since the epoch, or ISO 8601"},
        "fields": {"type": "object", "description": "what else is known of it"},
    },
    "required": ["content"],
}
BODIES: Mapping[str, tuple[str, str, Mapping[str, Any], tuple[str, ...]]] = {
    "/chat/completions": ("ChatRequest", "OpenAI's Chat Completions", {"messages": _OBJECTS}, ("model", "messages")),
    "/responses": ("ResponsesRequest", "OpenAI's Responses", {"input": {"type": ["string", "array"]}}, ("model",)),
    "/messages": (
        "MessagesRequest",
        "Anthropic's Messages",
        {"messages": _OBJECTS, "max_tokens": {"type": "integer", "minimum": 1}},
        ("model", "messages", "max_tokens"),
    ),
    GENERATE: ("GenerateContentRequest", "Google's Gemini API", {"contents": _OBJECTS}, ("contents",)),
}
"""Of each dialect: the name of its request's schema, its API, and what a request has to have."""


_MODEL = "/v1beta/models/{model}:"
ADDRESSES: Mapping[str, tuple[str, ...]] = {
    GENERATE: (f"{_MODEL}generateContent", f"{_MODEL}streamGenerateContent"),
    COUNT: (f"{_MODEL}countTokens",),
}
"""Of paths that clients know by others, in which the model stands."""


def paths() -> dict[str, Any]:
    """By path: what a client can call there."""
    found: dict[str, Any] = {}
    for dialect in DIALECTS:
        for path in ADDRESSES.get(dialect.path, (f"/v1{dialect.path}",)):
            found[path] = {"servers": [SERVER], "post": _policed(dialect.path, path)}
    for passed in PASSED:
        for path in _spelled(passed):
            entry = found.setdefault(path, {"servers": [SERVER]})
            entry |= {method.lower(): _passed(method.lower(), path, passed) for method in sorted(passed.methods - {"HEAD"})}
    return found


def schemas() -> dict[str, Any]:
    """Of the requests, and of what stands in them."""
    made: dict[str, Any] = {"ContextPassage": _PASSAGE}
    for name, said, own, required in BODIES.values():
        addressed = {} if "model" not in required else {"model": _TEXT, "stream": {"type": "boolean", "default": False}}
        properties = {**addressed, **own, "groundwire": _CONTEXT}
        words = f"a request of {said}; every other field goes to the provider as it came"
        made[name] = {"type": "object", "description": words, "properties": properties, "required": list(required)}
    return made


def components() -> dict[str, Any]:
    """What the paths refer to, but for schemas."""
    every = {**RESPONSE} | {header.name: header.meaning for stage in STAGES for header in stage.headers}
    error = {"description": "an error in the dialect's own form", "headers": _headers(), "content": _json({"type": "object"})}
    return {
        "headers": {f"{PREFIX}{name}": {"description": meaning, "schema": _TEXT} for name, meaning in every.items()},
        "parameters": {
            f"{PREFIX}{name}": {"name": f"{PREFIX}{name}", "in": "header", "description": said, "schema": _TEXT}
            for name, said in REQUEST.items()
        },
        "responses": {"ClientError": error},
    }


def _headers() -> dict[str, Any]:
    """What comes back with every answer, as far as it is known and applies."""
    names = [*RESPONSE, *(header.name for stage in STAGES for header in stage.headers)]
    return {f"{PREFIX}{name}": {"$ref": f"#/components/headers/{PREFIX}{name}"} for name in names}


def _json(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _policed(dialect: str, path: str) -> dict[str, Any]:
    name, said, _, _ = BODIES[dialect]
    done = {**_json({"type": "object"}), "text/event-stream": {"schema": _TEXT}}
    return {
        "operationId": f"client_post{_plain(path)}",
        "summary": f"{said}, through the policy, whole or streamed",
        "tags": [TAG],
        **_asked(path),
        "requestBody": {"required": True, "content": _json({"$ref": f"{SCHEMAS}{name}"})},
        "responses": {"200": {"description": "the answer", "headers": _headers(), "content": done}, "default": _ERROR},
    }


def _passed(method: str, path: str, passed: PassthroughRules) -> dict[str, Any]:
    verdict = " (refused with 403 where the policy refuses answers)" if passed.answers else ""
    body = {"requestBody": {"content": _json({"type": "object"})}} if method == "post" else {}
    return {
        "operationId": f"client_{method}{_plain(path)}",
        "summary": f"passed on as it is, marked {PREFIX}verdict: skipped{verdict}",
        "tags": [TAG],
        **_asked(path),
        **body,
        "responses": {"200": {"description": "the provider's answer"}, "default": _ERROR},
    }


def _plain(path: str) -> str:
    """A path as a part of a name."""
    return re.sub(r"[/:]", "_", re.sub("[{}]", "", path.removeprefix("/v1")))


def _spelled(passed: PassthroughRules) -> Iterator[str]:
    if passed.itself:
        yield from ADDRESSES.get(f"/{passed.name}", (f"/v1/{passed.name}",))
    if passed.below:
        yield f"/v1/{passed.name}/{{below}}"


def _asked(path: str) -> dict[str, Any]:
    """Who may ask, with which headers, and what stands in the path."""
    named = [{"name": name, "in": "path", "required": True, "schema": _TEXT} for name in re.findall(r"{(\w+)}", path)]
    hints = [{"$ref": f"#/components/parameters/{PREFIX}{name}"} for name in REQUEST]
    return {"security": [{}, {"client_key": []}], "parameters": [*named, *hints]}
