"""What the text around a plain sentence takes away from it, and whether a clash of two such sentences is certain.

In: a message's text, and the conversation. Out: whether somebody speaks there in earnest and of themselves. A message that hands over a
text (to translate, to judge, to go on with), quotes, lists, supposes, or speaks of several of a kind declares nothing; a conversation
that is a story, a game or an exercise declares nothing from there on. What holds only for a task (a budget, a number of guests) clashes
only while nothing else has come up, or where the change is said as such. "Make it 8 pm" clashes where one time only was spoken of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from proxy.grounding.clashes.kinds import Declared, Statement, StatementClash
from proxy.grounding.clashes.statements import cues, slot_words
from proxy.grounding.clashes.statements.plain import IT, contradict, time_value
from proxy.grounding.clashes.statements.plain_things import PLACES
from proxy.grounding.evidence.retrieval import FUNCTION_WORDS
from proxy.language.detection import language
from proxy.language.names import folded
from proxy.language.number_words import LANGUAGES
from proxy.language.patterns import LazyPattern
from proxy.language.quantities import read_quantities
from proxy.language.units import MONEY

MAX_WORDS = 150
"""A longer message is a text that somebody hands over more often than what they say of themselves."""
MAX_SCANNED_CHARS = 20_000
"""Of the conversation, in which another value of the same sort is looked for; in a longer one it is not told what "it" is."""
OF_A_TASK = frozenset(("budget", "people")) | PLACES
"""What holds for one thing that somebody plans or runs, and not for them."""
_BOUND = re.compile(r"[<>]=?\s?(?=[$€£¥]?\s?\d)")
"""An amount's, and no markup."""
_MARKS = re.compile(r"[\"“”„«»`|<>{}]|:\s*(?:\n|$)|^\s*(?:[-*•–]|\(?\d{1,2}[.)])\s|\n\s*\n", re.M)
"""Quotations, code, markup, tables, lists, something that follows, a second paragraph."""
_STAGED = LazyPattern(
    r"\b(?:translat\w*|role-?play\w*|in character|play (?:the|a) (?:role|part|character)|act as|pretend\w*|stor(?:y|ies)|novel|"
    r"fiction\w*|"
    r"screenplay|imagine|practi[cs](?:e|ing) (?:my|our|some)?|proofread\w*|grammar|vocabulary|game|quiz|riddle|puzzle|persona|simulat\w+|"
    r"übersetz\w*|rollenspiel\w*|geschichte|erzähl\w*|roman|stell(?:e|en sie)? (?:dir|sich|euch) vor|grammatik|vokabel\w*|"
    r"rätsel|quiz|spielst|spielen|"
    r"traduc\w*|juego|juguemos|cuento|novela|imagin\w*|gramática|vocabulario|adivinanza|personaje|"
    r"tradui\w*|jeu|jouons|joues?|histoire|conte|roman|imagine\w*|grammaire|vocabulaire|devinette|personnage)\b",
    re.I,
)
"""What makes all that follows a text, a game or an exercise."""
_ROLES = LazyPattern(
    r"\b(?:you are (?:an?|my|the)|you['’]re (?:an?|my|the)|(?:let['’]s|we) play|du bist (?:eine?|meine?|der|die)|"
    r"sie sind (?:ein|mein|der|die)|wir spielen|"
    r"spiel\w*|(?:eres|será?s|usted es) (?:una?|mi|el|la)|jug(?:ar|amos|uemos)|(?:tu es|vous êtes) (?:une?|mon|ma|le|la)|"
    r"jou(?:er|ons|e|ez))\b",
    re.I,
)
"""Where a user hands out parts; a system message does so always."""
_HANDED_OVER = LazyPattern(
    r"\b(?:scenarios?|variants?|versions?|cases?|option|szenari\w+|varianten?|fall|fälle|escenarios?|variantes?|casos?|"
    r"scénarios?|cas|correct|rephras\w+|paraphras\w+|rewrit\w+|reword\w*|summari[sz]\w+|sentences?|phrases?|paragraph|texts?|tale|poem|"
    r"lyrics|song|essay|"
    r"dialog(?:ue)?s?|script|character|scene|role|assume|assuming|given|example|exercise|joke|tests?|letter|draft\w*|write|writing|wrote|"
    r"compose|caption|bio|profile|tweet|post|speech|cv|resume|classif\w+|label|extract|parse|json|sentiment|statements?|premise|"
    r"contradict\w*|true or false|which (?:of|one)|(?<!i )said|says|told|asked|reply to|answer (?:to|him|her|them)|complaint|"
    r"form|template|"
    r"korrigier\w*|umformulier\w*|formulier\w*|zusammenfass\w*|fasse?|satz|sätze|text\w*|gedicht|lied|aufsatz|dialog|drehbuch|"
    r"figur|rolle|"
    r"nehmen wir an|angenommen|beispiel|übung|witz|brief|schreib\w*|verfass\w*|entwurf|lebenslauf|rede|sagte?|meinte?|zitat|aussagen?|"
    r"behaupt\w*|formular|vorlage|"
    r"corrig\w*|reescrib\w*|reformul\w*|resum\w*|frases?|oraci(?:ón|ones)|texto|historia|poema|canción|ensayo|diálogo|guion|escena|papel|"
    r"supon\w*|ejemplo|ejercicio|chiste|carta|escrib\w*|redact\w*|borrador|discurso|dijo|dicen?|cita|afirm\w*|formulario|plantilla|"
    r"réécri\w*|résum\w*|texte|poème|chanson|rédaction|dissertation|scénario|scène|rôle|suppos\w*|exemple|exercice|blague|lettre|écri\w*|"
    r"rédig\w*|brouillon|discours|disait|citation|affirm\w*|formulaire|modèle)\b",
    re.I,
)
"""What is done with a text, or who else has said it: such a message may not be about its author."""
_SEVERAL = LazyPattern(
    r"\b(?:next|patients?|applicants?|candidates?|nächste\w*|bewerber\w*|siguiente|paciente|suivante?|candidat\w*|both|second|"
    r"another|also|too|as well|besides|sometimes|usually|mostly|partly|either|depend\w+|commut\w+|weekdays?|weekends?|"
    r"temporar\w+|for now|until|beide\w*|zweit\w*|auch|außerdem|manchmal|meistens|teils|teilweise|abwechselnd|pendel\w*|wochenend\w*|"
    r"vorübergehend|bis|ambos|también|además|a veces|segund[oa]|otr[oa]s?|depende|temporal\w*|hasta|entre semana|"
    r"aussi|également|parfois|deuxième|autres?|dépend|week-?ends?|temporair\w+|jusqu['’]\w*)\b",
    re.I,
)
"""Several of a kind, or one for a time."""
_WORD = re.compile(r"[^\W\d_]{4,}")
_ADDRESS = re.compile(r"\S{1,64}@\S{1,80}")


