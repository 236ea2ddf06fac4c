"""Whether the tool failed, told from its result. First of the signals: a result's text in, a `ToolFailure` or None out. Pure.

Precision goes before recall: normal output that contains the word "error" is no failure, so what counts is where in the result an error
stands and how much else there is. JSON is judged by its top-level fields (`result_json`), other text by its first and last lines
(`result_text`); `result_words` then says what kind of failure it is. A tool that ran and reports on its subject has not failed: tests
that fail, findings of a linter, a log full of errors, a job whose state is "failed". A build that breaks has failed: it made nothing.

Bounded: the first 4,000 and the last 2,000 characters of text are looked at, JSON is parsed below 200,000 characters.
"""

from __future__ import annotations

import json
import re

import msgspec

from proxy.context.passages.empty_results import is_empty_json, is_empty_text
from proxy.stages.reflection.signals.result_json import read_json
from proxy.stages.reflection.signals.result_text import read_text
from proxy.stages.reflection.signals.result_words import ToolFailure

__all__ = ["ToolFailure", "read_result"]

MAX_JSON_CHARS = 200_000
MAX_REPR_CHARS = 4_000
_TOKEN = re.compile(r"'((?:[^'\\]|\\.)*+)'|\"((?:[^\"\\]|\\.)*+)\"|\b(None|True|False)\b", re.S)
_LITERALS = {"None": "null", "True": "true", "False": "false"}
_NOT_JSON = object()


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
