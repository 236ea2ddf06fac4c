"""litellm's answers and exceptions -> what OpenAI's API would have sent. Pure functions; nothing here imports litellm.

In: litellm's objects as plain dictionaries, and its exceptions. Out: dictionaries in OpenAI's shape
(https://platform.openai.com/docs/api-reference/chat), or one of our errors where the provider gave no answer at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from proxy.errors import ProxyError, UpstreamTimeout, UpstreamUnreachable
from proxy.ports.upstream import Headers

_REAL_NULLS = frozenset(("finish_reason", "content"))
"""Null in OpenAI's own answers too; every other null is litellm's filling."""
_EMPTY_CHUNK = frozenset(("id", "object", "created", "model", "choices", "system_fingerprint", "service_tier"))
"""What a chunk that says nothing has."""
_PASSED_HEADERS = ("retry-after", "retry-after-ms")
_PREFIX = re.compile(r"^(?:(?:litellm\.)?\w+(?:Error|Exception|Timeout)(?:: | - ))+")
_SUFFIX = re.compile(r"\.? (?:Original exception: |Handle with `litellm).*|\n.*", re.DOTALL)
"""What litellm puts around a provider's message."""
_NO_ANSWER = ("ConnectionError", "TransportError", "APIConnectionError", "ClientConnectionError")
"""Classes of the standard library, httpx, openai and aiohttp, by name."""
_TIMEOUTS = ("TimeoutException", "APITimeoutError", "Timeout", "ServerTimeoutError")


def event(content: Any) -> bytes:
    """One server-sent event."""
    return b"data: " + msgspec.json.encode(content) + b"\n\n"


def clean_answer(answer: dict[str, Any]) -> dict[str, Any]:
    """An unstreamed answer without litellm's own fields."""
    cleaned: dict[str, Any] = _clean(answer)
    return cleaned


def clean_chunk(chunk: dict[str, Any], *, usage: bool) -> Iterator[dict[str, Any]]:
    """The chunk as OpenAI would stream it: a usage chunk of its own with ``choices: []``, and only when it was asked for."""
    chunk = _clean(chunk)
    figures = chunk.pop("usage", None)
    choices = chunk.get("choices", [])
    for choice in choices:
        delta = choice.setdefault("delta", {})
        if delta.get("content", "") is None and "role" not in delta:
            del delta["content"]
        for position, tool_call in enumerate(delta.get("tool_calls", ())):
            tool_call.setdefault("index", position)
    says_something = any(choice["delta"] or choice.get("finish_reason") for choice in choices)
    if says_something or chunk.keys() - _EMPTY_CHUNK:
        yield chunk
    if figures is not None and usage:
        yield {**chunk, "choices": [], "usage": figures}


def _clean(value: Any) -> Any:
    """Without nulls that carry nothing and without empty ``provider_specific_fields``, at every depth outside of content."""
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _clean(item)
        for name, item in value.items()
        if not (item is None and name not in _REAL_NULLS) and not (name == "provider_specific_fields" and _says_nothing(item))
    }


def _says_nothing(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_says_nothing(item) for item in value.values())
    return value is None or value == []


def error_reply(error: Exception, upstream: str) -> tuple[int, dict[str, Any], Headers] | ProxyError:
    """A provider's error as (status, envelope, headers), or ours when no answer came.

    litellm reports a refused connection as an internal server error of some providers and as `APIConnectionError` of others, and uses
    the latter for faults of its own too: the chain of causes and the message tell.
    """
    causes = {kind.__name__ for link in _chain(error) for kind in type(link).__mro__}
    if not causes.isdisjoint(_TIMEOUTS):
        return UpstreamTimeout(f"upstream {upstream}: the provider did not answer in time")
    status = getattr(error, "status_code", None)
    if not causes.isdisjoint(_NO_ANSWER) or not isinstance(status, int) or not 400 <= status <= 599:
        said = _SUFFIX.sub("", _PREFIX.sub("", str(error)))[:300].rstrip(" .")
        return UpstreamUnreachable(f"upstream {upstream}: no usable answer from the provider: {said or type(error).__name__}")
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else {}
    told = inner if isinstance(inner, dict) else {}
    context = "ContextWindowExceededError" in causes
    envelope = {
        "message": told.get("message") or _PREFIX.sub("", str(getattr(error, "message", error))) or f"status {status}",
        "type": told.get("type") or getattr(error, "type", None) or ("server_error" if status >= 500 else "invalid_request_error"),
        "param": told.get("param") or getattr(error, "param", None),
        "code": "context_length_exceeded" if context else told.get("code") or getattr(error, "code", None),
    }
    return status, {"error": {name: value if value is None else str(value) for name, value in envelope.items()}}, _headers(error)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception and what it was raised from."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__


def _headers(error: Exception) -> Headers:
    for source in (getattr(error, "litellm_response_headers", None), getattr(getattr(error, "response", None), "headers", None)):
        found = {str(name).lower(): str(value) for name, value in dict(source or {}).items()}
        if passed := [(name, found[name]) for name in _PASSED_HEADERS if name in found]:
            return passed
    return ()


def scrubber(secrets: Iterable[str]) -> Callable[[str], str]:
    """A function that blackens these secrets in a text. Short ones are left: they would blacken ordinary words."""
    known = sorted({secret for secret in secrets if len(secret) >= 8}, key=len, reverse=True)
    if not known:
        return lambda text: text
    pattern = re.compile("|".join(re.escape(secret) for secret in known))
    return lambda text: pattern.sub("***", text)


def without_secrets(value: Any, scrub: Callable[[str], str]) -> Any:
    """The same structure with every string scrubbed."""
    if isinstance(value, dict):
        return {name: without_secrets(item, scrub) for name, item in value.items()}
    if isinstance(value, list):
        return [without_secrets(item, scrub) for item in value]
    return scrub(value) if isinstance(value, str) else value
