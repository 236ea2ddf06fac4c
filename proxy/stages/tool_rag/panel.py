"""The dashboard's panel of tool selection: how much of the tools' descriptions was not sent, and how often the right ones were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from proxy.exchange import Facts
from proxy.language.amounts import many, share
from proxy.ports.panels import Bucket, Lines, Panel, RecordedVerdict, StagePanel, make_panel, ratio

COUNTERS = {
    "context.tool_rag_requests_count": "requests whose tools were selected from",
    "context.tools_offered_count": "tools of these requests",
    "context.tools_kept_count": "tools of them that went to the model",
    "context.tool_tokens_before_count": "tokens of their descriptions",
    "context.tool_tokens_kept_count": "tokens of what was sent of them",
    "context.confusion_incidents_count": "requests of them that went with all of too many tools",
    "context.tool_calls_count": "requests in which the model called a tool, or searched for one, where tools had been left out",
    "context.tool_calls_found_count": "requests of them whose called tools were all in the first set",
    "context.tool_searches_count": "searches by the model for a tool",
}


class _DescriptionCost(Struct, frozen=True):
    """What tool descriptions cost."""

    description_tokens: int = 0


class _Selection(Struct, frozen=True):
    """Of a verdict's detail."""

    confusion: _DescriptionCost = _DescriptionCost()
    """All tools that were offered."""
    kept: _DescriptionCost | None = None
    """Those that were sent; all where it is missing."""


class ToolRagPanel(StagePanel):
    """Requests whose tools were selected from."""

    name = "confusion"
    title = "Tools left out"
    tool_requests: int = 0
    tools_offered: int = 0
    tools_kept: int = 0
    tool_tokens_before: int = 0
    tool_tokens_after: int = 0

    def add(self, facts: Facts, verdicts: Sequence[RecordedVerdict]) -> None:
        """One exchange."""
        for verdict in verdicts:
            if verdict.stage != "tool_rag" or facts.tools is None:
                continue
            selection = verdict.noted(_Selection)
            if before := selection.confusion.description_tokens:
                self.tool_requests += 1
                self.tools_offered += facts.tools.offered
                self.tools_kept += facts.tools.kept
                self.tool_tokens_before += before
                self.tool_tokens_after += before if selection.kept is None else selection.kept.description_tokens

    @property
    def saved(self) -> float | None:
        """Share of the descriptions' tokens that was not sent."""
        return ratio(self.tool_tokens_before - self.tool_tokens_after, self.tool_tokens_before)

    @classmethod
    def show(cls, whole: Bucket, buckets: Sequence[Bucket], counted: Mapping[str, Any]) -> Panel:
        """Tokens saved, tools in context, and how often the tool that was called was among the first."""
        done, requests = whole.of(cls), whole.of(cls).tool_requests
        chosen = counted.get("tool_selection")
        incidents = int(chosen.get("confusion_incidents", 0)) if isinstance(chosen, Mapping) else 0
        accuracy = chosen.get("selection_accuracy") if isinstance(chosen, Mapping) else None
        detail = (
            many(requests, "request") + " with a choice of tools" if requests else "",
            f"{done.tools_kept / requests:.1f} of {done.tools_offered / requests:.1f} tools in context" if requests else "",
            many(incidents, "request") + " with all of too many tools" if incidents else "",
            f"{accuracy:.1%} of {chosen['calls']:,} requests had the tool they called in their first set, since the start"
            if chosen and accuracy is not None
            else "",
        )
        lines: Lines = {"tokens saved": lambda b: b.of(cls).saved}
        hint = "" if requests else "The stage tool_rag chooses among many tools; none had to be chosen from."
        meaning = "of tool description tokens saved"
        return make_panel(cls.name, cls.title, share(done.saved), meaning, detail, buckets, lines, hint=hint, unit="share")
