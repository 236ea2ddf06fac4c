"""Sentences that say plainly, and say nothing else, what one person has one of: "I live in Rome.", "Call me Tom.", "Ich bin kein Veganer."

In: a sentence. Out: `Declared`s, of each its attribute and normalised value. The whole sentence, or each of its clauses, has to be one of
the sentences of `clashes.plain_words`: a condition, a time, a second thing, a wish, a supposition or another person
makes it something else, without a list of all of them. `contradict` says whether two values cannot both be so. What the sentences around
them take away from what they say is `proxy.grounding.clashes.certainty`'s.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from proxy.grounding.clashes import places, plain_things, plain_words
from proxy.grounding.clashes.kinds import Declared
from proxy.grounding.clashes.plain_words import MAKE_IT, makes_it, may_speak, patterns, speaks_plainly
from proxy.language.dates import read_dates
from proxy.language.names import folded
from proxy.language.number_words import LANGUAGES, word_value
from proxy.language.patterns import LazyPattern
from proxy.language.quantities import read_quantities
from proxy.language.units import MONEY

MAX_CHARS = 160
"""A longer sentence says more than one thing."""
_ENDS = " \t\n.!…*_"
_LEAD_IN = LazyPattern(
    r"(?:(?:hi|hello|hey|thanks|thank you|great|ok|okay|please note(?: that)?|note that|by the way|fyi|just so you know|well|yes|"
    r"hallo|guten (?:tag|morgen|abend)|danke|gut|übrigens|ja|hola|buenos días|gracias|por cierto|vale|sí|bonjour|salut|merci|au fait|oui)"
    r"(?: (?:there|again|you|everyone|zusammen|à tous))?(?:\s*[,!:–—-]\s*|\s+(?=i\b|i['’]|my\b|ich\b|mein|mi\b|je\b|j['’])))+",
    re.I,
)
_CHANGE = LazyPattern(
    r"(?:(?:no|oh|oops|wait|no,? wait|actually|sorry|my mistake|correction|update|on second thoughts?|scratch that|never ?mind|"
    r"i(?:['’]ve)? changed my mind|change of plans?|i mean|i meant(?: to say)?|that (?:was|is) wrong|"
    r"forget what i said(?: before| earlier)?|"
    r"nein|ach nein|doch|moment|warte|nein,? warte|eigentlich|entschuldigung|korrektur|das war falsch|ich meinte|"
    r"ich habe (?:es mir anders überlegt|meine meinung geändert)|vergiss,? was ich(?: vorhin)? gesagt habe|"
    r"no,? espera|espera|en realidad|perdón|perdona|corrección|mejor dicho|quise decir|he cambiado de (?:opinión|idea)|"
    r"olvida lo que (?:he dicho|dije)|non|non,? attends|attends|en fait|finalement|pardon|désolée?|je voulais dire|"
    r"j['’]ai changé d['’]avis|oublie ce que j['’]ai dit)\s*[,.:;!–—-]+\s*|"
    r"(?:actually|instead|correction|update|i meant(?: to say)?|eigentlich|en realidad|en fait|finalement)\s+)+",
    re.I,
)
"""What says that something else was said before."""
_WORD = re.compile(r"\w*")
_OPENING = frozenset(
    """
    hi hello hey thanks thank great ok okay please note by fyi just well yes hallo guten danke gut übrigens ja hola buenos gracias por vale
    sí bonjour salut merci au oui
    no oh oops wait actually sorry my correction update on scratch never nevermind i change that forget instead
    nein ach doch moment warte eigentlich entschuldigung korrektur das ich vergiss
    espera en perdón perdona corrección mejor quise he olvida
    non attends finalement pardon désolé désolée je j oublie
    """.split()  # noqa: SIM905
)
"""With one of these words begins whatever `_LEAD_IN` and `_CHANGE` match: few sentences do."""
IT = "it"
"""The attribute of "make it 8 pm": its scope says of what sort the value is, ``time``, ``budget`` or ``price level``."""
REPLY_LANGUAGE = "reply language"
WISHES = frozenset((IT, REPLY_LANGUAGE, "budget", "diet", "allergy", "seat", "price level"))
"""Attributes by which somebody says what they want or may have, and not only what is so."""
_NO_NAMES = frozenset(
    """
    i ich yo je a the monday tuesday wednesday thursday friday saturday sunday montag dienstag mittwoch donnerstag freitag samstag sonntag
    tomorrow today back later maybe lunes martes miercoles jueves viernes sabado domingo lundi mardi mercredi jeudi vendredi samedi
    dimanche home bald morgen heute zuruck manana hoy demain
    """.split()  # noqa: SIM905
)
_LINKS = frozenset(("de", "la", "del", "las", "los", "am", "der", "of", "the", "upon", "sur", "le", "les", "den", "an", "von", "van", "du"))
_ARTICLE = re.compile(r"^(?:the |la |las |los |el |les |le |l['’])", re.I)
_SCOPE_CHARS = 4
"""Letters that tell hotels from flights: hotel, hotels, hoteles."""
BUDGET_SHARE = 0.05
"""Budgets that differ by less are the same, rounded."""
_PHONE_DIGITS = 7
"""As many last digits are the same whether or not the country's number stands before them."""


