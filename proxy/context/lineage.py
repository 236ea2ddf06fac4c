"""Which run a conversation belongs to, where its client does not say: told by its beginnings, so that two that fork are two runs.

Every request brings its whole conversation. It goes on with the run that knows its longest beginning, unless that run has gone on
otherwise: then what it learned there is none of this conversation's. `proxy.store.lineages` keeps who went on how.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol

import orjson
from msgspec import Struct

from proxy.exchange import Message

MAX_BEGINNINGS = 64
"""Of one conversation, the longest: one more turn than the run knows is what is expected."""


class Beginnings(Struct, frozen=True):
    """A conversation's beginnings, as hashes: what stood before each time that the assistant spoke, and all of it."""

    hashes: tuple[str, ...]
    """The longest first: all of it."""
    opening: str
    """The run of a conversation that nobody has heard of: named by how it opens."""
    whole: bool = True
    """Whether the last of the hashes is the opening's: no beginning was left out."""

    @property
    def is_opening(self) -> bool:
        """Whether the assistant has not spoken yet."""
        return len(self.hashes) == 1


class Lineages(Protocol):
    """Implemented in `proxy.store.lineages`."""

    async def run_of(self, beginnings: Beginnings, *, client: str, route: str) -> str:
        """The run of a conversation; from now on its present end belongs to it. Raises `StoreUnavailable`."""


def beginnings_of(client: str, route: str, messages: Sequence[Message]) -> Beginnings:
    """Linear in the messages' size."""
    digest = hashlib.blake2b(f"{client}\0{route}\0".encode("utf-8", "surrogateescape"), digest_size=12)
    opening, found = "", list[str]()
    for i, message in enumerate(messages):
        spoken = message.get("role") == "assistant"
        if spoken and i and messages[i - 1].get("role") != "assistant":
            found.append(digest.hexdigest())
        digest.update(orjson.dumps([message.get(name) for name in ("role", "content", "tool_calls", "tool_call_id", "function_call")]))
        if not opening and message.get("role") == "user":
            opening = opening_of(client, route, messages[: i + 1])
    found.append(digest.hexdigest())
    kept = tuple(reversed(found[-MAX_BEGINNINGS:]))
    return Beginnings(kept, opening or opening_of(client, route, messages), whole=len(kept) == len(found))


def opening_of(client: str, route: str, messages: Sequence[Message]) -> str:
    """The same for every conversation that opens so: from client, route, system messages and the first user message."""
    digest = hashlib.blake2b(f"{client}\0{route}\0".encode("utf-8", "surrogateescape"), digest_size=12)
    for message in messages:
        role = message.get("role")
        digest.update(orjson.dumps([role, message.get("content")]))
        if role == "user":
            break
    return "run_" + digest.hexdigest()


def branch_of(run: str, beginning: str) -> str:
    """The name of the run that leaves `run` with `beginning`; the same in every worker."""
    return "run_" + hashlib.blake2b(f"{run}\0{beginning}".encode(), digest_size=12).hexdigest()
