"""An exchange's conversation and its compaction: the stored one is applied, a new one is stored, what is left is put into the exchange.

A compaction belongs to a client, a policy, a model and the set of stages that the client left out: another policy or a model with
another window has its own. The stages of one policy share theirs, so that each goes on from what the others have made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from msgspec import Struct

from proxy.context.compaction.parts import Part, apply_compaction, messages_of, parts_of, pieces_of
from proxy.context.conversation import blocks_of, called_names, evidence_of, prefix_hashes
from proxy.errors import StoreUnavailable
from proxy.exchange import Evidence, Exchange
from proxy.offloop import each, run_in_thread_if_large
from proxy.ports import Compaction, Ports

SHARING_STAGES = frozenset(("history", "compression", "all"))
"""Stages that make compactions, as a client names them when it leaves them out."""
UNAVAILABLE = "store-unavailable"


class CompactedPrompt(Struct, frozen=True):
    """A conversation as it will be forwarded."""

    parts: Sequence[Part]
    length: int = 0
    """How many of the client's messages the stored compaction covers; 0 without one."""
    problem: str = ""
    """``store-unavailable`` where the store could not be asked."""


async def recall(exchange: Exchange, ports: Ports) -> CompactedPrompt:
    """The exchange's messages with the longest stored compaction of their beginning in its place."""
    parts = await run_in_thread_if_large(exchange.original.size, parts_of, exchange.messages, exchange.conversation)
    hashes = await run_in_thread_if_large(exchange.original.size, _hashes, exchange)
    lengths = {digest: end for end, digest in hashes.items()}
    try:
        found = await ports.compactions.find(list(lengths), client=exchange.client)
    except StoreUnavailable:
        return CompactedPrompt(parts, problem=UNAVAILABLE)
    if found is None or lengths.get(found.covers) != found.length:
        return CompactedPrompt(parts)
    with_it = apply_compaction(found, parts, exchange.conversation)
    return CompactedPrompt(parts) if with_it is None else CompactedPrompt(with_it, found.length)


async def store(exchange: Exchange, ports: Ports, parts: Sequence[Part], known: CompactedPrompt) -> CompactedPrompt:
    """`parts`, made of `known`, as the store keeps them: another worker's, if that was first; as they are where the store is away.

    Stored are the client's first messages up to the last that was replaced, and more than `known` covers, where there are more: what covers
    no more than an earlier one would not take its place.
    """
    original = exchange.conversation
    covered = max((part.end for part in parts if part.made), default=0)
    ends = [block.end for block in blocks_of(original) if block.end >= covered]
    length = next((end for end in ends if end > known.length), ends[-1] if ends else 0)
    if not covered or any(part.start < length < part.end for part in parts):
        return CompactedPrompt(parts)
    hashes = await run_in_thread_if_large(exchange.original.size, _hashes, exchange)
    compaction = Compaction(hashes[length], length, pieces_of(parts, length))
    try:
        stored = await ports.compactions.put(compaction, client=exchange.client, run_id=exchange.run_id)
    except StoreUnavailable:
        return CompactedPrompt(parts, problem=UNAVAILABLE)
    if stored.covers != compaction.covers:
        return CompactedPrompt(parts)
    as_stored = apply_compaction(stored, parts_of(exchange.messages, original), original)
    return CompactedPrompt(parts if as_stored is None else as_stored, stored.length)


async def send(exchange: Exchange, parts: Sequence[Part]) -> None:
    """Forward `parts`; what they leave out stays in the exchange's evidence."""
    messages = messages_of(parts)
    if len(messages) != len(exchange.messages) or any(a is not b for a, b in zip(messages, exchange.messages, strict=True)):
        exchange.messages = messages
    if left_out := await run_in_thread_if_large(exchange.original.size, _left_out, exchange, parts):
        exchange.evidence = (*exchange.evidence, *left_out)


def _left_out(exchange: Exchange, parts: Sequence[Part]) -> list[Evidence]:
    """The client's messages that are not forwarded and are no evidence yet."""
    original = exchange.conversation
    there = {part.start for part in parts if not part.made}
    known = {(e.message_index, e.kind) for e in exchange.evidence}
    names = called_names(original)
    left = ((i, evidence_of(message, i, names)) for i, message in enumerate(each(original)) if i not in there)
    return [one for i, one in left if one and (i, one.kind) not in known]


def _hashes(exchange: Exchange) -> dict[int, str]:
    """For each block border a hash of what is before it, for this client's policy and model."""
    messages = exchange.conversation
    scope = "\0".join((exchange.policy, exchange.model, *sorted(exchange.skip & SHARING_STAGES)))
    found = prefix_hashes(messages, [block.end for block in blocks_of(messages)], turns_only=True)
    return {end: _hash(f"{scope}\0{digest}") for end, digest in found.items()}


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
