"""Every stage there is, in the order in which a request meets them. A literal list: nothing is scanned for."""

from __future__ import annotations

from proxy.stage import Stage
from proxy.stages.budget import Budget

STAGES: tuple[type[Stage], ...] = (Budget,)
