"""The wordings of context-faithful prompting in English, German, Spanish and French, and the phrases that answers use for its parts."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from proxy.language.detection import language
from proxy.language.patterns import wordings


class Texts(Struct, frozen=True):
    """All wordings of one language."""

    rules: str
    """For the end of a system message."""
    cited: str
    """The rule that follows them: how to cite."""
    rated: str
    """The rule behind that: a rating at the end."""
    fixed_format: str
    """What follows instead where the answer's format is fixed: it asks for neither."""
    user_prefix: str
    """For the start of a user message, before its passages."""
    prefix_cited: str
    """What follows it where citations are asked for."""
    rag_template: str
    """A whole user message; ``{context_block}`` and ``{question}`` are to be filled in."""
    template_cited: str
    """A line behind it where citations are asked for."""
    template_rated: str
    """Another where a rating is."""
    question_label: str
    """Before the question, where it stands behind the passages without the template."""
    source_label: str
    """The title of a block of passages."""
    nothing_found: str
    """What a block says that has no passages."""
    no_answer: str
    """What the proxy says in a model's stead where the context has no answer."""

    def suffix(self, *, cite: bool, rate: bool) -> str:
        """For the end of a system message: the rules, and what else an answer is asked for, numbered on."""
        rated = self.rated if cite else self.rated.replace("6.", "5.", 1)
        return self.rules + (self.cited if cite else "") + (rated if rate else "")

    def prefix(self, *, cite: bool) -> str:
        """For the start of a user message, with the empty line behind it."""
        return f"{self.user_prefix} {self.prefix_cited}\n\n" if cite else f"{self.user_prefix}\n\n"

    def template(self, *, cite: bool, rate: bool) -> str:
        """A whole user message: the passages, then the question, then the instructions."""
        return "\n".join([self.rag_template, *[self.template_cited] * cite, *[self.template_rated] * rate])

    @property
    def system_suffix(self) -> str:
        """The whole of it: citations and a rating, too."""
        return self.suffix(cite=True, rate=True)

    @property
    def system_suffix_plain(self) -> str:
        """The same where the answer's format is fixed."""
        return self.rules + self.fixed_format

    @property
    def system_suffixes(self) -> tuple[str, ...]:
        """Every one of them."""
        return (self.system_suffix_plain, *(self.suffix(cite=cite, rate=rate) for cite in (True, False) for rate in (True, False)))

    @property
    def user_texts(self) -> tuple[str, ...]:
        """What stands around the passages and the question in a user message, for who must tell it from the user's words."""
        said = [self.prefix(cite=cite).strip() for cite in (True, False)]
        for template in (self.template(cite=cite, rate=rate) for cite in (True, False) for rate in (True, False)):
            before, _, after = template.partition("{question}")
            said += [before.removeprefix("{context_block}").strip(), after.strip()]
        return tuple(dict.fromkeys(said))


TEXTS = wordings(__file__, Texts)
GUIDANCE = (TEXTS["en"].rules + TEXTS["en"].cited).strip()
"""For the system prompt of an agent that has tools which search or read: the rules, without a rating at the end."""

RATINGS = {
    "HIGH": ("high", "hoch", "alta", "alto", "élevée", "élevé", "haute"),
    "MEDIUM": ("medium", "moderate", "mittel", "media", "medio", "moyenne", "moyen"),
    "LOW": ("low", "niedrig", "gering", "baja", "bajo", "faible", "basse"),
}
"""Ratings in English, German, Spanish and French."""

_EN_PLACE = r"(?:context|passages?|documents?|sources?|knowledge base|(?:provided|given|available|retrieved) (?:information|text|material))"
_DE_PLACE = (
    r"(?:kontext|passagen?|dokument(?:en|e)?|unterlagen|quellen?|wissens(?:datenbank|basis)"
    r"|(?:vorliegenden|verfügbaren|gegebenen) (?:informationen|texten?))"
)
_DE_IN = r"(?:im|in (?:dem|den|der|diesem|diesen)|aus (?:dem|den|der)|vom|von (?:dem|den|der)|durch (?:den|die|das))"
_DE_NOT = r"(?:nicht|keine?[nrs]?|nichts)"
_ES_PLACE = r"(?:contexto|pasajes?|documentos?|fuentes?|base de (?:conocimientos?|datos)|información (?:proporcionada|disponible))"
_FR_PLACE = r"(?:contexte|passages?|documents?|sources?|base de connaissances|informations (?:fournies|disponibles))"
_GAP = r"[^.!?\n]{0,60}?"

