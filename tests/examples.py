"""How many examples a property is tried with: the profile's number, or a share of it.

`local` (20) is for the minute of ``make test``, `ci` (200, the same examples every time: what CI judges is the change) is taken where the
environment has CI, and HYPOTHESIS_PROFILE names another.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# How long an example takes says more of a busy machine than of the code.
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("local", _COMMON, max_examples=20)
settings.register_profile("ci", _COMMON, max_examples=200, derandomize=True)


def load_profile() -> None:
    """Before the first property is made."""
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "local"))


def share(of: float) -> int:
    """Examples of a property that takes fewer than the others (below 1, as each costs much) or more (it has more to find)."""
    return max(1, round(of * settings.default.max_examples))  # type: ignore[union-attr]
