"""The part of a conversation that the provider holds, and a request only names: what is remembered of it.

A client of OpenAI's Responses may send a response's id (``previous_response_id``) or a conversation's instead of what was said before.
`proxy.store.conversations` keeps the turns that came by here; the dialect puts them before a request's own messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

RESPONSE, CONVERSATION, ITEM = "response:", "conversation:", "item:"
"""What a name begins with, by which a request goes on with something, or names a piece of it."""


class PastTurn(Struct, frozen=True):
    """What one request brought, and its answer."""

    name: str
    """As a later request names it."""
    messages: tuple[Mapping[str, Any], ...]
    """In chat form, as far as they may be used; the last is the answer as it left."""
    own: bool = False
    """Whether a stage gave the answer, so that the provider knows of neither."""
    results: tuple[Mapping[str, Any], ...] = ()
    """In chat form, of calls of the proxy's own tools that the client does not know of: the provider waits for them."""


class History(Struct, frozen=True):
    """What is remembered of what a request goes on with."""

    turns: tuple[PastTurn, ...] = ()
    """The oldest first."""
    whole: bool = False
    """Whether they begin where the conversation began; else there is more of it that was not seen."""

    @property
    def unsent(self) -> tuple[PastTurn, ...]:
        """The last turns, of which the provider does not know."""
        known = next((i for i in range(len(self.turns), 0, -1) if not self.turns[i - 1].own), 0)
        return self.turns[known:]

    @property
    def held(self) -> tuple[PastTurn, ...]:
        """The turns before them."""
        return self.turns[: len(self.turns) - len(self.unsent)]

    @property
    def results(self) -> tuple[Mapping[str, Any], ...]:
        """What the provider waits for."""
        return self.held[-1].results if self.held else ()
