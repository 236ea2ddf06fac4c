"""A conversation's texts -> what they state, sentence by sentence, with their places, and whether it is meant.

In: `TextPiece`s, each a text that one author wrote. Out: `Statement`s: what plainly gives a value (`clashes.plain`), wishes and facts.
Questions, suppositions, quotations, code, data, what once was and what others like are none.

Somebody speaks in earnest, and of themselves, as far as the words around tell: not in a message that hands over a text (to translate, to
judge, to go on with), quotes, lists, supposes or speaks of several of a kind, nor in a story, a game or an exercise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from msgspec import Struct

from proxy.grounding.claims.checkable import has_verb
from proxy.grounding.clashes.kinds import Declaration, Origin, Statement, StatementKind, TextPiece, statement_hash
from proxy.grounding.clashes.plain import WISHES, declared, is_change, may_declare
from proxy.grounding.evidence.asserted import is_question, is_request
from proxy.language.detection import language
from proxy.language.patterns import LazyPattern
from proxy.language.text import split_sentences

MAX_STATEMENTS = 400
"""Of one piece: a pasted book is not read to its end."""
MAX_CHARS = 400
"""A longer sentence is no statement that somebody would take back."""
_BRIEF_WORDS = 6
"""Up to so many a sentence of a user's may say something without a person in it; from so many on it does without a known verb."""
_FEW_WORDS = 3
"""Fewer state nothing: a greeting, a thank-you."""
_DIGIT = re.compile(r"\d")
_WORD = re.compile(r"\w+")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]+`", re.S)
_INLINE_QUOTE = re.compile(r"\"[^\"\n]{2,300}\"|“[^”\n]{2,300}”|„[^“”\n]{2,300}[“”]|«[^»\n]{2,300}»")
_LIST_MARK = re.compile(r"^[\s>*#•–-]*(?:\d{1,3}[.)]\s+)?")
_WISH = LazyPattern(
    r"\b(?:prefer\w*|lov(?:e|es|ing)|like|hate\w*|enjoy\w*|dislike\w*|favou?rite|want|wants|need|needs|must|ha(?:ve|s) to|only|at most|"
    r"at least|no more than|max(?:imum)?|allerg\w+|intolerant|cannot|can['’]?t|do(?:es)?(?: not|n['’]t)|never|always|avoid\w*|budget|"
    r"bevorzug\w*|lieb\w{1,2}|mag|möchte\w*|will|wollen|brauch\w*|hass\w*|gern\w?|muss|müssen|darf|dürfen|nur|höchstens|mindestens|"
    r"nie(?:mals)?|immer|vertrage?|kein\w{0,2}|"
    r"prefier\w+|gustan?|encantan?|odi[oa]|quier\w+|queremos|necesit\w+|debe\w*|solo|sólo|como máximo|al menos|alérgic\w+|nunca|siempre|"
    r"presupuesto|"
    r"préfèr\w+|aim\w{1,4}|adore|déteste|veux|voudrais|voulons|besoin|doi\w+|il faut|uniquement|seulement|au plus|au moins|jamais|toujours|"
    r"allergique)\b",
    re.I,
)
"""How somebody says what they like, want or may have."""
_PAST = LazyPattern(
    r"\b(?:used to|formerly|previously|back then|when i was|as a (?:child|kid)|years ago|früher|damals|ehemals|als kind|"
    r"vor (?:\w+ )?jahren|solía|antes (?:vivía|era|tenía|trabajaba|me|comía)|hace (?:\w+ )?años|de niñ[oa]|"
    r"autrefois|jadis|dans le temps|avant,? (?:j['’]|je|nous|on)|il y a (?:\w+ )?ans|(?:quand|lorsque) j['’]étais)\b",
    re.I,
)
_REPORTED_SPEECH = LazyPattern(
    r"\b(?:said|says|wrote|writes|claim(?:s|ed)|told me|according to|the (?:review|article|email|ad|website|book|text|song) (?:states|"
    r"reads)|sagte?|schrieb|schreibt|behauptet\w?|meinte|laut|dijo|dice|escribi[óo]|afirma|según|a dit|écrit|affirme|selon|d['’]après)\b",
    re.I,
)
_OF_ANOTHER = LazyPattern(
    r"^\W*(?:(?:and|but|und|aber|y|pero|et|mais)\s+)?(?:(?:my|our|his|her|their|(?:the )?(?:user|customer)['’]s|meine?[nrms]?|"
    r"unsere?[nrms]?|mis?|nuestr[oa]s?|mon|ma|mes|notre|nos)\s+(?:\w+ )?(?:wife|husband|partner|girlfriend|boyfriend|mother|mom|mum|"
    r"father|dad|son|daughter|kids?|child(?:ren)?|brother|sister|parents?|friends?|boss|colleagues?|roommate|neighbou?rs?|uncle|aunt|grand\w+|cousins?|"
    r"frau|mann|ehe(?:mann|frau)|freund\w*|mutter|vater|sohn|tochter|kind(?:er)?|bruder|schwester|eltern|chef(?:in)?|kolleg\w+|nachbar\w*|"
    r"espos[oa]|mujer|marido|pareja|novi[oa]|madre|padres?|hij[oa]s?|herman[oa]s?|amig[oa]s?|jef[ea]|vecin[oa]s?|"
    r"femme|mari|copine?|copain|mère|père|fils|fille|enfants?|frère|s(?:œ|oe)ur|ami[es]{0,2}|patron|collègues?|voisin\w*)\b"
    r"(?! (?:and|und|y|et) (?:i|me|ich|yo|moi)\b)|(?:he|she|they|er|él|ella|ellos|ellas|il|elle|ils|elles|people|everyone|viele|manche|"
    r"la gente|les gens)\s+(?!(?:is|are|was|ist|sind|es|est|y a|faut)\b))",
    re.I,
)
"""How a sentence begins that is about somebody else than its author."""
_PRONOUNS = frozenset("i me my mine we us our ich mir mich wir uns yo mí mi me nos nosotros je j m moi mon ma mes nous notre".split())  # noqa: SIM905
_PRONOUN_STEMS = ("mein", "unser", "nuestr")
_OF_THE_USER = LazyPattern(
    r"\b(?:the |this )?(?:user|customer|client|traveller|guest)(?:['’]s)?\b|\b(?:der |die )?(?:nutzer|kunde|kundin|benutzer)(?:in|"
    r"s)?\b|\b(?:el |la )?(?:usuario|usuaria|cliente)\b|"
    r"\bl['’](?:utilisateur|utilisatrice)\b|\b(?:le client|la cliente)\b",
    re.I,
)
MAX_WORDS_OF_ONES_OWN = 150
"""A longer message is a text that somebody hands over more often than what they say of themselves."""
MAX_STAGED_CHARS = 20_000
"""Of a message, in which it is looked for what makes a game of the rest."""
_HYPOTHETICAL = LazyPattern(
    r"\b(?:what if|(?:even )?if (?!(?:possible|you can|available|that['’]s (?:ok|possible|fine)|i may|need be|necessary|not)\b)|suppose|"
    r"supposing|imagine|hypothetically|let['’]?s (?:say|assume|pretend)|assuming|pretend|in theory|in case(?! of\b)|unless|might|perhaps|"
    r"maybe|possibly|would have|(?:i|we)['’]?(?: would|d)? wonder\w*|whenever|"
    r"(?:wenn|falls) (?!(?:möglich|es geht|nötig|verfügbar|das geht)\b)|angenommen|(?:stell dir|stellen sie sich) vor|"
    r"nehmen wir an|hypothetisch|theoretisch|sagen wir mal|vielleicht|möglicherweise|hätte ich|wäre ich|"
    r"si (?!(?:es posible|puedes|puede|se puede|hay|possible|c['’]est possible|vous (?:pouvez|voulez)|tu (?:peux|veux)|besoin)\b)"
    r"(?=\w+(?:era|iera|ara|ese|iese|iste|as|es)?\b)|supon(?:gamos|iendo)|supón|imagin(?:a|emos|ez|ons)|hipotéticamente|digamos|"
    r"tal vez|quizás?|a lo mejor|"
    r"s['’](?:il|ils) (?!(?:te|vous) pla[iî]t|est possible)|supposons|disons que|hypothétiquement|en théorie|peut-être|au cas où)",
    re.I,
)
_AMOUNT_BOUND = re.compile(r"[<>]=?\s?(?=[$€£¥]?\s?\d)")
"""An amount's, and no markup."""
_MARKS = re.compile(r"[\"“”„«»`|<>{}]|:\s*(?:\n|$)|^\s*(?:[-*•–]|\(?\d{1,2}[.)])\s|\n\s*\n", re.M)
"""Quotations, code, markup, tables, lists, something that follows, a second paragraph."""
_STAGING_WORDS = LazyPattern(
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
_NEAREST = LazyPattern(
    r"(?<=[.!])\s+¿?(?:where|when|how far|wo|wann|wie weit|d[óo]nde|cu[áa]ndo)\b[^.!?]*?\b(next|nächste\w*|siguiente)\b[^.!?]*\?\s*$", re.I
)
"""A last question for a place or a time: its "next" is the nearest or the coming one, and not the next of several who speak."""
_ADDRESS = re.compile(r"\S{1,64}@\S{1,80}")


class Read(Struct, frozen=True):
    """What a piece states."""

    statements: tuple[Statement, ...]
    skipped: int = 0
    """Sentences that were not read, because of `limit`."""
    full: int = 0
    """Sentences that were read in full and count against it."""


def speaks_of_the_user(text: str) -> bool:
    """Whether it names the user, as a memory or a system message does."""
    return _OF_THE_USER.search(text) is not None


def is_first_person(sentence: str) -> bool:
    """Whether the speaker speaks of themselves."""
    plain = sentence.lower()
    return not _PRONOUNS.isdisjoint(_WORD.findall(plain)) or any(map(plain.__contains__, _PRONOUN_STEMS))


def read_statements(pieces: Sequence[TextPiece], tongue: str = "") -> list[Statement]:
    """The statements of all pieces, in order. `tongue` is their language (ISO 639-1) where it is known."""
    return [statement for i, piece in enumerate(pieces) for statement in read_piece(piece, i, tongue).statements]


def read_piece(piece: TextPiece, i: int = 0, tongue: str = "", *, limit: int | None = None) -> Read:
    """The statements of one piece, in its order.

    With `limit` only so many sentences are read in full, of a longer text the first that somebody says of themselves, and those that
    declare something plainly: a long message costs what a short one does.
    """
    if piece.text.lstrip()[:1] in ("{", "["):  # data, and no sentences
        return Read(())
    found: list[Statement] = []
    spoken = cache(lambda: tongue or language(piece.text))  # most messages say nothing of which it would have to be known
    doubt = cache(lambda: _doubt_of(piece))
    remembered = piece.origin in ("system", "memory")
    own = remembered or (piece.origin == "user" and (limit is None or piece.text.count(" ") < MAX_WORDS_OF_ONES_OWN))
    left, skipped = limit if limit is not None else MAX_STATEMENTS, 0
    sentences = list(_sentences(piece.text))
    for text, start in sentences:
        labelled = own and (remembered or (":" in text and speaks_of_the_user(text)))
        says = declared(text, spoken, of_memory=labelled) if labelled or (own and may_declare(text)) else ()
        if not says and limit is not None:
            if piece.origin == "user" and len(sentences) > limit and not _may_matter(text):
                continue
            skipped += left <= 0
            if left <= 0:
                continue
            left -= 1
        kind = _kind_of(text, piece.origin, says)
        if kind is not None:
            found.append(_statement(piece, i, text, start, kind, spoken(), says, doubt=doubt() if says else ""))
        if len(found) >= MAX_STATEMENTS:
            break
    return Read(tuple(found), skipped, (limit or 0) - left if limit is not None else 0)


def as_statement(
    text: str,
    *,
    kind: StatementKind | None = None,
    origin: Origin = "user",
    piece: int = 0,
    tongue: str = "en",
    timestamp: float | None = None,
) -> Statement:
    """`text` as one statement whatever it is, where somebody else has cut it: a proposal, one half of a pair."""
    says = declared(text, tongue, of_memory=origin == "memory")
    kind = kind or _kind_of(text, origin, says) or "fact"
    return _statement(TextPiece(text, origin, timestamp=timestamp), piece, text, 0, kind, tongue, says)


def _statement(
    piece: TextPiece,
    i: int,
    text: str,
    start: int,
    kind: StatementKind,
    tongue: str,
    says: tuple[Declaration, ...],
    *,
    doubt: str = "",
) -> Statement:
    update = piece.origin in ("user", "memory") and (is_change(text) or any(one.change for one in says))
    place = (i, start, start + len(text), statement_hash(text, piece.origin), piece.message, piece.timestamp, piece.source)
    return Statement(text, kind, piece.origin, *place, update=update, language=tongue, declares=says, doubt=doubt)


def _doubt_of(piece: TextPiece) -> str:
    if piece.origin == "memory" or (piece.origin == "user" and speaks_in_earnest(piece.text)):
        return ""
    return doubt_of(piece.text) if piece.origin == "user" else "it is neither the user's nor a memory"


def _may_matter(sentence: str) -> bool:
    """Whether a user's sentence may be of themselves, give a value, or tell how to answer; what is told of the world is not."""
    brief = sentence.count(" ") < _BRIEF_WORDS
    return brief or _DIGIT.search(sentence) is not None or is_first_person(sentence) or is_change(sentence)


def _sentences(text: str) -> Iterator[tuple[str, int]]:
    """``(sentence, start)`` without marks of lists and white space; code is left out."""
    plain = _CODE.sub(lambda match: " " * len(match[0]), text) if "`" in text else text
    at = 0
    for sentence in split_sentences(plain):
        start, at = at, at + len(sentence)
        mark = _LIST_MARK.match(sentence)
        if sentence.lstrip().startswith(">"):
            continue
        skipped = mark.end() if mark is not None else 0
        said = sentence[skipped:].rstrip()
        if said and len(said) <= MAX_CHARS:
            yield text[start + skipped : start + skipped + len(said)], start + skipped


def _kind_of(text: str, origin: Origin, says: Sequence[Declaration]) -> StatementKind | None:
    """What a sentence is; None for what states nothing of its author, or of the world: a question, a greeting."""
    if says:
        return "preference" if says[0].attribute in WISHES else "fact"
    said = _INLINE_QUOTE.sub(lambda match: " " * len(match[0]), text)
    words = _WORD.findall(said)
    if len(words) < _FEW_WORDS or _is_of_another(text, said, origin):
        return None
    if is_question(said) or is_hypothetical(said) or _PAST.search(said) is not None:
        return None
    own = origin in ("user", "system", "memory")
    if is_request(said) or (own and _WISH.search(said) is not None):  # "Book a table for four", "No emojis": what is wanted
        return "preference" if own else None
    return "fact" if has_verb(said) or (own and len(words) >= _BRIEF_WORDS) else None


def _is_of_another(text: str, said: str, origin: Origin) -> bool:
    """Whether it is somebody else's words, or about them: '"I love bacon" is printed on the shirt', "My wife hates fish"."""
    if _REPORTED_SPEECH.search(said) is not None and not is_first_person(said):
        return True
    return _OF_ANOTHER.match(said) is not None or (origin == "user" and any(map(is_first_person, _INLINE_QUOTE.findall(text))))


# ---- whether it is meant ----


def speaks_in_earnest(text: str) -> bool:
    """Whether a user's message is in its author's own words and about themselves, as far as its words tell."""
    return not doubt_of(text)


def doubt_of(text: str) -> str:
    """Why a user's message may not be so; "" where nothing in it says that."""
    if text.count(" ") >= MAX_WORDS_OF_ONES_OWN:
        return "its message is long, and may be a text that is handed over"
    if _MARKS.search(_AMOUNT_BOUND.sub(" ", text)) is not None:
        return "its message has quotations, a list, markup or paragraphs"
    text = _ADDRESS.sub(" ", text)
    if _HANDED_OVER.search(text) is not None:
        return "its message may hand over a text, or tell what somebody said"
    if _STAGING_WORDS.search(text) is not None:
        return "its message may make a story, a game or an exercise of it"
    nearest = _NEAREST.search(text)
    if is_one_of_several(text if nearest is None else text[: nearest.start(1)] + text[nearest.end(1) :]):
        return "its message speaks of several of a kind, or of one for a time"
    return "its message supposes something" if is_hypothetical(text) else ""


def is_hypothetical(text: str) -> bool:
    """Whether it supposes, or holds on a condition only."""
    return _HYPOTHETICAL.search(text) is not None


def is_one_of_several(text: str) -> bool:
    """Whether it speaks of several of a kind, or of one for a time: "also", "the second", "sometimes"."""
    return _SEVERAL.search(text) is not None


def is_staged(text: str, *, of_user: bool = True) -> bool:
    """Whether a message makes a text, a game or an exercise of what follows it."""
    said = text[:MAX_STAGED_CHARS]
    return _STAGING_WORDS.search(said) is not None or (of_user and _ROLES.search(said) is not None)
