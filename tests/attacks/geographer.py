"""A policy that refuses what says Rome, and what it cannot read."""

from proxy.exchange import Exchange, Sentence, Verdict
from proxy.ports.stage import SentenceStage
from proxy.stages.registry import STAGES

TRUE, FALSE = "The tower stands in Paris.", "It stands in Rome."


class Geographer(SentenceStage):
    """Blocks what says Rome."""

    name = "geographer"

    async def on_sentence(self, exchange: Exchange, sentence: Sentence) -> Verdict | None:
        return Verdict(self.name, "block", code="wrong", message="a wrong place") if "Rome" in sentence.text else Verdict(self.name, "pass")


ALL = (*STAGES, Geographer)


def policy(delivery: str = "hold", on_error: str = "closed", unknown: str = "") -> str:
    more = f"unknown: {unknown}\n" if unknown else ""
    return f"name: p\ndelivery: {delivery}\nstages: [geographer: {{on_error: {on_error}}}]\n{more}"
