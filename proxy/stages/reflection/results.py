"""Whether the tool failed, told from its result: a result's text in, a `ToolFailure` or None out. Pure.

Precision goes before recall: normal output that contains the word "error" is no failure. JSON is judged by its top-level fields, other text
by its form (`result_text`); `error_kinds` then says what kind of failure it is. A tool that ran and reports on its subject has not failed:
tests that fail, findings of a linter, a log full of errors, a job whose state is "failed". A build that breaks has failed: it made nothing.

An error envelope says that there is an error and little else: a flag (``isError``, ``success``, ``ok``), an HTTP status, an exit code, an
error with a message, a code, details. A record about something (a ticket, a job, a line of a log) has fields of its own beside its
``error``, and is content; so are lists of records, and ``error`` fields that say that there is none.

Bounded: the first 4,000 and the last 2,000 characters of text are looked at, JSON is parsed below 200,000 characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from proxy.context.passages.empty_results import is_empty_json, is_empty_text
from proxy.stages.reflection.error_kinds import EXCEPTION, ToolFailure, classify, code_name, seconds
from proxy.stages.reflection.result_text import MAX_SENTENCE_CHARS, is_report, read_text

MAX_JSON_CHARS = 200_000
MAX_REPR_CHARS = 4_000
MAX_FIELDS = 48
"""An envelope has few; an object with more is a record."""
MAX_DEPTH = 3
MAX_OTHERS = 2
"""Fields of its own that an envelope may have."""
_TOKEN = re.compile(r"'((?:[^'\\]|\\.)*+)'|\"((?:[^\"\\]|\\.)*+)\"|\b(None|True|False)\b", re.S)
_LITERALS = {"None": "null", "True": "true", "False": "false"}
_NOT_JSON = object()
# fmt: off
_ERROR = ("error", "errors", "errormessage", "errormessages", "errormsg", "exception", "fault", "fehler", "erreur", "err")
_MESSAGE = (
    "message", "msg", "errormessage", "errormsg", "errordescription", "detail", "details", "description", "reason", "title", "nachricht",
    "meldung", "mensaje", "text", "hint", "info",
)
_FLAGS = ("success", "ok", "succeeded", "successful")
_STATUS = ("status", "statuscode", "httpstatus", "httpcode", "code", "errorcode", "httpstatuscode", "responsecode", "cod")
_EXIT = ("exitcode", "returncode", "exitstatus", "returnstatus", "rc", "exit")
_FAILED_WORDS = frozenset(("error", "failed", "failure", "fail", "fehler", "erreur", "fallido"))
_NO_ERROR = frozenset(("", "none", "no", "null", "false", "ok", "no error", "noerror", "0", "success", "n/a"))
_ARGUMENT = ("param", "parameter", "field", "argument", "property", "loc", "argumentname")
_RETRY = {
    **dict.fromkeys(("retryafter", "retryafterseconds", "retryafters", "retryaftersec", "retryinseconds"), 1.0), "retryafterms": 0.001,
}
_WRAPPERS = ("result", "output", "content", "response", "text", "body", "message", "toolresult", "data")
_BESIDE = (
    "iserror", "type", "jsonrpc", "id", "path", "timestamp", "requestid", "traceid", "correlationid", "instance", "stack", "stacktrace",
    "traceback", "documentationurl", "moreinfo", "help", "helpurl", "suggestion", "name", "kind", "domain", "extensions", "tool",
    "toolname", "method", "state", "warnings", "metadata", "meta", "cause", "structuredcontent", "apiversion", "statustext", "subcode",
    "errorsubcode", "errortype", "innererror", "retryable", "availabletools", "allowed", "validvalues", "note",
)
# fmt: on
_ENVELOPE = frozenset((*_ERROR, *_MESSAGE, *_FLAGS, *_STATUS, *_EXIT, *_ARGUMENT, *_RETRY, *_BESIDE))
"""Field names, folded, that say nothing of whether there is content."""
_DATA = ("data", "result", "results", "items", "rows", "content", "body", "output")
_VERDICTS = frozenset({"valid", "isvalid", "passed", "healthy", "compliant"})
"""A tool that judges its subject has worked."""
_RPC_CODES = {-32700: "invalid_arguments", -32600: "invalid_arguments", -32601: "not_found", -32602: "invalid_arguments"}
Fields = Mapping[str, Any]
"""By folded name."""


def read_result(text: str, *, retrieval: bool = False) -> ToolFailure | None:
    """The failure that a tool's result reports; None where there is none. `retrieval` tools fail too where they find nothing."""
    value = _parsed(text)
    found = read_text(text) if value is _NOT_JSON else read_json(value)
    if found is not None and not (retrieval and found.code == "not_found" and found.status is None and is_empty_text(text)):
        return found
    empty = retrieval and (is_empty_text(text) if value is _NOT_JSON else is_empty_json(value))
    return ToolFailure("empty_result") if empty else None


