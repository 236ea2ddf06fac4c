"""The words by which `proxy.clashes.slots` knows a slot: cues and values in English, German, Spanish and French. Compiled at first use."""

from __future__ import annotations

import re
from functools import cache

from proxy.grounding.patterns import LazyPattern
from proxy.grounding.values.number_words import LANGUAGES, word_value

_Patterns = dict[str, re.Pattern[str]]
_ME = r"(?:i|we|the user|user|the customer|customer|ich|wir|der (?:nutzer|kunde)|yo|el (?:usuario|cliente)|l['’](?:utilisateur|client)|je|nous)"
OF_ANIMALS = frozenset(("vegan", "vegetarian", "pescatarian", "omnivore"))
NEGATED_BEFORE = LazyPattern(
    r"\b(?:not|n['’]t|no|never|nicht|kein\w{0,2}|nie|no|nunca|ni|ne|n['’]\w+|pas|jamais|anything but|no longer|ya no)\b(?:\s+\w+){0,2}\s*$|n['’]t(?:\s+\w+){0,2}\s*$", re.I
)
AT_MOST = LazyPattern(r"\b(?:max(?:imum|imal)?|up to|at most|not more than|no more than|limit(?: of| is)?|bis|hasta|máximo|jusqu['’]à|plafond)\b[\s.:]*(?:of|de|von|is)?\s*[$€£]?$", re.I)  # fmt: skip
AND_ANOTHER = LazyPattern(r"\s*(?:,|and|or|und|oder|y|o|et|ou|then|dann|luego|puis)\s+(?:to |in |nach |a |à )?", re.I)
NO_NAMES = frozenset("i ich yo je a the monday tuesday wednesday thursday friday saturday sunday montag dienstag mittwoch donnerstag freitag samstag sonntag".split())  # noqa: SIM905
BUDGET = LazyPattern(
    r"(?P<own>\b(?:budget|presupuesto|spending limit|preisgrenze|kostenrahmen)\b)|\b(?:spend|pay|afford|cost\w*|price|cheaper|under|below|up to|at most|no more than|"
    r"less than|more than|maximum|max|ausgeben|bezahlen|zahlen|kosten|unter|höchstens|maximal|bis zu|gastar|pagar|costar|menos de|hasta|máximo|"
    r"dépenser|payer|coûter|moins de|jusqu'à|maximum|au plus)\b",
    re.I,
)
WEEKDAY = LazyPattern(
    r"\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag|lunes|martes|miércoles|jueves|viernes|"
    r"sábado|domingo|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche)\b",
    re.I,
)
_WEEKDAYS = ("mon lun", "tue die mar", "wed mit mié mer", "thu don jue jeu", "fri fre vie ven", "sat sam sáb", "sun son dom dim")


def weekday(word: str) -> str:
    """``mon`` … ``sun``."""
    start = word.lower()[:3]
    return next((names.split()[0] for names in _WEEKDAYS if start in names.split()), start)


@cache
def DATE_SCOPES() -> _Patterns:  # noqa: N802 - a table
    """What a date or a time may be of."""
    return _compiled({
        "return": r"return\w*|fly back|come back|coming back|rückflug|rückreise|zurück\w*|vuelta|regres\w+|volver|retour|rentr\w+|reven\w+",
        "arrival": r"arriv\w+|check[ -]?in|ankunft|ankomm\w+|anreise\w*|lleg\w+|arrivée",
        "checkout": r"check[ -]?out|abreise\w*",
        "departure": r"depart\w*|leav\w+|flight|fly(?:ing)?|travel\w*|trip|train|abfahrt|abflug|flug|flieg\w+|reis\w+|fahr\w*|zug|vuelo|vol(?:ar|amos|aré)|"
                     r"viaj\w+|salid\w*|salgo|salimos|tren|vol|voyag\w+|part(?:ir|ons|irai)|départ",
        "birthday": r"birthday|born|birth|geburtstag|geboren|cumpleaños|nací|naci\w+|anniversaire|né[e]?",
        "deadline": r"deadline|due|frist|abgabe\w*|fällig|plazo|vence|échéance|date limite",
        "appointment": r"appointment|dentist|doctor|termin|arzt\w*|cita|rendez-vous",
        "meeting": r"meeting|call|conference|interview|besprechung|treffen|sitzung|reunión|réunion|entretien|entrevista",
        "wedding": r"wedding|hochzeit|boda|mariage",
        "event": r"party|concert|event|feier|konzert|fiesta|concierto|evento|fête|concert|événement",
        "booking": r"book\w*|reserv\w+|table|dinner|lunch|tisch|buch\w*|abendessen|mesa|cena|réserv\w+|dîner",
        "delivery": r"deliver\w*|shipp\w+|liefer\w+|entreg\w+|envío|livr\w+",
        "start": r"start\w*|begin\w*|beginn\w*|anfang\w*|empiez\w+|comienz\w+|commenc\w+|début\w*",
        "opening": r"open\w*|öffn\w+|geöffnet|abr\w+|abiert\w+|ouvr\w+|ouvert\w*",
    })  # fmt: skip