def may_declare(sentence: str) -> bool:
    """Whether `sentence` begins, behind greetings and words of change, as one of somebody's own that declares something."""
    said = sentence.rstrip(_ENDS)
    return len(said) <= MAX_CHARS and may_speak(said[_opened(sentence)[0] :])


def declared(sentence: str, language: str | Callable[[], str] = "en", *, of_memory: bool = False) -> tuple[Declared, ...]:
    """What `sentence` declares, where that is all that it says.

    Of somebody's own words only sentences in the first person, or of a person by name, count; a memory also speaks of "the user".
    `language` may be a function, for where it is not known yet: few sentences come so far that it matters.
    """
    end = len(sentence.rstrip(_ENDS))
    if not 0 < end <= MAX_CHARS:
        return ()
    start, change = _opened(sentence)
    if not of_memory and makes_it(sentence[start:]) and (made := _made(sentence, start, end)):
        return made
    one = _read(sentence, start, end, language, of_memory=of_memory, change=change)
    return (one,) if one is not None else ()


def is_change(sentence: str) -> bool:
    """Whether it opens as a change of mind, a correction or news: "actually", "doch", "ya no", "finalement"."""
    return _opened(sentence)[1]


def _opened(sentence: str) -> tuple[int, bool]:
    """Where the statement begins behind greetings and words of change, and whether there are such."""
    at, change = 0, False
    while _may_open(sentence, at):
        lead, turn = _LEAD_IN.match(sentence, at), _CHANGE.match(sentence, at)
        change = change or turn is not None
        end = max((match.end() for match in (lead, turn) if match is not None), default=at)
        if end == at:
            break
        at = end
    return at, change


def _may_open(sentence: str, at: int) -> bool:
    word = _WORD.match(sentence, at)
    return word is not None and word[0].lower() in _OPENING


def _made(sentence: str, start: int, end: int) -> tuple[Declared, ...]:
    """What "it" is to be."""
    match = MAKE_IT.fullmatch(sentence[start:end])
    if match is None or match.lastgroup is None:
        return ()
    language, text = match.lastgroup, match[match.lastgroup]
    sort, value = sort_of(text, language)
    return (Declared(IT, value, start, end, scope=sort, change=True),) if value else ()


def sort_of(text: str, language: str) -> tuple[str, str]:
    """Of what sort a value is that nothing is said of, and the value; "" for both where it is not just one."""
    for sort in ("time", "budget", "price level"):
        values = values_in(text, sort, language)
        if [(0, len(text))] == list(values.values()):
            return sort, next(iter(values))
    return "", ""


def values_in(text: str, sort: str, language: str) -> dict[str, tuple[int, int]]:
    """The values of one sort that a text names, and where: ``time``, the same for both halves of the day where the text does not say which,
    ``budget`` or ``price level``.
    """
    if sort == "price level":
        return {_level(match[0]): match.span() for match in _PRICE_LEVEL.finditer(text)}
    read = read_quantities(text, language)
    if sort == "time":
        return {"/".join(str(minute) for minute in sorted(time.minutes)): (time.start, time.end) for time in read.times}
    money = (number for number in read.numbers if number.dimension in MONEY)
    return {f"{number.base_values()[0]:g}": (number.start, number.end) for number in money}


_PRICE_LEVEL = LazyPattern(
    r"\b(?:(?P<low>cheap\w*|budget(?! is|\w| of|:)|affordable|inexpensive|günstig\w*|billig\w*|barat\w+|económic\w+|bon marché|pas chers?)|"
    r"luxur\w+|deluxe|upscale|luxus\w*|luxuriös\w*|(?:de )?luj\w+|(?:de )?luxe)\b",
    re.I,
)


def _level(words: str) -> str:
    found = _PRICE_LEVEL.match(words)
    return "low" if found is not None and found["low"] else "high"


