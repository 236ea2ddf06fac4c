"""How English, German, Spanish and French say that a sentence is a question, a supposition, a quotation, a change of mind, or of others.

In: a sentence. Out: yes or no, or of whom it speaks. Used by `clashes.statements.reading`. The lists are this project's own; a
language that is not among the four has its question marks and quotation marks understood, and little else.
"""

from __future__ import annotations

import re

from proxy.language.patterns import LazyPattern
from proxy.language.telling_words import TellingWords

_QUESTION = LazyPattern(
    r"\s*(?:(?:and|but|so|or|und|aber|oder|y|pero|et|mais)\s+)?(?:what|which|who|whom|whose|where|when|why|how(?! about)|"
    r"(?:can|could|would|will|do|does|did|is|are|was|were|should|may|shall|have|has) (?:i|you|we|they|he|she|it|there|the|this|that|my)\b|"
    r"welche\w?|warum|wieso|wo|wann|wohin|wie (?:viel|lange|kann|komme|ist|wird)|(?:kannst|könntest|können|könnten|hast|haben|gibt|"
    r"würdest|weißt|soll|darf) (?:du|sie|ich|wir|es|man)\b|"
    r"¿|qué|cuál\w*|cuándo|dónde|adónde|quién\w*|por qué|cuánt\w+|(?:puedes|podrías|puede|podría|sabes|tienes|hay) (?!que\b)|"
    r"quel\w*|quand|où|pourquoi|qui (?:est|a|peut)|combien|est-ce que|qu'est-ce|(?:peux|pourrais|sais|as)-tu|(?:pouvez|pourriez|"
    r"savez|avez)-vous)\b.*",
    re.I | re.S,
)
_HYPOTHETICAL = LazyPattern(
    r"\b(?:what if|(?:even )?if (?!(?:possible|you can|available|that['’]s (?:ok|possible|fine)|i may|need be|necessary|not)\b)|suppose|"
    r"supposing|imagine|hypothetically|let['’]?s (?:say|assume|pretend)|assuming|pretend|in theory|in case|unless|might|perhaps|maybe|"
    r"possibly|would have|(?:i|we)['’]?(?: would|d)? wonder\w*|whenever|"
    r"(?:wenn|falls) (?!(?:möglich|es geht|nötig|verfügbar|das geht)\b)|angenommen|(?:stell dir|stellen sie sich) vor|"
    r"nehmen wir an|hypothetisch|theoretisch|sagen wir mal|vielleicht|möglicherweise|hätte ich|wäre ich|"
    r"si (?!(?:es posible|puedes|puede|se puede|hay|possible|c['’]est possible|vous (?:pouvez|voulez)|tu (?:peux|veux)|besoin)\b)"
    r"(?=\w+(?:era|iera|ara|ese|iese|iste|as|es)?\b)|supon(?:gamos|iendo)|supón|imagin(?:a|emos|ez|ons)|hipotéticamente|digamos|"
    r"tal vez|quizás?|a lo mejor|"
    r"s['’](?:il|ils) (?!(?:te|vous) pla[iî]t|est possible)|supposons|disons que|hypothétiquement|en théorie|peut-être|au cas où)",
    re.I,
)
_CONDITION_OF_PLACE = LazyPattern(r"\bin case of\b", re.I)
_PAST = LazyPattern(
    r"\b(?:used to|formerly|previously|back then|when i was|as a (?:child|kid)|years ago|früher|damals|ehemals|als kind|"
    r"vor (?:\w+ )?jahren|solía|antes (?:vivía|era|tenía|trabajaba|me|comía)|hace (?:\w+ )?años|de niñ[oa]|"
    r"autrefois|jadis|dans le temps|avant,? (?:j['’]|je|nous|on)|il y a (?:\w+ )?ans|(?:quand|lorsque) j['’]étais)\b",
    re.I,
)
_UPDATE = LazyPattern(
    r"(?:^|[.,;:!—–-]\s*|\b(?:but|oh|ok|okay|hm+|well|no|and|so|und|aber|ach|nein|pero|bueno|mais|bon|non|y|et)[,:]?\s+)"
    r"(?:actually|instead|rather|on second thou?ghts?|scratch that|never ?mind|no,? wait|wait,? no|correction|i meant|"
    r"sorry,? i meant|sorry,(?= (?:my|the|it|i|we)\b)|"
    r"let['’]?s (?:switch|change|make (?:it|that)|do .{0,30}instead)|(?:please )?(?:make|change|switch|update|correct) (?:it|that|"
    r"this|the|my)\b|"
    r"forget (?:what|that|about|it|the)|update:|edit:|"
    r"eigentlich|doch\b|stattdessen|lieber doch|korrektur|nein,? warte|moment,? nein|vergiss|vergessen sie|änder\w{1,3}|"
    r"mach(?:en)? (?:wir |sie )?"
    r"(?:es |das |daraus |lieber )|"
    r"mejor(?! (?:hotel|opción|precio|amig\w|momento))|en realidad|pensándolo (?:bien|mejor)|olvid[ae]\w*|corrección|no,? espera|"
    r"perdón,? quise|"
    r"cambi[ae]\w{0,3}|más bien|"
    r"finalement|en fait|à la réflexion|tout compte fait|oublie\w?|correction|non,? attends|plutôt|change[zr]?|modifie[zr]?)\b"
    r"|\b(?:changed? my mind|change of (?:mind|plans?)|changed? (?:our|the|my) (?:plan|order|booking|address|preference)s?|"
    r"from now on|as of (?:now|today)|no longer|not any ?more|\w*n['’]t \w[^.]{0,40}any ?more|any ?more$|after all|instead$|"
    r"i take (?:it|that) back|"
    r"(?:i|we)(?:['’]ve| have)? (?:just |recently )?(?:moved|relocated|switched|changed|quit)|"
    r"(?:es mir|es uns) (?:doch )?anders überlegt|doch (?:lieber|besser|eher|nicht)|ab (?:jetzt|sofort|heute)|nicht mehr|"
    r"kein\w{0,2} (?:\w+ )?mehr|"
    r"(?:bin|sind) (?:\w+ ){0,4}(?:umgezogen|gezogen)|umentschieden|"
    r"(?:cambi[éeó]|cambiado|cambiamos) de (?:opinión|idea|planes)|he cambiado|a partir de (?:ahora|hoy)|ya no|"
    r"me (?:he )?mud(?:é|ado)|prefiero mejor|"
    r"chang[ée]\w? d['’](?:avis|idée)|(?:j['’]ai|nous avons) changé|à partir de maintenant|désormais|dorénavant|ne \w+(?: \w+)? plus|"
    r"n['’]\w+(?: \w+)? plus|(?:j['’]ai|nous avons|on a) déménagé)\b",
    re.I,
)
_NOW = LazyPattern(
    r"\b(?:i|we|my|our|ich|wir|mein\w*|yo|mi|je|nous|mon|ma)\b.{0,25}\b(?:now|currently|these days|jetzt|inzwischen|"
    r"mittlerweile|neuerdings|ahora|actualmente|maintenant|actuellement)\b",
    re.I,
)
_QUOTED = LazyPattern(
    r"\s*(?:[-*]\s*)?(?:\"[^\"]{3,}\"|“[^”]{3,}”|„[^“”]{3,}[“”]|«[^»]{3,}»|‘[^’]{3,}’)[.,!?]?\s*(?:[-—–(].{0,80})?$|\s*>", re.S
)
_REPORTED = LazyPattern(
    r"\b(?:said|says|wrote|writes|claims?|claimed|told me|tells me|asked|according to|quote|quoted|the (?:review|article|email|ad|website|"
    r"book|text|song|message|post) (?:says|said|states|reads|claims)|"
    r"sagte?|schrieb|schreibt|behauptet\w?|meinte|laut|zitat|"
    r"dijo|dice|escribi[óo]|afirma|según|cita|"
    r"a dit|disait|écrit|affirme|selon|d['’]après)\b\s*(?:[,:]|that\b|dass\b|que\b|[\"“„«]|\w+[,:])?",
    re.I,
)
_QUOTE_MARKS = re.compile(r"[\"“”„«»]")
_PERSON = (
    r"(?:wife|husband|partner|girlfriend|boyfriend|mother|mom|mum|father|dad|son|daughter|kids?|child(?:ren)?|brother|sister|parents?|"
    r"friends?|boss|colleagues?|coworkers?|roommate|flatmate|neighbou?rs?|uncle|aunt|grandmother|grandma|grandfather|grandpa|cousins?|"
    r"team|client|customer|guests?|fianc[ée]e?|spouse|ex|"
    r"frau|mann|ehemann|ehefrau|partnerin|freund(?:in|e|innen)?|mutter|vater|mama|papa|sohn|tochter|kind(?:er)?|bruder|schwester|"
    r"eltern|chefin|chef|"
    r"kolleg\w+|mitbewohner\w*|nachbar\w*|onkel|tante|oma|opa|gäste|"
    r"esposa|esposo|mujer|marido|pareja|novi[oa]|madre|mamá|padre|papá|hij[oa]s?|niñ[oa]s|herman[oa]s?|padres|amig[oa]s?|jef[ea]|"
    r"compañer[oa]s?|vecin[oa]s?|tí[oa]|abuel[oa]s?|invitados|"
    r"femme|mari|épou(?:x|se)|compagn(?:e|on)|copine?|copain|mère|maman|père|fils|fille|enfants?|frère|sœur|soeur|parents|ami[es]{0,2}|"
    r"patron(?:ne)?|collègues?|colocataire|voisin(?:e|s)?|oncle|grand-(?:mère|père)|invités)"
)
_OTHERS = LazyPattern(
    rf"\b(?:my|our|his|her|their|the|a|one of my|"
    r"(?:user|client|customer)['’]s|meine?[nrms]?|unsere?[nrms]?|mis?|nuestr[oa]s?|una?|mon|ma|mes|notre|nos|un|une)\s+"
    rf"(?:best |old |older |younger |beste[nr]? |ältere[nr]? |mejor |meilleur\w? )?(?P<person>{_PERSON})\b(?!['’]s? (?:and|or) (?:i|me)\b)",
    re.I,
)
_OTHERS_ALONE = LazyPattern(
    r"^\s*(?:(?:and|but|und|aber|y|pero|et|mais)\s+)?(?P<person>he|she|they|er|él|ella|ellos|ellas|il|elle|ils|elles|some people|"
    r"many people|people|everyone|"
    r"most people|viele|manche|die meisten|la gente|algunos|muchos|les gens|certains|beaucoup|tout le monde)\s+"
    r"(?!(?:is|are|was|ist|sind|es|est|y a|faut|s['’]agit|would be|should be|must be)\b)",
    re.I,
)
_FIRST_PERSON = LazyPattern(
    r"\b(?:i|i['’](?:m|ve|d|ll)|me|my|mine|we|we['’](?:re|ve|d|ll)|us|our|ich|mir|mich|meine?\w{0,2}|wir|uns|unsere?\w{0,2}|yo|mí|"
    r"mi|me|nos|nosotros|"
    r"nuestr\w+|je|moi|mon|ma|mes|nous|notre)\b|\b[jm]['’]",
    re.I,
)
_ADDITION = LazyPattern(
    r"\b(?:also|too|as well|additionally|in addition|another|besides|then|afterwards|after that|next|second|both|"
    r"auch|außerdem|zusätzlich|noch|danach|anschließend|dann|weitere[rns]?|zweite[rns]?|sowohl|"
    r"también|además|luego|después|otr[oa]|segund[oa]|ambos|"
    r"aussi|également|en plus|puis|ensuite|autre|deuxième|seconde?)\b",
    re.I,
)
_SINGLE_WORD = re.compile(r"\w+")
# Nearly every sentence of a long text has none of the words that the large patterns look for: to look for those first takes a tenth of
# the time. Of what `_FIRST_PERSON` matches each has one of these words, or one of these stems in it; a pronoun alone is enough.
_PRONOUNS = frozenset(
    "i me my mine we us our ich mir mich wir uns yo mí mi nos nosotros je moi mon ma mes nous notre".split()  # noqa: SIM905
)
_SHORTENED = frozenset(("j", "m"))
_PRONOUN_STEMS = ("mein", "unser", "nuestr")
# Of what `_UPDATE` and `_NOW` match each has one of these words or stems, or one of the frequent words and the group that it is wanted in.
_NEWS_WORDS = frozenset(
    """
    actually instead rather wait correction meant sorry switch make update correct forget edit moved relocated switched quit now currently
    eigentlich doch stattdessen lieber korrektur warte vergiss vergessen mach machen überlegt jetzt mehr umgezogen gezogen
    umentschieden inzwischen mittlerweile neuerdings
    mejor realidad pensándolo corrección espera quise mudé mudado ahora actualmente
    finalement réflexion attends plutôt désormais dorénavant plus déménagé maintenant actuellement
    """.split()  # noqa: SIM905
)
_NEWS_STEMS = ("chang", "änder", "olvid", "cambi", "oubli", "modifie", "instead", "anymore", "any more")
_FREQUENT_WORDS = frozenset(
    "second scratch never nevermind longer all back today days heute sofort moment más partir ya fait".split()  # noqa: SIM905
)
_NEWS_GROUPS = (
    *("second tho", "scratch that", "never mind", "nevermind", "no longer", "after all"),
    *(" it back", " that back", "as of today", "these days", "ab heute", "ab sofort", "moment nein", "moment, nein"),
    *("más bien", "partir de", "ya no", "en fait", "compte fait"),
)


