"""The two observed questions of TD-080 under the shipped policy `rag`, on the built-in models; its options are in relevance.feature."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from proxy.policy.loading import load_policy
from proxy.stages.relevance.stage import RelevanceOptions
from proxy.testing import completion, reply
from tests.conftest import Running, Start

pytestmark = pytest.mark.slow

GRAPH, RAG = "Was ist ein Knowledge Graph?", "Erkläre mir das Konzept von RAG"
TICKETS = (
    "OMNITRACKER verwaltet Anfragen an die IT. Jede Anfrage wird als Ticket angelegt, bekommt eine Priorität und landet in der Warteschlange "
    "eines Teams. Läuft eine Frist ab, verschickt eine Eskalationsregel Nachrichten an die Leitung der Abteilung. Ordner, Formulare und "
    "Berechtigungen richtet ein Administrator in der Konfigurationsoberfläche ein. Berichte fassen zusammen, wie lange die Bearbeitung je Team "
    "gedauert hat, und lassen sich jeden Montag als Tabelle verschicken. Für Wartungsfenster gibt es einen Kalender, in dem auch Urlaube stehen."
)
FITTING = (
    "RAG verbindet ein Sprachmodell mit einer Suche: Zu jeder Frage werden passende Texte gefunden und dem Modell mitgegeben. Das Konzept "
    "verringert Halluzinationen."
)
INVENTED = "Ein Knowledge Graph ist ein Netz aus Entitäten und ihren Beziehungen."
NO_ANSWER = "Diese Information ist nicht in der Wissensdatenbank enthalten."
RULES = "Du bist ein hilfreicher KI-Assistent. Antworte NUR aus den Dokumenten, und erfinde nichts.\n\n**Dokumente:**\n"


POLICY = Path(__file__).parents[2] / "policies" / "rag.yaml"


@pytest.fixture
def rag() -> str:
    return POLICY.read_text("utf-8")


async def ask(proxy: Running, question: str, *passages: str, system: str = "") -> Any:
    messages = [{"role": "system", "content": system}] if system else []
    body: dict[str, Any] = {"model": "gpt-4o", "messages": [*messages, {"role": "user", "content": question}]}
    if not system:
        body["groundwire"] = {"context": [{"content": passage} for passage in passages]}
    async with asyncio.timeout(60):
        while (await proxy.get("/ready")).status != 200:  # so that a busy machine does not change the result
            await asyncio.sleep(0.01)
    return await proxy.post(body)


def said(answer: Any) -> str:
    return str(answer.json["choices"][0]["message"]["content"])


@pytest.mark.parametrize("passages", [(TICKETS,), ()])
async def test_a_definition_out_of_training_is_not_given(start: Start, rag: str, passages: tuple[str, ...]) -> None:
    """Example 1: documents about something else, or none."""
    async with start(reply(completion(INVENTED)), policy=rag) as proxy:
        answer = await ask(proxy, GRAPH, *passages)
        assert [] == proxy.upstream.calls
    assert NO_ANSWER in said(answer)
    assert ("warn", "low_relevance") == (answer.verdict, answer.headers["x-groundwire-warnings"])
    assert float(answer.headers["x-groundwire-relevance"]) < 0.2


@pytest.mark.parametrize("policy", ["rag", "strict", "default"])
@pytest.mark.parametrize("passage", [TICKETS, "Die Frist läuft bis Freitag."])
async def test_every_shipped_policy_says_that_the_passage_is_about_something_else(start: Start, policy: str, passage: str) -> None:
    """`rag` and `strict` answer themselves, `default` warns; whatever the passage's length."""
    async with start(reply(completion(INVENTED)), policy=(POLICY.parent / f"{policy}.yaml").read_text("utf-8")) as proxy:
        answer = await ask(proxy, GRAPH, passage)
        called = len(proxy.upstream.calls)
    assert "low_relevance" in answer.headers["x-groundwire-warnings"]
    assert (called, NO_ANSWER in said(answer)) == ((1, False) if policy == "default" else (0, True))


async def test_documents_of_the_system_message_are_measured_too(start: Start, rag: str) -> None:
    """Example 1 with the document's own kind of prompt."""
    async with start(reply(completion(INVENTED)), policy=rag) as proxy:
        answer = await ask(proxy, GRAPH, system=RULES + TICKETS)
        assert [] == proxy.upstream.calls
    assert NO_ANSWER in said(answer)
    assert ("warn", "low_relevance") == (answer.verdict, answer.headers["x-groundwire-warnings"])


async def test_a_document_that_explains_it_is_used(start: Start, rag: str) -> None:
    """Example 2 where the knowledge base has it: nothing fitting is refused."""
    async with start(
        reply(completion("RAG verbindet ein Sprachmodell mit einer Suche [Passage 1]. Confidence: HIGH")), policy=rag
    ) as proxy:
        answer = await ask(proxy, RAG, FITTING)
        assert 1 == len(proxy.upstream.calls)
    assert "pass" == answer.verdict
    assert float(answer.headers["x-groundwire-relevance"]) >= 0.4


async def test_the_model_that_says_it_does_not_know_is_believed(start: Start, rag: str) -> None:
    """Example 2 as it was observed: an honest answer is nobody's hallucination."""
    async with start(reply(completion("I don't have enough information in the provided context.")), policy=rag) as proxy:
        answer = await ask(proxy, RAG, TICKETS)
    assert "claims_contradicted" not in answer.headers.get("x-groundwire-warnings", "")
    assert "x-groundwire-faithfulness" not in answer.headers


def test_the_thresholds_of_the_shipped_policy() -> None:
    """0.4 is the document's; an answer in the model's stead takes more than being below it. ``auto`` is by embedding where no judge is named."""
    (options,) = [spec.options for spec in load_policy(POLICY).stages if spec.stage.name == "relevance"]
    assert isinstance(options, RelevanceOptions)
    assert ("auto", 0.4, 0.06) == (options.mode, options.min, options.answer_below)