@cache
def BUDGET_SCOPES() -> _Patterns:  # noqa: N802 - a table
    """What money may be for."""
    return _compiled({
        "hotel": r"hotel\w*|room|accommodation|lodging|stay|per night|unterkunft|zimmer|pro nacht|übernachtung\w*|habitación|alojamiento|por noche|chambre|"
                 r"hébergement|logement|par nuit|la nuit",
        "flight": r"flights?|fly|airfare|plane|flug\w*|vuelos?|vols?|avion|avión",
        "rent": r"rent\w*|miete\w*|alquiler|loyer",
        "food": r"food|dinner|lunch|restaurants?|meals?|groceries|essen|lebensmittel|comida|cena|repas|nourriture|dîner",
        "car": r"cars?|auto|wagen|coche|voiture",
        "phone": r"phone|smartphone|handy|móvil|téléphone",
        "laptop": r"laptop|notebook|computer|ordenador|portátil|ordinateur",
        "gift": r"gifts?|presents?|geschenk\w*|regalos?|cadeaux?",
        "month": r"(?:per|a|each) month|monthly|monatlich|im monat|pro monat|al mes|mensual\w*|par mois|mensuel\w*",
    })  # fmt: skip


@cache
def closed() -> dict[str, _Patterns]:
    """Slots whose values are known: for each slot and value the words for it."""
    return {slot: _compiled(values) for slot, values in _CLOSED.items()}


