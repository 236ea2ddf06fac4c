"""A check of one's own: every link in an answer must have stood somewhere in the request.

Models like to make addresses up. Name this file in a policy that lies beside it, no fork and no package needed:

    stages:
      - links.py:Links: {act: block}
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from msgspec import Meta

from proxy.exchange import Exchange, Verdict
from proxy.language.text import text_of
from proxy.ports.stage import Action, Stage, StageOptions

LINK = re.compile(r"https?://[^\s<>()\[\]\"']{1,2000}")


class LinksOptions(StageOptions, frozen=True, kw_only=True):
    """What a policy can tell it; a key that is not here is refused when the policy is loaded."""

    act: Annotated[Literal["warn", "block"], Meta(description="what is done about a link that nobody gave")] = "warn"


class Links(Stage[LinksOptions]):
    """Links in an answer that stood nowhere in the request."""

    name = "links"
    Options = LinksOptions
    reports = ("unknown_link",)
    counters = {"links.unknown_count": "links in answers that stood nowhere in the request"}

    @classmethod
    def blocks_answers(cls, options: LinksOptions) -> bool:
        """A policy that would let answers through as they come is then refused."""
        return options.act == "block"

    @classmethod
    def actions(cls, options: LinksOptions) -> tuple[Action, ...]:
        """What ``groundwire explain`` says it may do."""
        return (Action(options.act, "unknown_link", exact=True),)

    async def on_answer(self, exchange: Exchange) -> Verdict | None:
        """The whole answer, before any of it has left (``delivery: hold``)."""
        assert exchange.answer is not None
        given = "\n".join([*(text_of(m.get("content")) for m in exchange.original.messages), *(e.content for e in exchange.evidence)])
        found = {link.rstrip(".,;:!?") for choice in exchange.answer.choices for link in LINK.findall(choice.text)}
        unknown = sum(link not in given for link in found)
        if not unknown:
            return Verdict(self.name, "pass" if found else "unchecked", detail={"links": len(found)})
        self.ports.counters.count("links.unknown_count", unknown)
        message = f"{unknown} of the answer's links stood nowhere in the request"
        return Verdict(self.name, self.options.act, code="unknown_link", detail={"links": len(found), "unknown": unknown}, message=message)
