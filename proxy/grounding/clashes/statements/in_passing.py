"""What a clause says of somebody in passing: "As I live in Lisbon, …", "btw my birthday's on 3 November", "we've got 900 in total".

In: a sentence. Out: `Declared`s, as of `clashes.statements.plain`, but read clause by clause, behind openers ("since", "da",
"como", "puisque", "btw") and before what trails ("anyway", "at all"), beside a question or a request, in small letters. So much is left
open here that a clash of two of them is never certain: it is reported, and nothing is done about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from msgspec.structs import replace

from proxy.grounding.clashes.kinds import Declared, Statement
from proxy.grounding.clashes.statements import cues
from proxy.grounding.clashes.statements.plain import contradict, read_clause, sort_of
from proxy.grounding.clashes.statements.slot_cues import number_of
from proxy.language.names import folded
from proxy.language.number_words import LANGUAGES
from proxy.language.patterns import LazyPattern

MAX_CHARS = 400
MAX_CLAUSES = 12
"""Of a sentence; one of more is a list."""
ANY = "*"
"""Of something of which one can have several: none at all."""
_WORTH_READING = LazyPattern(
    r"\b(?:i|we|my|our|user|it['’]?s|ich|wir|meine?\w?|unsere?\w?|nutzer\w*|kunde|das ist|vivo|tengo|tenemos|soy|somos|como|conduzco|"
    r"bebo|mi|"
    r"mis|nuestr[oa]|sin|no|es|la dirección|usuari[oa]|trabajo|estoy|je|nous|mon|ma|on|sans|utilisat\w+|c['’]est)\b|\b[jl]['’]|\d|:|"
    r"instead|rather|statt\b|en (?:vez|lugar) de|au lieu|plutôt",
    re.I,
)
_CUT = LazyPattern(
    r"\s*[,;!?–—()\n]+\s*|\.\s+|\s+(?:and|but|so|und|aber|y|pero|así que|et|mais|donc|because|since|as(?= (?:i|we|my|our)\b)|weil|denn|"
    r"porque|parce qu[e'’]|puisqu[e'’]|"
    r"ya que|car)\s+",
    re.I,
)
_OPENERS = LazyPattern(
    r"(?:(?:as|since|because|given that|btw|by the way|well|so|also|remember(?: that)?|actually|anyway|yes|sure|ok|okay|hi|hello|hey|ta|"
    r"da|weil|übrigens|also|ja|hallo|como|ya que|porque|puesto que|por cierto|bueno|claro|vale|hola|comme|puisque?|parce que?|au fait|"
    r"bon|oui|bonjour|salut)\b['’]?[,.:]?\s*)+(?=\w)",
    re.I,
)
_CLOSERS = LazyPattern(
    r"(?:\s+(?:anyway|though|now|ahora|maintenant|inzwischen|at all|btw|by the way|lol|haha|please|every day|every (?:night|evening|"
    r"week)|you know|jetzt|übrigens|sowieso|"
    r"ja|eh|überhaupt|jeden tag|por cierto|además|todos los días|en absoluto|d['’]ailleurs|tous les jours|du tout))+$",
    re.I,
)
_SHORT = LazyPattern(r"\b(my|our) (\w{3,12})['’]s (?=\w)", re.I)
_CURRENT = LazyPattern(r"\b(my|mein|mi|mon) (?:current|present|derzeitiger|aktueller|actual) ", re.I)
_AS_I = LazyPattern(
    r"(ich|wir) (in [\w-]+|bei [\w -]{2,30}|vegan\w*|vegetari\w+|\w+ jahre alt) (wohne|lebe|arbeite|bin|wohnen|leben|sind)", re.I
)
"""The verb at the end of a German clause: "da ich in Rom wohne"."""
_NOT = LazyPattern(r"\b(?:no|not|never|none|kein\w{0,2}|nie|nicht|nunca|sin|pas|jamais|aucune?|sans)\b|n['’]t\b", re.I)
_AMOUNT = r"(?P<v>[$€£]?\s?\d[\d.,]{0,9}(?:\s?(?:[$€£k]|eur(?:os?)?|dollars?|pounds))?)"
_KIN = (
    r"(?P<who>mother|mum|mom|father|dad|wife|husband|son|daughter|brother|sister|dog|cat|mutter|vater|frau|mann|sohn|tochter|bruder|"
    r"schwester|hund|katze|madre|padre|mujer|marido|hijo|hija|hermano|hermana|perro|gato|mère|père|femme|mari|fils|fille|frère|sœur|"
    r"chien|chat)"
)
_JOB = r"(?P<v>(?:[^\W\d_]{2,14} )?(?:nurse|teacher|driver|engineer|doctor|lawyer|cook|chef|waiter|programmer|developer|accountant|farmer|"
_JOB += r"electrician|plumber|designer|journalist|pharmacist|pilot|dentist|librarian|mechanic|carpenter|painter|writer|scientist))"
_SO_FAR = LazyPattern(r"\b(?:desde hace (?:\w+ )?años|seit (?:\w+ )?jahren|depuis (?:\w+ )?ans)\b", re.I)
"""What began in the past and goes on."""
INSTEAD = "instead"
"""The attribute of "at 8 instead of 6": its scope is what it was."""
_INSTEAD = LazyPattern(
    r"\S\s+(?:instead of|rather than|(?:an)?statt|anstelle von|en (?:vez|lugar) de|au lieu (?:de |d['’])|plutôt que)\s*"
    r"(?!(?:it|that|this|me|das|es|dem|eso|ella?|ça|cela|[\w]+ing)\b)(?P<old>[^,.;:!?\n]{1,40}?)"
    r"(?=\s+(?:because|please|since|weil|bitte|porque|por favor|parce)\b|\s*(?:[,.;:!?\n]|$))",
    re.I,
)
_SAID = {
    "children": (
        r"(?:i|we|(?:the )?user)(?:['’]ve| have| has)(?: got)? (?P<v>\w+) (?:kids?|child(?:ren)?)\b.{0,30}|"
        r"(?:i|we) (?:do not|don['’]t) have (?:any )?(?:kids|children)|(?:ich habe|wir haben|"
        r"(?:der )?nutzer hat) (?P<w>\w+) kind(?:er)?\b.{0,30}|"
        r"(?:tengo|tenemos|(?:el )?usuario tiene) (?P<x>\w+) (?:hij[oa]s?|niñ[oa]s?)\b.{0,30}|no (?:tengo|tenemos|tiene) (?:hijos|niños)|"
        r"(?:soy \w+ )?sin hijos|(?:j['’]ai|nous avons|on a) (?P<y>\w+) enfants?\b.{0,30}|(?:je n['’]ai|nous n['’]avons|"
        r"on n['’]a) pas d['’]enfants?|"
        r"sans enfants?"
    ),
    "alcohol": (
        r".{0,24}?(?:\b(?:i|we)(?: never| do not| don['’]t)? drink|user (?:drinks|does not drink)|trinke ich|ich trinke|nutzer trinkt|"
        r"(?:^|no |nunca )bebo|usuario (?:no )?bebe|je (?:ne )?bois|utilisateur (?:ne )?boit)\b.{0,40}\b(?:alcohol|alkohol|alcool|wine|"
        r"wein|vino|"
        r"vin|beer|bier|cerveza|bière)\b"
    ),
    "driving": (
        r"(?:i (?:can )?drive|i (?:can(?:no|['’])?t|don['’]t|do not) drive|(?:i|the user) (?:have|has) (?:a|no) driving licen[cs]e|"
        r"ich (?:habe|hab) (?:einen|keinen) führerschein|ich fahre selbst|conduzco|no conduzco|no (?:tengo|tiene) (?:el )?carn(?:é|"
        r"et) de conducir|"
        r"je conduis|je n['’]ai pas le permis)\b.{0,30}"
    ),
    "handedness": (
        r"(?:i['’]m|i am|ich bin|soy|je suis|(?:the )?user is|(?:der )?nutzer ist|(?:el )?usuario es|l['’]utilisateur est) "
        r"(?P<v>right|left|rechts|links|diestr|zurd|droiti|gauch)[\w-]*"
    ),
    "allergy": (
        r"i(?:['’]ve got| have)? (?:have |got )?no (?:food )?allergies|i (?:do not|don['’]t) have any allergies|"
        r"ich hab(?:e)? keine allergien|"
        r"no tengo (?:ninguna )?alergias?|je n['’]ai (?:pas d['’]|aucune )allergies?"
    ),
    "budget": (
        rf"(?:i|we)(?:['’]ve got| have(?: got)?)(?: only| about)? {_AMOUNT} (?:in total|to spend|altogether|all in|overall)\b.{{0,30}}|"
        rf"(?:ich habe|wir haben) (?:insgesamt {_AMOUNT.replace('?P<v>', '?P<w>')}|{_AMOUNT.replace('?P<v>', '?P<x>')} (?:insgesamt|"
        rf"zur verfügung))"
        rf"\b.{{0,30}}|(?:tengo|tenemos) {_AMOUNT.replace('?P<v>', '?P<y>')} (?:en total|para gastar)\b.{{0,30}}|"
        rf"(?:j['’]ai|nous avons|on a) {_AMOUNT.replace('?P<v>', '?P<z>')} (?:en tout|au total|à dépenser)\b.{{0,30}}"
    ),
    "address": (
        r"(?:my|our|the)(?: delivery| shipping| home| new)? address is (?P<v>.{2,40}\d.{0,20}|\d.{4,50})|"
        r"(?:meine|unsere|die) (?:neue |liefer)?(?:adresse|anschrift) (?:ist|lautet) (?P<w>.{2,40}\d.{0,8})|"
        r"(?:mi|nuestra|la) dirección(?: de (?:entrega|envío))? es (?:la )?(?P<x>.{2,40}\d.{0,12})|"
        r"(?:mon|notre|l['’])\s?adresse(?: de livraison)? est (?:le |au )?(?P<y>\d.{4,50})"
    ),
    "phone": (
        r"(?:it['’]s|it is|that['’]s|(?:es|das|sie) (?:ist|lautet)(?: die)?|es (?:el )?|c['’]est (?:le )?)\s?(?P<v>(?:\+|"
        r"0)\d[\d ()/-]{6,16}\d)"
    ),
    "age": (
        rf"(?:my|our) {_KIN} is (?:now )?(?P<v>\d{{1,3}})(?: years old)?|"
        rf"(?:meine?|unsere?) {_KIN.replace('?P<who>', '?P<whoa>')} ist (?:jetzt )?(?P<w>\d{{1,3}})(?: jahre alt)?|"
        rf"(?:mi|nuestr[oa]) {_KIN.replace('?P<who>', '?P<whob>')} tiene (?P<x>\d{{1,3}}) años|"
        rf"(?:mon|ma|notre) {_KIN.replace('?P<who>', '?P<whoc>')} a (?P<y>\d{{1,3}}) ans"
    ),
    "occupation": rf"(?:i work as|i['’]m|i am|(?:the )?user (?:works as|is)) an? {_JOB}\b.{{0,40}}",
}
_PATTERNS = {attribute: LazyPattern(pattern, re.I) for attribute, pattern in _SAID.items()}
_KIN_BEFORE = LazyPattern(rf"\b(?:my|our|meine?n?|unsere?n?|mi|ma|mon|notre) {_KIN}$", re.I)
_THEIR_AGE = LazyPattern(
    r"(?:(?:s?he)(?:['’]s| is)(?: turning)? (?P<v>\d{1,3})(?: years old)?|(?:er|sie) ist (?P<w>\d{1,3})(?: jahre alt)?|"
    r"tiene (?P<x>\d{1,3}) años|"
    r"(?:il|elle) a (?P<y>\d{1,3}) ans)\b.{0,12}",
    re.I,
)
_MARKS = " \t\n.*_-•"
_LABELLED = re.compile(r"(?P<label>[^\W\d][^:\n]{2,40}?)\s?: ?(?P<value>[^:\n]{1,80})")
_WHOSE = LazyPattern(
    r"\b(?:of the )?(?:user|customer|client)(?:['’]s)?\b|\b(?:des |der )(?:nutzers?|nutzerin|kunden|kundin)\b|"
    r"\b(?:del |de la )(?:usuari[oa]|cliente)\b|\b(?:de l['’]utilisat(?:eur|rice)|d[ue] (?:la )?cliente?)\b",
    re.I,
)
"""In a label: of whom its value is said."""
_NONE = frozenset(["no", "zero", "keine", "keinen", "kein", "ningun", "ninguna", "aucun", "pas"])


@lru_cache(maxsize=512)
def told(sentence: str, language: str = "en", *, of_memory: bool = False) -> tuple[Declared, ...]:
    """What the clauses of `sentence` say in passing; nothing of one that supposes, quotes or tells of the past."""
    if len(sentence) > MAX_CHARS or _WORTH_READING.search(sentence) is None:
        return ()
    present = _SO_FAR.sub(" ", sentence)
    if cues.is_hypothetical(sentence) or cues.is_past(present) or cues.is_quoted(sentence):
        return ()
    found: dict[tuple[str, str], Declared] = {}
    if not of_memory and (match := _INSTEAD.search(sentence)) is not None:
        found[INSTEAD, ""] = Declared(INSTEAD, "now", *match.span(), scope=folded(match["old"]).strip(), change=True)
    before = ""
    for start, end in _clauses(sentence):
        said = _plainer(sentence[start:end])
        one = _read(said, language, before, of_memory=of_memory)
        if one is not None:
            found.setdefault((one.attribute, one.scope), replace(one, start=start, end=end))
        before = sentence[start:end]
    return tuple(found.values())


def labelled(line: str, language: str = "en") -> tuple[Declared, ...]:
    """What a line tells of the user that says whose it is, whoever wrote it: "User location: New York", "Wohnort der Kundin: Köln"."""
    match = _LABELLED.fullmatch(line.strip(_MARKS))
    if match is None or (whose := _WHOSE.search(match["label"])) is None:
        return ()
    label = f"{match['label'][: whose.start()]} {match['label'][whose.end() :]}".strip()
    found = read_clause(f"{label}: {match['value']}", language, of_memory=True)
    start = line.find(match["value"])
    return () if found is None else (replace(found, start=start, end=start + len(match["value"])),)


def clash_told(older: Statement, newer: Statement) -> tuple[Declared, Declared] | None:
    """The first two things told in `older` and `newer` that exclude each other."""
    found = ((old, new) for new in newer.tells for old in older.tells if _exclude(old, new))
    return next(found, None)


def named_before(text: str, what: str) -> tuple[int, int] | None:
    """Where an earlier text names, word by word, what something is to take the place of."""
    match = re.search(rf"(?<!\w){re.escape(what)}(?!\w)", folded(text)) if what else None
    return match.span() if match is not None else None


def _exclude(old: Declared, new: Declared) -> bool:
    if old.attribute == new.attribute == "allergy" and ANY in (old.value, new.value):
        return old.negated != new.negated
    return contradict(old, new)


def _clauses(sentence: str) -> Iterator[tuple[int, int]]:
    at = 0
    for number, cut in enumerate(_CUT.finditer(sentence)):
        if number >= MAX_CLAUSES:
            return
        if cut.start() > at:
            yield at, cut.start()
        at = cut.end()
    if at < len(sentence):
        yield at, len(sentence)


def _plainer(clause: str) -> str:
    """`clause` without what it opens and closes with, in the words of a plain sentence."""
    bare = clause.strip(' \t.!…*_"“”')
    if (opener := _OPENERS.match(bare)) is not None:
        bare = bare if bare.lower().startswith("como carne") else bare[opener.end() :]
    bare = _CLOSERS.sub("", bare)
    bare = _CURRENT.sub(lambda match: f"{match[1]} ", _SHORT.sub(lambda match: f"{match[1]} {match[2]} is ", bare))
    return _AS_I.sub(lambda match: f"{match[1]} {match[3]} {match[2]}", bare)


def _read(said: str, language: str, before: str, *, of_memory: bool) -> Declared | None:
    plain = read_clause(said, language, of_memory=of_memory)
    if plain is not None:
        return plain
    kin = _KIN_BEFORE.search(before)
    if kin is not None and (match := _THEIR_AGE.fullmatch(said)) is not None:
        return Declared("age", _value(match), 0, 0, scope=folded(kin["who"]))
    for attribute, pattern in _PATTERNS.items():
        if (match := pattern.fullmatch(said)) is not None:
            return _declared(attribute, match, language)
    return None


def _value(match: re.Match[str]) -> str:
    groups = match.groupdict()
    return next((folded(text).strip(" .") for name, text in groups.items() if text and not name.startswith("who")), "")


def _declared(attribute: str, match: re.Match[str], language: str) -> Declared | None:
    """What a clause of `_SAID` says."""
    value, negated = _value(match), _NOT.search(match[0]) is not None
    if attribute in ("alcohol", "driving"):
        return Declared(attribute, attribute, 0, 0, negated=negated)
    if attribute == "allergy":
        return Declared(attribute, ANY, 0, 0, negated=True)
    if attribute == "children":
        number = 0 if negated or value in _NONE else number_of(value, language if language in LANGUAGES else "en")
        return None if number is None else Declared(attribute, str(number), 0, 0)
    if attribute == "budget":
        return Declared(attribute, amount, 0, 0) if (amount := _amount(value, language)) else None
    if attribute == "phone":
        return Declared(attribute, re.sub(r"\D", "", value)[-7:], 0, 0)
    if attribute == "handedness":
        return Declared(attribute, "right" if value[:3] in ("rig", "rec", "die", "dro") else "left", 0, 0)
    who = next((folded(text) for name, text in match.groupdict().items() if name.startswith("who") and text), "")
    return Declared(attribute, value, 0, 0, scope=who)


def _amount(text: str, language: str) -> str:
    """As `proxy.grounding.clashes.statements.plain` has a budget's value."""
    sort, value = sort_of(text, language)
    number = re.sub(r"[^\d]", "", text)
    return value if sort == "budget" else number
