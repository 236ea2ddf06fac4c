"""Tokens of a prompt as it would be forwarded: with the tool that reads the archive, where it would be offered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from proxy.context.archive import READ_ARCHIVE, read_archive_tool
from proxy.context.compaction.parts import Part, messages_of
from proxy.context.memories import PREFERENCES, with_preferences
from proxy.exchange import ContextUse, Exchange, Message, Tool, tool_name
from proxy.exchange.output_requirements import OutputRequirements
from proxy.offloop import run_in_thread_if_large
from proxy.ports import Ports
from proxy.ports.stage import can_answer_tools

Tokens = Callable[[Sequence[Message]], Awaitable[int]]
"""Tokens of some messages, by the exchange's model."""


def token_counter(exchange: Exchange, ports: Ports) -> Tokens:
    """Counts messages as the exchange's model does."""
    model = ports.tokens.model(exchange.model)

    async def count(messages: Sequence[Message]) -> int:
        return (await ports.tokens.count_request(messages, (), OutputRequirements(), model)).used_tokens

    return count


async def prompt_use(exchange: Exchange, ports: Ports, parts: Sequence[Part]) -> ContextUse:
    """The use of the exchange's window, as the budget set it, if `parts` were sent."""
    tools = exchange.tools
    there = any(tool_name(tool) == READ_ARCHIVE for tool in tools)
    if not there and any(part.made for part in parts) and can_answer_tools(exchange, READ_ARCHIVE):
        tools = (*tools, read_archive_tool())
    model = ports.tokens.model(exchange.model)
    messages = messages_of(parts)
    use = await use_of(exchange, ports, messages, tools)
    before = exchange.facts.context_before
    return replace(use, window_tokens=before.window_tokens if before is not None else model.window_tokens)


async def use_of(exchange: Exchange, ports: Ports, messages: Sequence[Message], tools: Sequence[Tool]) -> ContextUse:
    """Tokens of a prompt by component; those of memories of the user apart, where these have an allocation."""
    model = ports.tokens.model(exchange.model)
    use = await ports.tokens.count_request(messages, tools, exchange.wants, model)
    if PREFERENCES not in (exchange.facts.allocations or {}):
        return use
    size = exchange.original.size
    return await run_in_thread_if_large(size, with_preferences, use, exchange, messages, lambda text: ports.tokens.count_text(text, model))
