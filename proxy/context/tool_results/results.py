"""Whether the tool failed, told from its result: a result's text in, a `ToolFailure` or None out; and what a search brought. Pure.

Precision goes before recall: normal output that contains the word "error" is no failure. JSON is judged by its top-level fields, other text
by its form (`result_text`); `error_kinds` then says what kind of failure it is. A tool that ran and reports on its subject has not failed:
tests that fail, findings of a linter, a log full of errors, a job whose state is "failed". A build that breaks has failed: it made nothing.

An error envelope says that there is an error and little else: a flag (``isError``, ``success``, ``ok``), an HTTP status, an exit code, an
error with a message, a code, details. A record about something (a ticket, a job, a line of a log) has fields of its own beside its
``error``, and is content; so are lists of records, and ``error`` fields that say that there is none.

Bounded: the first 4,000 and the last 2,000 characters of text are looked at, JSON is parsed below 200,000 characters.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal

import msgspec
from msgspec import Struct

from proxy.context.passages import result_passages
from proxy.context.passages.finding import is_empty_json, is_empty_text
from proxy.context.tool_results.error_kinds import EXCEPTION, ToolFailure, classify, code_name, names_kind
from proxy.context.tool_results.result_text import MAX_SENTENCE_CHARS, is_report, read_text
from proxy.language.json.fingerprint import normalised_text
from proxy.language.lru import by_text

MAX_JSON_CHARS = 200_000
MAX_FIELDS = 48
"""An envelope has few; an object with more is a record."""
MAX_OTHERS = 2
"""Fields of its own that an envelope may have."""
_NOT_JSON = object()
# fmt: off
_ERROR = ("error", "errors", "errormessage", "errormessages", "errormsg", "exception", "fault", "fehler", "erreur", "errore", "erro", "err")
_MESSAGE = (
    "message", "msg", "errormessage", "errormsg", "errordescription", "detail", "details", "description", "reason", "title", "nachricht",
    "meldung", "mensaje", "mensagem", "messaggio", "grund", "motif", "motivo", "text", "hint", "info",
)
_FLAGS = ("success", "ok", "succeeded", "successful")
_STATUS = (
    "status", "statuscode", "httpstatus", "httpcode", "code", "errorcode", "httpstatuscode", "responsecode", "cod",
    "codigo", "codice",
)
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
    return _failure_in(text, retrieval) or None


@by_text(8192)
def _failure_in(text: str, retrieval: bool) -> ToolFailure | Literal[False]:
    """A conversation's old results come again with every turn, and to more than one stage."""
    value = _parse(text)
    found = read_text(text) if value is _NOT_JSON else _of_json(value)
    if found is not None and not (retrieval and found.code == "not_found" and found.status is None and is_empty_text(text)):
        return found
    empty = retrieval and (is_empty_text(text) if value is _NOT_JSON else is_empty_json(value))
    return ToolFailure("empty_result") if empty else False


_STATES = (
    "status",
    "state",
    "result",
    "outcome",
    "statut",
    "estado",
    "stato",
    "zustand",
    "esito",
    "ergebnis",
    "resultat",
    "resultado",
    "situacao",
)
MAX_DEPTH = 6
"""Of nested objects that are looked into."""
MAX_CHUNKS = 200
MAX_STATE_CHARS = 60
"""A longer value is no state."""


def exit_code_of(text: str) -> int | None:
    """The exit code that a JSON result has in a field of its own, or of its ``metadata``; None where it has none."""
    value = _parse(text)
    for level in (value, value.get("metadata")) if isinstance(value, dict) else ():
        fields = {_fold_key(key): item for key, item in level.items()} if isinstance(level, dict) else {}
        found = next((fields[name] for name in _EXIT if name in fields), None)
        if isinstance(found, int) and not isinstance(found, bool):
            return found
    return None


def states_of(text: str, depth: int = MAX_DEPTH) -> list[str]:
    """What the fields of a JSON result say of the state of things, in lower-case words, and the names of those that are ``true``."""
    return [re.sub(r"[_\W]+", " ", state).strip().lower() for state in islice(_states(_parse(text), depth), MAX_CHUNKS)]


def _states(value: object, depth: int) -> Iterator[str]:
    if isinstance(value, list) and depth:
        for item in value:
            yield from _states(item, depth - 1)
    for key, item in value.items() if isinstance(value, dict) and depth else ():
        if item is True:
            yield str(key)
        elif isinstance(item, str) and _fold_key(key).endswith(_STATES) and len(item) <= MAX_STATE_CHARS:
            yield item
        elif isinstance(item, dict | list):
            yield from _states(item, depth - 1)


