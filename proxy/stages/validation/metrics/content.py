"""What is to be validated: a text, or a mapping with its text and what is known of it -> `Content`. Pure.

A mapping's text stands in ``content`` or ``text``. One without either is data: its own fields are the content. ``timestamp``, ``source``,
``fields`` and ``required_fields`` say more of it; a timestamp is also looked for among the fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from proxy.grounding.claims.claims import claims_of
from proxy.grounding.clashes.kinds import Origin
from proxy.language.json.strings import strings_of
from proxy.language.text import text_of
from proxy.stages.validation.metrics.freshness import TIME_FIELDS, seconds_of, time_in

STATEMENT_WORDS = 5
"""A string of a JSON result with fewer words is a value, not a statement."""
MAX_CLAIM_CHARS = 400
MAX_READ_CHARS = 200_000
"""Of one piece; what is behind is not read for claims."""
_TEXT_KEYS = ("content", "text")
_OWN_KEYS = frozenset(("content", "text", "timestamp", "source", "fields", "required_fields"))


class Content(Struct, frozen=True):
    """One piece of context."""

    text: str
    timestamp: float | None = None
    """Seconds since the epoch at which it was so; None where nobody says."""
    source: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """All that was given with it, by name: a field that it must have may be any of them."""
    required_fields: tuple[str, ...] = ()
    """What it must have, as names or paths."""
    purposes: tuple[str, ...] = ()
    """What it was asked for, beside the question: the call that a tool's result answers. Relevant to one of them is relevant."""
    max_age_s: float | None = None
    """For this piece; None for what holds for all."""
    origin: Origin = "system"
    """Who says it, as far as it bears on what it may say of the user."""

    @property
    def data(self) -> Any:
        """The object or list that the text is in JSON; None for any other text."""
        return parsed(self.text)


def content_of(given: object, required_fields: Sequence[str] = ()) -> Content:
    """Read what a caller gives. Raises `TypeError` for what is neither a text, a mapping nor a list of either."""
    if isinstance(given, Content):
        return given
    if isinstance(given, str):
        return Content(given, time_in(parsed(given)), required_fields=tuple(required_fields))
    if isinstance(given, Mapping):
        return _of_mapping(given, required_fields)
    if isinstance(given, Sequence) and not isinstance(given, bytes | bytearray):
        return Content(json.dumps(given, ensure_ascii=False, default=str), required_fields=tuple(required_fields))
    raise TypeError(f"expected a text or a mapping, got {type(given).__name__}")


def _of_mapping(given: Mapping[str, Any], required_fields: Sequence[str]) -> Content:
    key = next((key for key in _TEXT_KEYS if key in given), "")
    value = given.get(key)
    text = text_of(value) if isinstance(value, str | list) else ""
    own = {name: value for name, value in given.items() if name not in _OWN_KEYS}
    if not text and (isinstance(value, Mapping | list) or not key):
        text = json.dumps(value if key else own, ensure_ascii=False, default=str)
    extra = given.get("fields")
    said = {name: value for name, value in given.items() if name not in ("fields", "required_fields")}
    fields = {**said, **extra} if isinstance(extra, Mapping) else said
    asked = given.get("required_fields")
    times = (seconds_of(given.get("timestamp")), time_in(fields), time_in(parsed(text)))
    return Content(
        text,
        next((time for time in times if time is not None), None),
        str(given.get("source") or ""),
        fields,
        tuple(map(str, asked)) if isinstance(asked, list | tuple) else tuple(required_fields),
    )


def parsed(text: str) -> Any:
    """The object or list that `text` is in JSON; None for anything else."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def timestamp_in(text: str, names: Sequence[str] = TIME_FIELDS) -> float | None:
    """The timestamp that a JSON object says of itself."""
    return time_in(parsed(text), names)


def statements_of(text: str) -> list[str]:
    """What `text` states, each sentence once, in order: the claims of prose, or those in a JSON result's longer strings.

    Numbers, codes and names in fields of a result are data, and state nothing that could be judged alone.
    """
    text = text[:MAX_READ_CHARS]
    strings = strings_of(text)
    prose = [text] if strings is None else [s.value for s in strings if len(s.value.split()) >= STATEMENT_WORDS]
    claims = (claim for passage in prose for claim in claims_of(passage) if claim.checkable)
    return list(dict.fromkeys(claim.text for claim in claims if 0 < len(claim.text) <= MAX_CLAIM_CHARS))
