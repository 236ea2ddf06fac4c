"""What is left of a record's detail where ``store.texts`` keeps no words: labels, places, codes, numbers and counts.

A stage of anybody's may put anything into its detail, so only what is known to be no text stays: a string under one of `_CODES` that also
looks like a code, an id of this program's, and the few sentences of its own. All other strings become empty, and a name of a field that
does not look like one becomes a number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from proxy.store.records import RecordDetail, RecordError, RecordVerdict

_CODES = frozenset(
    word
    for words in (
        "action actions affected check checks citation code codes decided_by delivery exception field fitted format judge judged_by",
        "keywords",
        "kind label labels language level metric mode name outcome problem reason resolution rule rules scope server severity signal",
        "skipped",
        "stage status strategies strategy tool tools type types unchecked unit variant verdict verifier was what why would",
    )
    for word in words.split()
)
"""Fields whose value may be a code."""
_CODE = re.compile(r"[A-Za-z_]{1,64}|(?!.*[0-9]{5})[A-Za-z_][A-Za-z0-9_.:/-]{0,63}", re.ASCII)
"""No space, no ``@``, and too few digits in a row for a number of anybody's; most have none, which is soon seen."""
_ID = re.compile(r"[a-z]{2,5}_[0-9a-f]{32}", re.ASCII)
"""As `proxy.store.tables.key_of` makes them."""
_VERSION = re.compile(r"(?=.*[a-f])[0-9a-f]{16}", re.ASCII)
"""Of a knowledge base, under ``version``; with a letter, as a card has 16 digits."""
_NAME = re.compile(r"[A-Za-z_]{1,64}|(?!.*[0-9]{5})[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,63}", re.ASCII)
_SENTENCES = frozenset(
    (
        *("no context", "no text", "a model is being read", "the model's window is not known", "may be worked out of what was said"),
        *("answered tool", "called server", "told failures", "offered tools", "found tools", "marks taken out"),
        "left out what is not recognised",
    )
)
"""Of this program's own, where they stand for a code."""
_MOST_NAMES = 500
_names = set[str]()
"""The first that looked like one, to be known again: the stages' own are few."""
_NUMBERS = frozenset((type(None), bool, int, float))
_DEEPEST = 50


def wordless(detail: RecordDetail) -> RecordDetail:
    """Without anybody's words: an upstream's or a check's message may repeat what it is about."""
    error, facts = detail.error, detail.facts
    if facts is not None and facts.judge is not None and facts.judge.failed:
        failed = list(filter(None, map(code_or_nothing, facts.judge.failed)))
        facts = msgspec.structs.replace(facts, judge=msgspec.structs.replace(facts.judge, failed=failed))
    return msgspec.structs.replace(
        detail,
        texts=False,
        error=RecordError(error.code, code_or_nothing(error.param or "") or None) if error is not None else None,
        facts=facts,
        verdicts=[_wordless_verdict(verdict) for verdict in detail.verdicts],
        changes=[without_words(change) for change in detail.changes],
        answers=[
            msgspec.structs.replace(answer, verdicts=[_wordless_verdict(verdict) for verdict in answer.verdicts])
            for answer in detail.answers
        ],
        finish_reasons=[reason and code_or_nothing(reason) for reason in detail.finish_reasons] if detail.finish_reasons else None,
    )


def _wordless_verdict(verdict: RecordVerdict) -> RecordVerdict:
    return (
        msgspec.structs.replace(verdict, message="", detail=without_words(verdict.detail)) if verdict.detail or verdict.message else verdict
    )


def code_or_nothing(text: str) -> str:
    """`text` if it looks like a code, else an empty one."""
    return text if _CODE.fullmatch(text) or text in _SENTENCES else ""


def without_words(value: Any, *, code: bool = False, depth: int = 0) -> Any:
    """A copy of JSON-like `value`; `code` says that it stands where a code may."""
    if type(value) in _NUMBERS:
        return value
    if isinstance(value, str):
        return (code_or_nothing(value) if code else "") or (value if _ID.fullmatch(value) else "")
    if isinstance(value, bool | int | float):
        return value
    if depth >= _DEEPEST:
        return None
    depth += 1
    if isinstance(value, dict | Mapping):
        return {
            key if type(key) is str and key in _names else _field(key, number): item
            if type(item) in _NUMBERS or (key == "version" and isinstance(item, str) and _VERSION.fullmatch(item))
            else without_words(item, code=key in _CODES and not isinstance(item, dict | Mapping), depth=depth)
            for number, (key, item) in enumerate(value.items(), 1)
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [without_words(item, code=code, depth=depth) for item in value]
    if isinstance(value, msgspec.Struct):
        return without_words(msgspec.structs.asdict(value), depth=depth)
    return ""


def _field(key: Any, number: int) -> str:
    name = str(key)
    if not _NAME.fullmatch(name):
        return str(number)
    if len(_names) < _MOST_NAMES:
        _names.add(name)
    return name
