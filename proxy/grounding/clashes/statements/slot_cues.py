"""The words by which `clashes.statements.slots` knows a slot: cues and values in English, German, Spanish and French. Compiled
at first use."""

from __future__ import annotations

import re
from functools import cache

from proxy.language.number_words import LANGUAGES, word_value
from proxy.language.patterns import LazyPattern

Patterns = dict[str, re.Pattern[str]]
_ME = (
    r"(?:i|we|the user|user|the customer|customer|ich|wir|der (?:nutzer|kunde)|yo|el (?:usuario|cliente)|l['’](?:utilisateur|"
    r"client)|je|nous)"
)
NEGATED_BEFORE = LazyPattern(
    r"\b(?:not|n['’]t|no|never|nicht|kein\w{0,2}|nie|no|nunca|ni|ne|n['’]\w+|pas|jamais|anything but|no longer|"
    r"ya no)\b(?:\s+\w+){0,2}\s*$|n['’]t(?:\s+\w+){0,2}\s*$",
    re.I,
)
AT_MOST = LazyPattern(
    r"\b(?:max(?:imum|imal)?|up to|at most|not more than|no more than|limit(?: of| is)?|höchstens|"
    r"(?:\w*n['’]t|cannot|not|never) (?:\w+ ){0,3}more than|nicht mehr als|bis(?: zu)?|hasta|máximo|no \w+ (?:\w+ )?más de|"
    r"jusqu['’]à|plafond|pas (?:\w+ )?plus de)\b[\s.:]*(?:of|de|von|is)?\s*[$€£]?$",
    re.I,
)
NO_NAMES = frozenset(
    (
        "i",
        "ich",
        "yo",
        "je",
        "a",
        "the",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
        "montag",
        "dienstag",
        "mittwoch",
        "donnerstag",
        "freitag",
        "samstag",
        "sonntag",
    )
)
BUDGET = LazyPattern(
    r"(?P<own>\b(?:budget|presupuesto|spending limit|preisgrenze|kostenrahmen)\b)|\b(?:spend|pay|afford|"
    r"(?:should|may|can|must|darf|soll\w*|kann|puede|debe|peut|doit)\b.{0,30}\b(?:cost|kosten|costar|coûter)|"
    r"under|below|up to|at most|no more than|less than|maximum|max|"
    r"ausgeben|bezahlen|zahlen|unter|höchstens|maximal|bis zu|"
    r"gastar|pagar|menos de|hasta|máximo|"
    r"dépenser|payer|moins de|jusqu'à|maximum|au plus)\b",
    re.I,
)
WEEKDAY = LazyPattern(
    r"\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag|lunes|martes|"
    r"miércoles|jueves|viernes|"
    r"sábado|domingo|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche)\b",
    re.I,
)
HOUR = LazyPattern(r"\b(?:at|um|a las?|à)\s(?P<hour>\d{1,2})(?=\s?(?:uhr|heures?|h)?\s?(?:[.,!]|$))", re.I)
"""A bare hour, of either half of the day."""
_WEEKDAYS = ("mon lun", "tue die mar", "wed mit mié mer", "thu don jue jeu", "fri fre vie ven", "sat sam sáb", "sun son dom dim")


def weekday(word: str) -> str:
    """``mon`` … ``sun``."""
    start = word.lower()[:3]
    return next((names.split()[0] for names in _WEEKDAYS if start in names.split()), start)


SEVERAL_OF_THEM = LazyPattern(
    r"\b(?:have|had|got|there['’]?s|there is|habe|haben|gibt|tengo|tenemos|hay|j['’]ai|avons|il y a) "
    r"(?:\w+ ){0,3}?(?:an?|another|some|eine?n?|un|una|des) ",
    re.I,
)
"""Who has "a meeting" may have another one."""
COMPANION = LazyPattern(
    r"\b(?:with|mit|con|avec)\s+"
    r"(?:(?:my|our|the|meine?[rmn]?|unsere?[rmn]?|de[rm]|mi|nuestr[oa]|el|la|mon|ma|notre|le) )?(?P<who>[^\W\d]+)",
    re.I,
)
"""Who else is there: a meeting with Anna is not the one with Bob."""


