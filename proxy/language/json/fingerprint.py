"""Names for failures and for actions, made of structured fields only, and the same in every worker and after every restart.

In: signal, code, tool, arguments, chunk ids. Out: hexadecimal names. The wording of an error never goes in: of two occurrences that differ
in numbers, ids and timestamps of an error text, the names are the same. Arguments are normalised: the order of keys, letter case, white
space, punctuation around words, 10 or 10.0 make no difference, nor do fields that change with every call (a request id, a timestamp).
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

MAX_TEXT_CHARS = 20_000
"""Of one string of the arguments."""
MAX_DEPTH = 32
MAX_LISTED = 24
"""Arguments that a record lists, and entries of a list in them."""
_VOLATILE = re.compile(
    r"(?:request|trace|span|correlation|idempotency|client_request|message|invocation)_?(?:id|key|token)|nonce|timestamp|ts|now|uuid|guid",
    re.I,
)
_EDGES = re.compile(r"[^\w]+|_+", re.UNICODE)
_WORDS = re.compile(r"[^\W_]+")
_PLAIN = "".join(char if char.isalnum() else " " for char in map(chr, range(128)))
"""For `str.translate`: ASCII with a space for whatever is in no word."""
_NAME = re.compile(r"[^\w.\-/:@]+")
MAX_NAME_CHARS = 96


def fingerprint(
    signal_type: str, code: str, subject: str = "", arguments: object = None, *, detail: str = "", chunk_ids: Iterable[str] = ()
) -> str:
    """``fp_`` and 32 hexadecimal digits. `arguments` are parsed, or the text that could not be; `detail` is another identifier."""
    return "fp_" + _digest([signal_type, code, subject, detail, normalised(arguments), sorted(set(chunk_ids))])


def action_key(tool: str, arguments: object) -> str:
    """Of a call: 32 hexadecimal digits."""
    return _digest([tool, normalised(arguments)])


def normalised(value: object, depth: int = 0) -> Any:
    """JSON in which what makes no difference is gone."""
    if depth > MAX_DEPTH:
        return "…"
    if isinstance(value, str):
        return normalised_text(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, Mapping):
        kept = {str(k): normalised(v, depth + 1) for k, v in value.items() if not _VOLATILE.fullmatch(str(k)) and v is not None}
        return dict(sorted(kept.items()))
    if isinstance(value, list | tuple):
        return [normalised(item, depth + 1) for item in value]
    return str(type(value).__name__)


def normalised_text(text: str) -> str:
    """Words, case folded; text without any word (an operator, a path of dots) as it is."""
    folded = unicodedata.normalize("NFKC", text[:MAX_TEXT_CHARS]).casefold()
    words = _words(folded)
    rest = (
        hashlib.blake2b(text[MAX_TEXT_CHARS:].encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        if len(text) > MAX_TEXT_CHARS
        else ""
    )
    return (words or folded) + rest


def _words(folded: str) -> str:
    """With one space for each run of what is in no word; a row of underscores is a run of its own."""
    if "_" in folded:
        return _EDGES.sub(" ", folded).strip()
    return " ".join(folded.translate(_PLAIN).split() if folded.isascii() else _WORDS.findall(folded))


def described(arguments: object) -> dict[str, Any]:
    """What a record may say of a call's arguments: numbers and booleans ; of texts a hash and the length, of lists the length."""
    if not isinstance(arguments, Mapping):
        return {} if arguments is None else {"": _describe_value(arguments)}
    return {identifier(str(name)): _describe_value(value) for name, value in list(arguments.items())[:MAX_LISTED]}


def identifier(name: str) -> str:
    """`name` as a record may hold it: a short identifier; what is none is replaced by its hash."""
    return name if name and len(name) <= MAX_NAME_CHARS and not _NAME.search(name) else "#" + _hash(name)


def _describe_value(value: object) -> Any:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, str):
        return {"hash": _hash(normalised_text(value)), "characters": len(value)}
    if isinstance(value, Mapping):
        return {"fields": len(value)}
    return {"items": len(value)} if isinstance(value, list | tuple) else {}


def _number(value: int | float) -> int | float | str:
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            return str(value)
        if value.is_integer() and abs(value) < 2**53:
            return int(value)
    return value if abs(value) < 2**53 else str(value)


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _digest(parts: list[Any]) -> str:
    data = json.dumps(parts, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return hashlib.blake2b(data.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
