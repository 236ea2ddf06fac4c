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

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from proxy.context.passages.empty_results import is_empty_json, is_empty_text
from proxy.stages.reflection.error_kinds import EXCEPTION, ToolFailure, classify, code_name
from proxy.stages.reflection.result_text import MAX_SENTENCE_CHARS, is_report, read_text

MAX_JSON_CHARS = 200_000
MAX_FIELDS = 48
"""An envelope has few; an object with more is a record."""
MAX_OTHERS = 2
"""Fields of its own that an envelope may have."""
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
_WAIT_S = ("retryafter", "retryafterseconds", "retryafters", "retryaftersec", "retryinseconds")
_DATA = ("data", "result", "results", "items", "rows", "content", "body", "output")
_ENVELOPE = frozenset((
    *_ERROR, *_MESSAGE, *_FLAGS, *_STATUS, *_EXIT, *_ARGUMENT, *_WAIT_S, "retryafterms", *_DATA, "iserror", "type", "jsonrpc", "id", "path",
    "timestamp", "requestid", "traceid", "instance", "stack", "stacktrace", "traceback", "name", "kind", "tool", "method", "metadata",
    "cause", "statustext", "errortype", "retryable",
))
# fmt: on
"""Field names, folded, that say nothing of what an object is a record of."""
_VERDICTS = frozenset({"valid", "isvalid", "passed", "healthy", "compliant"})
"""A tool that judges its subject has worked."""
Fields = Mapping[str, Any]
"""By folded name."""


def read_result(text: str, *, retrieval: bool = False) -> ToolFailure | None:
    """The failure that a tool's result reports; None where there is none. `retrieval` tools fail too where they find nothing."""
    value = _parsed(text)
    found = read_text(text) if value is _NOT_JSON else _of_json(value)
    if found is not None and not (retrieval and found.code == "not_found" and found.status is None and is_empty_text(text)):
        return found
    empty = retrieval and (is_empty_text(text) if value is _NOT_JSON else is_empty_json(value))
    return ToolFailure("empty_result") if empty else None


def _parsed(text: str) -> object:
    """`_NOT_JSON` where it is none, or too long."""
    if len(text) > MAX_JSON_CHARS or text[:64].lstrip()[:1] not in ("{", "[", '"'):
        return _NOT_JSON
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return _NOT_JSON


def _of_json(value: object) -> ToolFailure | None:
    if isinstance(value, str):
        return read_text(value) if len(value) <= MAX_SENTENCE_CHARS else None
    if isinstance(value, list) and (texts := list(_part_texts(value))) and len(texts) == len(value) <= MAX_FIELDS:
        return read_text(texts[0]) if sum(map(len, texts[1:])) <= MAX_SENTENCE_CHARS else None  # the first speaks
    if not isinstance(value, dict) or not 0 < len(value) <= MAX_FIELDS:
        return None
    fields = {_folded(key): item for key, item in value.items()}
    if set(fields) & _VERDICTS:
        return None
    if any(name in fields for name in _EXIT):
        return _process(fields)
    return _classified(fields) if _is_envelope(fields) else None


def _part_texts(content: object) -> Iterator[str]:
    """Of content parts, as MCP has them."""
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
            yield part["text"]


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


def _is_envelope(fields: Fields) -> bool:
    """Whether an object says that there is an error, and is no record with fields of its own."""
    error, status, others = _error_of(fields), _http_status(fields), _others(fields)
    explains = any(isinstance(fields.get(name), str) and fields[name] for name in _MESSAGE)
    if isinstance(fields.get("iserror"), bool):
        return bool(fields["iserror"])
    flags = [fields[name] for name in _FLAGS if isinstance(fields.get(name), bool)]
    if flags:
        return not flags[0] and (error is not None or explains or others <= MAX_OTHERS)
    failed = status is not None and status >= 400
    if error is None:
        says = failed or str(fields.get("status", fields.get("state", ""))).lower() in _FAILED_WORDS
        return _is_validation(fields) or (says and explains and others <= 1)
    explained = isinstance(error, dict) and any(_folded(key) in (*_MESSAGE, "code", "type", "status") for key in error)
    most = MAX_OTHERS if explained or failed else 1
    beside = not explained and (any(_holds(fields[name]) for name in _DATA if name in fields) or (status is not None and status < 300))
    return others <= most and not beside


def _is_validation(fields: Fields) -> bool:
    """FastAPI's list of details, or an exception as an object."""
    detail, kind = fields.get("detail"), fields.get("type")
    listed = isinstance(detail, list) and bool(detail) and all(isinstance(one, dict) and "loc" in one and "msg" in one for one in detail)
    return listed or (isinstance(kind, str) and EXCEPTION.fullmatch(kind) is not None and "message" in fields and not _others(fields))


def _holds(value: object) -> bool:
    """Whether there is content; in an object of nulls there is none."""
    return any(one is not None for one in value.values()) if isinstance(value, dict) else bool(value)


def _classified(fields: Fields) -> ToolFailure:
    """By the message, and by codes, statuses and names in the envelope and in its error."""
    levels = (_inner(fields), fields)
    status = next((found for level in (fields, *levels) if (found := _http_status(level)) is not None and found >= 400), None)
    name = next(filter(None, map(_code_of, levels)), "")
    words = [name.replace("_", " "), *_words(fields, levels)]
    return classify("; ".join(word[:MAX_SENTENCE_CHARS] for word in words if word), status=status, exception=name)


def _words(fields: Fields, levels: tuple[Fields, Fields]) -> list[str]:
    """What the error says, and what it says in fields of their own: what is blamed, and how long to wait."""
    error = _error_of(fields)
    given = [error, *(level[name] for level in levels for name in _MESSAGE if name in level)]
    given += [*(error[:1] if isinstance(error, list) else []), *_part_texts(fields.get("content"))]
    found = [word for word in given if isinstance(word, str)][:4]
    for level in levels:
        blamed = [value[-1] if isinstance(value, list) and value else value for name in _ARGUMENT if (value := level.get(name))]
        found += [f"invalid argument '{value}'" for value in blamed if isinstance(value, str)]
        waits = [(level[name], "s") for name in _WAIT_S if name in level] + [(level.get("retryafterms"), "ms")]
        found += [f"retry after {value} {unit}" for value, unit in waits if isinstance(value, int | float)]
    return found


def _inner(fields: Fields) -> Fields:
    """Fields of the error, an object or the first of a list; those of GraphQL's ``extensions`` and JSON-RPC's ``data`` among them."""
    error = _error_of(fields) or fields.get("detail")
    error = error[0] if isinstance(error, list) and error else error
    if not isinstance(error, dict):
        return {}
    more = [nested for nested in (error.get("data"), error.get("extensions")) if isinstance(nested, dict)]
    return {_folded(k): v for level in (*more, error) for k, v in level.items()}


def _error_of(fields: Fields) -> Any:
    """The error, where a field says that there is one."""
    for name in _ERROR:
        value = fields.get(name)
        says = value.strip().lower() not in _NO_ERROR if isinstance(value, str) else value is True or isinstance(value, dict | list)
        if value and says:
            return value
    return None


def _others(fields: Fields) -> int:
    """How many fields with something in them are no part of an envelope."""
    return sum(name not in _ENVELOPE and value not in (None, "", [], {}) for name, value in fields.items())


def _http_status(fields: Fields) -> int | None:
    for name in _STATUS:
        value = fields.get(name)
        if isinstance(value, str) and len(value) == 3 and value.isascii() and value.isdigit():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 599:
            return value
    return None


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