def is_question(sentence: str) -> bool:
    """Whether it asks: by its mark, or by how it begins."""
    bare = sentence.rstrip(" \t\n\"'”’»*_)")
    return bare.endswith(("?", "？")) or (not bare.endswith(("!", ".")) and _QUESTION.fullmatch(sentence) is not None)


def is_hypothetical(sentence: str) -> bool:
    """Whether it supposes, or holds on a condition only."""
    return _HYPOTHETICAL.search(sentence) is not None and _CONDITION_OF_PLACE.search(sentence) is None


def is_past(sentence: str) -> bool:
    """Whether it tells what once was."""
    return _PAST.search(sentence) is not None


def is_quoted(sentence: str) -> bool:
    """Whether it is somebody else's words: all in quotation marks, marked as a quotation, or reported with them."""
    if _QUOTED.match(sentence) is not None:
        return True
    return _REPORTED.search(sentence) is not None and (
        len(_QUOTE_MARKS.findall(sentence)) > 1 or _FIRST_PERSON.search(sentence.split(",")[0]) is None
    )


def is_update(sentence: str) -> bool:
    """Whether it is said as a change of mind, a correction or news: "actually", "doch lieber", "ya no", "finalement"."""
    return _may_be_news(*_folded_words(sentence)) and _is_news(sentence)


