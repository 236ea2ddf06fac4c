"""How a knowledge base is searched, whoever keeps it: `proxy.models.knowledge` (a folder's file) and `proxy.store.knowledge` (PostgreSQL).

A text's candidates are the facts nearest to it by vectors and those that share most of its terms; each gets the mean of its cosine and of
the share of the text's terms that it has, weighted by inverse document frequency (Robertson and Spärck Jones 1976).
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from msgspec import Struct

from proxy.grounding.evidence.retrieval import FUNCTION_WORDS, terms
from proxy.grounding.knowledge.reading import FileProblem
from proxy.ports.facts import Fact, normalised

CANDIDATES = 32
"""Facts that either search brings up, at least; four for each fact that is asked for."""
COMMON_SHARE = 0.1
LARGE = 10_000
"""Facts from which on terms of more than a tenth of them are left out, unless a text has no others."""
MAX_TERMS = 64
"""Of one text: the rarest."""
BLOCK = 1024
"""Facts that are embedded at a time."""


class BuildReport(Struct, frozen=True):
    """What a build did."""

    version: str
    facts: int
    embedded: int
    """Texts that no earlier index had a vector of."""
    removed: int
    """Vectors, or facts, of the index before that are not needed any more."""
    kind: str
    problems: tuple[FileProblem, ...]


def base_name(folder: str | Path, start: str | Path) -> str:
    """What a folder's base is called on every node: its path from config.yaml's folder `start`."""
    path, root = (Path(start) / folder).resolve(), Path(start).resolve()
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()


def candidates(k: int) -> int:
    """How many facts each of the two searches brings up for `k` that are asked for."""
    return max(CANDIDATES, 4 * k)


def wanted_terms(text: str) -> list[str]:
    """The terms of a text that facts are looked up by, each once: its function words only where it has no others."""
    mentioned = set(terms(text))
    return sorted(mentioned - FUNCTION_WORDS or mentioned)


def sayings(fact: Fact) -> tuple[str, str]:
    """The texts that say a fact word by word."""
    return normalised(fact.statement), normalised(fact.text)


def name_of(text: str) -> int:
    """A hash of a normalised text, of 64 bits: among ten million two share one once in 370,000 times."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "little", signed=True)


def key_of(fact: Fact) -> bytes:
    """The name of a fact's text, by which a later build finds its vector."""
    return hashlib.blake2b(fact.text.encode("utf-8", "replace"), digest_size=16).digest()


def first_that_holds(facts: list[Fact], now: float) -> Fact | None:
    """Of facts that say the same, one that holds now before one that does not."""
    return next((fact for fact in facts if fact.holds_at(now)), facts[0] if facts else None)
