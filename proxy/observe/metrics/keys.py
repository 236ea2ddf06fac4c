"""The figures of client keys, by key and team: as many as there are, up to a bound."""

from __future__ import annotations

from proxy.exchange import Usage
from proxy.observe.metrics.counts import Counts, Names

MAX_KEYS, MAX_TEAMS = 500, 100


class KeyCounts:
    """Of one key."""

    __slots__ = ("_completion", "_cost", "_counts", "_exchanges", "_labels", "_prompt")

    def __init__(self, counts: Counts, team: str, key: str) -> None:
        self._counts, self._labels = counts, (team, key)
        self._exchanges, self._cost = (counts.count(f"groundwire_key_{what}", team, key) for what in ("exchanges", "cost_usd"))
        self._prompt, self._completion = (counts.count("groundwire_key_tokens", team, key, kind) for kind in ("prompt", "completion"))

    def took(self, usage: Usage, usd: float, *, refused: bool) -> None:
        """A request is over."""
        self._exchanges.value += not refused
        self._prompt.value += max(0, usage.prompt_tokens)
        self._completion.value += max(0, usage.completion_tokens)
        self._cost.value += max(0.0, usd)

    def refused(self, limit: str) -> None:
        """A limit refused one."""
        self._counts.count("groundwire_limit_refusals", *self._labels, limit).value += 1


class Keys:
    """Those of one process."""

    def __init__(self, counts: Counts) -> None:
        self._counts, self._teams, self._keys = counts, Names(MAX_TEAMS), Names(MAX_KEYS)
        self._known: dict[tuple[str, str], KeyCounts] = {}

    def of(self, team: str, key: str) -> KeyCounts:
        """Of this key; those past the bound share one."""
        labels = self._teams.of(team) if team else "", self._keys.of(key)
        found = self._known.get(labels)
        if found is None:
            found = self._known[labels] = KeyCounts(self._counts, *labels)
        return found
