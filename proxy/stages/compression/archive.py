"""Strategy ``archive``: a tool's result that the model has read goes to the scratchpad, and a reference stays in its place.

The message stays, with its call's id: only its content is replaced. A result that a reference would not shorten stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from proxy.context.archive import reference
from proxy.context.compaction.measure import Tokens
from proxy.context.compaction.parts import RESULT_ROLES, Part, messages_of
from proxy.context.compaction.transcript import called_names, content_bytes, result_name
from proxy.context.conversation import blocks_of
from proxy.exchange import Exchange
from proxy.ports import Ports

REFERENCE_TOKENS = 30
"""What a message that refers to an archived result takes at least (o200k): no shorter one is archived."""


class ArchivedResults(Struct, frozen=True):
    """A prompt with references in place of results."""

    parts: Sequence[Part]
    results: int
    """How many were archived."""


def processed_results(parts: Sequence[Part]) -> list[int]:
    """Positions of the client's own tool results that an assistant message follows."""
    found: list[int] = []
    answered = False
    for block in reversed(blocks_of(messages_of(parts))):
        if block.kind == "tools" and answered:
            inside = range(block.start + 1, block.end)
            found += [i for i in reversed(inside) if not parts[i].made and parts[i].message.get("role") in RESULT_ROLES]
        answered = answered or block.kind in ("assistant", "tools")
    return found[::-1]


async def archived_results(
    exchange: Exchange, ports: Ports, parts: Sequence[Part], tokens: Tokens, most_tokens: int | None = None
) -> ArchivedResults:
    """Archive processed results, oldest first, until `most_tokens` are freed; every one where it is None. Raises `StoreUnavailable`."""
    names = called_names(exchange.conversation)
    found, results, freed = list(parts), 0, 0
    for i in processed_results(parts):
        if most_tokens is not None and freed >= most_tokens:
            break
        message = parts[i].message
        before = await tokens([message])
        if before <= REFERENCE_TOKENS:
            continue
        content = content_bytes(message)
        media_type = "text/plain" if isinstance(message.get("content"), str) else "application/json"
        item_id = await ports.scratchpad.put(content, client=exchange.client, run_id=exchange.run_id, media_type=media_type)
        shorter = {**message, "content": reference(item_id, result_name(message, names) or "tool result", len(content))}
        if (after := await tokens([shorter])) < before:
            freed += before - after
            found[i] = replace(parts[i], message=shorter, made=True)
            results += 1
    return ArchivedResults(found if results else parts, results)
