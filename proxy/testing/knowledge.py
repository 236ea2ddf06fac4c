"""A knowledge base in memory, for tests: implements `proxy.ports.KnowledgeBase` and `proxy.ports.KnowledgeBases`."""

from __future__ import annotations

import time
from collections.abc import Sequence

from proxy.grounding.evidence.retrieval import terms
from proxy.grounding.knowledge.reading import make_fact
from proxy.ports.facts import Fact, FactHit, normalised


class MemoryKnowledge:
    """Facts, or statements to make facts of. A fact's score for a text is the share of the text's terms that it has."""

    version = "memory@1"

    def __init__(self, *facts: Fact | str) -> None:
        self.facts = [make_fact("", fact, "facts.csv") if isinstance(fact, str) else fact for fact in facts]
        self.searched: list[str] = []
        """Every text that was looked for, in order."""
        self.failure: Exception | None = None
        """Raised instead of an answer, when set."""

    @property
    def size(self) -> int:
        """How many facts it has."""
        return len(self.facts)

    def get(self, folder: str) -> MemoryKnowledge:
        """Implements `proxy.ports.KnowledgeBases`: the same for every folder."""
        return self

    async def current(self) -> MemoryKnowledge:
        """Implements `proxy.ports.KnowledgeBase`."""
        if self.failure is not None:
            raise self.failure
        return self

    async def search(self, texts: Sequence[str], *, k: int = 5) -> list[list[FactHit]]:
        """Implements `proxy.ports.KnowledgeBase`."""
        if self.failure is not None:
            raise self.failure
        self.searched += texts
        return [self._search(text, k) for text in texts]

    def exact(self, text: str) -> Fact | None:
        """Implements `proxy.ports.KnowledgeBase`."""
        wanted, now = normalised(text), time.time()
        found = [fact for fact in self.facts if wanted in (normalised(fact.statement), normalised(fact.text))]
        return next((fact for fact in found if fact.holds_at(now)), found[0] if found else None)

    def _search(self, text: str, k: int) -> list[FactHit]:
        wanted = set(terms(text))
        hits = [FactHit(fact, len(wanted & set(terms(fact.text))) / max(1, len(wanted))) for fact in self.facts]
        return sorted((hit for hit in hits if hit.score > 0), key=lambda hit: -hit.score)[:k]