@cache
def date_scopes() -> Patterns:
    """What a date or a time may be of."""
    return compiled(
        {
            "return": r"return\w*|"
            r"(?:fl(?:y|ying|ight)|com(?:e|ing)|go(?:ing)?|way|trip|train|journey|drive|travel\w*|head(?:ing)?) (?:back|home)|"
            r"(?:rück|heim)(?:flug|reise|fahrt|weg)|zurück\w*|vuelta|regres\w+|volver|retour|rentr\w+|reven\w+",
            "arrival": r"arriv\w+|check[ -]?in|ankunft|ankomm\w+|anreise\w*|lleg\w+|arrivée",
            "checkout": r"check[ -]?out|abreise\w*",
            "departure": r"depart\w*|leav\w+|flight|fly(?:ing)?|travel\w*|trip|train|abfahrt|abflug|flug|flieg\w+|reis\w+|fahr\w*|zug|"
            r"vuelo|vol(?:ar|amos|aré)|"
            r"viaj\w+|salid\w*|salgo|salimos|tren|vol|voyag\w+|part(?:ir|ons|irai)|départ",
            "birthday": r"birthday|born|birth|geburtstag|geboren|cumpleaños|nací|naci\w+|anniversaire|né[e]?",
            "deadline": r"deadline|due|frist|abgabe\w*|fällig|plazo|vence|échéance|date limite",
            "dentist": r"dentist\w*|zahnarzt\w*|dentista",
            "doctor": r"doctor\w*|arzt\w*|médico|médecin",
            "appointment": r"appointment|termin|cita|rendez-vous",
            "meeting": r"meeting|call|conference|interview|besprechung|treffen|sitzung|reunión|réunion|entretien|entrevista",
            "wedding": r"wedding|hochzeit|boda|mariage",
            "event": r"party|concert|event|feier|konzert|fiesta|concierto|evento|fête|concert|événement",
            "booking": r"book\w*|reserv\w+|table|dinner|lunch|tisch|buch\w*|abendessen|mesa|cena|réserv\w+|dîner",
            "delivery": r"deliver\w*|shipp\w+|liefer\w+|entreg\w+|envío|livr\w+",
            "start": r"start\w*|begin\w*|beginn\w*|anfang\w*|empiez\w+|comienz\w+|commenc\w+|début\w*",
            "opening": r"open\w*|öffn\w+|geöffnet|abr\w+|abiert\w+|ouvr\w+|ouvert\w*",
        }
    )


@cache
def budget_scopes() -> Patterns:
    """What money may be for."""
    return compiled(
        {
            "hotel": r"hotel\w*|room|accommodation|lodging|stay|per night|unterkunft|zimmer|pro nacht|übernachtung\w*|habitación|"
            r"alojamiento|por noche|chambre|"
            r"hébergement|logement|par nuit|la nuit",
            "flight": r"flights?|fly|airfare|plane|flug\w*|vuelos?|vols?|avion|avión",
            "rent": r"rent\w*|miete\w*|alquiler|loyer",
            "food": r"food|dinner|lunch|restaurants?|meals?|groceries|essen|lebensmittel|comida|cena|repas|nourriture|dîner",
            "car": r"cars?|auto|wagen|coche|voiture",
            "phone": r"phone|smartphone|handy|móvil|téléphone",
            "laptop": r"laptop|notebook|computer|ordenador|portátil|ordinateur",
            "gift": r"gifts?|presents?|geschenk\w*|regalos?|cadeaux?",
            "month": r"(?:per|a|each) month|monthly|monatlich|im monat|pro monat|al mes|mensual\w*|par mois|mensuel\w*",
        }
    )


@cache
def place_cues() -> Patterns:
    """What goes before a place."""
    return compiled(
        {
            "location": r"(?:lives?|living|resides?|residing|based)(?: now| currently)?(?: in an?(?: \w+){1,3})? in(?= )|"
            rf"{_ME}(?:['’]ve| have| has)?(?: just| recently)? (?:moved|relocated) to(?= )|"
            r"(?:my|our|the user['’]s|user['’]s) (?:house|apartment|flat|place|home) is in(?= )|"
            r"(?:my|our|the user['’]s|user['’]s) (?:home ?town|city|location|home|place of residence)(?: is|:)|"
            r"(?:wohn|leb)\w{1,3} (?:\w+ ){0,3}?in|(?:umgezogen|gezogen|ziehe|ziehen) nach|"
            r"nach(?= \w+ (?:um)?gezogen)|wohnort(?: ist|:)?|"
            r"viv\w{1,4} (?:ahora |actualmente )?en|resid\w+ en|me (?:he )?mud(?:é|ado) a|mi ciudad(?: es|:)|"
            r"(?:j['’]habite|j['’]habitons|habit\w{1,3}|vi[st]|vivons|réside)(?: maintenant| actuellement)? (?:à|en|"
            r"au|aux|dans)|(?:déménagé|installé[e]?) à|ma ville(?: est|:)",
        }
    )


def number_of(text: str, language: str) -> int | None:
    """What a count is worth, in figures or words; "no" and "keine" are none."""
    if text.isdigit():
        return int(text)
    word = text.lower()
    if word in ("no", "kein", "keine", "zero"):
        return 0
    found = next((v for tongue in (language, *LANGUAGES) if (v := word_value(word, tongue)) is not None), None)
    return int(found) if found is not None and found < 200 else _TOGETHER.get(word)


_TOGETHER = {"zweit": 2, "dritt": 3, "viert": 4, "fünft": 5, "sechst": 6}


def compiled(table: dict[str, str]) -> Patterns:
    """Each between the ends of words."""
    return {name: re.compile(rf"(?<!\w)(?:{pattern})(?!\w)", re.I) for name, pattern in table.items()}