def _parse(text: str, most: int = MAX_JSON_CHARS) -> object:
    """`_NOT_JSON` where it is none, or too long."""
    if len(text) > most or text[:64].lstrip()[:1] not in ("{", "[", '"'):
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
    fields = {_fold_key(key): item for key, item in value.items()}
    if set(fields) & _VERDICTS:
        return None
    if any(name in fields for name in _EXIT):
        return _process(fields)
    return _classify_fields(fields) if _is_envelope(fields) else None


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
    explained = isinstance(error, dict) and any(_fold_key(key) in (*_MESSAGE, "code", "type", "status") for key in error)
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


def _classify_fields(fields: Fields) -> ToolFailure:
    """By the message, and by codes, statuses and names in the envelope and in its error."""
    levels = (_inner(fields), fields)
    status = next((found for level in (fields, *levels) if (found := _http_status(level)) is not None and found >= 400), None)
    name = next(filter(None, map(_code_of, levels)), "")
    words = "; ".join(word[:MAX_SENTENCE_CHARS] for word in (name.replace("_", " "), *_words(fields, levels)) if word)
    known = names_kind(words) and "loc" not in levels[0]  # "no such user" stays that, whichever argument named the user
    kind = "argument" if known else "invalid argument"
    return classify("; ".join([words, *(f"{kind} '{blamed}'" for blamed in _blamed_arguments(levels))]), status=status, exception=name)


def _words(fields: Fields, levels: tuple[Fields, Fields]) -> list[str]:
    """What the error says, and what it says in a field of its own: how long to wait."""
    error = _error_of(fields)
    given = [error, *(level[name] for level in levels for name in _MESSAGE if name in level)]
    given += [*(error[:1] if isinstance(error, list) else []), *_part_texts(fields.get("content"))]
    found = [word for word in given if isinstance(word, str)][:4]
    for level in levels:
        waits = [(level[name], "s") for name in _WAIT_S if name in level] + [(level.get("retryafterms"), "ms")]
        found += [f"retry after {value} {unit}" for value, unit in waits if isinstance(value, int | float)]
    return found


def _blamed_arguments(levels: tuple[Fields, Fields]) -> Iterator[str]:
    """The arguments that the error names in fields of their own."""
    for value in (level.get(name) for level in levels for name in _ARGUMENT):
        last = value[-1] if isinstance(value, list) and value else value
        if last and isinstance(last, str):
            yield last[:MAX_SENTENCE_CHARS]


def _inner(fields: Fields) -> Fields:
    """Fields of the error, an object or the first of a list; those of GraphQL's ``extensions`` and JSON-RPC's ``data`` among them."""
    error = _error_of(fields) or fields.get("detail")
    error = error[0] if isinstance(error, list) and error else error
    if not isinstance(error, dict):
        return {}
    more = [nested for nested in (error.get("data"), error.get("extensions")) if isinstance(nested, dict)]
    return {_fold_key(k): v for level in (*more, error) for k, v in level.items()}


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


def _fold_key(key: object) -> str:
    return str(key)[:40].replace("_", "").replace("-", "").replace(" ", "").lower()


# ---- what a search brought: its chunks, and how well they fit by its own word ----
#
# A chunk of a JSON list is named by its own id (`chunk_id`, `id`, and a position in the document if it has one), or by its document and
# position. Any other passage is named by its text: a document's id alone says nothing about which part of it was returned, and ids that
# only count the results (1, 2, 3) say nothing at all.
#
# The threshold of scores is the retriever's own, where its result or the call names one. Else it is the policy's, which goes for scores
# that are shares of 1, best first: a distance grows, a BM25 score knows no 1, and reciprocal rank fusion gives its best about 1/61 for each
# list that has it. Those are left alone.

