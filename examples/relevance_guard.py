"""A question that the retrieved documents cannot answer is caught before the model invents an answer; one that they can answer passes.

Run it with ``python examples/relevance_guard.py``. The policy is the shipped one, policies/rag.yaml.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from scripted import POLICIES, Proxy, proxy

OMNITRACKER = (
    "OMNITRACKER verwaltet Anfragen an die IT. Jede Anfrage wird als Ticket angelegt, bekommt eine Priorität und landet in der "
    "Warteschlange eines Teams. Läuft eine Frist ab, verschickt eine Eskalationsregel Nachrichten an die Leitung der Abteilung. Ordner, "
    "Formulare und Berechtigungen richtet ein Administrator in der Konfigurationsoberfläche ein. Berichte fassen zusammen, wie lange die "
    "Bearbeitung je Team gedauert hat, und lassen sich jeden Montag als Tabelle verschicken. Für Wartungsfenster gibt es einen Kalender, "
    "in dem auch Urlaube stehen."
)
RAG = (
    "RAG verbindet ein Sprachmodell mit einer Suche: Zu jeder Frage werden passende Texte gefunden und dem Modell mitgegeben. Das Konzept "
    "verringert Halluzinationen, weil das Modell aus den Texten antwortet und nicht aus dem, was es im Training gelernt hat. Die Texte "
    "werden vorher in Abschnitte zerlegt und als Vektoren abgelegt, damit die Suche auch das findet, was in anderen Worten dasteht."
)
INVENTED = "Ein Knowledge Graph ist ein Netz aus Entitäten und ihren Beziehungen."


async def ask(groundwire: Proxy, what: str, question: str, passages: Sequence[str]) -> None:
    """One question with its passages, and whether the model was asked."""
    before = len(groundwire.calls)
    context = [{"content": passage} for passage in passages]
    answer = await groundwire.ask([{"role": "user", "content": question}], extra_body={"groundwire": {"context": context}})
    asked = "the model was asked" if len(groundwire.calls) > before else "the model was not asked"
    print(f"\n{what}\n  {question} -> {asked}; {answer.told('relevance', 'verdict', 'warnings')}\n  {answer.text}")


async def main() -> None:
    """Three retrievals: beside the point, to the point, and empty."""
    async with proxy(POLICIES / "rag.yaml") as groundwire:
        groundwire.will_say(INVENTED)
        await ask(groundwire, "documents about something else", "Was ist ein Knowledge Graph?", [OMNITRACKER])
        await ask(groundwire, "nothing was found", "Was ist ein Knowledge Graph?", [])
        groundwire.will_say("RAG verbindet ein Sprachmodell mit einer Suche [Passage 1]. Confidence: HIGH")
        await ask(groundwire, "a document that fits", "Erkläre mir das Konzept von RAG", [RAG])


if __name__ == "__main__":
    asyncio.run(main())
