"""The calls of one upstream -> its figures; implements `proxy.ports.UpstreamFigures`."""

from __future__ import annotations

from proxy.observe.metrics.families import UPSTREAM_REASONS
from proxy.observe.metrics.tally import Tallies

_BY_CODE = {"upstream_unreachable": "unreachable", "upstream_timeout": "timeout", "overloaded": "overloaded"}


class UpstreamTally:
    """Of one upstream."""

    __slots__ = ("_calls", "_errors", "_fallbacks", "_first", "_retries", "_whole")

    def __init__(self, tallies: Tallies, name: str) -> None:
        self._calls = tallies.count("groundwire_upstream_calls", name)
        self._errors = {reason: tallies.count("groundwire_upstream_errors", name, reason) for reason in UPSTREAM_REASONS}
        self._retries = tallies.count("groundwire_upstream_retries", name)
        self._fallbacks = tallies.count("groundwire_upstream_fallbacks", name)
        self._first = tallies.spread("groundwire_upstream_first_byte_seconds", name)
        self._whole = tallies.spread("groundwire_upstream_seconds", name)

    def answered(self, status: int, seconds: float) -> None:
        """Headers with `status` came after `seconds`."""
        self._calls.value += 1
        if status < 400:
            self._first.observe(seconds)
        else:
            self._errors["429" if status == 429 else "5xx" if status >= 500 else "4xx"].value += 1

    def ended(self, seconds: float) -> None:
        """An answer's last byte came after `seconds`."""
        self._whole.observe(seconds)

    def failed(self, code: str) -> None:
        """A call ended without an answer, with this error's code."""
        self._calls.value += 1
        self._errors[_BY_CODE.get(code, "unreachable")].value += 1

    def broke(self, code: str) -> None:
        """An answer had begun and did not end."""
        self._errors["timeout" if code == "upstream_timeout" else "broken"].value += 1

    def retried(self) -> None:
        """A call is tried again."""
        self._retries.value += 1

    def fell_back(self) -> None:
        """A call goes on to the next upstream."""
        self._fallbacks.value += 1
