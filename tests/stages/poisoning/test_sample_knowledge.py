"""The sample knowledge base with the built-in models: what is false of the Eiffel Tower is blocked, what is only said otherwise is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.context_quality import FactChecker
from proxy.grounding.knowledge.checking import KnowledgeChecker
from proxy.models import making as builtin
from proxy.models.knowledge.bases import FolderKnowledgeBases
from proxy.ports import Verifier
from proxy.stages.poisoning import Poisoning, PoisoningOptions
from proxy.testing import make_exchange, make_ports
from tests.stages.poisoning.contexts import items

pytestmark = pytest.mark.slow

FACTS = Path(__file__).parents[3] / "examples" / "knowledge"


class BuiltIn:
    """A `proxy.ports.Verifiers` of the built-in one."""

    def get(self, name: str = "") -> Verifier:
        return builtin.verifier()


@pytest.fixture(scope="module")
def checker() -> FactChecker:
    return FactChecker(FACTS)


def test_the_tower_in_london_is_invalid_and_corrected(checker: FactChecker) -> None:
    found = checker.verify("The Eiffel Tower is located in London.")
    assert ("INVALID", "name", "Paris") == (found.status, found.detail["conflict"], found.detail["instead"])
    assert found.confidence > 0.9
    assert "Paris" in found.correct_fact


@pytest.mark.parametrize(
    "claim",
    [
        "The Eiffel Tower is a wrought-iron tower in Paris, France.",
        "The Eiffel Tower weighs about 10,100 tonnes.",
        "Der Eiffelturm wurde für die Weltausstellung 1889 errichtet.",
        "La torre Eiffel se inauguró el 31 de marzo de 1889.",
        "La tour Eiffel, à Paris, accueille des millions de visiteurs chaque année.",
    ],
)
def test_what_is_only_said_otherwise_is_not_doubted(checker: FactChecker, claim: str) -> None:
    assert checker.verify(claim).status in ("VALID", "UNKNOWN")


@pytest.mark.parametrize(
    ("claim", "status", "differs"),
    [
        ("Claude 3 was released in March 2024.", "VALID", ""),
        ("Claude 3 was released in May 2023.", "INVALID", "date"),
        ("Paris population is 500 million.", "INVALID", "number"),
        ("The next solar eclipse will be on 3 March 2031.", "UNKNOWN", ""),
    ],
)
def test_a_fact_of_ones_own_in_few_words_settles_what_is_said_in_others(tmp_path: Path, claim: str, status: str, differs: str) -> None:
    rows = "subject,statement\nClaude 3,Claude 3 release date: March 2024\nParis,Paris has a population of about 2.1 million.\n"
    (tmp_path / "facts.csv").write_text(rows, "utf-8")
    found = FactChecker(tmp_path).verify(claim)
    assert (status, differs) == (found.status, found.detail.get("conflict", ""))


def test_the_stage_keeps_the_tower_in_london_out_and_the_one_in_paris_in() -> None:
    async def left() -> tuple[list[str], list[tuple[str, str]]]:
        bases = FolderKnowledgeBases(FACTS.parent, builtin.embedder())
        ports = make_ports(embedder=builtin.embedder(), verifiers=BuiltIn(), knowledge=bases)
        stage = Poisoning(PoisoningOptions(on_invalid="block", on_suspicious="quarantine", timeout_ms=60_000), ports)
        said = ("The Eiffel Tower is located in London.", "The Eiffel Tower is a wrought-iron tower in Paris, France.")
        exchange = make_exchange([{"role": "assistant", "content": " ".join(said)}, {"role": "user", "content": "And at night?"}])
        exchange.knowledge = KnowledgeChecker(bases.get("knowledge"), builtin.verifier())
        await stage.on_request(exchange)
        return [str(message["content"]) for message in exchange.messages], [(item.status, item.type) for item in items(stage)]

    texts, held = builtin.wait_for(left())
    assert "The Eiffel Tower is a wrought-iron tower in Paris, France." == texts[0]
    assert [("rejected", "wrong_location")] == held