def _parsed(text: str) -> object:
    """JSON, or an object as Python prints it; `_NOT_JSON` where it is neither, or too long."""
    if len(text) > MAX_JSON_CHARS or text[:64].lstrip()[:1] not in ("{", "[", '"'):
        return _NOT_JSON
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        pass
    if len(text) > MAX_REPR_CHARS or not text.lstrip().startswith(("{'", "[{'")):
        return _NOT_JSON
    try:
        return msgspec.json.decode(_TOKEN.sub(_as_json, text))
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return _NOT_JSON


def _as_json(found: re.Match[str]) -> str:
    if found[3]:
        return _LITERALS[found[3]]
    return json.dumps((found[1] if found[1] is not None else found[2] or "").replace("\\'", "'"))


def read_json(value: object, depth: int = 0) -> ToolFailure | None:
    """The failure that a parsed result reports; None where it is content."""
    if depth > MAX_DEPTH:
        return None
    if isinstance(value, str):
        return read_text(value) if depth or len(value) <= MAX_SENTENCE_CHARS else None
    if isinstance(value, list):
        return _parts(value, depth)
    if not isinstance(value, dict) or not value or len(value) > MAX_FIELDS:
        return None
    fields = {_folded(key): item for key, item in value.items()}
    if set(fields) & _VERDICTS:
        return None
    if any(name in fields for name in _EXIT):
        return _process(fields)
    return _envelope(fields, depth) if (worked := _flag(fields)) is None else None if worked else _flagged(fields)


def _parts(value: list[Any], depth: int) -> ToolFailure | None:
    """Content parts, of which the first speaks; or a list of a single error. Lists of records are content."""
    if not value or len(value) > MAX_FIELDS or not all(isinstance(item, dict) for item in value):
        return None
    if all(item.get("type") == "text" and isinstance(item.get("text"), str) for item in value):
        rest = sum(len(item["text"]) for item in value[1:])
        return read_text(value[0]["text"]) if rest <= MAX_SENTENCE_CHARS else None
    return read_json(value[0], depth + 1) if len(value) == 1 and set(map(_folded, value[0])) <= _ENVELOPE else None


def _process(fields: Fields) -> ToolFailure | None:
    """What a command left: a report of tests or a linter is its work, whatever the exit code."""
    left = next(fields[name] for name in _EXIT if name in fields)
    if isinstance(left, bool) or not isinstance(left, int) or left == 0 or not -(2**31) <= left < 2**32:
        return None
    printed = [fields[name] for name in ("stderr", "error", "output", "stdout", "message") if name in fields]
    texts = [text for text in printed if isinstance(text, str)]
    if (not printed and _others(fields) > MAX_OTHERS) or any(map(is_report, texts)):
        return None
    lines = next((text for text in texts if text.strip()), "")[-600:].strip().splitlines()
    return classify(lines[-1] if lines else "", exit_code=left)