def _is_news(sentence: str) -> bool:
    return _UPDATE.search(sentence) is not None or _NOW.search(sentence) is not None


def _folded_words(sentence: str) -> tuple[str, list[str]]:
    """A sentence in small letters, and its words."""
    plain = in_small_letters(sentence)
    return plain, _SINGLE_WORD.findall(plain)


def in_small_letters(text: str) -> str:
    """`text` in small letters, with those among them that a pattern without regard to case takes for one."""
    plain = text.lower()
    return plain if plain.isascii() else plain.replace("i\u0307", "i").replace("ı", "i").replace("ſ", "s")


def _may_be_news(plain: str, words: list[str]) -> bool:
    if not _NEWS_WORDS.isdisjoint(words) or any(map(plain.__contains__, _NEWS_STEMS)):
        return True
    return not _FREQUENT_WORDS.isdisjoint(words) and any(map(plain.__contains__, _NEWS_GROUPS))


def _tells(word: str) -> bool:
    """Whether a word in small letters, with the marks around it, may make a sentence personal or news."""
    return not _TELLING_WORDS.isdisjoint(_SINGLE_WORD.findall(word)) or any(map(word.__contains__, _TELLING_STEMS))


_TELLING_WORDS = _PRONOUNS | _SHORTENED | _NEWS_WORDS | _FREQUENT_WORDS
_TELLING_STEMS = tuple(stem.split()[-1] for stem in (*_NEWS_STEMS, *_PRONOUN_STEMS))
_TELLING = TellingWords(_tells)