class SaidSentence(Struct, frozen=True):
    """A user's, or the model's, message, as far as it bears on a clash."""

    position: int
    text: str
    of_user: bool = True


def speaks_in_earnest(text: str) -> bool:
    """Whether a user's message is in its author's own words and about themselves, as far as its words tell."""
    if text.count(" ") >= MAX_WORDS or _MARKS.search(_BOUND.sub(" ", text)) is not None:
        return False
    text = _ADDRESS.sub(" ", text)
    return not (_HANDED_OVER.search(text) or _STAGED.search(text) or _SEVERAL.search(text) or cues.is_hypothetical(text))


def is_staged(text: str, *, of_user: bool = True) -> bool:
    """Whether a message makes a text, a game or an exercise of what follows it."""
    said = text[:MAX_SCANNED_CHARS]
    return _STAGED.search(said) is not None or (of_user and _ROLES.search(said) is not None)


def without_declarations(statement: Statement) -> Statement:
    """`statement` where it is not told in earnest, or not by one person."""
    return replace(statement, declares=()) if statement.declares else statement


def clash_declared(older: Statement, newer: Statement) -> tuple[Declared, Declared] | None:
    """The first two declarations of `older` and `newer` that exclude each other."""
    found = ((old, new) for new in newer.declares for old in older.declares if contradict(old, new))
    return next(found, None)


def is_certain(clash: StatementClash, said: Sequence[SaidSentence]) -> bool:
    """Whether a clash can be acted on, given what the user and the model have said. Two of one message are certain only as a change."""
    older, newer = clash.older, clash.newer
    if clash.type == "DUPLICATE_FACTS" or not {older.origin, newer.origin} <= {"user", "memory"}:
        return False
    together = older.message == newer.message and older.message is not None and newer.origin == "user"
    both = clash_declared(older, newer)
    if older.origin == newer.origin == "user" and len({tongue for one in (older, newer) if (tongue := _tongue(one.text))}) > 1:
        return False  # two languages, two texts
    if both is None:
        return not together and _is_what_it_means(older, newer, said)
    if together and not both[1].change:
        return False
    of_task = both[0].attribute in OF_A_TASK or both[0].of_task or both[1].of_task
    return not of_task or both[1].change or not _something_new(older, newer, said)


def _tongue(text: str) -> str:
    """The language of a sentence, where it is one of the four and plain to see."""
    found = language(text, default="")
    return found if found in LANGUAGES else ""


def _something_new(older: Statement, newer: Statement, said: Sequence[SaidSentence]) -> bool:
    """Whether something came up since the older one was said that was not spoken of before."""
    if older.message is None or newer.message is None:
        return True
    before: set[str] = set()
    since: set[str] = set()
    for one in said:
        if one.of_user and one.position <= newer.message:
            (since if one.position > older.message else before).update(_words(one.text))
    return bool(since - before - set(_words(newer.text)))


def _words(text: str) -> Iterable[str]:
    return (word for found in _WORD.findall(text) if (word := folded(found)) not in FUNCTION_WORDS and word not in _SMALL)


_SMALL = frozenset(("please thanks thank what there hello okay bitte danke gibt hallo gracias favor hola merci bonjour voila").split())  # noqa: SIM905


def _is_what_it_means(older: Statement, newer: Statement, said: Sequence[SaidSentence]) -> bool:
    """Whether "make it 8 pm" can only mean the older statement's value: no other of its sort was spoken of."""
    made = next((one for one in newer.declares if one.attribute == IT), None)
    if made is None or older.origin != "user" or older.message is None or newer.message is None:
        return False
    before = [one.text for one in said if one.position < newer.message]
    if sum(map(len, before)) > MAX_SCANNED_CHARS:
        return False
    return len({value for text in before for value in _values(made.scope, text, newer.language)}) == 1


def _values(sort: str, text: str, language: str) -> set[str]:
    """The values of one sort that a text names."""
    if sort == "price level":
        return {level for level, pattern in slot_words.closed()["price_level"].items() if pattern.search(text)}
    read = read_quantities(text, language)
    if sort == "time":
        return {time_value(time.minutes) for time in read.times}
    return {f"{number.base_values()[0]:g}" for number in read.numbers if number.dimension in MONEY}
