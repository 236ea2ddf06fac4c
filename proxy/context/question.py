"""What the user asks: the last user message, without the passages that came with it, and whether it says all by itself what it is about.
Pure functions.

A message that asks nothing of the passages' subject has no question to judge: thanks, and instructions about the text at hand ("translate
that to German"). One that leans on the conversation ("And how tall is it?") is also tried with the question before it, and a long one by
its last questions alone.

"Combien d'heures pour la moitié ?" and "What's the total?" do not say what they are about (`missing_subject`): that stands in the passage
or in the talk, so that a passage that shares no word with them may hold their answer all the same. Nobody can refuse such a question for
its passages' sake.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice

from msgspec import Struct

from proxy.context.passages.blocks import INTRODUCTION, marked_blocks
from proxy.exchange import Message
from proxy.language.detection import language
from proxy.language.lru import LRU
from proxy.language.patterns import LazyPattern
from proxy.language.text import split_sentences, text_of
from proxy.language.words import INSTRUCTION_OBJECTS, INSTRUCTIONS, OPENERS, POINTERS, THANKS, content_words, words

MAX_CHARS = 2000
"""Of a question; the end of a longer message counts, as that is where the question mostly stands."""
MAX_BACK = 50
"""Messages of the user that are looked through for one that asks."""
_FEW_WORDS = 2
"""A question with no more content words than these may lean on the one before it."""
_CORE_SENTENCES = 2
_QUESTION_MARK = re.compile("[?？]")
_LABEL = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]*|\*\*)?(?:user(?:'s)? )?(?:question|query|frage|anfrage|pregunta|consulta|requête)(?:\*\*)?[ \t]*:(?:\*\*)?",
    re.I | re.M,
)
_ANSWER_LABEL = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]*|\*\*)?(?:(?:helpful|your|final) )?(?:answer|antwort|respuesta|réponse)(?:\*\*)?[ \t]*:", re.I | re.M
)
_INSTRUCTIONS_LABEL = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]*|\*\*)?(?:instructions|anweisungen|instrucciones|consignes)(?:\*\*)?[ \t]*:(?:\*\*)?[ \t]*$", re.I | re.M
)
"""Instructions that stand behind the question."""
_WH = LazyPattern(
    r"\W{0,3}(?:(?:in|on|at|for|from|by|to|with|an|auf|aus|bei|seit|von|mit|en|de|à|a|por|con|desde|dans|avec|depuis) )?"
    r"(?:what|which|who|whom|whose|when|where|why|how|was|welche\w?|wer|wen|wem|wessen|wann|wo|wohin|woher|warum|wieso|wie|wieviele?|"
    r"qué|cuál\w{0,2}|quién\w{0,2}|cuándo|dónde|adónde|cómo|cuánt\w{1,2}|quel\w{0,3}|qui|quand|où|pourquoi|comment|combien|lequel|laquelle)\b",
    re.I,
)
_TERM = (
    r"(?:concept|idea|notion|term|meaning|principle|konzept|begriff|idee|prinzip|bedeutung|concepto|noción|término|significado|principio"
    r"|idée|terme|sens|principe)"
)
_CONCEPT = LazyPattern(rf"\b{_TERM}\b", re.I)
_EXPLAIN = LazyPattern(
    r"\W{0,3}(?:(?:please|bitte|por favor|s['’]il (?:te|vous) pla[iî]t),? )?(?:(?:(?:can|could|would|will) you )?(?:please )?"
    r"(?:tell (?:me|us)(?= (?:about|what|which|who|when|where|why|how|whether|if)\b)|let (?:me|us) know)|do you know"
    r"|i(?:'d| would) like to know|i wonder|(?:(?:können sie|kannst du) )?(?:mir |uns )?(?:sagen sie mir|sag(?:e)? mir|sagen)(?=,)"
    r"|wissen sie|weißt du|ich (?:möchte|würde gern) wissen"
    r"|(?:(?:puedes|puede|podrías|podría) )?(?:dime|decirme|dígame)(?= (?:qué|quién|cuá|cuándo|dónde|cómo|por qué|si)\b)"
    r"|sabes|quisiera saber"
    r"|(?:(?:peux-tu|pouvez-vous|pourriez-vous) )?(?:me dire|dis-moi|dites-moi)(?= (?:ce que|qui|quand|où|pourquoi|comment|combien|quel|si)"
    r"\b)"
    r"|savez-vous|sais-tu|(?:can|could|would) you (?:please )?(?:explain|describe|define)|explain|describe|define|erklär(?:en sie|e|t)?"
    r"|erläuter(?:n sie|e|t)?|beschreib(?:en sie|e|t)?|definier(?:en sie|e|t)?|expl[ií]ca(?:me|nos)?|explique(?:me|nos|z)?"
    r"|descr[ií]be(?:me|nos)?|def[ií]ne(?:me|nos)?|décri(?:s|vez)|défini(?:s|ssez))\b"
    r"(?:[ -](?:to )?(?:me|us|mir|uns|moi|nous|bitte|please|kurz|briefly))*"
    r"(?: (?:(?:the|das|den|die|el|la|le) |l['’])?" + _TERM + r" (?:of |von |vom |des |der |del |de la |de l['’]|de |du |d['’]))?",
    re.I,
)
"""A request for an explanation up to what is to be explained: a question for a fact whose first words are none of its subject."""
_ADDRESSES_SOMEBODY = LazyPattern(
    r"\b(?:Sie|Ihnen|Ihre?\w{0,2})\b|"
    r"(?i:\b(?:you|your|yours|yourself|me|my|du|dir|dich|dein\w{0,2}|mir|mich|mein\w{0,2}|tú|tu|te|ti|usted\w{0,2}|puedes|"
    r"puede|podrías|mi|mí|me|toi|vous|votre|vos|peux|pouvez|moi|mon|ma|mes)\b)"
)
"""Who is talked to, or talks: "How are you?", "Can you put that into a table?", "What should I tell my boss?"."""
_MARK = re.compile(
    r"</?[a-z_]{3,30}\b[^<>]{0,1000}>|^[ \t]*#{1,6}[^\n]*$|^[^\n?]{0,300}:[ \t]*$|`{3}|\"{3}|'{3}|^[-=*_]{3,}[ \t]*$", re.I | re.M
)
"""What is left of a template when its passages are taken out: tags, headings, lines that introduce something, fences."""


class Question(Struct, frozen=True):
    """What to judge the passages by."""

    readings: tuple[str, ...] = ()
    """The question alone; where it leans on the conversation, after the one before it; of a long message, what it asks in the end. The
    best score of these counts."""
    full: str = ""
    """The one that leaves nothing out, for a reader that is not confused by more words."""
    asks: bool = False
    """Whether it asks for a fact: no request, no small talk."""
    seeks: bool = False
    """Whether it asks for a fact or in the form of a question, also of those who talk: "How many of my days are left?"."""
    defines: bool = False
    """Whether it asks what a term means, which it then names: "What is a knowledge graph?", "Explain the concept of inflation"."""
    unresolved: str = "asks nothing"
    """Why it cannot be judged without what stands around it (`missing_subject`); "" where it says all by itself what it is about."""
    brief: bool = False
    """Whether all that keeps it from standing alone is that two words are its subject ("What is the refund policy?"): too few to tell that
    passages do not answer it, and enough where there are none."""
    reason: str = ""
    """Why there is nothing to judge: ``no question``, ``thanks``, ``instruction``."""

    @property
    def plain(self) -> bool:
        """Whether it asks for a fact and stands alone: only of such a question can anybody say that passages do not answer it."""
        return self.asks and not self.unresolved

    @property
    def text(self) -> str:
        """As the user asked it last."""
        return self.readings[0] if self.readings else ""


def find_question(messages: Sequence[Message]) -> Question:
    """The question of a conversation: the newest user message that says anything beside passages."""
    return question_among(message for message in reversed(messages) if message.get("role") == "user")


def question_among(newest_first: Iterable[Message]) -> Question:
    """The question of a conversation with these messages of the user."""
    texts = [*map(bare_text, islice(newest_first, MAX_BACK))]
    key = tuple((hash(text), len(text)) for text in texts)
    found = _known.get(key)
    if found is None:
        found = _question_in(texts)
        _known.put(key, found)
    return found


_known: LRU[Question] = LRU(256)
"""By the user's texts: an agent asks the model many times for one question."""


