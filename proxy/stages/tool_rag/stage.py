"""Tool selection (tool RAG): of many tools only those go to the model that the task needs, with a way back to the others.

Stands before whatever spends the window that it frees. Active above a number of tools or a share of the window; below, the tools
pass as they are. The choice of a run only grows, in a fixed order, and is stored, so that every worker sends the same prefix and
the provider's prompt cache keeps hitting. When tools were left out, `groundwire_find_tools` is offered, and answered here.

The verdict tells what showing all tools would cost and risk: a pass with the code CONFUSION where fewer were sent, the warning
``tool_confusion`` where all had to be, with the reason in the header: ``indexing``, ``no-query``, ``all-needed``.

After RAG-MCP (arXiv 2505.03275) and, for what is learned from calls, OATS (arXiv 2603.13426).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from proxy.errors import StoreUnavailable
from proxy.exchange import Exchange, Facts, Found, Request, Tool, ToolCall, ToolSelection, Verdict
from proxy.exchange.wishes import Wishes
from proxy.offloop import LARGE, aside
from proxy.ports import ToolRanking, ToolRun
from proxy.ports.headers import StageHeader
from proxy.ports.stage import Positive, Share, Stage, StageOptions, can_answer_tools
from proxy.stages.tool_rag.find import (
    FIND_TOOLS,
    close_names,
    find_tools_tool,
    found_reply,
    invalid_reply,
    nothing_reply,
    query_of,
    search,
    shared_words,
)
from proxy.stages.tool_rag.panel import ToolRagPanel
from proxy.stages.tool_rag.selection import (
    ToolCatalogue,
    best,
    catalogue_of,
    companions,
    confusion_risk,
    filled,
    grown,
    kin,
    likely_enough,
    must_keep,
    name_of,
    tools_of,
)
from proxy.stages.tool_rag.task import task_of

_SWAPS = 8
"""Tries to add to a run's stored tools while other workers do; each failure means that another one succeeded."""
_OBJECTS = 3
"""Best tools whose kin come where no tool is sure: any may be of the object that is meant."""
_PLAUSIBLE = 0.1
"""Probability of being needed from which a tool is worth a look: listed by a search, whose result the model reads, and added to a
run that has tools already when none is relevant enough. Small talk adds nothing, so that the prompt stays cached."""


class ToolRagOptions(StageOptions, frozen=True, kw_only=True):
    """``tool_rag:``"""

    above: Annotated[int, Meta(ge=0, description="number of tools up to which all of them pass untouched")] = 30
    above_share: Annotated[
        Share | None, Meta(description="share of the window from which tool descriptions are selected from, however few tools there are")
    ] = None
    top_k: Annotated[
        Positive,
        Meta(description="most tools that one request adds by their relevance; up to twice as many where none is likely to be the one"),
    ] = 5
    min_relevance: Annotated[
        Share, Meta(description="probability of being needed from which a tool is kept; a tool too many costs less than one that is missed")
    ] = 0.02
    kin: Annotated[
        int, Meta(ge=0, description="tools of the best ones' objects that come with them, beyond top_k: of search_flights, book_flight")
    ] = 3
    when_none: Annotated[
        Literal["keep", "none"],
        Meta(description="when no tool reaches min_relevance: keep the top_k anyway, or none but those that always stay"),
    ] = "keep"
    always: Annotated[tuple[str, ...], Meta(description="names of tools that always stay; * and ? stand for any characters")] = ()
    find_tools: Annotated[bool, Meta(description="offer groundwire_find_tools, by which the model can get at the tools left out")] = True
    max_find_results: Annotated[Positive, Meta(description="most tools that one search of the model's adds")] = 5
    max_tools: Annotated[Positive, Meta(description="tools to which a run's set grows before it is chosen afresh")] = 20
    learn: Annotated[bool, Meta(description="learn from the tools that the model calls, for this client alone")] = True

    def __post_init__(self) -> None:
        if self.max_tools < self.top_k:
            raise ValueError("expected max_tools >= top_k")


class _Found(Struct, frozen=True):
    """What a ranking and the run's memory gave for one request."""

    wanted: frozenset[str]
    relevant: dict[str, float]
    ranking: Literal["ok", "shortlist", "indexing"]
    """Of all tools, of the likeliest among tools that are new, or of none."""


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


