"""Tokens of a prompt as it would be forwarded: with the tool that reads the archive, where it would be offered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from proxy.context.archive import READ_ARCHIVE, read_archive_tool
from proxy.context.compaction.parts import Part, messages_of
from proxy.exchange import ContextUse, Exchange, Message, tool_name
from proxy.exchange.wishes import Wishes
from proxy.ports import Ports
from proxy.ports.stage import can_answer_tools

Tokens = Callable[[Sequence[Message]], Awaitable[int]]
"""Tokens of some messages, by the exchange's model."""


def token_counter(exchange: Exchange, ports: Ports) -> Tokens:
    """Counts messages as the exchange's model does."""
    model = ports.tokens.model(exchange.model)

    async def count(messages: Sequence[Message]) -> int:
        return (await ports.tokens.count_request(messages, (), Wishes(), model)).used_tokens

    return count


async def prompt_use(exchange: Exchange, ports: Ports, parts: Sequence[Part]) -> ContextUse:
    """The use of the exchange's window, as the budget set it, if `parts` were sent."""
    tools = exchange.tools
    there = any(tool_name(tool) == READ_ARCHIVE for tool in tools)
    if not there and any(part.made for part in parts) and can_answer_tools(exchange, READ_ARCHIVE):
        tools = (*tools, read_archive_tool())
    model = ports.tokens.model(exchange.model)
    use = await ports.tokens.count_request(messages_of(parts), tools, exchange.wants, model)
    before = exchange.facts.context_before
    return replace(use, window_tokens=before.window_tokens if before is not None else model.window_tokens)