def _question_in(texts: Sequence[str]) -> Question:
    asked = filter(words, texts)
    text = next(asked, "")
    said, content = words(text), content_words(text)
    if not said:
        return Question(reason="no question")
    if _is_instruction(content):
        return Question(reason="instruction")
    before = next(filter(_asks, asked), "") if _leans(said, content) else ""
    if _is_thanks(said, content) and not (before and _QUESTION_MARK.search(text)):
        return Question(reason="thanks")
    readings = [text]
    if before:
        readings.append(f"{before} {text}")
    full = readings[-1]
    subject = _explanation_topic(text)
    if len(content) > MANY_WORDS:
        readings.append(_core(text))
    elif subject:
        readings.append(subject)
    if len(readings) == 1 and all(word in INSTRUCTION_OBJECTS for word in content):  # "What are the main points?"
        return Question(reason="instruction" if content else "no question")
    unresolved = "leans on the question before" if before else missing_subject(text, content)
    seeks = bool(content) and _is_question(text)
    asks = seeks and _ADDRESSES_SOMEBODY.search(_explanation_topic(text) or text) is None
    defines = NEW_TERM.match(text) is not None or bool(subject and _CONCEPT.search(text))
    brief = unresolved == _SMALL_SUBJECT and len(content) == _FEW_WORDS
    return Question(tuple(dict.fromkeys(readings)), full, asks, seeks, defines, unresolved, brief)