def _tools_header(facts: Facts, verdicts: Sequence[Found]) -> str | None:
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
    embeds = True

    def remembers(self, request: Request) -> bool:
        """The tools that it sent, where there are many."""
        return len(request.tools) > (self.options.above if self.options.above_share is None else 0)

    async def on_request(self, exchange: Exchange) -> Verdict | None:
        """Select. Raises what the ranker raises: the pipeline then sends all tools, and the header says ``error``."""
        offered = _offered(exchange)
        if not offered:
            return None
        tokens = await self._tokens_if_above(exchange, offered)
        if tokens is None:
            exchange.facts.tools = ToolSelection(len(offered), len(offered), "below-threshold")
            return None
        query, context = task_of(exchange.conversation)
        if not query:
            return self._all_kept(exchange, tokens, len(offered), "no-query")
        catalogue = catalogue_of(offered)
        if not catalogue.rankable:
            return self._all_kept(exchange, tokens, len(offered), "all-needed")
        run = await self._recall(exchange)
        ranking = await self.ports.ranker.rank(catalogue.ranked_tools, query, context=context, client=exchange.client)
        known = [key for key in (run.names if run else ()) if key in catalogue.positions]
        if ranking is None and not known:
            return self._all_kept(exchange, tokens, len(offered), "indexing")
        found = self._wanted(exchange, catalogue, ranking, known)
        keys, stored = await self._remember(exchange, catalogue, found.wanted, run)
        return await self._send(exchange, catalogue, keys, found, tokens, stored=stored)

    def broke_off(self, exchange: Exchange, hook: str) -> None:
        """All tools are sent."""
        if hook == "request" and (offered := len(_offered(exchange))):
            exchange.facts.tools = ToolSelection(offered, offered, "error")

    async def on_tool_call(self, exchange: Exchange, call: ToolCall) -> str:
        """Search all of the client's tools; what is found joins the prompt and the run."""
        query = query_of(call.arguments)
        self.ports.counters.count("context.tool_searches_count")
        if not query:
            return invalid_reply()
        catalogue = catalogue_of(exchange.original.tools)
        ranking = await self.ports.ranker.rank(catalogue.ranked_tools, query, client=exchange.client)
        relevance = ranking.relevance if ranking else await aside(LARGE, shared_words, catalogue, query)
        matching = search(catalogue, relevance, query, min(self.options.min_relevance, _PLAUSIBLE))
        if not matching:
            self._note_found(exchange, [])
            return nothing_reply(close_names(catalogue, relevance, query), len(catalogue.positions))
        here = set(catalogue_of(exchange.tools).positions)
        left_out = [key for key in matching if key not in here]
        added = left_out[: self.options.max_find_results]
        self._note_found(exchange, added)
        if added:
            await self._add(exchange, catalogue, added, here)
        return found_reply(tools_of(catalogue, added), [key for key in matching if key in here], len(left_out) - len(added))

    async def on_done(self, exchange: Exchange) -> None:
        """Count whether the first set had the tools that were called, and learn from the calls."""
        selection = exchange.facts.tools
        if exchange.answer is None or selection is None or selection.reason in ("below-threshold", "error"):
            return
        catalogue = catalogue_of(exchange.original.tools)
        calls = [call.name for choice in exchange.answer.choices for call in choice.tool_calls if call.name in catalogue.positions]
        if not selection.reason:
            self._count_choice(exchange, calls)
        if not calls:
            return
        query, context = task_of(exchange.conversation)
        if self.options.learn and query:
            forced = exchange.wants.chosen_tools  # not the model's choice
            called = tuple(name for name in dict.fromkeys(calls) if name not in forced)
            if called:
                await self.ports.ranker.learn(catalogue.ranked_tools, query, called, context=context, client=exchange.client)

    def _count_choice(self, exchange: Exchange, calls: Sequence[str]) -> None:
        """One request, right when all that was called had been sent at first. A search that led to no call is a tool that was missing."""
        searches = [change["tools"] for change in exchange.changes if change.get("what") == "found tools"]
        if not calls and not searches:
            return
        first = catalogue_of(exchange.tools).positions.keys() - {name for names in searches for name in names}
        self.ports.counters.count("context.tool_calls_count")
        self.ports.counters.count("context.tool_calls_found_count", int(bool(calls) and first >= set(calls)))

    # ---- deciding ----

    async def _tokens_if_above(self, exchange: Exchange, offered: Sequence[Tool]) -> int | None:
        """Tokens of the tool descriptions; None when there are too few tools for a selection."""
        many, share = len(offered) > self.options.above, self.options.above_share
        if not many and share is None:
            return None
        use = exchange.facts.context_before
        tokens = use.components.get("tool_descriptions") if use is not None and exchange.tools is exchange.original.tools else None
        if tokens is None:
            tokens = await self._tokens(exchange, offered)
        return tokens if many or share is None or self._share(exchange, tokens) >= share else None

    def _wanted(self, exchange: Exchange, catalogue: ToolCatalogue, ranking: ToolRanking | None, known: Sequence[str]) -> _Found:
        """What should be there now: what must stay, what is relevant, and what these name."""
        options, relevance = self.options, ranking.relevance if ranking is not None else None
        kept = must_keep(catalogue, exchange.conversation, exchange.wants.chosen_tools, options.always)
        relevant = best(catalogue, relevance, options.top_k, options.min_relevance) if relevance is not None else {}
        most = 0 if relevance is None else likely_enough(relevance, options.top_k)
        least = min(options.min_relevance, _PLAUSIBLE) if known else -1.0
        if relevance is not None and relevant:
            likely = best(catalogue, relevance, most, least) if most > options.top_k else {}
            relevant |= likely
            relevant |= kin(catalogue, relevance, list(relevant)[: _OBJECTS if likely else 1], options.kin)
        named = companions(catalogue, (*relevant, *(key for key in catalogue.positions if key in kept)))
        if relevance is not None and not relevant and self._fill(exchange, bool(known or kept), bool(known)):
            relevant = filled(catalogue, relevance, options.top_k if known else most, least)
            relevant |= {} if known else kin(catalogue, relevance, list(relevant)[:_OBJECTS], options.kin)
        how: Literal["ok", "shortlist", "indexing"] = "indexing" if ranking is None else "shortlist" if ranking.shortlist else "ok"
        return _Found(frozenset((*relevant, *kept, *named)), relevant, how)

    def _fill(self, exchange: Exchange, some_stay: bool, some_known: bool) -> bool:
        """Whether to keep the best tools although none is relevant enough.

        With ``when_none: keep`` once a question: an agent's loop goes on with the run's set. With ``none`` only where the request
        would be refused or senseless without: no tool at all, or a call required and nothing of the client's to call.
        """
        if self.options.when_none == "keep":
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
        self, exchange: Exchange, catalogue: ToolCatalogue, wanted: Collection[str], run: ToolRun | None
    ) -> tuple[tuple[str, ...], bool]:
        """The run's keys with `wanted`; whether they are stored: not when the store is away or others keep being faster."""
        keys: tuple[str, ...] = ()
        for _ in range(_SWAPS):
            keys = grown(catalogue, run.names if run else (), wanted, self.options.max_tools)
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
        self, exchange: Exchange, catalogue: ToolCatalogue, keys: Sequence[str], found: _Found, tokens: int, *, stored: bool
    ) -> Verdict:
        chosen = tools_of(catalogue, keys)
        offered = len(catalogue.tools)
        if len(chosen) == offered:
            return self._all_kept(exchange, tokens, offered, "all-needed")
        given = {id(tool) for tool in catalogue.tools}
        own = [tool for tool in exchange.tools if id(tool) not in given and name_of(tool) != FIND_TOOLS]
        search_tool = [find_tools_tool(len(exchange.original.tools))] if self._can_search(exchange) else []
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

    def _note_found(self, exchange: Exchange, added: Sequence[str]) -> None:
        exchange.changes.append({"stage": self.name, "what": "found tools", "tools": list(added)})

    async def _add(self, exchange: Exchange, catalogue: ToolCatalogue, added: Sequence[str], here: Collection[str]) -> None:
        tools = tools_of(catalogue, added)
        exchange.tools = (*exchange.tools, *tools)
        if (selection := exchange.facts.tools) is not None:
            exchange.facts.tools = ToolSelection(selection.offered, selection.kept + len(tools))
        await self._remember(exchange, catalogue, {*here, *added}, await self._recall(exchange))

    def _all_kept(self, exchange: Exchange, tokens: int, offered: int, reason: str) -> Verdict:
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
        use = await counter.count_request((), tools, Wishes(), counter.model(exchange.model))
        return use.components.get("tool_descriptions", 0)

    def _share(self, exchange: Exchange, tokens: int) -> float:
        """Part of the window, as the budget set it or else the model's own; 0 when it is not known."""
        use = exchange.facts.context_before
        window = use.window_tokens if use is not None else self.ports.tokens.model(exchange.model).window_tokens
        return tokens / window if window else 0.0


def _run_of(exchange: Exchange) -> str:
    return f"{exchange.route}\0{exchange.run_id}"


def _offered(exchange: Exchange) -> tuple[Tool, ...]:
    """The client's own tools, as far as they are still sent. Those whose loading the client defers stand in no prompt: they stay."""
    given = {id(tool) for tool in exchange.original.tools if tool.get("defer_loading") is not True}
    return tuple(tool for tool in exchange.tools if id(tool) in given)
