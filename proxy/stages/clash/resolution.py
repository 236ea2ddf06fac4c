"""A clash and a strategy -> what becomes of it: which statement leaves, what takes its place, or what the user is asked.

Pure: the stage `clash` carries it out. A change of mind that was said as such is followed under every strategy, because nothing is left
to ask; only a critical clash with a strategy of its own is treated by that one all the same. What cannot be resolved stays as it is, and
is reported: the older statement keeps its place, the newer one is not taken for granted.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import get_args

from msgspec import Struct

from proxy.grounding.clashes.kinds import Resolution, Statement, StatementClash, Strategy
from proxy.grounding.clashes.values import values_in
from proxy.language.patterns import wordings
from proxy.stages.clash.asking import question, without_lead_in

_OWN = ("user", "memory")
"""What the user said, or what is remembered of it."""
_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))
_MAX_DAYS_IN_HOURS = 72.0
"""Up to three days are told in hours: "48 h"."""
_ALTERNATIVES = frozenset(("seat", "price level"))
"""Attributes of which several values can be welcome: "window or aisle"."""
_MAX_WORDS = 10
"""More words than this are no item of a list."""
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|\S")


class _Words(Struct, frozen=True):
    """What joins two statements."""

    between: str
    either: str


_WORDS = wordings(__file__, _Words)


def resolve_clash(
    clash: StatementClash,
    strategy: Strategy | str = "prefer_recent",
    *,
    now: float | None = None,
    critical_strategy: Strategy | str | None = None,
    language: str = "",
) -> Resolution:
    """What becomes of `clash`.

    A strategy may be written in capital letters, too (``PREFER_RECENT``). `now` is in seconds since the epoch, the present without it;
    `critical_strategy` is for critical clashes; a question is put in `language` (ISO 639-1), or else the newer statement's. Raises
    `ValueError` for a strategy that is none.
    """
    general, special = _strategy(strategy), _strategy(critical_strategy) if critical_strategy is not None else None
    special = special if clash.critical else None
    chosen = special or general
    if clash.type == "DUPLICATE_FACTS":
        return _said_twice(clash, chosen)
    if chosen == "keep_existing":
        return _keep_existing(clash, "the policy keeps the existing statement")
    if clash.older.origin == "system":
        return _keep_existing(clash, "a system message is not overruled")
    if chosen == "prefer_recent" or (clash.update and special is None):
        return _prefer_recent(clash, time.time() if now is None else now, language)
    if chosen == "merge":
        text = _merged(clash.older, clash.newer, clash.topic)
        if text is None:
            return _ask(clash, "the two statements cannot both hold: only the user can tell", language)
        return Resolution("merge", (), (clash.older, clash.newer), "both statements hold together", text=text)
    return _ask(clash, "only the user can tell", language)


def _strategy(name: str) -> Strategy:
    found: Strategy | None = next((one for one in get_args(Strategy) if one == name.lower()), None)
    if found is None:
        raise ValueError(f"strategy: expected one of {', '.join(get_args(Strategy))}, got {name!r}")
    return found


def _prefer_recent(clash: StatementClash, now: float, language: str) -> Resolution:
    if clash.simultaneous and not clash.update:
        return _ask(clash, "neither statement is more recent", language)
    if clash.older.origin in _OWN and clash.newer.origin not in _OWN:
        return _keep_existing(clash, f"what the user said is not overruled by a {clash.newer.origin.replace('_', ' ')}")
    return Resolution("prefer_recent", (clash.newer,), (clash.older,), _recency(clash, now))


def _said_twice(clash: StatementClash, strategy: Strategy) -> Resolution:
    """Nothing is wrong: of memories and passages once is enough; people may say things twice, and so may records."""
    if clash.older.origin in ("memory", "passage") and not clash.older.is_field:
        return Resolution(strategy, (clash.newer,), (clash.older,), "the statements say the same")
    return Resolution(strategy, (clash.older, clash.newer), (), "the statements say the same")


def _ask(clash: StatementClash, reason: str, language: str) -> Resolution:
    asked = question(clash.older, clash.newer, language)
    kept = (clash.older, clash.newer)
    return Resolution("ask_user", kept, (), reason, question=asked.text, options=asked.options, resolved=False)


def _keep_existing(clash: StatementClash, reason: str) -> Resolution:
    return Resolution("keep_existing", (clash.older,), (), reason, resolved=False)


# ---- merging ----


def _merged(older: Statement, newer: Statement, topic: str) -> str | None:
    """One statement in place of two of which both can hold: with a range of two budgets, or a list of what is welcome; else None.

    The words are the newer one's; only what joins the two is new.
    """
    said, says = (without_lead_in(one.text.strip()).rstrip(" .!;,") for one in (older, newer))
    if older.language != newer.language or any(one.negated for one in (*older.declares, *newer.declares)):
        return None
    words = _WORDS[newer.language]
    if topic == "budget":
        one, other = (values_in(text, "budget", newer.language) for text in (said, says))
        if len(one) != 1 or len(other) != 1:
            return None
        ((value, place), (new_value, new_place)) = next(iter(one.items())), next(iter(other.items()))
        amounts = [(float(value), said[slice(*place)]), (float(new_value), says[slice(*new_place)])]
        return f"{says[: new_place[0]]}{words.between.format(*(text for _, text in sorted(amounts)))}{says[new_place[1] :]}."
    return _list(said, says, words.either) if topic in _ALTERNATIVES else None


def _list(older: str, newer: str, either: str) -> str | None:
    """Two sentences that differ in one item, as one that names both."""
    one, other = list(_WORD.finditer(older)), list(_WORD.finditer(newer))
    mine, its = ([match[0].casefold() for match in found] for found in (one, other))
    start = _shared(mine, its)
    end = _shared(mine[start:][::-1], its[start:][::-1])
    items = one[start : len(one) - end], other[start : len(other) - end]
    if not start or not all(0 < len(item) <= _MAX_WORDS for item in items):
        return None
    (first, last), (new_first, new_last) = ((item[0].start(), item[-1].end()) for item in items)
    return f"{newer[:new_first]}{either.format(older[first:last], newer[new_first:new_last])}{newer[new_last:]}."


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """How many items two sequences have in common at the start."""
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


# ---- reasons ----


def _recency(clash: StatementClash, now: float) -> str:
    """Why the newer one is: ages where both times are known and far enough apart to tell, else their places."""
    old, new = clash.older.timestamp, clash.newer.timestamp
    if old is not None and new is not None and new > old and _age(now - new) != _age(now - old):
        return f"new statement is more recent ({_age(now - new)} against {_age(now - old)})"
    if clash.update:
        return "new statement is more recent (said as a change of mind)"
    return f"new statement is more recent ({_place(clash.newer)} after {_place(clash.older)})"


def _place(statement: Statement) -> str:
    return f"message {statement.message}" if statement.message is not None else statement.origin.replace("_", " ")


def _age(seconds: float) -> str:
    """In its largest unit, with one decimal where that says more: ``48 h``, ``1.5 h``, ``5 d``, ``30 s``."""
    seconds = max(seconds, 0.0)
    for size, unit in _UNITS:
        if unit == "d" and seconds < _MAX_DAYS_IN_HOURS * 3600 + 1:
            continue
        if seconds >= size or unit == "s":
            return f"{round(seconds / size, 1):g} {unit}"
    return "0 s"