def _is_question(text: str) -> bool:
    """Whether `text` begins or ends like a question, or wants something explained."""
    return bool(_explanation_topic(text)) or text.rstrip().endswith(("?", "？")) or _WH.match(text) is not None


def _explanation_topic(text: str) -> str:
    """What `text` wants to have explained; "" where it wants something else."""
    request = _EXPLAIN.match(text)
    subject = text[request.end() :].strip(" \t.!?:") if request is not None else ""
    return subject if content_words(subject) else ""


def bare_text(message: Message) -> str:
    """What a user message says, without marked passages and the template around them."""
    text = text_of(message.get("content"))
    blocks = marked_blocks(text)
    if not blocks:
        return text.strip()[-MAX_CHARS:]
    pieces, at = [], 0
    for block in blocks:
        pieces.append(text[at : block.start])
        at = max(at, block.start + len(block.content))
    return _question_in_template("\n".join([*pieces, text[at:]]))[-MAX_CHARS:]


def _question_in_template(template: str) -> str:
    """The question in what a template says around its passages: after its label, or else the last paragraph that asks, or at all."""
    labels = list(_LABEL.finditer(template))
    if labels:
        question = template[labels[-1].end() :]
        end_labels = (_ANSWER_LABEL, INTRODUCTION, _INSTRUCTIONS_LABEL)
        ends = [end.start() for label in end_labels if (end := label.search(question)) is not None]
        return question[: min(ends, default=None)].strip()
    template = template[: (end.start() if (end := _ANSWER_LABEL.search(template)) else None)]
    before = template[: (last.start() if (last := _INSTRUCTIONS_LABEL.search(template)) else 0)]
    paragraphs = _paragraphs(before) or _paragraphs(template)
    asking = [p for p in paragraphs if p.endswith(("?", "？"))]
    return next(reversed(asking or paragraphs), "")


def _paragraphs(template: str) -> list[str]:
    """Those that are no mark of a template."""
    return [p.strip() for p in _MARK.sub("\n\n", template).split("\n\n") if words(p)]


def _core(text: str) -> str:
    """Of a long message what it asks: its last questions, or else its last sentences."""
    sentences = [sentence.strip() for sentence in split_sentences(text)]
    questions = [sentence for sentence in sentences if sentence.endswith(("?", "？"))]
    return " ".join((questions or sentences)[-_CORE_SENTENCES:])