def _read(sentence: str, start: int, end: int, language: str | Callable[[], str], *, of_memory: bool, change: bool) -> Declared | None:
    """``sentence[start:end]`` as a declaration."""
    said = sentence[start:end]
    if not of_memory and not speaks_plainly(said):
        return None
    for attribute, pattern in patterns().items():
        match = pattern.fullmatch(said)
        if match is None:
            continue
        groups = {name.partition("_")[0]: text for name, text in match.groupdict().items() if text is not None}
        value = _VALUES[attribute](groups["v"], language if isinstance(language, str) else language())
        if value is None:
            continue
        scope = folded(groups.get("who", "") or groups.get("scope", "")).strip()
        attribute, value, scope = _sorted_in(attribute, value, scope)
        before = places.place(folded(groups["frm"])) if "frm" in groups else ""
        change = change or "new" in groups
        negated, of_task = "no" in groups, "task" in groups
        return Declared(attribute, value, start, end, scope=scope, negated=negated, change=change, before=before, of_task=of_task)
    return None


def _sorted_in(attribute: str, value: str, scope: str) -> tuple[str, str, str]:
    """A number by what is counted, a product by the place that it takes, a price level by what has it, whatever the grammar."""
    if attribute == "number":
        return f"number of {plain_things.thing(scope)}", value, ""
    if attribute == "product":
        place, name = plain_things.product(value)
        return place, name, "" if scope in plain_things.PRODUCTION else scope
    return attribute, value, scope[:_SCOPE_CHARS] if attribute == "price level" else scope


# ---- values ----


def _name(text: str, language: str) -> str | None:
    """A name: each word with a capital letter, or a small word that names have."""
    words = text.replace(",", " ").split()
    known = places.is_known(folded(text))
    if not known and not all(word[0].isupper() or (i and word in _LINKS) for i, word in enumerate(words)):
        return None
    plain = " ".join(folded(text).strip(" .,'").split())
    return None if plain in _NO_NAMES else plain


def _place(text: str, language: str) -> str | None:
    name = _name(text, language)
    return places.place(name) if name is not None else None


def _employer(text: str, language: str) -> str | None:
    name = _name(text, language)
    return None if name is None or places.is_known(name) else name


def _day(text: str, language: str) -> str | None:
    """One day of the year, and nothing else."""
    dates = read_dates(text)
    if len(dates) != 1 or (dates[0].start, dates[0].end) != (0, len(text.rstrip(" ."))) or dates[0].decade:
        return None
    readings = {(month, day) for _, month, day in dates[0].readings}
    return "/".join(f"{month:02d}-{day:02d}" for month, day in sorted(readings)) if all(month and day for month, day in readings) else None


def _count(text: str, language: str) -> str | None:
    """How many, in figures or words; not none."""
    word = text.lower()
    tongues = (language, *LANGUAGES) if language in LANGUAGES else LANGUAGES
    number = float(word) if word.isdigit() else next((v for tongue in tongues if (v := word_value(word, tongue)) is not None), None)
    number = _TOGETHER.get(word) if number is None else number
    return f"{number:g}" if number and (word.isdigit() or number < 200) else None


_TOGETHER = {"zweit": 2, "dritt": 3, "viert": 4, "fünft": 5, "sechst": 6}
"""Of "zu zweit"."""


def _how_many(text: str, language: str) -> str | None:
    """How many there are, none among them."""
    word = folded(text)
    if word in plain_things.NONE:
        return "0"
    return "1" if word in plain_things.ONE else _count(text, language)


def _workplace(text: str, language: str) -> str | None:
    """A known place, since much else that somebody works in has a capital letter; also in "unser Londoner Büro"."""
    name = folded(text).strip()
    found = next(
        (
            one
            for one in (name, name.removesuffix("er"), f"{name.removesuffix('er')}en", f"{name.removesuffix('ner')}en")
            if places.is_known(one)
        ),
        None,
    )
    return None if found is None else places.place(found)


def _money(text: str, language: str) -> str | None:
    """``500 EUR``; the unit is left out where none is said."""
    quantities = read_quantities(text.strip(), language).numbers
    if len(quantities) != 1:
        return None
    return f"{quantities[0].base_values()[0]:g} {quantities[0].dimension}".strip()


def _food(text: str, language: str) -> str | None:
    word = re.sub(r"^(?:eine[mnr]? |einen )", "", _ARTICLE.sub("", folded(text)))
    return word if word.endswith("ss") else word.removesuffix("s") or None


_KINDS = (
    ("vegan", "vegan vegetalien"),
    ("vegetarian", "vegetari vegetarier"),
    ("pescatarian", "pesc"),
    ("pork", "pork schwein cerdo porc"),
    ("meat", "meat fleisch carne viande"),
    ("fish", "fish fisch poisson"),
    ("dairy", "cheese kase queso fromage"),
    ("window", "window fenster ventan hublot fenetre"),
    ("aisle", "aisle gang pasillo couloir"),
    ("low", "budget cheap afford inexpens low-cost gunstig billig preiswert barat econom bon pas"),
    ("high", "luxur five-star 5-star 5 cinq high-end upscale premium luxus gehoben teur funf-stern de"),
    ("married", "married verheiratet casad marie"),
    ("single", "single ledig solter celibataire"),
    ("divorced", "divorc geschieden"),
    ("smokes", "smok rauch fum"),
)


