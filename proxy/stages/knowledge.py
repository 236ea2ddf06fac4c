"""The stage `knowledge`: brings the policy's knowledge base into the exchange.

In: the request and a folder of facts (`proxy.grounding.knowledge.reading`). Out, in two ways. The facts that bear on the question and hold
now become evidence of kind ``knowledge``, which the stages that check answers read beside passages and tool results. And
`exchange.knowledge` is set: a question's facts are not those that its answer needs, so each claim, of the answer or of new content, finds
its own when it is judged (`proxy.grounding.knowledge.checking`). Nothing is put into the prompt. The record says which version of the
knowledge base it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta

from proxy.exchange import Evidence, Exchange, Verdict
from proxy.grounding.evidence.gathering import question_of
from proxy.grounding.knowledge.checking import KnowledgeChecker
from proxy.ports import Ports
from proxy.ports.facts import FactHit
from proxy.ports.stage import Positive, Share, Stage, StageOptions


class KnowledgeOptions(StageOptions, frozen=True, kw_only=True):
    """``knowledge:``"""

    folder: Annotated[
        str, Meta(min_length=1, description="folder of facts and documents (.csv, .jsonl, .md, .txt); a relative one starts at config.yaml")
    ] = "knowledge"
    top_k: Annotated[Positive, Meta(le=50, description="facts that are looked up for the question, and for each claim")] = 5
    min_score: Annotated[Share, Meta(description="facts that say less to the question than this are no evidence")] = 0.4
    min_support: Annotated[Share, Meta(description="probability from which a fact supports a claim")] = 0.5
    min_contradiction: Annotated[Share, Meta(description="probability from which a fact of the same matter contradicts a claim")] = 0.5


COUNTERS = {
    "knowledge.facts_count": "facts that joined the evidence",
}


class Knowledge(Stage[KnowledgeOptions]):
    """Looks up facts for the question, and lets answers and new content be checked against the knowledge base."""

    name = "knowledge"
    checks = False
    Options = KnowledgeOptions
    counters = COUNTERS
    assigns = ("knowledge",)
    embeds = True
    verifies = True

    def __init__(self, options: KnowledgeOptions, ports: Ports) -> None:
        super().__init__(options, ports)
        self._verifier = ports.verifiers.get(ports.judge.local_model)
        self._base = ports.knowledge.get(options.folder)

    @classmethod
    def folders(cls, options: KnowledgeOptions) -> Mapping[str, str]:
        """The folder of facts."""
        return {"folder": options.folder}

    async def on_request(self, exchange: Exchange) -> Verdict | None:
        """Let claims be checked."""
        exchange.knowledge = checker = self._checker(exchange)
        question = question_of(exchange)
        hits, version = await checker.search(question, self.options.top_k)
        chosen = [hit for hit in hits if hit.score >= self.options.min_score]
        exchange.evidence = (*exchange.evidence, *_evidence(chosen, exchange.evidence))
        self.ports.counters.count("knowledge.facts_count", len(chosen))
        listed = [{"id": hit.fact.id, "source": hit.fact.source, "score": round(hit.score, 4)} for hit in chosen]
        return Verdict(self.name, "unchecked", detail={"version": version, "facts": listed})

    def on_hook_failed(self, exchange: Exchange, hook: str) -> None:
        """Claims are checked all the same: each of them is then an error, too."""
        exchange.knowledge = self._checker(exchange)

    def _checker(self, exchange: Exchange) -> KnowledgeChecker:
        return KnowledgeChecker(
            self._base,
            self._verifier,
            top_k=self.options.top_k,
            min_support=self.options.min_support,
            min_contradiction=self.options.min_contradiction,
            judge=self.ports.judge.session(exchange, self.name),
            remember=True,
        )


def _evidence(hits: Sequence[FactHit], present: Sequence[Evidence]) -> list[Evidence]:
    """The facts that are not there yet."""
    there = {(one.kind, one.content) for one in present}
    return [
        Evidence(
            hit.fact.text, hit.fact.source, "knowledge", score=hit.score, timestamp=hit.fact.valid_from, fields={"fact_id": hit.fact.id}
        )
        for hit in hits
        if ("knowledge", hit.fact.text) not in there
    ]