def _asks(text: str) -> bool:
    content = content_words(text)
    return bool(content) and not _is_thanks(words(text), content) and not _is_instruction(content)


def _is_thanks(said: Sequence[str], content: Sequence[str]) -> bool:
    return not THANKS.isdisjoint(said) and all(word in THANKS for word in content)


def _is_instruction(content: Sequence[str]) -> bool:
    known = INSTRUCTIONS | INSTRUCTION_OBJECTS | THANKS
    return not INSTRUCTIONS.isdisjoint(content) and all(word in known or word.isdigit() for word in content)


def _leans(said: Sequence[str], content: Sequence[str]) -> bool:
    return len(content) <= _FEW_WORDS or said[0] in OPENERS or not POINTERS.isdisjoint(said)


ENOUGH_WORDS = 3
"""Content words that name a subject; a name counts for two ("Who painted Guernica?"), but in German every noun has a capital letter."""
_SMALL_SUBJECT = "says too little of its subject"
MANY_WORDS = 25
"""With more content words than these, a message tells a story around its question."""
_POINTERS = {
    "en": r"it|its|they|them|theirs?|he|him|his|she|hers?|this|that|these|those|there|then|here|ones?|former|latter|same|both|else|others?",
    "de": r"es|er|ihm|ihn|sie|sein\w{0,2}|ihr\w{0,2}|ihnen|dessen|deren|dies\w{0,2}|jene\w?|drin|davon|dazu|dafür|damit|darin|daran|darauf"
    r"|dabei|dort|hier|dann|solche\w?|beide\w?|sonst",
    "es": r"él|ella|ellos|ellas|ello|lo|le|les|sus?|est[eao]s?|es[eao]s?|aquel\w{0,3}|allí|ahí|aquí|entonces|ambos|ambas|mism[oa]s?"
    r"|otr[oa]s?",
    "fr": r"ils?|elles?|lui|leurs?|(?<!est-)(?<!est )ce|cet|cettes?|ces|cela|ça|celui|celles?|ceux|y|en|son|sa|ses|là|ici|alors|mêmes?"
    r"|autres?",
}
"""By language, the words by which a question points at what was said or shown before; with accents, which tell él from el."""
_POINTS = {tongue: LazyPattern(rf"\b(?:{words_})\b", re.I) for tongue, words_ in _POINTERS.items()}
_NAME = LazyPattern(r"(?<=[^\W\d_.?!:] )[A-ZÀ-Þ]\w{2,}")
_WHAT_ABOUT = LazyPattern(
    r"\W{0,3}(?:(?:and )?(?:what|how) about|(?:und )?(?:was ist|wie (?:ist|sieht) es) mit|¿?(?:y )?qué (?:tal|pasa|hay) con"
    r"|(?:et )?qu['’]en est-il|e (?:per|quanto))\b",
    re.I,
)
NEW_TERM = LazyPattern(
    r"\W{0,3}(?:what(?:'s| is| are)|who(?:'s| is)|was ist|wer ist|qué es|quién es|qu['’]est-ce qu['’]|c['’]est quoi)"
    r" ?(?:an?|eine?|un|une|una) \w",
    re.I,
)
"""Asks what something is, with an article that introduces what was not spoken of before."""


def missing_subject(text: str, content: Sequence[str]) -> str:
    """Why the question `text`, with these content words, cannot be judged by itself; "" when it can be."""
    said = words(text)
    points = _POINTS.get(language(text, default=""))
    if points is None:
        return "a language in which nobody knows what it points at"
    if said and said[0] in OPENERS:
        return "goes on from what was said before"
    if sum(word.isdigit() for word in content) > 1:
        return "may be a sum"
    if points.search(text) or _WHAT_ABOUT.match(text):
        return "points at what was said before"
    names = len(_NAME.findall(text)) if language(text, default="") != "de" else 0
    if sum(not word.isdigit() for word in content) + names < ENOUGH_WORDS and not NEW_TERM.match(text):
        return _SMALL_SUBJECT
    return "tells more than it asks" if len(content) > MANY_WORDS else ""
