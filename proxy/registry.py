"""Every stage there is, in the order in which a request meets them. A literal list: nothing is scanned for."""

from __future__ import annotations

from proxy.stage import Stage
from proxy.stages.budget import Budget
from proxy.stages.citations import Citations
from proxy.stages.claims import Claims
from proxy.stages.compression import Compression
from proxy.stages.confidence import Confidence
from proxy.stages.faithful import Faithful
from proxy.stages.history import History
from proxy.stages.relevance import Relevance
from proxy.stages.tool_rag import ToolRag

STAGES: tuple[type[Stage], ...] = (Budget, History, Compression, ToolRag, Relevance, Faithful, Citations, Confidence, Claims)
