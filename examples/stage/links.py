"""A check of one's own: every link in an answer must have stood somewhere in the request.

Models like to make addresses up. It counts what it finds, tells the client in a header and the operator in a panel of the dashboard. Name
this file in a policy that lies beside it, no fork and no package needed:

    stages:
      - links.py:Links: {act: block}
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta

from proxy.exchange import Exchange, Facts, Verdict, VerdictView
from proxy.language.text import text_of
from proxy.ports.panels import RecordedVerdict, StagePanel
from proxy.ports.stage import Action, Stage, StageHeader, StageOptions

LINK = re.compile(r"https?://[^\s<>()\[\]\"']{1,2000}")


def known_links(facts: Facts, verdicts: Sequence[VerdictView]) -> str | None:
    """The value of its header: under ``delivery: hold`` the answer has been judged when headers are written."""
    found = next((verdict.detail for verdict in verdicts if verdict.stage == "links" and "links" in verdict.detail), None)
    return None if found is None else f"{found['links'] - found['unknown']}/{found['links']}"


class LinksOptions(StageOptions, frozen=True, kw_only=True):
    """What a policy can tell it; a key that is not here is refused when the policy is loaded."""

    act: Annotated[Literal["warn", "block"], Meta(description="what is done about a link that nobody gave")] = "warn"


class LinksPanel(StagePanel):
    """Its panel of the dashboard: what it adds up of the records, by the day and the week."""

    name, title, meaning = "links", "Links", "links made up"
    unknown: int = 0
    links: int = 0

    def add(self, facts: Facts, verdicts: Sequence[RecordedVerdict]) -> None:
        """One exchange; the fields are called as in the verdict's detail."""
        for found in (verdict.noted(LinksPanel) for verdict in verdicts if verdict.stage == "links"):
            self.unknown, self.links = self.unknown + found.unknown, self.links + found.links


class Links(Stage[LinksOptions]):
    """Links in an answer that stood nowhere in the request."""

    name = "links"
    Options = LinksOptions
    reports = ("unknown_link",)
    headers = (StageHeader("links", "links of the answer that stood in the request/all of them", known_links),)
    panel = LinksPanel
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
            return Verdict(self.name, "pass" if found else "unchecked", detail={"links": len(found), "unknown": 0})
        self.ports.counters.count("links.unknown_count", unknown)
        message = f"{unknown} of the answer's links stood nowhere in the request"
        return Verdict(self.name, self.options.act, code="unknown_link", detail={"links": len(found), "unknown": unknown}, message=message)
