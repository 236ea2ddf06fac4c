"""What the proxy says in the model's stead when a failure keeps coming back: a question to the user, or why the request was stopped.

In: a failure record and a language (English, German, Spanish, French; any other becomes English). Out: text made of the record's
structured fields only, always the same for the same fields, so that it is found again in the history of the next turn (`asked`).
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from proxy.language.wordings import wordings
from proxy.ports.failures import FailureRecord

MAX_CHARS = 500
"""Of a question."""
MAX_NAME_CHARS = 40
"""A longer name is shortened."""
MAX_NAMES = 3
MAX_JSON_CHARS = 20_000
_MAX_DEPTH = 6


class Tongue(Struct, frozen=True):
    """One language."""

    once: str
    twice: str
    times: str
    """From three on, with ``{}``."""
    nobody: Mapping[str, str]
    """By signal: what stands for a name that there is none of."""
    joints: Mapping[str, str]
    """How a clause takes up a name, where there is one."""
    obstacles: Mapping[str, Mapping[str, str]]
    """By signal and code."""
    details: Mapping[str, str]
    """What the outcome tells beside its code."""
    tried: str
    """With ``{names}``: arguments of the last call."""
    offers: Mapping[str, tuple[str, str]]
    """By adjustment: with its parameters, and without."""
    rules: Mapping[str, str]
    """A correction's parameters, as what was understood."""
    refusal: str
    """With ``{obstacle}``."""
    remedy: str
    """With ``{id}``: what an operator can do."""


TONGUES = wordings(__file__, Tongue)


def obstacle(record: FailureRecord, tongue: str = "en") -> str:
    """What stands in the way, in one clause: "search_docs timed out 3 times"."""
    words = TONGUES[tongue]
    name = _named(record.subject)
    joints = {key: joint.format(name) if name else "" for key, joint in words.joints.items()}
    given = {
        "s": name or words.nobody.get(record.signal_type, ""),
        "n": _times(words, record.stuck_count or record.occurrence_count),
        **joints,
    }
    return " ".join(words.obstacles[record.signal_type][record.code].format(**given).split()) + _details(record, words)


def question(record: FailureRecord, tongue: str = "en") -> str:
    """The question to the user: the obstacle, with which arguments it was met, and what would help."""
    words = TONGUES[tongue]
    clause = obstacle(record, tongue)
    first = clause if _named(record.subject) and clause.startswith(_named(record.subject)) else clause[:1].upper() + clause[1:]
    arguments = record.attempted_action.get("arguments")
    names = _listed(_arguments(arguments)) if isinstance(arguments, Mapping) else ""
    tried = words.tried.format(names=names) if names else ""
    offer = _offer(record.recommended_adjustment, words)
    text = " ".join(part for part in (f"{first}.", tried, offer) if part)
    return text if len(text) <= MAX_CHARS else f"{first}. {offer}"


def refusal(record: FailureRecord, tongue: str = "en") -> str:
    """The message of the error that ends a request: what is broken, and what an operator can do about it."""
    words = TONGUES[tongue]
    return f"{words.refusal.format(obstacle=obstacle(record, tongue))} {words.remedy.format(id=record.id)}"


def asked(text: str, question: str) -> bool:
    """Whether an assistant's message `text` asks `question`: as it is, or as a value of JSON, whatever became of the white space."""
    wanted = _plain(question)
    if not wanted:
        return False
    if wanted in _plain(text[: 4 * MAX_JSON_CHARS]):
        return True
    return any(wanted in _plain(value) for value in _json_texts(text))


# ---- parts ----


def _times(words: Tongue, count: int) -> str:
    return words.once if count <= 1 else words.twice if count == 2 else words.times.format(count)


def _details(record: FailureRecord, words: Tongue) -> str:
    status, exception = record.observed_outcome.get("status"), record.observed_outcome.get("exception")
    told = (
        [words.details["status"].format(status)] if isinstance(status, int) and not isinstance(status, bool) and 0 < status < 1000 else []
    )
    if isinstance(exception, str) and _named(exception):
        told.append(_named(exception))
    return f" ({', '.join(told)})" if told else ""


def _offer(adjustment: Mapping[str, Any], words: Tongue) -> str:
    """The offer that fits the adjustment, with its parameters where it has all of them."""
    full, bare = words.offers.get(str(adjustment.get("type")), words.offers["ask_human"])
    given = {
        "max": _number(adjustment.get("max")),
        "after": _number(adjustment.get("after_s")),
        "names": _listed(_names(adjustment)),
        "tool": _named(adjustment.get("tool")) or _named(next(iter(_strings(adjustment.get("tools"))), "")),
        "tools": _listed(map(_named, _strings(adjustment.get("tools")))),
        "rule": ", ".join(
            rule.format(value)
            for key, rule in words.rules.items()
            if (value := _number(adjustment.get(key)) or _named(adjustment.get(key)))
        ),
    }
    wanted = [key for key in given if "{" + key + "}" in full]
    return full.format(**given) if all(given[key] for key in wanted) else bare


def _names(adjustment: Mapping[str, Any]) -> Iterator[str]:
    """The arguments that an adjustment is about."""
    yield _named(adjustment.get("argument"))
    yield from map(_named, _strings(adjustment.get("arguments")))
    errors = adjustment.get("errors")
    for error in errors if isinstance(errors, list | tuple) else ():
        if isinstance(error, Mapping):
            yield _named(error.get("name")) or _named(str(error.get("pointer", "")).strip("/"))


def _arguments(arguments: Mapping[str, Any]) -> Iterator[str]:
    """Of a call's arguments the names, with their values where these are numbers."""
    for name, value in arguments.items():
        shown = _named(name)
        yield f"{shown} = {_number(value)}" if shown and _number(value) else shown


def _listed(names: Iterable[str]) -> str:
    return ", ".join(list(dict.fromkeys(name for name in names if name))[:MAX_NAMES])


def _strings(value: object) -> list[str]:
    return [entry for entry in value if isinstance(entry, str)] if isinstance(value, list | tuple) else []


def _named(name: object) -> str:
    """A name that can be shown; "" for none and for the hash of one that is no identifier."""
    if not isinstance(name, str) or name.startswith("#"):
        return ""
    plain = "".join(c for c in name if c.isprintable() and not c.isspace())
    return plain if len(plain) <= MAX_NAME_CHARS else plain[: MAX_NAME_CHARS - 1] + "…"


def _number(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value) if abs(value) < 10**12 else ""


def _json_texts(text: str) -> Iterator[str]:
    stripped = text.strip()
    if not stripped.startswith(("{", "[", '"')) or len(stripped) > MAX_JSON_CHARS:
        return iter(())
    try:
        return _texts(json.loads(stripped), 0)
    except (ValueError, RecursionError):
        return iter(())


def _texts(value: object, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth < _MAX_DEPTH and isinstance(value, Mapping | list):
        for entry in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(entry, depth + 1)


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())
