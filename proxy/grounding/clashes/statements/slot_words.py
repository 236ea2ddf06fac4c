"""The slots whose values are words of a list: diet, price level, seat, language and form of the answers.

For each slot and value the words for it in English, German, Spanish and French; compiled at first use. Read by
`proxy.grounding.clashes.statements.slots`.
"""

from __future__ import annotations

import re
from functools import cache

from proxy.grounding.clashes.statements.slot_cues import Patterns, compiled
from proxy.language.patterns import LazyPattern

OF_ANIMALS = frozenset(("vegan", "vegetarian", "pescatarian", "omnivore"))


@cache
def closed() -> dict[str, Patterns]:
    """Slots whose values are known: for each slot and value the words for it."""
    return {slot: compiled(values) for slot, values in _CLOSED.items()}


_EATS = (
    r"(?:i['’]?m|i am|we['’]?re|we are|is|are|eat\w*|follow\w*|became|become|stay|turned|gone|"
    r"bin|sind|ist|esse?n?|ernähr\w+|lebe\w?|soy|somos|es|como|comemos|suis|sommes|est|mange\w*)(?: [^\W\d]+){0,3}?"
)
"""Before what somebody is or eats; a "vegan burger" is only a dish."""
_INTO = r"(?:in|auf|en|(?:switch|change) (?:back )?to|wechs\w+ (?:zu|auf)|cambi\w+ al?|pass(?:e|ez|er|ons) (?:à l['’]|au|en))"
_MEAT = (
    r"meat|steaks?|beef|pork|bacon|ham|chicken|burgers?|sausages?|lamb|turkey|fleisch|schnitzel|hähnchen|rindfleisch|schwein\w*|"
    r"wurst|speck|carne|pollo|cerdo|jamón|filete|viande|poulet|porc|bœuf|jambon|steak"
)
_CLOSED: dict[str, dict[str, str]] = {
    "diet": {
        "vegan": rf"{_EATS} (?P<value>(?<!non-)vegan\w{{0,4}}|végan\w*|végétalien\w*)|vegan diet|plant-based diet",
        "vegetarian": rf"{_EATS} (?P<value>vegetarian\w{{0,2}}|vegetarier(?:in)?|vegetarisch\w*|végétarien\w*|veggie)|vegetarian diet",
        "pescatarian": rf"{_EATS} (?P<value>pesc[ae]tarian\w*|pescetarier\w*|pescétarien\w*)",
        "omnivore": rf"omnivore|(?:i |we |ich |yo |je |j['’])(?:\w+ ){{0,2}}?(?:eat|love|enjoy|order|like|esse|liebe|mag|como|"
        rf"mange|adore|aime)(?: \w+){{0,2}}? (?:{_MEAT})|"
        rf"me (?:encanta|gusta)n? (?:la |el )?(?:{_MEAT})|everything,? including meat",
        "halal": r"halal",
        "kosher": r"kosher|koscher|casher|kascher",
        "gluten_free": r"gluten[- ]?free|glutenfrei\w*|sin gluten|sans gluten|co?eliac\w*|celíac\w*|cœliaque|zöliakie",
        "keto": r"keto(?:genic)?",
        "lactose_free": r"lactose[- ](?:free|intolerant)|laktose(?:frei|intolerant)\w*|sin lactosa|"
        r"intolerante a la lactosa|sans lactose|intolérant\w* au lactose",
    },
    "price_level": {
        "low": r"cheap\w*|budget(?=[ -](?:friendly|hotel|option|airline|accommodation|trip|version))|budget-friendly|inexpensive|"
        r"affordable|low[- ]cost|economical|"
        r"günstig\w*|billig\w*|preiswert\w*|barat\w+|económic\w+|pas chers?|pas chères?|bon marché|économiques?|abordables?",
        "high": r"luxur\w+|high[- ]end|five[- ]star|5[- ]star|upscale|deluxe|premium|luxus\w*|luxuriös\w*|gehoben\w*|de lujo|"
        r"lujo\w*|cinco estrellas|de luxe|luxe|"
        r"luxueu\w+|haut de gamme|cinq étoiles",
    },
    "seat": {
        "window": r"window|fenster\w*|ventan\w+|hublot|fenêtre",
        "aisle": r"aisle|gang\w*|pasillo|couloir|allée",
        "middle": r"middle seat|mittelplatz|asiento del medio|siège du milieu",
    },
    "reply_language": {
        "en": rf"{_INTO} ?(?:english|englisch|inglés|anglais)",
        "de": rf"{_INTO} ?(?:german|deutsch|alemán|allemand)",
        "es": rf"{_INTO} ?(?:spanish|spanisch|español|espagnol|castellano)",
        "fr": rf"{_INTO} ?(?:french|französisch|francés|français)",
        "it": rf"{_INTO} ?(?:italian|italienisch|italiano|italien)",
        "pt": rf"{_INTO} ?(?:portuguese|portugiesisch|portugués|portugais)",
    },
    "answer_length": {
        "short": r"(?:brief|short|concise|terse|succinct)(?:ly)?|kurz\w*|knapp\w*|breve\w*|cort[oa]s?|concis[oae]*|courte?s?|"
        r"brève?\w*|brièvement|in one sentence",
        "long": r"(?:detailed|long|lengthy|in[- ]depth|thorough|exhaustive|comprehensive|elaborate)|in (?:more |great |"
        r"full )?detail|im detail|en detalle|en détail|ausführlich\w*|detailliert\w*|"
        r"lang\w*|detallad\w+|larg[oa]s?|extens[oa]s?|détaillé\w*|longue?s?|"
        r"approfondi\w*",
    },
    "answer_format": {
        "json": r"JSON",
        "yaml": r"YAML",
        "xml": r"XML",
        "csv": r"CSV",
        "html": r"HTML",
        "markdown": r"markdown",
        "table": r"(?:as|in) (?:a )?tables?|(?:als|in) (?:einer )?tabellen?(?:form)?|(?:como|en) (?:una )?tabla|(?:de|un|en) tableau",
        "list": r"bullet(?:ed)?(?: points?| lists?)?|(?:as|in) (?:a )?lists?|aufzählung\w*|stichpunkt\w*|als liste|viñetas|"
        r"(?:como|en) (?:una )?lista|puces|(?:de|une|en) liste",
        "text": r"plain text|prose|(?:full )?paragraphs|fließtext|absätze\w*|"
        r"texto (?:plano|corrido)|prosa|párrafos|texte brut|paragraphes|prose",
    },
    "tone": {
        "formal": r"formal(?:ly)?|förmlich\w*|siez\w+|formel\w*|vouvoie\w*|de usted",
        "casual": r"casual(?:ly)?|informal(?:ly)?|locker\w*|duz\w+|informel\w*|tutoie\w*|tutear\w*|familier",
    },
}
_ANSWERS = (
    r"answer\w*|repl(?:y|ies)|respon[ds]\w*|write|speak|talk|explain\w*|summar\w+|keep it|be\b|antwort\w*|schreib\w*|sprich|"
    r"sprechen|erklär\w*|resp[oó]nd\w*|respuesta\w*|cont[eé]st\w*|escr[ií]b\w*|h[aá]bla\w*|expl[ií]c\w*|répon\w*|écri\w*|parle\w*|"
    r"fass\w*|switch|change|wechs\w+|cambi\w+|pass(?:e|ez|er|ons)"
)
SPEAKER_DOES = LazyPattern(
    r"\b(?:(?:i|we) (?:\w+ )?(?:speak|talk|write|read)|ich (?:spreche|schreibe|rede)|hablo|escribo|je (?:parle|écris))\b", re.I
)
"""How the speaker speaks is not how they want to be answered."""
NEEDED: dict[str, LazyPattern] = {
    "seat": LazyPattern(
        r"\b(?:seats?|sit\w*|\w*platz|sitz\w*|asientos?|sentar\w*|sièges?|places?|assis|assoir|flight|flug|vuelo|"
        r"vol)\b|\w*(?:fensterplatz|gangplatz)|ventanilla|pasillo|côté (?:hublot|couloir)",
        re.I,
    ),
    "reply_language": LazyPattern(rf"\b(?:{_ANSWERS})\b", re.I),
    "answer_format": LazyPattern(rf"\b(?:{_ANSWERS}|format\w*|use|give me|nutze|usa|utilise)\b", re.I),
    "answer_length": LazyPattern(rf"\b(?:{_ANSWERS})\b", re.I),
    "tone": LazyPattern(rf"\b(?:{_ANSWERS}|tone|ton|tono|style|stil|estilo)\b|\b(?:duz\w+|siez\w+)|tutoie|vouvoie|tutear", re.I),
}
