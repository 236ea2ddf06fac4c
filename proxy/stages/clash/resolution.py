"""A clash and a strategy -> what becomes of it: which statement leaves, what takes its place, or what the user is asked.

Pure: the stage `clash` carries it out. A change of mind that was said as such is followed under every strategy, because nothing is left
to ask; only a critical clash with a strategy of its own is treated by that one all the same. What cannot be resolved stays as it is, and
is reported: the older statement keeps its place, the newer one is not taken for granted.
"""

from __future__ import annotations

import time
from typing import get_args

from proxy.grounding.clashes.kinds import Resolution, Statement, StatementClash, Strategy
from proxy.stages.clash.asking.questions import question_of
from proxy.stages.clash.merging import merged

_OWN = ("user", "memory")
"""What the user said, or what is remembered of it."""
_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))
_MAX_DAYS_IN_HOURS = 72.0
"""Up to three days are told in hours: "48 h"."""


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
        return _kept(clash, "the policy keeps the existing statement")
    if clash.older.origin == "system":
        return _kept(clash, "a system message is not overruled")
    if chosen == "prefer_recent" or (clash.update and special is None):
        return _prefer_recent(clash, time.time() if now is None else now, language)
    if chosen == "merge":
        text = merged(clash)
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
        return _kept(clash, f"what the user said is not overruled by a {clash.newer.origin.replace('_', ' ')}")
    return Resolution("prefer_recent", (clash.newer,), (clash.older,), _recency(clash, now))


def _said_twice(clash: StatementClash, strategy: Strategy) -> Resolution:
    """Nothing is wrong: of memories and passages once is enough; people may say things twice, and so may records."""
    if clash.older.origin in ("memory", "passage") and not clash.older.slot.startswith("field:"):
        return Resolution(strategy, (clash.newer,), (clash.older,), "the statements say the same")
    return Resolution(strategy, (clash.older, clash.newer), (), "the statements say the same")


def _ask(clash: StatementClash, reason: str, language: str) -> Resolution:
    asked = question_of(clash, language)
    kept = (clash.older, clash.newer)
    return Resolution("ask_user", kept, (), reason, question=asked.text, options=asked.options, resolved=False)


def _kept(clash: StatementClash, reason: str) -> Resolution:
    return Resolution("keep_existing", (clash.older,), (), reason, resolved=False)


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