_MEAT = r"meat|steaks?|beef|pork|bacon|ham|chicken|burgers?|sausages?|lamb|turkey|fleisch|schnitzel|hähnchen|rindfleisch|schwein\w*|wurst|speck|carne|pollo|cerdo|jamón|filete|viande|poulet|porc|bœuf|jambon|steak"
_CLOSED: dict[str, dict[str, str]] = {
    "diet": {
        "vegan": r"(?<!non-)vegan\w{0,4}|vegan[oa]s?|végan\w*|végétalien\w*|plant-based diet",
        "vegetarian": r"vegetarians?|vegetarier(?:in)?|vegetarisch\w*|vegetarian[oa]s?|végétarien\w*|veggie",
        "pescatarian": r"pescatarians?|pescetarian\w*|pescetarier\w*|pescetarian[oa]s?|pescétarien\w*",
        "omnivore": rf"omnivore|(?:i |we |ich |yo |je |j['’])(?:\w+ ){{0,2}}?(?:eat|love|enjoy|order|like|esse|liebe|mag|como|mange|adore|aime)(?: \w+){{0,2}}? (?:{_MEAT})|"
                    rf"me (?:encanta|gusta)n? (?:la |el )?(?:{_MEAT})|everything,? including meat",
        "halal": r"halal", "kosher": r"kosher|koscher|casher|kascher", "gluten_free": r"gluten[- ]?free|glutenfrei\w*|sin gluten|sans gluten|co?eliac|zöliakie",
        "keto": r"keto(?:genic)?", "lactose_free": r"lactose[- ](?:free|intolerant)|laktose(?:frei|intolerant)\w*|sin lactosa|intolerante a la lactosa|sans lactose|intolérant\w* au lactose",
    },
    "price_level": {
        "low": r"cheap\w*|budget(?=[ -](?:friendly|hotel|option|airline|accommodation|trip|version))|budget-friendly|inexpensive|affordable|low[- ]cost|economical|"
               r"günstig\w*|billig\w*|preiswert\w*|barat\w+|económic\w+|pas chers?|pas chères?|bon marché|économiques?|abordables?",
        "high": r"luxur\w+|high[- ]end|five[- ]star|5[- ]star|upscale|deluxe|premium|luxus\w*|luxuriös\w*|gehoben\w*|de lujo|lujo\w*|cinco estrellas|de luxe|luxe|"
                r"luxueu\w+|haut de gamme|cinq étoiles",
    },
    "seat": {
        "window": r"window|fenster\w*|ventan\w+|hublot|fenêtre", "aisle": r"aisle|gang\w*|pasillo|couloir|allée", "middle": r"middle seat|mittelplatz|asiento del medio|siège du milieu",
    },
    "cabin": {
        "economy": r"economy(?: class)?|coach class|clase turista|classe économique", "premium_economy": r"premium economy", "business": r"business[- ]class|business(?= (?:class|seat))|clase (?:business|ejecutiva)|classe affaires",
        "first": r"first[- ]class|erste[rn]? klasse|primera clase|première classe",
    },
    "smoking": {
        "no": r"non-?smok\w+|no smoking|nichtraucher\w*|no fumador\w*|para no fumadores|non-?fumeur\w*", "yes": r"(?<!non-)(?<!non)(?<!no )\bsmok(?:er|ing room)\w*|(?<!nicht)raucherzimmer|habitación (?:para|de) fumadores|chambre fumeur\w*",
    },
    "room": {
        "single": r"single (?:room|bed)|einzelzimmer|habitación individual|chambre (?:simple|individuelle)", "double": r"double (?:room|bed)|doppelzimmer|habitación doble|chambre double",
        "twin": r"twin (?:room|beds?)|zweibettzimmer|dos camas|lits jumeaux", "suite": r"\bsuite",
    },
    "transport": {
        "train": r"(?:by |the |via |take (?:a|the) )?trains?|(?:mit dem|den) zug|bahn|en tren|el tren|(?:en|le) train", "plane": r"(?:by |the )?(?:plane|air)\b|fly|flying|flights?|fliegen|flug(?:zeug)?|flüge|(?:en|el) avión|volar|(?:en|l['’])avion",
        "car": r"by car|drive|driving|(?:mit dem|das) auto|en coche|en carro|conducir|en voiture", "bus": r"by (?:bus|coach)|(?:mit dem|den) bus|en autobús|en bus",
    },
    "reply_language": {
        "en": r"(?:in|auf|en) (?:english|englisch|inglés|anglais)", "de": r"(?:in|auf|en) (?:german|deutsch|alemán|allemand)",
        "es": r"(?:in|auf|en) (?:spanish|spanisch|español|espagnol|castellano)", "fr": r"(?:in|auf|en) (?:french|französisch|francés|français)",
        "it": r"(?:in|auf|en) (?:italian|italienisch|italiano|italien)", "pt": r"(?:in|auf|en) (?:portuguese|portugiesisch|portugués|portugais)",
    },
    "answer_length": {
        "short": r"(?:brief|short|concise|terse|succinct)(?:ly)?|kurz\w*|knapp\w*|breve\w*|cort[oa]s?|concis[oae]*|courte?s?|brève?\w*|in one sentence",
        "long": r"(?:detailed|long|lengthy|in[- ]depth|thorough|exhaustive|comprehensive|elaborate)|ausführlich\w*|detailliert\w*|lang\w*|detallad\w+|larg[oa]s?|extens[oa]s?|détaillé\w*|longue?s?|"
                r"approfondi\w*",
    },
    "tone": {
        "formal": r"formal(?:ly)?|förmlich\w*|siezen?|formel\w*|vouvoie\w*|de usted", "casual": r"casual(?:ly)?|informal(?:ly)?|locker\w*|duzen?|informel\w*|tutoie\w*|tutear\w*|familier",
    },
    "currency": {
        "EUR": r"euros?|EUR", "USD": r"(?:us[- ]?)?dollars?|USD|dólares|dollars", "GBP": r"(?:british )?pounds|GBP|pfund|libras|livres sterling", "CHF": r"CHF|swiss francs|franken|francos suizos|francs suisses", "JPY": r"JPY|yen",
    },
    "unit_system": {"metric": r"metric|metrisch\w*|métric[oa]|métrique", "imperial": r"imperial|us customary|imperiales?|impérial\w*"},
    "temperature": {"celsius": r"celsius", "fahrenheit": r"fahrenheit"},
    "marital_status": {
        "married": r"(?:am|are|is) married|verheiratet|casad[oa]|marié[e]?", "single": r"(?:am|is) single|ledig|solter[oa]|célibataire", "divorced": r"divorced|geschieden|divorciad[oa]|divorcé[e]?",
    },
}  # fmt: skip
_ANSWERS = r"answer\w*|repl(?:y|ies)|respon[ds]\w*|write|speak|talk|explain\w*|summar\w+|keep it|be\b|antwort\w*|schreib\w*|sprich|sprechen|erklär\w*|respond\w*|respuesta\w*|contest\w*|escrib\w*|habla\w*|explic\w*|répon\w*|écri\w*|parle\w*|text"
NEEDED: dict[str, LazyPattern] = {
    "seat": LazyPattern(r"\b(?:seats?|sit\w*|\w*platz|sitz\w*|asientos?|sentar\w*|sièges?|places?|assis|assoir|flight|flug|vuelo|vol)\b|\w*(?:fensterplatz|gangplatz)|ventanilla|pasillo", re.I),
    "reply_language": LazyPattern(rf"\b(?:{_ANSWERS})\b", re.I),
    "answer_length": LazyPattern(rf"\b(?:{_ANSWERS})\b", re.I),
    "tone": LazyPattern(rf"\b(?:{_ANSWERS}|tone|ton|tono|style|stil|estilo)\b|duzen|siezen|tutoie|vouvoie|tutear", re.I),
    "currency": LazyPattern(r"\b(?:currency|prices?|quote|amounts?|in (?:euros?|dollars|pounds|usd|eur|gbp)|währung|preise|moneda|precios|devise|prix|en (?:euros|dólares|dollars)|in (?:euro|franken|dollar))\b", re.I),
    "unit_system": LazyPattern(r"\b(?:units?|system|einheiten|unidades|sistema|unités|système|use|nutze|usa|utilise)\b", re.I),
    "temperature": LazyPattern(r"\b(?:in|use|show|nutze|zeig\w*|en|usa|utilise|temperatur\w*|températures?)\b", re.I),
    "transport": LazyPattern(r"\b(?:prefer\w*|travel\w*|go|going|take|by|want|like|love|hate|rather|avoid|never|book\w*|lieber|bevorzug\w*|möchte|will|reis\w+|fahr\w*|flieg\w*|nie|prefier\w+|viaj\w+|quiero|odio|"
                             r"ir|tomar|préfèr\w*|voyag\w*|veux|prendre|aller|déteste)\b", re.I),
}  # fmt: skip


