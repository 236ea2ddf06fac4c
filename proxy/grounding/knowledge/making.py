"""A row or a paragraph -> a `Fact`: its id, its text, and whether another text names its subject.

Subjects are compared by folded first letters of their words, as the grounding stages compare terms, so that inflected forms agree.
"""

from __future__ import annotations

from proxy.grounding.evidence.reading import FUNCTION_WORDS
from proxy.grounding.evidence.retrieval import terms
from proxy.ports.facts import Fact, fact_id


def make_fact(subject: str, statement: str, source: str, valid_from: float | None = None, valid_to: float | None = None) -> Fact:
    """A fact with its id and text; white space is made single."""
    subject, statement = " ".join(subject.split()), " ".join(statement.split())
    name = fact_id(subject, statement, valid_from, valid_to)
    return Fact(name, subject, statement, source, valid_from, valid_to, text_of_fact(subject, statement))


def text_of_fact(subject: str, statement: str) -> str:
    """The statement, after "SUBJECT: " where it does not have every word of the subject itself."""
    named = set(terms(subject)) - FUNCTION_WORDS
    return statement if not subject or named <= set(terms(statement)) else f"{subject}: {statement}"


def names_subject(text: str, subject: str) -> bool:
    """Whether `text` names all of `subject`: each of its words but the function words, by its first letters."""
    wanted = set(terms(subject)) - FUNCTION_WORDS
    return bool(wanted) and wanted <= set(terms(text))
