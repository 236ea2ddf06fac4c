"""Every stage there is, in the order in which a request meets them. A literal list: nothing is scanned for."""

from __future__ import annotations

from proxy.ports.stage import Stage
from proxy.stages.budget import Budget
from proxy.stages.citations import Citations
from proxy.stages.claims import Claims
from proxy.stages.clash import Clash
from proxy.stages.compression import Compression
from proxy.stages.confidence import Confidence
from proxy.stages.faithful import Faithful
from proxy.stages.history import History
from proxy.stages.knowledge import Knowledge
from proxy.stages.mcp import Mcp
from proxy.stages.poisoning import Poisoning
from proxy.stages.reflection import Reflection
from proxy.stages.relevance import Relevance
from proxy.stages.schema import Schema
from proxy.stages.tool_rag import ToolRag
from proxy.stages.validation import Validation
from proxy.stages.work_claims import WorkClaims

STAGES: tuple[type[Stage], ...] = (
    Mcp,
    Budget,
    Knowledge,
    Validation,
    Poisoning,
    Clash,
    History,
    Compression,
    ToolRag,
    Relevance,
    Faithful,
    Reflection,
    Schema,
    Citations,
    Confidence,
    Claims,
    WorkClaims,
)

HOUSEKEEPING: frozenset[str] = frozenset(code for stage in STAGES if not stage.checks for code in stage.reports)
"""Codes that say nothing against an answer: of stages that keep the prompt in shape and look for nothing wrong."""
