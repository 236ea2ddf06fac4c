"""Options of the stage `tool_rag`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from proxy.ports.stage import Positive, Share, StageOptions


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
        Literal["all", "keep", "none"],
        Meta(
            description="when no tool is sure to be needed: all stay where their names do not tell those of servers from the client's own "
            "(a server's: server__tool); the top_k stay; or none but those that reach min_relevance and those that always stay"
        ),
    ] = "all"
    always: Annotated[tuple[str, ...], Meta(description="names of tools that always stay; * and ? stand for any characters")] = ()
    find_tools: Annotated[bool, Meta(description="offer groundwire_find_tools, by which the model can get at the tools left out")] = True
    max_find_results: Annotated[Positive, Meta(description="most tools that one search of the model's adds")] = 5
    max_tools: Annotated[Positive, Meta(description="tools to which a run's set grows before it is chosen afresh")] = 20
    learn: Annotated[bool, Meta(description="learn from the tools that the model calls, for this client alone")] = True

    def __post_init__(self) -> None:
        if self.max_tools < self.top_k:
            raise ValueError("expected max_tools >= top_k")