def _kind(text: str, language: str) -> str | None:
    """One name for a word of a closed list, whatever the language."""
    plain = folded(text)
    if plain == "pescado":
        return "fish"
    return next((kind for kind, stems in _KINDS if plain.startswith(tuple(stems.split()))), None)


_LEFT_OUT = {
    "vegan": frozenset(("meat", "pork", "fish", "dairy")),
    "vegetarian": frozenset(("meat", "pork", "fish")),
    "pescatarian": frozenset(("meat", "pork")),
}


_VALUES: dict[str, Callable[[str, str], str | None]] = {
    "location": _place,
    "name": _name,
    "nickname": _name,
    "employer": _employer,
    "workplace": _workplace,
    "number": _how_many,
    "product": lambda text, _: text,
    "email": lambda text, _: text.lower(),
    "phone": lambda text, _: re.sub(r"\D", "", text)[-_PHONE_DIGITS:],
    "birthday": _day,
    "age": _count,
    "people": _count,
    "budget": _money,
    "allergy": _food,
    "diet": _kind,
    "seat": _kind,
    "price level": _kind,
    "marital status": _kind,
    "smoking habit": _kind,
    REPLY_LANGUAGE: lambda text, _: next(name for name, words in plain_words.TONGUES.items() if text.lower() in words.split()),
}


# ---- two values ----


def contradict(older: Declared, newer: Declared) -> bool:
    """Whether the two cannot both be so of one person at one time, for certain."""
    if (older.attribute, older.scope) != (newer.attribute, newer.scope):
        pairs = ((older, newer), (newer, older))
        return any(plain_things.is_more_than_all(part.attribute, part.value, whole.attribute, whole.value) for part, whole in pairs)
    judge = _JUDGES.get(older.attribute)
    if judge is not None:
        return judge(older, newer)
    return _other_value(older, newer, lambda one, other: one != other)


def _other_value(older: Declared, newer: Declared, exclude: Callable[[str, str], bool]) -> bool:
    """Two values of which each excludes the other, or the same once said and once denied."""
    if older.negated or newer.negated:
        return older.negated != newer.negated and older.value == newer.value
    return exclude(older.value, newer.value)


def _locations(older: Declared, newer: Declared) -> bool:
    """A move is one whatever the places; two plain statements only where it is known that neither lies in the other."""
    if newer.before and not older.negated:
        return places.place(older.value) == newer.before and older.value != newer.value
    if newer.change:
        return _other_value(older, newer, lambda one, other: not places.can_both_hold(one, other))
    return _other_value(older, newer, places.are_apart)


def _names(older: Declared, newer: Declared) -> bool:
    """Two names of which neither is a part, or a short form, of the other."""
    return _other_value(older, newer, lambda one, other: not (_is_part(one, other) or _is_part(other, one)))


def _is_part(short: str, long: str) -> bool:
    """Whether its letters stand in the other in their order, from the same first letter on: Tom of Thomas, Anna of Anna Schmidt."""
    letters = iter(long)
    return short[:1] == long[:1] and all(letter in letters for letter in short)


def _allergies(older: Declared, newer: Declared) -> bool:
    """One can have several: only the same one, said and denied."""
    return older.value == newer.value and older.negated != newer.negated


def _days(older: Declared, newer: Declared) -> bool:
    return not set(older.value.split("/")) & set(newer.value.split("/"))


def _budgets(older: Declared, newer: Declared) -> bool:
    (one, _, unit), (other, _, other_unit) = older.value.partition(" "), newer.value.partition(" ")
    if unit and other_unit and unit != other_unit:
        return False
    worth = sorted((float(one), float(other)))
    return worth[1] - worth[0] > BUDGET_SHARE * worth[1]


def _diets(older: Declared, newer: Declared) -> bool:
    """What one leaves out and the other eats; or a diet said and denied."""
    if older.value == newer.value:
        return older.negated != newer.negated
    leaves = [_LEFT_OUT.get(one.value, frozenset()) if not one.negated else frozenset() for one in (older, newer)]
    eats = [one.value if one.value not in _LEFT_OUT and not one.negated else "" for one in (older, newer)]
    return eats[1] in leaves[0] or eats[0] in leaves[1]


_JUDGES: dict[str, Callable[[Declared, Declared], bool]] = {
    "location": _locations,
    "workplace": _locations,
    **dict.fromkeys(plain_things.PLACES, lambda older, newer: _other_value(older, newer, plain_things.other_product)),
    "name": _names,
    "nickname": _names,
    "employer": _names,
    "birthday": _days,
    "budget": _budgets,
    "diet": _diets,
    "allergy": _allergies,
}