@cache
def place_cues() -> _Patterns:
    """What goes before a place."""
    return _compiled({
        "location": r"(?:live|living|reside|residing|am based|based|located|am|are|is|stay(?:ing)? (?:at home )?|moved|relocated|home|house|apartment|address) (?:now |currently |here )?(?:in|to|is in)(?= )|"
                    r"(?:my|our|the user['’]s|user['’]s) (?:home ?town|city|location|home|place of residence)(?: is|:)|lives in|"
                    r"(?:wohn|leb)\w{1,3} (?:\w+ ){0,3}?in|(?:umgezogen|gezogen|ziehe|ziehen|umgezogen) nach|nach(?= \w+ (?:um)?gezogen)|wohnort(?: ist|:)?|bin in|"
                    r"viv\w{1,4} (?:ahora |actualmente )?en|resid\w+ en|estoy en|me (?:he )?mud(?:é|ado) a|ciudad(?: es|:)|"
                    r"(?:j['’]habite|j['’]habitons|habit\w{1,3}|vi[st]|vivons|réside|suis)(?: maintenant| actuellement)? (?:à|en|au|aux|dans)|(?:déménagé|installé[e]?) à|ville(?: est|:)",
        "destination": r"(?:fly(?:ing)?|travel(?:l?ing)?|go(?:ing)?|trip|flights?|holiday|vacation|headed|tickets?|journey|destination)(?: \w+){0,2}? (?:to|in|is|for)(?= )|visit(?:ing)?|destination:|"
                       r"(?:flug|reise|urlaub|zug|fahrt|ticket|fliege\w*|reise\w*|fahre\w*|will|möchte\w*|wollen)(?: \w+){0,2}? nach|reiseziel(?: ist|:)|"
                       r"(?:viaj\w+|vuelos?|ir|voy|vamos|volar|vacaciones|billetes?|destino)(?: \w+){0,2}? (?:a|en|es|para)(?= )|visitar|destino:|"
                       r"(?:voyag\w+|vols?|aller|vais|allons|partir|vacances|billets?|destination)(?: \w+){0,2}? (?:à|en|au|aux|pour|est)(?= )|visiter",
        "departure": r"(?:fly(?:ing)?|travel(?:l?ing)?|depart\w*|leav(?:e|ing)|start\w*|flights?|trains?)(?: \w+){0,3}? from|(?:flug|reise|fliege\w*|fahre\w*|zug|abflug|start\w*)(?: \w+){0,3}? (?:von|ab)|"
                     r"(?:viaj\w+|vuelo|sal\w+|volar)(?: \w+){0,3}? desde|(?:voyag\w+|vol|pars|partons|partir|départ)(?: \w+){0,3}? (?:de|depuis)(?= [A-ZÀ-Þ])",
    })  # fmt: skip


