"""Tool selection (tool RAG): of many tools only those go to the model that the task needs, with a way back to the others.

Stands before whatever spends the window that it frees. Active above a number of tools or a share of the window; below, the tools
pass as they are. The choice of a run only grows, in a fixed order, and is stored, so that every worker sends the same prefix and
the provider's prompt cache hits until a turn adds to it. When tools were left out, `groundwire_find_tools` is offered, and answered here.

The verdict tells what showing all tools would cost and risk: a pass with the code CONFUSION where fewer were sent, the warning
``tool_confusion`` where all had to be, with the reason in the header: ``indexing``, ``no-query``, ``all-needed``, ``unsure``.

What is left out are tools that servers add; the client's own stay (`own`). Where names do not tell one from the other, tools are left out
only where the ranking is sure.

After RAG-MCP (arXiv 2505.03275) and, for what is learned from calls, OATS (arXiv 2603.13426).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any, Literal

from msgspec import Struct

from proxy.errors import StoreUnavailable
from proxy.exchange import Exchange, Facts, Request, Tool, ToolCall, ToolSelection, Verdict, VerdictView
from proxy.exchange.answers import OutputRequirements
from proxy.language.text import text_of
from proxy.offloop import run_in_thread_if_large
from proxy.ports import ToolRanking, ToolRun
from proxy.ports.stage import Stage, StageHeader, can_answer_tools
from proxy.stages.tool_rag.find import (
    FIND_TOOLS,
    close_names,
    find_tools_tool,
    found_reply,
    invalid_reply,
    nothing_reply,
    query_of,
    relevance_to,
    search,
)
from proxy.stages.tool_rag.own import Ownership, of_servers_in, ownership
from proxy.stages.tool_rag.panel import COUNTERS, ToolRagPanel
from proxy.stages.tool_rag.selection import (
    HIGH_RISK_SHARE,
    SURE,
    ToolCatalogue,
    ToolRagOptions,
    best,
    catalogue_of,
    confusion_risk,
    enough_of_servers,
    grown,
    kin,
    least_relevance_of_late,
    likely_enough,
    must_keep,
    name_of,
    task_of,
    tools_of,
    without,
)

_SWAPS = 8
"""Tries to add to a run's stored tools while other workers do; each failure means that another one succeeded."""
_OBJECTS = 3
"""Best tools whose kin come where no tool is sure: any may be of the object that is meant."""
MAX_FOUND = 5
"""Tools that one search of the model's adds; it is told how many more there are."""
_PLAUSIBLE = 0.1
"""Probability of being needed from which a tool is worth a look: listed by a search, whose result the model reads, and added to a
run that has tools already when none is relevant enough. Small talk adds nothing, so that the prompt stays cached."""


_OF_SERVER = 10
"""Tools of a server that the user names."""
_MOST_UNSURE = 128
"""Tools that go to the model although none of them is sure to be needed: no more do OpenAI's APIs take."""
_NAME_CHARS = 100
"""Of text that a tool's name takes as long to look at as."""
_ALL = "*"
"""Among a run's names: all tools were sent at first, and stay."""


class _Needs(Struct, frozen=True):
    """What a ranking and the run's memory gave for one request."""

    selected: frozenset[str]
    relevant: dict[str, float]
    ranking: Literal["ok", "shortlist", "indexing"]
    """Of all tools, of the likeliest among tools that are new, or of none."""
    stay: frozenset[str]
    """Those of `selected` that stay whatever is asked."""


def _tools_header(facts: Facts, verdicts: Sequence[VerdictView]) -> str | None:
    tools = facts.tools
    return None if tools is None else f"{tools.offered}->{tools.kept}" + (f";{tools.reason}" if tools.reason else "")