def _flag(fields: Fields) -> bool | None:
    """Whether it worked, where a field says so."""
    if isinstance(fields.get("iserror"), bool):
        return not fields["iserror"]
    return next((fields[name] for name in _FLAGS if isinstance(fields.get(name), bool)), None)


def _flagged(fields: Fields) -> ToolFailure | None:
    error = _error_of(fields)
    if "iserror" not in fields and error is None and not any(n in fields for n in _MESSAGE) and _others(fields) > MAX_OTHERS:
        return None
    return _classified(_content_text(fields) if "iserror" in fields and error is None else _message(fields), fields)


def _envelope(fields: Fields, depth: int) -> ToolFailure | None:
    error, status, others = _error_of(fields), _http_status(fields), _others(fields)
    if error is not None:
        return _with_error(fields, error, status, others)
    if "error" in fields and fields["error"] in (None, False, "") and (status is None or status < 400):
        return None
    said = any(isinstance(fields.get(name), str) and fields[name] for name in _MESSAGE)
    page = others <= MAX_OTHERS and set(fields) <= _ENVELOPE | {"url", "headers", "body", "content", "finalurl", "contenttype", "elapsedms"}
    if status is not None and status >= 400 and ((page and ("headers" in fields or "body" in fields)) or (said and others <= 1)):
        return _classified(_message(fields) if said else "", fields)
    if said and others <= 1 and str(fields.get("status", fields.get("state", ""))).lower() in _FAILED_WORDS:
        return _classified(_message(fields), fields)
    return _detailed(fields, others) or _unwrapped(fields, depth)


def _with_error(fields: Fields, error: Any, status: int | None, others: int) -> ToolFailure | None:
    """An ``error`` that says something: a failure, if the object is not a record with fields of its own."""
    listed = isinstance(error, list)
    if listed and (not _is_reported(error) or _has_data(fields) or others > 1):
        return None
    explained = isinstance(error, dict) and any(_folded(k) in (*_MESSAGE, "code", "type", "status") for k in error)
    most = MAX_OTHERS if explained or listed or (status is not None and status >= 400) else 1
    if others > most or (not explained and (_has_data(fields) or (status is not None and status < 300))):
        return None
    if isinstance(error, dict) and not explained and (others or "id" in fields):
        return None
    failure = _classified(_message(fields), fields)
    by_field = isinstance(error, dict) and not explained and all(isinstance(v, list) for v in error.values())
    return replace(failure, code="invalid_arguments") if by_field and failure.code == "error" else failure


def _detailed(fields: Fields, others: int) -> ToolFailure | None:
    """FastAPI's list of details, or an exception as an object."""
    detail, kind = fields.get("detail"), fields.get("type")
    if isinstance(detail, list) and detail and not others and all(isinstance(d, dict) and "loc" in d and "msg" in d for d in detail):
        return replace(_classified(_message(fields), fields), code="invalid_arguments")
    named = isinstance(kind, str) and EXCEPTION.fullmatch(kind) and "message" in fields and not others
    return _classified(_message(fields), fields) if named else None


def _unwrapped(fields: Fields, depth: int) -> ToolFailure | None:
    """What a wrapper with nothing else in it holds."""
    if _others(fields, _WRAPPERS):
        return None
    wrapped = [fields[name] for name in _WRAPPERS if fields.get(name)]
    return read_json(wrapped[0], depth + 1) if len(wrapped) == 1 else None


def _classified(message: str, fields: Fields) -> ToolFailure:
    """By the message, and by codes, statuses and names in the envelope and in its error."""
    levels = (_inner(fields), fields)
    status = next((found for level in (fields, *levels) if (found := _http_status(level)) is not None and found >= 400), None)
    name = next(filter(None, map(_code_of, levels)), "")
    failure = classify(
        f"{name.replace('_', ' ')} {message}".strip(),
        status=status,
        exception=name,
        retry_after_s=next((wait for level in levels if (wait := _retry(level)) is not None), None),
        argument=next(filter(None, map(_argument, levels)), ""),
    )
    rpc = next((code for level in levels if isinstance(code := level.get("code"), int) and -33_000 < code <= -32_000), None)
    if rpc is None or failure.code in ("missing_pointer", "permission_denied") or (rpc not in _RPC_CODES and failure.code != "error"):
        return failure
    return replace(failure, code=_RPC_CODES.get(rpc, "error_code"))