_DE_SAYS = r"(?:enth[aä]lt\w*|enthalten|erwähn\w+|nenn\w+|sag\w+|geht|gibt|geben|liefer\w+|biete\w*|steht|stehen|stand|beantwort\w+|hervor)"
_FR_SAYS = (
    r"(?:mentionn\w+|conti[eé]n\w+|di[st]\w*|indiqu\w+|précis\w+|fourni\w*|donn\w+|répond\w*|perme\w+|parl\w+|évoqu\w+|comport\w+|figur\w+)"
)
"""A place that says nothing; "Die Quelle des Flusses liegt nicht in Bayern" is a statement."""

ADMISSIONS = (
    # English
    r"\b(?:i|we) (?:do not|don't|cannot|can't|could not|couldn't) (?:know|say|tell|find|determine|answer|see)\b",
    r"\b(?:i am|i'm|i was|we are) (?:unable to|not able to|not sure)\b",
    rf"(?:\b(?:not|nor|never)|n't)\b{_GAP}\b(?:in|by|from|within|part of)\b{_GAP}\b{_EN_PLACE}\b",
    r"(?:\bnot|n't)\b[^.!?\n]{0,30}\b(?:enough|sufficient|any|adequate)\b[^.!?\n]{0,30}\b(?:information|context|evidence|mention|details?|data)\b",
    rf"\b{_EN_PLACE}\b{_GAP}\b(?:do not|don't|does not|doesn't|did not|lacks?|says? nothing|(?:contains?|has|have|provides?|gives?) no)\b",
    r"\b(?:no|insufficient|not enough) (?:relevant )?(?:information|context|evidence|mention|details?)\b",
    r"\b(?:cannot|can't|could not|couldn't|can not) be (?:answered|determined|found|verified|confirmed)\b",
    r"\bnot (?:specified|mentioned|stated|provided)\b",
    # German
    r"\b(?:ich )?weiß (?:ich |es )?(?:das |es )?(?:leider )?nicht\b",
    rf"\b{_DE_NOT}\b{_GAP}\b{_DE_IN}\b{_GAP}\b{_DE_PLACE}\b",
    rf"\b{_DE_PLACE}\b{_GAP}(?:\b{_DE_SAYS}\b{_GAP}\b{_DE_NOT}\b|\b{_DE_NOT}\b{_GAP}\b{_DE_SAYS}\b)",
    r"\b(?:keine|nicht genug|nicht genügend|unzureichende) (?:ausreichenden? |passenden? )?(?:informationen?|angaben?|hinweise?)\b",
    r"\bkann ich (?:leider )?nicht (?:beantworten|sagen)\b|\blässt sich (?:daraus |so )?nicht (?:beantworten|sagen|bestimmen)\b",
    # Spanish
    r"\bno (?:lo )?sé\b|\bno (?:puedo|es posible|se puede) (?:responder|determinar|saber|encontrar|contestar)\b",
    rf"\bno\b{_GAP}\b(?:en|del?|por)\b{_GAP}\b{_ES_PLACE}\b",
    rf"\b{_ES_PLACE}\b{_GAP}\bno (?:lo |la |se )?"
    r"(?:contienen?|mencionan?|incluyen?|dicen?|indican?|especifican?|proporcionan?|aparecen?|hay)\b",
    r"\bno (?:hay|dispongo de|tengo|existe) (?:suficiente )?(?:información|datos)\b",
    # French
    r"\bje ne (?:le )?sais pas\b|\bje ne peux pas (?:répondre|le dire)\b",
    rf"\b(?:pas|aucune?|ni)\b{_GAP}\b(?:dans|par)\b{_GAP}\b{_FR_PLACE}\b",
    rf"\b{_FR_PLACE}\b{_GAP}\b(?:ne |n')(?:l'|le |la |les |en |y )?{_FR_SAYS}\b[^.!?\n]{{0,30}}?\b(?:pas|aucune?|rien)\b",
    r"\b(?:aucune|pas (?:assez|suffisamment) d[e']) ?(?:information|donnée|mention|indication|précision)s?\b",
)
"""An answer that says it does not know, or that the context does not say: within a sentence, in lower case, with straight apostrophes."""
ADMISSIONS_IN_CHINESE = r"(?:上下文|文档|资料|知识库|段落)[^。！？\n]{0,30}(?:没有|未|不)|(?:我)?不知道|无法(?:回答|确定)"


NO_ANSWER = {code: texts.no_answer for code, texts in TEXTS.items()}


def no_answer(texts: str | Mapping[str, str], *samples: str) -> str:
    """`texts`, a policy's own, or the proxy's, in the language of the first of `samples` that tells one."""
    if isinstance(texts, str):
        return texts
    tongue = next((found for sample in samples if (found := language(sample, default=""))), "en")
    known = {**NO_ANSWER, **texts}
    return known.get(tongue, known["en"])
