"""Calls of the tools that a policy's stages offer to the model and answer themselves: which those are, and what the model is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from proxy.exchange import Evidence, Exchange, ToolCall, Verdict, tool_name
from proxy.ports.stage import Stage, ToolFailed, overrides

Hook = Callable[[Exchange], Awaitable[Verdict | None]]
"""Of a stage."""


class OwnCalls:
    """The stages of one policy that answer calls, and those that look at what such a call gave."""

    def __init__(self, stages: Sequence[Stage], run: Callable[[Stage, Hook, str, Exchange], Awaitable[Verdict | None]]) -> None:
        """`run` runs a hook of a stage's, in a phase."""
        self._run = run
        self._own = [stage for stage in stages if stage.answers or overrides(stage, "answered_tools")]
        self._results = [(stage, stage.on_tool_result) for stage in stages if overrides(stage, "on_tool_result")]

    def offered(self, exchange: Exchange) -> frozenset[str]:
        """Names of the tools now offered to the model whose calls the proxy answers itself."""
        if not self._own or exchange.tools is exchange.original.tools:
            return frozenset()
        known = {name for stage in self._own if not stage.is_left_out(exchange) for name in stage.answered_tools(exchange)}
        offered = {name for tool in exchange.tools if (name := tool_name(tool)) in known}
        return frozenset(offered - {tool_name(tool) for tool in exchange.original.tools} if offered else ())

    def _answering(self, name: str, exchange: Exchange) -> Stage:
        """Who answers calls of the own tool `name`: of several stages that offer it, the first that is not left out."""
        offering = [stage for stage in self._own if name in stage.answered_tools(exchange)]
        return next((stage for stage in offering if not stage.is_left_out(exchange)), offering[0])

    def max_rounds(self, exchange: Exchange) -> int:
        """How often the calls of an exchange's own tools are answered."""
        names = self.offered(exchange)
        return max(
            (stage.max_rounds for stage in self._own if names.intersection(stage.answered_tools(exchange))), default=Stage.max_rounds
        )

    def keeps_from(self, exchange: Exchange, call: ToolCall) -> bool:
        """Whether an own tool's call is worth running although its result cannot be told."""
        return self._answering(call.name, exchange).keeps_from_calls

    async def answer(self, exchange: Exchange, calls: Sequence[ToolCall]) -> list[str]:
        """What the model is told on calls of the stages' own tools, which run one after the other; those of servers wait together.
        Raises `ProxyError`.
        """
        stages = [self._answering(call.name, exchange) for call in calls]
        begun = {
            i: asyncio.create_task(self._call(stage, exchange, calls[i])) for i, stage in enumerate(stages) if stage.results_from_outside
        }
        try:
            return [
                await self._tell(stage, exchange, call, begun.get(i) or self._call(stage, exchange, call))
                for i, (stage, call) in enumerate(zip(stages, calls, strict=True))
            ]
        finally:
            for task in begun.values():
                task.cancel()
            await asyncio.gather(*begun.values(), return_exceptions=True)

    async def _tell(self, stage: Stage, exchange: Exchange, call: ToolCall, called: Awaitable[tuple[str, str]]) -> str:
        """What the model is told on one call, once it has been `called`."""
        result, problem = await called
        if stage.results_from_outside:
            result = await self._looked_at(exchange, call, result, failed=bool(problem))
        change = {"stage": stage.name, "what": "answered tool", "tool": call.name}
        sizes = {"arguments_characters": len(call.arguments), "result_characters": len(result)}
        exchange.changes.append({**change, **sizes, **({"error": problem} if problem else {})})
        stage.ports.counters.count("tools.answered_count")
        return result

    async def _looked_at(self, exchange: Exchange, call: ToolCall, result: str, *, failed: bool) -> str:
        """What is left of a result from outside when the stages that look at one have seen it. Raises `ProxyError`."""
        for stage, look in self._results:

            async def hook(e: Exchange, look: Callable[..., Awaitable[tuple[str, Verdict | None]]] = look) -> Verdict | None:
                nonlocal result
                result, verdict = await look(e, call, result, failed=failed)
                return verdict

            if not stage.is_left_out(exchange):
                await self._run(stage, hook, "tool_result", exchange)
        if not failed:
            exchange.evidence = (*exchange.evidence, Evidence(result, source=call.name, kind="tool_result"))
        return result

    async def _call(self, stage: Stage, exchange: Exchange, call: ToolCall) -> tuple[str, str]:
        """The result, or what stands for it and the code of the problem."""
        if call.parsed is None:
            exchange.verdicts.append(Verdict(stage.name, "warn", code="tool_arguments_invalid", detail={"tool": call.name}))
            return f"Error: the arguments of {call.name} were not a JSON object. Call it again with valid JSON.", "tool_arguments_invalid"
        result = problem = ""

        async def hook(e: Exchange) -> None:
            nonlocal result, problem
            try:
                result = await stage.on_tool_call(e, call)
            except ToolFailed as error:
                result, problem = error.text, error.code
            result = result.encode("utf-8", "replace").decode()  # JSON has no lone surrogates

        failure = await self._run(stage, hook, "tool", exchange)
        if failure is not None:
            return f"Error: {call.name} could not be run. Go on without it.", failure.code
        return result, problem