def _inner(fields: Fields) -> Fields:
    """Fields of the error, an object or the first of a list; those of GraphQL's ``extensions`` and JSON-RPC's ``data`` among them."""
    error = _error_of(fields) or fields.get("detail")
    error = error[0] if isinstance(error, list) and error else error
    if not isinstance(error, dict):
        return {}
    more = [nested for nested in (error.get("data"), error.get("extensions")) if isinstance(nested, dict)]
    return {_folded(k): v for level in (*more, error) for k, v in level.items()}


def _message(fields: Fields) -> str:
    """The words of the error; "" where there are none."""
    error = _error_of(fields)
    words = [error, *(level[name] for level in (_inner(fields), fields) for name in _MESSAGE if name in level)]
    words += error[:1] if isinstance(error, list) else []
    return "; ".join([word[:MAX_SENTENCE_CHARS] for word in words if isinstance(word, str)][:4])


def _content_text(fields: Fields) -> str:
    """The first text of MCP content, or the message."""
    content = next((fields[name] for name in ("content", "result", "output", "text") if name in fields), None)
    parts = content[:8] if isinstance(content, list) else ()
    texts = [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str) and part["text"]]
    return texts[0] if texts else content if isinstance(content, str) and content else _message(fields)


def _error_of(fields: Fields) -> Any:
    """The error, where a field says that there is one."""
    for name in _ERROR:
        value = fields.get(name)
        if (
            value is True
            or (isinstance(value, str) and value.strip().lower() not in _NO_ERROR)
            or (isinstance(value, dict | list) and value)
        ):
            return value
    return None


def _is_reported(errors: list[Any]) -> bool:
    return all(isinstance(e, str) or (isinstance(e, dict) and any(_folded(k) in _MESSAGE for k in e)) for e in errors[:8])


def _has_data(fields: Fields) -> bool:
    """Whether there is content beside an error; an object of nulls is none."""
    values = [fields[name] for name in _DATA if name in fields]
    return any((any(v is not None for v in value.values()) if isinstance(value, dict) else value) for value in values)


def _others(fields: Fields, also: tuple[str, ...] = _DATA) -> int:
    """How many fields with something in them are no part of an envelope."""
    return sum(name not in _ENVELOPE and name not in also and value not in (None, "", [], {}) for name, value in fields.items())


def _http_status(fields: Fields) -> int | None:
    for name in _STATUS:
        value = fields.get(name)
        if isinstance(value, str) and len(value) == 3 and value.isascii() and value.isdigit():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:
            return value
    return None


def _retry(fields: Fields) -> float | None:
    for name, scale in _RETRY.items():
        value = fields.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12:
            return seconds(value * scale)
    return None


def _argument(fields: Fields) -> str:
    for name in _ARGUMENT:
        value = fields.get(name)
        value = value[-1] if name == "loc" and isinstance(value, list) and value else value
        if isinstance(value, str) and value.isascii() and value.replace("_", "").replace(".", "").replace("-", "").isalnum():
            return value
    return ""


def _code_of(fields: Fields) -> str:
    """A code that is a name, or the class of an exception; of fields that may hold other names, only what cannot be one."""
    for name in ("code", "errorcode", "type", "errortype", "name", "exception", "error", "status", "state"):
        value = fields.get(name)
        if not isinstance(value, str) or value.lower() in _FAILED_WORDS:
            continue
        named = name not in ("name", "status", "state") or (value.isupper() and name != "name")
        if EXCEPTION.fullmatch(value) or (named and code_name(value)):
            return value
    return ""


def _folded(key: object) -> str:
    return str(key)[:40].replace("_", "").replace("-", "").replace(" ", "").lower()