@cache
def name_cues() -> _Patterns:
    """What goes before a person's or an employer's name."""
    return _compiled({
        "name": r"(?:my|the user['’]s|user['’]s|the customer['’]s) (?:full |first )?name is|name:|call me|i am called|ich heiße|mein name ist|nenn(?:en sie)? mich|(?:me llamo|mi nombre es|llámame)|"
                r"(?:je m['’]appelle|mon (?:nom|prénom) est|appelle[zs]?-moi)",
        "employer": rf"(?:{_ME}(?:['’]m| am)? (?:now |currently )?(?:work(?:ing|s)?|employed) (?:for|at|by|with)|employer(?: is|:)|arbeite\w? (?:jetzt )?(?:bei|für)|arbeitgeber(?: ist|:)|"
                    r"trabaj[oa]\w* (?:ahora )?(?:en|para)|travaill\w+ (?:maintenant )?(?:chez|pour))",
    })  # fmt: skip


@cache
def value_cues() -> _Patterns:
    """Values with a form of their own."""
    email = r"(?P<value>[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{2,63}){1,3})"
    phone = r"(?P<value>\+?\d[\d ()/.-]{5,18}\d)"
    return {
        "email": re.compile(rf"\b(?:my|the user['’]s|meine?|mi|mon|our|unsere?|nuestro|notre|send|reach|contact|email|e-mail|mail|correo|courriel)\b[^@]{{0,60}}?\b{email}", re.I),
        "phone": re.compile(rf"\b(?:phone|mobile|cell|number|telefon\w*|handy\w*|nummer|teléfono|móvil|número|téléphone|portable|numéro)\b[^\d+]{{0,30}}{phone}", re.I),
        "job": re.compile(
            r"\b(?:i work as|i['’]?a?m working as|my (?:job|profession|occupation) is|ich arbeite als|mein beruf ist|ich bin von beruf|trabajo como|trabajo de|mi profesión es|je travaille comme|"
            r"je suis employée? comme|mon métier est)\s+(?:an? |the |una? |une? )?(?P<value>[^\W\d]+(?:[ -][^\W\d]+)?)", re.I),
    }  # fmt: skip


@cache
def count_cues() -> _Patterns:
    """Numbers of years and heads."""
    n = r"(?P<value>\d{1,3}|[^\W\d]+)"
    return _compiled({
        "age": rf"(?:i['’]?m|i am|age is|age:|is aged|ich bin|ich werde|tengo|j['’]ai) {n} ?(?:years? old|y/?o\b|yrs?\b|jahre alt|jahre\b|años|ans\b|(?<=\d)\s?(?=[.,!]|$))",
        "people": rf"(?:for|party of|group of|we (?:are|will be)|there (?:are|will be)|we['’]?re|für|wir sind|zu|somos|seremos|para|pour|nous (?:sommes|serons)) {n}"
                  r"(?<=[\wß])(?: (?:people|persons?|adults?|guests?|of us|travell?ers|personen|leute|erwachsene|gäste|personas|adultos|personnes|adultes)\b|(?<=\d)(?=\s?(?:[.,!]|$))|(?<=[eiöfhn]t)(?=\s?(?:[.,!]|$)))",
        "children": rf"(?:(?:i|we)(?: have|['’]ve(?: got)?)|ich habe|wir haben|tengo|tenemos|j['’]ai|nous avons|n['’]ai) {n} (?:kids?|child(?:ren)?|kinder?|hij[oa]s?|enfants?)\b",
    }, bounded=False)  # fmt: skip


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


def _compiled(table: dict[str, str], *, bounded: bool = True) -> _Patterns:
    """`bounded`: a word ends behind the match."""
    end = r"(?!\w)" if bounded else ""
    return {name: re.compile(rf"(?<!\w)(?:{pattern}){end}", re.I) for name, pattern in table.items()}