class ToolRag(Stage[ToolRagOptions]):
    """Keeps the tools that the task needs, the same ones in the same order throughout a run."""

    name = "tool_rag"
    checks = False
    Options = ToolRagOptions
    changes = ("tools",)
    counters = COUNTERS
    headers = (StageHeader("tools", "offered->kept, with the reason when all are kept", _tools_header),)
    panel = ToolRagPanel
    reports = ("tool_confusion", "CONFUSION")
    answers = (FIND_TOOLS,)
    keeps_from_calls = True
    follows = ("mcp",)
    embeds = True

    def needs_run_identity(self, request: Request) -> bool:
        """The tools that it sent, where there are many."""
        return len(request.tools) > self.options.above

    async def on_request(self, exchange: Exchange) -> Verdict | None:
        """Select. Raises what the ranker raises: the pipeline then sends all tools, and the header says ``error``."""
        offered = _offered_tools(exchange)
        if not offered:
            return None
        if len(offered) <= self.options.above:
            exchange.facts.tools = ToolSelection(len(offered), len(offered), "below-threshold")
            return None
        tokens = await self._tokens_of(exchange, offered)
        query, context = task_of(exchange.conversation)
        if not query:
            return self._keep_all(exchange, tokens, len(offered), "no-query")
        catalogue = catalogue_of(offered)
        if not catalogue.rankable:
            return self._keep_all(exchange, tokens, len(offered), "all-needed")
        run = await self._recall(exchange)
        owned = await self._ownership(exchange, catalogue)
        may_stay = not owned.by_server and self._can_stay(exchange, offered, tokens)
        if may_stay and (owned.by_agent or (run is not None and _ALL in run.names)):
            return self._keep_all(exchange, tokens, len(offered), "unsure")
        ranking = await self.ports.ranker.rank(catalogue.ranked_tools, query, context=context, client=exchange.client)
        known = [key for key in (run.names if run else ()) if key in catalogue.positions]
        if ranking is None and not known:
            return self._keep_all(exchange, tokens, len(offered), "indexing")
        if may_stay and not known and not await self._is_sure(exchange, catalogue, None if context else ranking):
            if run is not None:
                await self._swap(exchange, (*run.names, _ALL), run.version)
            return self._keep_all(exchange, tokens, len(offered), "unsure")
        late = self._least_of_late(exchange, tokens, len(known) / len(offered)) if known else 0.0
        found = self._select(exchange, catalogue, ranking, known, owned, late)
        keys, stored = await self._remember(exchange, catalogue, found, run)
        return await self._send(exchange, catalogue, keys, found, tokens, stored=stored)

    def on_hook_failed(self, exchange: Exchange, hook: str) -> None:
        """All tools are sent."""
        if hook == "request" and (offered := len(_offered_tools(exchange))):
            exchange.facts.tools = ToolSelection(offered, offered, "error")

    async def on_tool_call(self, exchange: Exchange, call: ToolCall) -> str:
        """Search all tools of the client's and of the operator's servers; what is found joins the prompt and the run."""
        query = query_of(call.arguments)
        self.ports.counters.count("context.tool_searches_count")
        if not query:
            return invalid_reply()
        catalogue = catalogue_of(exchange.catalogue)
        relevance = await relevance_to(query, catalogue, self.ports.ranker, exchange.client)
        matching = search(catalogue, relevance, query, min(self.options.min_relevance, _PLAUSIBLE))
        if not matching:
            self._note_additions(exchange, [])
            return nothing_reply(close_names(catalogue, relevance, query), len(catalogue.positions))
        here = set(catalogue_of(exchange.tools).positions)
        left_out = [key for key in matching if key not in here]
        added = left_out[:MAX_FOUND]
        self._note_additions(exchange, added)
        if added:
            await self._add(exchange, catalogue, added, here)
        return found_reply(tools_of(catalogue, added), [key for key in matching if key in here], len(left_out) - len(added))

    async def on_done(self, exchange: Exchange) -> None:
        """Count whether the first set had the tools that were called, and learn from the calls."""
        selection = exchange.facts.tools
        if exchange.answer is None or selection is None or selection.reason in ("below-threshold", "error"):
            return
        catalogue = catalogue_of(exchange.catalogue)
        called = [call.name for choice in exchange.answer.choices for call in choice.tool_calls]
        answered = [str(change["tool"]) for change in exchange.changes if change.get("what") == "answered tool"]
        calls = [name for name in (*answered, *called) if name in catalogue.positions]
        if not selection.reason:
            self._count_choice(exchange, calls)
        if not calls:
            return
        query, context = task_of(exchange.conversation)
        if self.options.learn and query:
            forced = exchange.wants.chosen_tools  # not the model's choice
            taught = tuple(name for name in dict.fromkeys(calls) if name not in forced)
            if taught:
                await self.ports.ranker.learn(catalogue.ranked_tools, query, taught, context=context, client=exchange.client)

    def _count_choice(self, exchange: Exchange, calls: Sequence[str]) -> None:
        """One request, right when all that was called had been sent at first. A search that led to no call is a tool that was missing."""
        searches = [change["tools"] for change in exchange.changes if change.get("what") == "found tools"]
        if not calls and not searches:
            return
        first = catalogue_of(exchange.tools).positions.keys() - {name for names in searches for name in names}
        self.ports.counters.count("context.tool_calls_count")
        self.ports.counters.count("context.tool_calls_found_count", int(bool(calls) and first >= set(calls)))

    # ---- deciding ----

    async def _tokens_of(self, exchange: Exchange, offered: Sequence[Tool]) -> int:
        """Tokens of the tool descriptions."""
        use = exchange.facts.context_before
        tokens = use.components.get("tool_descriptions") if use is not None and exchange.tools is exchange.original.tools else None
        return await self._tokens(exchange, offered) if tokens is None else tokens

    async def _ownership(self, exchange: Exchange, catalogue: ToolCatalogue) -> Ownership:
        """Off the event loop where there are many tools or a long conversation."""
        chars = sum(len(text_of(message.get("content"))) for message in exchange.conversation)
        size, of_operator = chars + _NAME_CHARS * len(catalogue.keys), frozenset(name_of(tool) for tool in exchange.server_tools)
        return await run_in_thread_if_large(size, ownership, catalogue, exchange.conversation, of_operator)

    def _can_stay(self, exchange: Exchange, offered: Sequence[Tool], tokens: int) -> bool:
        """Whether all tools may go to the model: the policy wants it, and they take no large part of the window."""
        return self.options.when_none == "all" and len(offered) <= _MOST_UNSURE and self._share(exchange, tokens) < HIGH_RISK_SHARE

    async def _is_sure(self, exchange: Exchange, catalogue: ToolCatalogue, alone: ToolRanking | None = None) -> bool:
        """Whether the user has just asked for what one tool surely does: "continue" asks for none. `alone` ranks without context."""
        if exchange.conversation[-1].get("role") != "user":
            return False
        query, _ = task_of(exchange.conversation)
        ranking = alone or await self.ports.ranker.rank(catalogue.ranked_tools, query, client=exchange.client)
        return ranking is not None and max(ranking.relevance, default=0.0) >= SURE

    def _select(
        self, exchange: Exchange, offered: ToolCatalogue, ranking: ToolRanking | None, known: Sequence[str], owned: Ownership, late: float
    ) -> _Needs:
        """What should be there now: what must stay, and what is relevant of the other tools."""
        kept = owned.own | must_keep(offered, exchange.conversation, exchange.wants.chosen_tools, self.options.always)
        if ranking is None:
            return _Needs(frozenset(kept), {}, "indexing", kept)
        catalogue, relevance = without(offered, ranking.relevance, owned.own)
        relevant = self._relevant(exchange, catalogue, relevance, bool(known), owned, late)
        if not relevant and not late and self._fill(exchange, bool(known or kept), bool(known)):
            most = self.options.top_k if known else likely_enough(relevance, self.options.top_k)
            relevant = best(catalogue, relevance, most, self._least(bool(known)))
            relevant |= {} if known else kin(catalogue, relevance, list(relevant)[:_OBJECTS], self.options.kin)
        return _Needs(frozenset((*relevant, *kept)), relevant, "shortlist" if ranking.shortlist else "ok", kept)

    def _least_of_late(self, exchange: Exchange, tokens: int, known_share: float) -> float:
        use, model = exchange.facts.context_before, self.ports.tokens.model(exchange.model)
        behind = max(use.used_tokens - tokens, 0) if use is not None and self._can_search(exchange) else 0
        return least_relevance_of_late(model.rewrite_ratio, behind, tokens * (1 - known_share))

    def _least(self, known: bool) -> float:
        """Relevance of what joins beyond the best: a run that has tools takes on only what is worth a look."""
        return min(self.options.min_relevance, _PLAUSIBLE) if known else -1.0

    def _relevant(
        self, exchange: Exchange, catalogue: ToolCatalogue, relevance: Sequence[float], known: bool, owned: Ownership, late: float
    ) -> dict[str, float]:
        """The best tools, more where none is sure, their kin, and those of servers that the user names. Of the first none below `late`."""
        options = self.options
        relevant = best(catalogue, relevance, options.top_k, options.min_relevance)
        if relevant:
            most = likely_enough(relevance, options.top_k)
            likely = best(catalogue, relevance, most, self._least(known)) if most > options.top_k else {}
            relevant |= likely
            relevant |= kin(catalogue, relevance, list(relevant)[: _OBJECTS if likely else 1], options.kin)
        if owned.by_server and not known and options.when_none == "all":
            relevant |= best(catalogue, relevance, enough_of_servers(relevance, options.top_k, options.max_tools))
        relevant = {key: score for key, score in relevant.items() if score >= late}
        named = of_servers_in(task_of(exchange.conversation)[0], owned.servers)
        return relevant | (best(*without(catalogue, relevance, owned.servers.keys() - named), _OF_SERVER) if named else {})

    def _fill(self, exchange: Exchange, some_stay: bool, some_known: bool) -> bool:
        """Whether to keep the best tools although none is relevant enough.

        Without ``when_none: none`` once a question: an agent's loop goes on with the run's set. With it only where the request
        would be refused or senseless without: no tool at all, or a call required and nothing of the client's to call.
        """
        if self.options.when_none != "none":
            return not some_known or exchange.conversation[-1].get("role") == "user"
        return not some_stay and (not self._can_search(exchange) or exchange.wants.calls == "required")

    def _can_search(self, exchange: Exchange) -> bool:
        """Whether the model can be offered the search."""
        return self.options.find_tools and can_answer_tools(exchange, FIND_TOOLS)

    # ---- the run's memory ----

    async def _recall(self, exchange: Exchange) -> ToolRun | None:
        """What the run was shown so far; None when the store cannot say."""
        try:
            return await self.ports.tool_runs.get(_run_of(exchange), client=exchange.client)
        except StoreUnavailable:
            return None

    async def _remember(
        self, exchange: Exchange, catalogue: ToolCatalogue, found: _Needs, run: ToolRun | None
    ) -> tuple[tuple[str, ...], bool]:
        """The run's keys with those wanted; whether they are stored: not when the store is away or others keep being faster.

        What the run has is given up only where the user asks for something else: "continue" takes no tool away.
        """
        keys: tuple[str, ...] = ()
        for _ in range(_SWAPS):
            names = run.names if run else ()
            keys = grown(catalogue, names, found.selected, self.options.max_tools, found.stay)
            if not set(keys).issuperset(names) and not await self._is_sure(exchange, catalogue):
                keys = grown(catalogue, names, found.selected, math.inf)
            if run is None:
                break
            stored = True if keys == run.names else await self._swap(exchange, keys, run.version)
            if stored is not False:
                return keys, stored is True
            run = await self._recall(exchange)
        return keys, False

    async def _swap(self, exchange: Exchange, keys: Sequence[str], version: int) -> bool | None:
        """Whether `keys` are the run's now; None when the store cannot say."""
        try:
            return await self.ports.tool_runs.swap(_run_of(exchange), keys, version, client=exchange.client)
        except StoreUnavailable:
            return None

    # ---- sending ----

    async def _send(
        self, exchange: Exchange, catalogue: ToolCatalogue, keys: Sequence[str], found: _Needs, tokens: int, *, stored: bool
    ) -> Verdict:
        chosen = tools_of(catalogue, keys)
        offered = len(catalogue.tools)
        if len(chosen) == offered:
            return self._keep_all(exchange, tokens, offered, "all-needed")
        given = {id(tool) for tool in catalogue.tools}
        own = [tool for tool in exchange.tools if id(tool) not in given and name_of(tool) != FIND_TOOLS]
        search_tool = [find_tools_tool(len(exchange.catalogue))] if self._can_search(exchange) else []
        exchange.tools = (*search_tool, *own, *chosen)
        exchange.facts.tools = ToolSelection(offered, len(chosen))
        kept_tokens = await self._tokens(exchange, exchange.tools)
        exchange.changes.append({"stage": self.name, "what": "tools", "kept": len(chosen), "left_out": offered - len(chosen)})
        self._count(offered, len(chosen), tokens, kept_tokens)
        detail = self._confusion(exchange, tokens, offered) | {
            "kept": {"tools": len(chosen), "description_tokens": kept_tokens, "names": [k for k in keys if k in catalogue.positions]},
            "relevance": found.relevant,
            "ranking": found.ranking,
            "run": "stored" if stored else "not-stored",
        }
        return Verdict(self.name, "unchecked", code="CONFUSION", detail=detail)

    def _note_additions(self, exchange: Exchange, added: Sequence[str]) -> None:
        exchange.changes.append({"stage": self.name, "what": "found tools", "tools": list(added)})

    async def _add(self, exchange: Exchange, catalogue: ToolCatalogue, added: Sequence[str], here: Collection[str]) -> None:
        tools = tools_of(catalogue, added)
        exchange.tools = (*exchange.tools, *tools)
        if (selection := exchange.facts.tools) is not None:
            exchange.facts.tools = ToolSelection(selection.offered, selection.kept + len(tools))
        found = _Needs(frozenset((*here, *added)), {}, "ok", frozenset())
        await self._remember(exchange, catalogue, found, await self._recall(exchange))

    def _keep_all(self, exchange: Exchange, tokens: int, offered: int, reason: str) -> Verdict:
        exchange.facts.tools = ToolSelection(offered, offered, reason)
        self._count(offered, offered, tokens, tokens)
        self.ports.counters.count("context.confusion_incidents_count")
        return Verdict(
            self.name, "unchecked", code="tool_confusion", detail={"reason": reason} | self._confusion(exchange, tokens, offered)
        )

    def _confusion(self, exchange: Exchange, tokens: int, offered: int) -> dict[str, Any]:
        """What all tools would cost, and risk."""
        share = self._share(exchange, tokens)
        risk = confusion_risk(offered, share)
        return {"confusion": {"tools": offered, "description_tokens": tokens, "share": round(share, 4), "risk": risk}}

    def _count(self, offered: int, kept: int, tokens: int, kept_tokens: int) -> None:
        for name, value in (
            ("tool_rag_requests", 1),
            ("tools_offered", offered),
            ("tools_kept", kept),
            ("tool_tokens_before", tokens),
            ("tool_tokens_kept", kept_tokens),
        ):
            self.ports.counters.count(f"context.{name}_count", value)

    async def _tokens(self, exchange: Exchange, tools: Sequence[Tool]) -> int:
        counter = self.ports.tokens
        use = await counter.count_request((), tools, OutputRequirements(), counter.model(exchange.model))
        return use.components.get("tool_descriptions", 0)

    def _share(self, exchange: Exchange, tokens: int) -> float:
        """Part of the window, as the budget set it or else the model's own; 0 when it is not known."""
        use = exchange.facts.context_before
        window = use.window_tokens if use is not None else self.ports.tokens.model(exchange.model).window_tokens
        return tokens / window if window else 0.0


def _run_of(exchange: Exchange) -> str:
    return f"{exchange.route}\0{exchange.run_id}"


def _offered_tools(exchange: Exchange) -> tuple[Tool, ...]:
    """The client's tools and those of the operator's servers, as far as they are still sent. Those whose loading the client defers stand
    in no prompt: they stay."""
    given = {id(tool) for tool in exchange.catalogue if tool.get("defer_loading") is not True}
    return tuple(tool for tool in exchange.tools if id(tool) in given)