OWN_IDS = ("chunk_id", "chunkId", "id", "_id")
DOCUMENT_IDS = ("doc_id", "docId", "document_id", "source", "url", "uri", "path", "file", "filename")
POSITIONS = ("position", "chunk_index", "chunk", "page", "section", "offset", "start", "part", "line", "start_line")
MIN_PASSAGE_CHARS = 40
"""A passage that is shorter and has no id ("OK", "no entry") names nothing."""
MAX_LISTED_CHARS = 1_000_000
"""Of a result whose chunks are read."""
MAX_SCORED_CHARS = 200_000
"""Of a result; a longer one is not read for scores."""
MAX_PASSAGE_CHARS = 20_000
"""A longer result is not taken apart into passages: it is one chunk."""
_SCORES = ("score", "relevance", "relevancescore", "similarity", "similarityscore", "confidence")
THRESHOLD_KEYS = frozenset(("threshold", "cutoff", *(f"min{name}" for name in _SCORES), *(f"{name}threshold" for name in _SCORES)))
"""Names of a threshold, in lower case without what stands between words."""
RANK_FUSION = (1 / 62, 0.05)
"""Best scores of reciprocal rank fusion with its usual constant of 60, over one to three lists."""


class RetrievalScore(Struct, frozen=True):
    """Of one search."""

    best: float
    threshold: float | None = None
    """That its result names."""
    comparable: bool = True
    """Whether its scores are shares of 1, best first."""

    def short_of(self, asked: float | None, otherwise: float) -> float | None:
        """The threshold that the best score does not reach; None where it does. `asked` is the call's, `otherwise` the policy's."""
        stated = asked if asked is not None else self.threshold
        threshold = stated if stated is not None else otherwise
        usable = stated is not None or (self.comparable and not RANK_FUSION[0] <= self.best <= RANK_FUSION[1])
        return threshold if usable and self.best < threshold else None


def score_of(scores: Sequence[float | None], threshold: float | None = None) -> RetrievalScore | None:
    """Of passages in their order; None where one has no score."""
    given = [score for score in scores if score is not None]
    if not given or len(given) < len(scores):
        return None
    shares = all(0 <= score <= 1 for score in given)
    return RetrievalScore(max(given), threshold, shares and given[0] == max(given))


def score_in(result: str) -> RetrievalScore | None:
    """Of a retrieval tool's result; None where its passages have no scores."""
    if len(result) > MAX_SCORED_CHARS:
        return None
    return score_of([passage.score for passage in result_passages(result)], threshold_in(_parse(result)))


def threshold_in(named: object) -> float | None:
    """The threshold that a call's arguments or a result's own fields name."""
    for name, value in named.items() if isinstance(named, Mapping) else ():
        folded = str(name).lower().replace("_", "").replace("-", "")
        if folded in THRESHOLD_KEYS and isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None


def chunks_of(text: str) -> frozenset[str]:
    """The chunks' names, hexadecimal; none where the result is empty, an error, or too short to tell."""
    ids = list(islice(_chunk_names(_parse(text, MAX_LISTED_CHARS), MAX_DEPTH), MAX_CHUNKS + 1))
    ranks = {f"{n} " for n in range(len(ids) + 1)}
    if ids and all(ids) and len(ids) <= MAX_CHUNKS and not ranks.issuperset(ids):
        return frozenset(_hash(name) for name in ids)
    if len(text) > MAX_PASSAGE_CHARS:
        return frozenset((_hash(text),))
    passages = [passage.content for passage in result_passages(text)]
    return frozenset(_hash(normalised_text(content)) for content in passages if len(content.strip()) >= MIN_PASSAGE_CHARS)


def _chunk_names(value: Any, depth: int) -> Iterator[str]:
    """For each object of the outermost lists the name of its chunk; "" for one that has no id."""
    if isinstance(value, list):
        objects = [item for item in value if isinstance(item, Mapping)]
        yield from (_name(item) for item in objects)
        if objects and len(objects) < len(value):
            yield ""
    elif isinstance(value, Mapping) and depth:
        for nested in value.values():
            if isinstance(nested, Mapping | list):
                yield from _chunk_names(nested, depth - 1)


def _name(item: Mapping[str, Any]) -> str:
    metadata = item.get("metadata")
    layers = (item, metadata) if isinstance(metadata, Mapping) else (item,)
    own, document, position = (_first(layers, names) for names in (OWN_IDS, DOCUMENT_IDS, POSITIONS))
    return f"{own} {position}" if own else f"{document} {position}" if document and position else ""


def _first(layers: tuple[Mapping[str, Any], ...], names: tuple[str, ...]) -> str:
    values = (layer.get(name) for layer in layers for name in names)
    return next((f"{value}" for value in values if isinstance(value, str | int) and not isinstance(value, bool) and value != ""), "")


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
