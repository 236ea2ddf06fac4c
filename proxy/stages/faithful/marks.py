"""The marks that the proxy's rules ask a model for, taken out of an answer before it leaves: citations, and the rating at its end.

In: an answer's text, whole or sentence by sentence, as its stream cuts it. Out: the same without ``[Passage 1]``, ``[Source: …]`` and
``Confidence: HIGH``. Code stays as it is. And whether a client asks for such marks itself, in whose answers they stay. Pure.
"""
# ruff: noqa: E501 - a pattern is read alternative by alternative

from __future__ import annotations

import re
from collections.abc import Sequence

from proxy.context.faithful import extract_citations
from proxy.grounding.citations.citing import without_marks
from proxy.grounding.citations.written_forms import Citation
from proxy.grounding.claims.checkable import is_rating
from proxy.language.patterns import LazyPattern
from proxy.language.text import occurs, split_sentences

_OPEN = re.compile(r"[ \t]{0,4}[\[【](?:(?!\]|】)[^\n]){0,600}$")
"""A mark that is still open after 600 characters is none."""
_FENCE = re.compile(r"^[> \t]{0,12}(?:```|~~~)")
_NAMING = (
    r"(?:state|name|indicate|mention|give|say|note|add|include|specify|with) (?:me )?(?:the|a|its|each|every|which|where)|which|what"
    r"|(?:nenne|gib|schreib\w*|ergänze|mit) (?:mir )?(?:die|das|den|jeweils|auch)|welche[rsnm]?|(?:indica|menciona|di|añade|nombra|con) (?:el|la|los|las|qué|en qué)|qué|cuál"
    r"|(?:indique[rz]?|mentionne[rz]?|donne[rz]?|précise[rz]?|ajoute[rz]?|nomme[rz]?|avec) (?:le|la|les|l['’]|quel\w*)|quel(?:le)?s?"
    r"|(?:indica(?:re)?|cita|menziona|specifica|aggiungi|con) (?:il|la|lo|i|le|gli|l['’]|quale)|quale|(?:indi(?:ca|que)|menciona|mencione|diga|diz|cite|acrescent[ae]|com) (?:o|a|os|as|qual|em que)|qual|que"
)
_PLACES = (
    r"document|section|paragraph|page|clause|article|procedure|chapter|passage|manual|regulation|file|dokument|abschnitt|absatz|seite|paragraf|artikel|klausel|kapitel|anweisung|datei"
    r"|documento|sección|apartado|párrafo|página|cláusula|artículo|procedimiento|capítulo|archivo|rubrique|paragraphe|alinéa|procédure|chapitre|fichier"
    r"|sezione|paragrafo|pagina|clausola|articolo|procedura|capitolo|seção|secção|parágrafo|cláusula|artigo|procedimento|ficheiro|arquivo"
)
"""Where something stands: a client that asks for the place asks for a citation in other words."""
_ASKS_CITATIONS = LazyPattern(
    r"\b(?:cit(?:e|es|ed|ing|ations?)|reference\w*|footnotes?|sources?|quote|passage numbers?|zitier\w*|beleg\w*|quellen?(?:angaben?)?|fußnoten?"
    r"|cita(?:s|r|ndo)?|fuentes?|referencias?|notas? al pie|citer|cite[sz]?|citations?|références?|notes? de bas"
    r"|fonti?|cita(?:re|ndo|zion[ei])|riferiment[oi]|note a piè|fontes?|cit(?:e|ar|ando|aç(?:ão|ões))|referências?|notas? de rodapé)\b"
    rf"|\b(?:{_NAMING})\b[^.!?\n]{{0,40}}?\b(?:{_PLACES})\b"
    r"|\[(?:passage|document|doc|source|quelle|pasaje|fuente)? ?\d{1,3}\]|^#{1,4} ?(?:passage|document|source) ?\d|\b(?:document|passage|source) \d{1,3} ?[:.)]"
    r"|<(?:document|passage|doc|source)\b[^>\n]{0,40}\b(?:index|id|n)=",
    re.I | re.M,
)
_ASKS_RATING = LazyPattern(
    r"\b(?:confidence|confident|certainty|how (?:sure|certain)|rate (?:your|the|how)|vertrauen\w*|konfidenz|sicherheit|wie sicher|confianza|certeza|qué tan segur[oa]"
    r"|confiance|certitude|degré de)\b",
    re.I,
)


def asks_for_citations(texts: Sequence[str]) -> bool:
    """Whether a client's own words ask for citations, or number its passages."""
    return any(occurs(_ASKS_CITATIONS, text) for text in texts)


def asks_for_rating(texts: Sequence[str]) -> bool:
    """Whether a client's own words ask how sure the answer is."""
    return any(occurs(_ASKS_RATING, text) for text in texts)


class MarkRemover:
    """One choice's sentences, in order, without the marks."""

    def __init__(self, *, citations: bool, rating: bool) -> None:
        """What is to be taken out."""
        self._citations, self._rating = citations, rating
        self._code = False
        self._open = ""
        """The beginning of a mark that the sentence before ended with."""

    def read(self, sentence: str, *, final: bool) -> str:
        """What of `sentence` leaves, and of what was kept back before it."""
        text, self._open = self._open + sentence, ""
        fences = sum(_FENCE.match(line) is not None for line in sentence.split("\n"))
        if self._code or fences:
            self._code ^= fences % 2 == 1
            return text
        if self._rating and is_rating(text.strip()):
            return text[len(text.rstrip()) :] if "\n" in text and not final else ""
        if not self._citations:
            return text
        kept = self._without_citations(text)
        still = None if final else _OPEN.search(kept.rstrip("\n"))
        if still is not None and kept.rstrip("\n").endswith(still[0]):
            self._open = kept[still.start() :]
            kept = kept[: still.start()]
        return kept

    @staticmethod
    def _without_citations(text: str) -> str:
        marks = [Citation(c["span"][0], c["span"][1], c["type"]) for c in extract_citations(text)]
        if not marks:
            return text
        body = text.rstrip()
        tail = text[len(body) :]
        left = without_marks(body, 0, marks, [])
        if not any(c.isalnum() for c in left):
            return tail if "\n" in tail else ""
        return left + tail


def without_own_marks(text: str, *, citations: bool, rating: bool) -> str:
    """A whole answer without the marks; itself, where nothing else is in it."""
    remover = MarkRemover(citations=citations, rating=rating)
    sentences = split_sentences(text)
    left = "".join(remover.read(sentence, final=i == len(sentences) - 1) for i, sentence in enumerate(sentences))
    return left.rstrip() + text[len(text.rstrip()) :] if left.strip() else text