def is_addition(sentence: str) -> bool:
    """Whether it adds to what was said: "also", "danach", "otro", "puis"."""
    return _ADDITION.search(sentence) is not None


def other_person(sentence: str) -> str:
    """Whose preference or fact it is, where that is not the speaker: ``wife``, ``he``; "" where it is the speaker, or nobody."""
    found = _OTHERS.search(sentence)
    if found is not None and _speaks_of(sentence, found):
        return (found["person"] or "").lower()
    alone = _OTHERS_ALONE.match(sentence)
    return (alone["person"] or "").lower() if alone is not None else ""


def _speaks_of(sentence: str, found: re.Match[str]) -> bool:
    """Whether the person named is whom the sentence is about: the speaker does not stand before them ("I travel with my wife")."""
    before = sentence[: found.start()]
    after = sentence[found.end() : found.end() + 14].lower()
    if re.match(r"\s+(?:and|und|y|et) (?:i|me|ich|yo|moi)\b|,?\s+et moi", after):
        return False
    return _FIRST_PERSON.search(before) is None


def is_first_person(sentence: str) -> bool:
    """Whether the speaker speaks of themselves."""
    return _has_pronoun(sentence, *_folded_words(sentence))


def _has_pronoun(sentence: str, plain: str, words: list[str]) -> bool:
    if not _PRONOUNS.isdisjoint(words):
        return True
    perhaps = not _SHORTENED.isdisjoint(words) or any(map(plain.__contains__, _PRONOUN_STEMS))
    return perhaps and _FIRST_PERSON.search(sentence) is not None


def is_personal_or_news(sentence: str) -> bool:
    """Whether it `is_first_person` or `is_update`."""
    plain = in_small_letters(sentence)
    if not _TELLING.any_in(plain):
        return False
    words = _SINGLE_WORD.findall(plain)
    return _has_pronoun(sentence, plain, words) or (_may_be_news(plain, words) and _is_news(sentence))


def words_in(sentence: str) -> int:
    """How many words it has."""
    return len(_SINGLE_WORD.findall(sentence))
