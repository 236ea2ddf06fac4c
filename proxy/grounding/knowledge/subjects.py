"""Whether a fact speaks of the same subject as a claim, and of the same matter: what must be so before a difference is a contradiction.

A verifier that reads "The Eiffel Tower is 330 metres tall." tends to call "The Eiffel Tower is painted brown." contradicted, and so it does
"The capital of Italy is Rome." beside the capital of France. Neither is: the first is another matter, the second another subject. Pure;
words are compared by their folded first letters (`proxy.grounding.evidence.retrieval.terms`).
"""

from __future__ import annotations

from difflib import SequenceMatcher

from msgspec import Struct

from proxy.grounding.evidence.reading import FUNCTION_WORDS
from proxy.grounding.evidence.retrieval import terms
from proxy.grounding.knowledge.conflicts import Conflict, conflict_of, says_the_same
from proxy.grounding.knowledge.documents import JOINT
from proxy.grounding.knowledge.making import names_subject
from proxy.grounding.values.consistency import Difference, differences
from proxy.grounding.values.places import SPELLED_ALIKE
from proxy.language.detection import language as language_of
from proxy.language.names import missing_name, name_words, read_names
from proxy.ports.facts import FactHit

NEAR = 0.6
"""A hit of this score speaks of the same matter whatever its words: another language, another wording. Of the sample knowledge base's
development claims, hits of another matter score up to 0.59."""
FOUND, AHEAD = 0.22, 0.13
"""Score of a fact, and how much more that is than those of other subjects have, from which a claim that does not name its subject in the
fact's words may be about it: another language, or other words. Only what `proxy.grounding.knowledge.exchanging` shows counts then."""
SHARED = 1 / 3
"""Of the claim's terms beside the subject's, the share that a fact of the same matter has."""


class FactMatter(Struct, frozen=True):
    """How a fact bears on a claim."""

    same_subject: bool
    same_matter: bool
    """The same subject, and what is said of it: the verb or noun, another value in the same place, or nearly the whole sentence."""
    differences: tuple[Difference, ...]
    """Numbers, dates, units and names of the claim that the fact does not have."""
    lacks: bool = False
    """Whether there are any; a name may be another one in another language, and does not count there."""
    settles: bool = True
    """Of one that lacks a value of the claim's: whether the two share a word beside the subject and the values; in two languages, whether
    the search finds them near. That water freezes at 0 degrees does not make it false that it boils at 100 degrees."""
    conflict: Conflict | None = None
    """What the fact has in the place of the claim's words."""
    one_language: bool = True
    """Whether claim and fact are in one language."""
    likely_subject: bool = False
    """Whether the claim may be about the fact's subject, though it does not name it in the fact's words: it has its proper name, or the
    search finds no other subject as near."""


def matter_of(claim: str, hit: FactHit, language: str, ahead: float = 0.0) -> FactMatter:
    """How `hit` bears on `claim`; its score is `ahead` of those of other subjects' facts by so much."""
    text = hit.fact.text
    found = tuple(differences(claim, text, language))
    one_language = language_of(text, default=language) in (language, language_of(claim, default=language))
    lacks = any(one_language or difference.kind != "name" for difference in found)
    subject = _subject_terms(claim, hit, language)
    if subject is None:
        likely = _may_be_its_subject(claim, hit, ahead)
        return FactMatter(False, False, found, lacks, one_language=one_language, likely_subject=likely)
    said, there = set(terms(claim)) - FUNCTION_WORDS - subject, set(terms(text))
    shares = bool(said) and len(said & there) >= SHARED * len(said)
    near = hit.score >= NEAR
    conflict = conflict_of(claim, text, language, found, subject, one_language=one_language) if one_language or near else None
    other = [Conflict(one.kind, one.claim, one.evidence) for one in found if one.kind != "negation"]
    settles = not other or (says_the_same(said, there - subject, other) if one_language else near)
    return FactMatter(True, shares or near or conflict is not None, found, lacks, settles, conflict, one_language, likely_subject=True)


def _subject_terms(claim: str, hit: FactHit, language: str) -> set[str] | None:
    """The claim's terms that name the fact's subject; None where it is another subject.

    The subject is named in the claim: for a document, one of the headings. Or, where the fact has none, or says nearly the same: the
    claim's first name stands in the fact.
    """
    parts = [part for part in hit.fact.subject.split(JOINT) if names_subject(claim, part)]
    if parts:
        return {term for part in parts for term in terms(part)}
    names = read_names(claim, language, every_capital=True)
    if names and (not hit.fact.subject or hit.score >= NEAR) and not missing_name(names[0], name_words(hit.fact.text)):
        return set(terms(names[0].text))
    return None


def subject_names(hit: FactHit) -> set[str]:
    """The terms of a fact's subject that every language writes alike: its proper names."""
    text, subject = hit.fact.text, set(terms(hit.fact.subject))
    every = {term for name in read_names(text, language_of(text, default="en")) for term in terms(name.text)}
    return every & subject if subject else every


def _may_be_its_subject(claim: str, hit: FactHit, ahead: float) -> bool:
    names = subject_names(hit)
    if names:
        said = terms(claim)
        return 2 * sum(any(_alike(name, term) for term in said) for name in names) >= len(names)
    return hit.score >= FOUND and ahead >= AHEAD


def _alike(name: str, term: str) -> bool:
    """Whether two terms are one name, also in two languages: Francia and France."""
    return name == term or (min(len(name), len(term)) > 3 and SequenceMatcher(None, name, term).ratio() >= SPELLED_ALIKE)
