"""How English, German, Spanish and French plainly say something of which one person has one: whole sentences, with the value as a group.

Read by `clashes.plain`, which matches them against a whole sentence: one that says anything more ("in summer", "for
work", "with my sister") is none of them. Groups: ``v`` the value, ``no`` where it is denied, ``new`` where it is said as news, ``frm`` what
it was before, ``scope`` what it is for, ``who`` another than the speaker. Small letters match capital ones.
"""

from __future__ import annotations

import re

from proxy.grounding.clashes.values import LEXICON, words_of

_NOW_EN, _NOW_DE = r"(?P<new>now|currently|these days)", r"(?P<new>jetzt|nun|inzwischen|mittlerweile|aktuell|derzeit|zurzeit)"
_NOW_ES, _NOW_FR = r"(?P<new>ahora|actualmente)", r"(?P<new>maintenant|désormais|actuellement|à présent)"
_USER = (
    r"(?:(?:the |this )?(?:user|customer|client)|(?:der |die )?(?:nutzer|kunde|benutzer|kundin|nutzerin)|(?:el |la )?(?:usuario|usuaria|"
    r"cliente)|(?:l['’]utilisateur|l['’]utilisatrice|le client|la cliente))"
)
"""Whom a memory speaks of."""
_OF_USER = rf"(?:{_USER}(?:['’]s)? )?"
_WHO = r"(?-i:(?P<who>(?!(?:He|She|It|Who|Er|Sie|Es|Wer|Man|Ella|Él|Quien|Elle|Il|On|Qui)\b)[A-ZÀ-Þ][\w-]{1,20}))"
"""A name: the only pattern in which capital letters count."""
_TEXT = r"(?P<v>[^\W\d_][\w'’.-]*?(?:,? [^\W\d_][\w'’.-]*?){0,3}?)"
_AMOUNT = (
    r"(?P<v>(?:[$€£¥]|(?:eur|usd|gbp|chf) )?\s?\d[\d.,' ]{0,9}\s?k?\s?"
    r"(?:[$€£¥]|eur(?:os?)?|usd|us-?dollars?|dollars?|gbp|pounds|chf|dólares|pfund)?)"
)
_COUNT = r"(?P<v>\d{1,3}|[^\W\d]{2,12})"
_DAY = r"(?P<v>[^,;]{3,24}(?:, ?\d{4})?)"
_EMAIL = r"(?P<v>[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{2,63}){1,3})"
_PHONE = r"(?P<v>\+?\d[\d ()/.-]{5,18}\d)"
_NEWEST = r"(?P<new>(?:brand-)?new |neue[rs]? |nuev[oa] |nouve(?:au|lle) |nouvel )?"

_LEVEL_EN = (
    r"(?P<v>budget|cheap|affordable|inexpensive|low-cost|luxury|luxurious|five-star|5-star|high-end|upscale|premium|deluxe)"
    r"(?:,? (?:(?:five|5|four|4)[- ]star|luxury|boutique))? "
)
_SCOPE_EN = r"(?P<scope>hotels?|hostels?|flights?|restaurants?|accommodation)"
_PER_NIGHT = (
    r"(?:,? ?\(?(?:(?:for |de |à |por |zu )?(?:under|below|up to|at most|less than|no more than|max\.?|unter|höchstens|bis(?: zu)?|maximal|"
    r"menos de|"
    r"hasta|moins de|jusqu['’]à|au plus|<=?|≤) ?)(?:[$€£¥] ?)?\d[\d.,]{0,6} ?(?:[$€£¥]|euros?|eur|us dollars?|dollars?|usd|pounds?|chf)? ?"
    r"(?:(?:a|per|each|pro|die|je|la|por|par|/) ?(?:night|nacht|noche|nuit))?\)?)?"
)
"""What a price level comes to; it says the same once more."""

_TONGUE = rf"(?P<v>{'|'.join(' '.join(LEXICON['tongues'].values()).split())})"
_THING = rf"(?P<scope>{'|'.join(sorted(set(' '.join(LEXICON['things'].values()).split()), key=len, reverse=True))})"
_N = r"(?P<v>\d{1,4}|[^\W\d]{2,14})"
_NAMES = "|".join(sorted(words_of(" ".join(LEXICON["products"].values())), key=len, reverse=True))
_PRODUCT = rf"(?P<v>(?:{_NAMES})(?: (?:v|version )?\d{{1,4}}(?:\.\d{{1,3}}){{0,2}})?(?: lts)?)"
_WHERE_EN = r"(?P<scope>(?:production |prod |staging |test |testing |dev |development |local |analytics |reporting )?)"
_PLACE_WORDS = (
    "database|db|datenbank|base de datos|base de données|operating system|os|betriebssystem|web server|webserver|cloud|message broker"
)
_SYSTEMS_EN = "app|application|backend|service|system|server|deployment|site|website|project|product|stack|platform"
_TOWN = r"(?P<v>[^\W\d_][\w'’.-]*?(?: [^\W\d_][\w'’.-]*?){0,2}?)"
_SUBJECTS = (
    rf"(?i:the|die|das|la|el|le) (?:production |prod |staging |test |dev |development |local |analytics |reporting )?"
    rf"(?i:{_PLACE_WORDS}|{_SYSTEMS_EN}|app|anwendung|dienst|plattform|aplicación|servidor|sistema|servicio|serveur|système)\b"
)

SENTENCES: dict[str, tuple[str, ...]] = {
    "reply language": (
        rf"(?:please )?(?:always |only )?(?:answer|reply|respond|write)(?: (?:to )?me)?(?: only)? in {_TONGUE}(?: (?:only|please|"
        rf"(?P<new>from now on|instead)))?",
        rf"(?:bitte )?(?:antworte|antworten sie|schreib|schreibe|schreiben sie)(?: mir)?(?: bitte)?(?: immer| nur|"
        rf" (?P<new>ab jetzt))? auf {_TONGUE}(?: bitte)?",
        rf"(?:por favor,? )?(?:responde|contesta|escribe)(?:me)?(?: siempre)? en {_TONGUE}(?: por favor)?",
        rf"(?:réponds|répondez|écris|écrivez)(?:-moi)?(?: toujours)? en {_TONGUE}",
    ),
    "workplace": (
        rf"my (?:office|workplace|desk) is(?: {_NOW_EN})?(?: located)? in {_TOWN}(?: {_NOW_EN})?|my (?:office|workplace): {_TOWN}|"
        rf"(?:i|we)(?: {_NOW_EN})? (?P<no>do ?n['’]t |do not |no longer )?work(?: {_NOW_EN})? (?:from|in|at|out of) (?:our|the|my) {_TOWN} "
        rf"(?:office|branch|site)(?: {_NOW_EN})?|(?:i|we)(?: {_NOW_EN})? work(?: {_NOW_EN})? in {_TOWN}|"
        rf"(?:i['’]m|i am|we['’]re|we are) based (?:in|at) (?:our|the) {_TOWN} office|"
        rf"(?:the )?user(?:'s|’s)? (?:office|workplace) is in {_TOWN}|(?:the )?user works (?:from|in|at) the {_TOWN} office",
        rf"mein (?:büro|arbeitsplatz) (?:ist|liegt|befindet sich)(?: {_NOW_DE})? in {_TOWN}|"
        rf"ich arbeite(?: {_NOW_DE})?(?P<no> nicht(?: mehr)?)? (?:in|aus|von) (?:unserem|dem|meinem) "
        rf"(?:büro in {_TOWN}|{_TOWN} büro)(?: aus)?|"
        rf"ich arbeite(?: {_NOW_DE})?(?: im büro)? in {_TOWN}",
        rf"mi (?:oficina|lugar de trabajo) está(?: (?P<new>ahora))? en {_TOWN}|"
        rf"(?:yo )?trabajo(?: (?P<new>ahora))? (?:en|desde) (?:la|nuestra|mi) oficina (?:de|en) {_TOWN}|(?:yo )?trabajo en {_TOWN}",
        rf"mon bureau (?:est|se trouve)(?: (?P<new>maintenant))? à {_TOWN}|"
        rf"je travaille(?: (?P<new>maintenant))? (?:dans|depuis|à) (?:notre|le|mon) bureau (?:de|d['’]|à) ?{_TOWN}|je travaille à {_TOWN}",
    ),
    "number": (
        rf"(?:i|we|my (?:wife|husband|partner) and i)(?:(?: {_NOW_EN})? have(?: got)?|['’]ve(?: {_NOW_EN})? got) {_N} {_THING}"
        rf"(?: {_NOW_EN})?|"
        rf"(?:i am|i['’]m) (?:an? |the )?(?P<scope>father|mother|parent|mum|mom|dad) of {_N}|"
        rf"(?:i|we) (?P<v>don['’]t|do not) have (?:any |an? )?{_THING}|(?:i|we) have (?P<v>an?) {_THING}|"
        rf"(?:the )?user has {_N} {_THING}|(?:the )?user (?P<v>doesn['’]t|does not) have (?:any |an? )?{_THING}|number of {_THING}: {_N}",
        rf"(?:ich habe|wir haben)(?: {_NOW_DE})? {_N} {_THING}|(?:der nutzer|die nutzerin) hat {_N} {_THING}",
        rf"(?:yo )?(?:tengo|tenemos)(?: (?P<new>ahora))? {_N} {_THING}|(?:yo )?(?P<v>no) (?:tengo|tenemos) {_THING}|"
        rf"el usuario tiene {_N} {_THING}",
        rf"(?:j['’]ai|nous avons|on a)(?: (?P<new>maintenant))? {_N} {_THING}|(?:je n['’]ai|nous n['’]avons|on n['’]a) (?P<v>pas|aucune?) "
        rf"(?:de |d['’])?{_THING}|l['’]utilisateur a {_N} {_THING}",
    ),
    "product": (
        rf"(?:i|we)(?: {_NOW_EN})? (?P<no>do ?n['’]t |do not |no longer )?(?:use|run|run on|deploy (?:to|on)|host on)(?: {_NOW_EN})? "
        rf"{_PRODUCT}"
        rf"(?: in production| as our database)?(?: {_NOW_EN})?|(?:we['’]re|we are)(?: {_NOW_EN})? (?:on|using|running) {_PRODUCT}|"
        rf"(?:my|our|the) {_WHERE_EN}(?:{_PLACE_WORDS})(?: server| engine)?(?: is|['’]s| runs on|:)(?: {_NOW_EN})? {_PRODUCT}|"
        rf"(?:my|our|the) {_WHERE_EN}(?:{_SYSTEMS_EN})(?: {_NOW_EN})? (?:runs on|runs|uses|is on|"
        rf"is (?:hosted|built|deployed|running) on|is (?:powered|backed) by) {_PRODUCT}|production (?:runs on|runs|uses|is on) {_PRODUCT}|"
        rf"(?:{_PLACE_WORDS}): {_PRODUCT}",
        rf"wir (?:nutzen|verwenden|benutzen|haben)(?: {_NOW_DE})? {_PRODUCT}|wir setzen(?: {_NOW_DE})? {_PRODUCT} ein|"
        rf"(?:unsere?|die|das|mein|meine) (?:{_PLACE_WORDS}|app|anwendung|backend|dienst|system|server|plattform) "
        rf"(?:ist|läuft (?:auf|mit|unter)|nutzt|verwendet)(?: {_NOW_DE})? {_PRODUCT}",
        rf"(?:usamos|utilizamos)(?: (?P<new>ahora))? {_PRODUCT}|(?:nuestr[oa]|la|el|mi) (?:{_PLACE_WORDS}|aplicación|servidor|sistema|"
        rf"servicio) "
        rf"(?:es|usa|utiliza|corre (?:en|sobre)|funciona con)(?: (?P<new>ahora))? {_PRODUCT}",
        rf"(?:nous utilisons|on utilise)(?: (?P<new>maintenant))? {_PRODUCT}|(?:notre|la|le|mon) (?:{_PLACE_WORDS}|application|serveur|"
        rf"système|"
        rf"service) (?:est|utilise|tourne (?:sous|sur|avec))(?: (?P<new>maintenant))? {_PRODUCT}",
    ),
    "location": (
        rf"(?:{_NOW_EN},? )?(?:i|we)(?: {_NOW_EN})? (?P<no>do ?n['’]t |do not |no longer )?(?:live|reside)(?: {_NOW_EN})? in {_TEXT}"
        rf"(?:,? {_NOW_EN}|,? (?P<new>any ?more|any longer))?",
        rf"(?:i['’]m|i am|we['’]re|we are)(?: {_NOW_EN})? (?P<no>not |no longer )?based in {_TEXT}(?:,? {_NOW_EN}|"
        rf",? (?P<new>any ?more))?",
        rf"(?:i|we)(?:['’]ve| have)?(?: just| recently| now)? (?P<new>moved|"
        rf"relocated)(?: from (?P<frm>[\w-]+(?: [A-Z][\w-]+)?))? to {_TEXT}",
        rf"{_USER} (?:{_NOW_EN} )?(?:lives|resides|is based)(?: {_NOW_EN})? in {_TEXT}(?: {_NOW_EN})?|(?:lives|resides|based) in {_TEXT}",
        rf"{_USER} (?P<new>has moved|moved) to {_TEXT}",
        rf"{_OF_USER}(?:current )?(?:location|city|place of residence|residence|home city|lives in)(?: is)?: ?{_TEXT}",
        rf"{_USER}(?:['’]s)? (?:current )?(?:location|city|place of residence|residence) is {_TEXT}",
        rf"{_WHO} (?:{_NOW_EN} )?lives in {_TEXT}(?: {_NOW_EN})?",
        rf"(?:ich|wir) (?:wohne|wohnen|lebe|leben|wohn)(?: {_NOW_DE})?(?P<no> nicht(?: (?P<new>mehr))?| nicht länger)? in {_TEXT}",
        rf"{_NOW_DE} (?:wohne ich|wohnen wir|lebe ich|leben wir) in {_TEXT}",
        rf"(?:ich bin|wir sind)(?: gerade| kürzlich| jetzt| vor kurzem|"
        rf" neulich)?(?: von (?P<frm>[\w-]+))? nach {_TEXT} (?P<new>umgezogen|gezogen)",
        rf"{_USER} (?:wohnt|lebt)(?: {_NOW_DE})? in {_TEXT}|(?:wohnt|lebt) in {_TEXT}|"
        rf"{_USER} ist nach {_TEXT} (?P<new>umgezogen|gezogen)",
        rf"{_OF_USER}(?:wohnort|stadt|standort)(?: ist)?: ?{_TEXT}|mein wohnort ist(?: {_NOW_DE})? {_TEXT}",
        rf"{_WHO} wohnt(?: {_NOW_DE})? in {_TEXT}",
        rf"(?:{_NOW_ES},? )?(?:yo )?(?P<no>(?:(?P<new>ya) )?no )?(?:vivo|vivimos|resido|"
        rf"residimos)(?: {_NOW_ES})? en {_TEXT}(?: {_NOW_ES})?",
        rf"(?:me he|nos hemos) (?P<new>mudado|trasladado)(?: de (?P<frm>[\w-]+))? a {_TEXT}|(?:me (?P<new>mudé|trasladé)|"
        rf"nos (?P<new>mudamos))"
        rf"(?: de (?P<frm>[\w-]+))? a {_TEXT}",
        rf"{_USER} (?:{_NOW_ES} )?(?:vive|reside)(?: {_NOW_ES})? en {_TEXT}|(?:vive|reside) en {_TEXT}|"
        rf"{_USER} (?P<new>se ha mudado|se mudó) a {_TEXT}",
        rf"{_OF_USER}(?:ciudad|ubicación|residencia|lugar de residencia): ?{_TEXT}",
        rf"{_WHO} vive(?: {_NOW_ES})? en {_TEXT}",
        rf"(?:{_NOW_FR},? )?(?:j['’]habite|je vis|je réside|nous habitons|nous vivons|on habite)(?: {_NOW_FR})? (?:à|en|au|"
        rf"aux) {_TEXT}(?: {_NOW_FR})?",
        rf"(?:je n['’]habite|je ne vis|nous n['’]habitons|nous ne vivons)(?P<no> pas| (?P<new>plus)) (?:à|en|au|aux) {_TEXT}",
        rf"(?:j['’]ai|nous avons|on a)(?: récemment)? (?P<new>déménagé|emménagé)(?: de (?P<frm>[\w-]+))? (?:à|en|au|aux) {_TEXT}",
        rf"(?:je viens|nous venons) (?P<new>de déménager)(?: de (?P<frm>[\w-]+))? (?:à|en|au|aux) {_TEXT}",
        rf"{_USER} (?:habite|vit|réside)(?: {_NOW_FR})? (?:à|en|au|aux) {_TEXT}|(?:habite|vit) (?:à|en|au|aux) {_TEXT}",
        rf"{_OF_USER}(?:ville|localisation|lieu de résidence|domicile): ?{_TEXT}",
        rf"{_WHO} habite(?: {_NOW_FR})? (?:à|en|au|aux) {_TEXT}",
    ),
    "name": (
        rf"my (?:full |first )?name(?: is|['’]s) {_TEXT}|i am called {_TEXT}|{_USER}(?:['’]s)? name(?: is|:) {_TEXT}|name: {_TEXT}",
        rf"ich heiße {_TEXT}|mein (?:vor)?name (?:ist|lautet) {_TEXT}|{_USER} heißt {_TEXT}",
        rf"(?:yo )?me llamo {_TEXT}|mi nombre es {_TEXT}|{_USER} se llama {_TEXT}|nombre: {_TEXT}",
        rf"je m['’]appelle {_TEXT}|mon (?:nom|prénom) est {_TEXT}|{_USER} s['’]appelle {_TEXT}|(?:nom|prénom): ?{_TEXT}",
    ),
    "nickname": (
        rf"(?:please )?(?P<no>do ?n['’]t |do not )?call me {_TEXT}(?:,? (?:please|(?P<new>from now on|instead|now)))?",
        rf"{_USER} (?:wants|prefers|likes) to be called {_TEXT}|(?:nickname|preferred name): {_TEXT}",
        rf"(?:bitte )?nenn(?:e|en sie)? mich(?: bitte)?(?: (?P<new>ab jetzt|künftig|jetzt|"
        rf"lieber))?(?P<no> nicht(?: mehr)?)? {_TEXT}(?: bitte)?",
        rf"{_USER} möchte {_TEXT} genannt werden|(?:spitzname|rufname): {_TEXT}",
        rf"(?:por favor,? )?llám[ae](?:me|nme) {_TEXT}(?: por favor|,? (?P<new>a partir de ahora))?|"
        rf"(?P<no>no me llames) {_TEXT}|apodo: {_TEXT}",
        rf"appel(?:le|ez)-moi {_TEXT}(?:,? (?:s['’]il (?:te|vous) pla[iî]t|(?P<new>désormais|à partir de maintenant)))?|"
        rf"(?P<no>ne m['’]appel(?:le|ez) (?:pas|plus)) {_TEXT}|surnom: ?{_TEXT}",
    ),
    "email": (
        rf"my {_NEWEST}(?:e-?mail|mail)(?: address)? is(?: {_NOW_EN})? {_EMAIL}|{_OF_USER}e-?mail(?: address)?(?: is|:) {_EMAIL}",
        rf"meine {_NEWEST}(?:e-?mail|mail)(?:[ -]?adresse)? (?:ist|lautet)(?: {_NOW_DE})? {_EMAIL}",
        rf"mi {_NEWEST}(?:correo|e-?mail)(?: electrónico)? es(?: {_NOW_ES})? {_EMAIL}|(?:correo|correo electrónico): {_EMAIL}",
        rf"mon {_NEWEST}(?:adresse )?(?:e-?mail|mail|courriel)(?: est|:)(?: {_NOW_FR})? {_EMAIL}",
        rf"{_WHO}['’]s e-?mail(?: address)? is {_EMAIL}",
    ),
    "phone": (
        rf"my {_NEWEST}(?:phone |telephone )?number is(?: {_NOW_EN})? {_PHONE}|{_OF_USER}(?:phone|phone number|telephone)(?: is|"
        rf":) {_PHONE}",
        rf"meine {_NEWEST}(?:telefon|handy)?nummer (?:ist|lautet)(?: {_NOW_DE})? {_PHONE}|telefon(?:nummer)?: {_PHONE}",
        rf"mi {_NEWEST}(?:número(?: de teléfono)?|teléfono) es(?: {_NOW_ES})?(?: el)? {_PHONE}|teléfono: {_PHONE}",
        rf"mon {_NEWEST}(?:numéro(?: de téléphone)?|téléphone) est(?: {_NOW_FR})?(?: le)? {_PHONE}|téléphone: ?{_PHONE}",
        rf"{_WHO}['’]s (?:phone )?number is {_PHONE}",
    ),
    "birthday": (
        rf"my (?:birthday|date of birth)(?: is|['’]s)(?: on)?(?: the)? {_DAY}|i was born on(?: the)? {_DAY}",
        rf"{_OF_USER}(?:birthday|date of birth)(?: is|:)(?: on)?(?: the)? {_DAY}|{_USER} was born on(?: the)? {_DAY}",
        rf"mein geburtstag ist(?: am| der)? {_DAY}|ich habe am {_DAY} geburtstag|ich (?:bin|wurde) am {_DAY} geboren|geburtstag: {_DAY}",
        rf"mi cumpleaños es(?: el)? {_DAY}|nací el {_DAY}|cumplo años el {_DAY}|cumpleaños: {_DAY}",
        rf"mon anniversaire est(?: le)? {_DAY}|je suis née? le {_DAY}|anniversaire: ?{_DAY}",
        rf"{_WHO}['’]s birthday is(?: on)?(?: the)? {_DAY}|{_WHO} hat am {_DAY} geburtstag|"
        rf"el cumpleaños de {_WHO} es(?: el)? {_DAY}|l['’]anniversaire (?:de |d['’]){_WHO} est(?: le)? {_DAY}",
    ),
    "age": (
        rf"(?:i am|i['’]m)(?: {_NOW_EN})? {_COUNT} years old(?: {_NOW_EN})?|my age is {_COUNT}|"
        rf"{_USER} is {_COUNT}(?: years old)?|age: {_COUNT}",
        rf"ich bin(?: {_NOW_DE})? {_COUNT} jahre alt|{_USER} ist {_COUNT} jahre alt|alter: {_COUNT}",
        rf"(?:yo )?tengo(?: {_NOW_ES})? {_COUNT} años|{_USER} tiene {_COUNT} años|edad: {_COUNT}",
        rf"j['’]ai(?: {_NOW_FR})? {_COUNT} ans|{_USER} a {_COUNT} ans|âge: ?{_COUNT}",
    ),
    "employer": (
        rf"(?:i|we)(?: {_NOW_EN})? (?P<no>do ?n['’]t |do not |no longer )?work(?: {_NOW_EN})? (?:for|at) {_TEXT}(?: {_NOW_EN}|"
        rf",? (?P<new>any ?more))?",
        rf"my (?:current |present )?{_NEWEST}employer(?: is|['’]s)(?: {_NOW_EN})? {_TEXT}|{_USER} (?:{_NOW_EN} )?works (?:for|at) {_TEXT}|"
        rf"{_OF_USER}employer(?: is|:) {_TEXT}",
        rf"ich arbeite(?: {_NOW_DE})?(?P<no> nicht(?: (?P<new>mehr))?)? bei {_TEXT}|mein {_NEWEST}arbeitgeber ist(?: {_NOW_DE})? {_TEXT}",
        rf"{_USER} arbeitet(?: {_NOW_DE})? bei {_TEXT}|arbeitgeber: {_TEXT}",
        rf"(?:yo )?(?P<no>(?:(?P<new>ya) )?no )?trabajo(?: {_NOW_ES})? para {_TEXT}|mi {_NEWEST}(?:empresa|"
        rf"empleador) es(?: {_NOW_ES})? {_TEXT}",
        rf"je travaille(?: {_NOW_FR})? chez {_TEXT}|je ne travaille(?P<no> pas| (?P<new>plus)) chez {_TEXT}|"
        rf"mon {_NEWEST}employeur est(?: {_NOW_FR})? {_TEXT}",
    ),
    "diet": (
        r"(?:i['’]m|i am|we['’]re|we are)(?: (?P<new>now))?(?P<no> not| no longer)?(?: an?)?(?: (?:strict|"
        r"strictly))? (?P<v>vegans?|vegetarians?|pescatarians?)"
        r"(?: (?P<new>now|any ?more))?",
        r"(?:i|we)(?: (?P<new>now))?(?P<no> do ?n['’]t| do not| never| no longer)? eat(?: any)? (?P<v>meat|fish|cheese|"
        r"pork)(?: (?P<new>now|again|any ?more))?",
        rf"{_USER} is(?P<no> not)?(?: an?)? (?P<v>vegan|vegetarian|pescatarian)|{_USER} (?P<no>(?:does ?n['’]t|does not|"
        rf"never) )?eats? (?P<v>meat|fish|pork)",
        r"diet: (?P<v>vegan|vegetarian|pescatarian)|(?P<v>vegan|vegetarian|pescatarian)",
        r"(?:ich bin|wir sind)(?: (?P<new>jetzt|inzwischen))?(?P<no> kein(?:e)?| nicht)?(?: (?P<new>mehr))? (?P<v>vegan|"
        r"vegetarisch|veganer(?:in)?|"
        r"vegetarier(?:in)?)(?: (?P<new>mehr))?",
        r"(?:ich esse|wir essen)(?: (?P<new>jetzt|wieder|inzwischen))?(?P<no> kein(?:en)?|"
        r" nie)?(?: (?P<new>wieder))? (?P<v>fleisch|fisch|käse|schweinefleisch)"
        r"(?: (?P<new>mehr))?|ich ernähre mich(?: (?P<new>jetzt))? (?P<v>vegan|vegetarisch)",
        rf"{_USER} ist(?P<no> kein(?:e)?)? (?P<v>vegan|vegetarisch|veganer(?:in)?|vegetarier(?:in)?)|"
        rf"{_USER} isst(?P<no> kein(?:en)?)? (?P<v>fleisch|fisch)",
        r"(?:yo )?(?P<no>(?:(?P<new>ya) )?no )?(?:soy|somos)(?: (?P<new>ahora))? (?P<v>vegan[oa]s?|vegetarian[oa]s?)|"
        r"(?:yo )?(?P<no>(?:(?P<new>ya) )?(?:no|nunca) )?(?:como|comemos)(?: (?P<new>ahora))? (?P<v>carne|pescado|queso|cerdo)",
        rf"{_USER} (?P<no>no )?es (?P<v>vegan[oa]|vegetarian[oa])|{_USER} (?P<no>no )?come (?P<v>carne|pescado)",
        r"je suis(?: (?P<new>maintenant))? (?P<v>végane?|vegan|végétalien(?:ne)?|végétarien(?:ne)?)|je ne suis(?P<no> pas|"
        r" (?P<new>plus)) "
        r"(?P<v>végane?|vegan|végétalien(?:ne)?|végétarien(?:ne)?)|je mange(?: (?P<new>maintenant|à nouveau))?(?: de la|"
        r" du) (?P<v>viande|poisson|fromage|porc)"
        r"|je ne mange(?P<no> pas| jamais| (?P<new>plus)) (?:de )(?P<v>viande|poisson|fromage|porc)",
        rf"{_USER} est (?P<v>végane?|végétalien(?:ne)?|végétarien(?:ne)?)|{_USER} mange (?:de la|du) (?P<v>viande|poisson)",
    ),
    "allergy": (
        r"(?:i['’]m|i am)(?P<no> not| no longer)?(?: actually)? allergic to (?P<v>[^\W\d_]+(?: [^\W\d_]+)?)(?: (?P<new>any ?more))?",
        r"i (?:have (?P<no>no )|do(?:n['’]t| not) have (?P<no>an? )|have an? )(?P<v>[^\W\d_]+) allergy",
        rf"{_USER} is(?P<no> not)? allergic to (?P<v>[^\W\d_]+(?: [^\W\d_]+)?)|(?P<no>not )?allergic to (?P<v>[^\W\d_]+(?: [^\W\d_]+)?)",
        r"ich bin(?P<no> nicht(?: (?P<new>mehr))?)? allergisch (?:gegen|auf) (?P<v>[^\W\d_]+)|ich bin (?:gegen|"
        r"auf) (?P<v>[^\W\d_]+)(?P<no> nicht(?: (?P<new>mehr))?)?"
        r" allergisch|ich habe (?:(?P<no>keine)|eine) (?P<v>[^\W\d_]+?)-?allergie",
        rf"{_USER} ist(?P<no> nicht)? allergisch (?:gegen|auf) (?P<v>[^\W\d_]+)|(?P<no>nicht )?allergisch (?:gegen|auf) (?P<v>[^\W\d_]+)",
        r"(?:yo )?(?P<no>(?:(?P<new>ya) )?no )?soy alérgic[oa] al? (?P<v>(?:(?:la|las|los|el) )?[^\W\d_]+(?: secos)?)|"
        r"(?P<no>no )?tengo alergia al? (?P<v>(?:(?:la|las|los|el) )?[^\W\d_]+)",
        rf"{_USER} (?P<no>no )?es alérgic[oa] al? (?P<v>(?:(?:la|las|los|el) )?[^\W\d_]+)",
        r"je suis allergique (?:à|au|aux) (?P<v>(?:(?:la |les |le )|l['’])?[^\W\d_]+)|je ne suis(?P<no> pas|"
        r" (?P<new>plus)) allergique (?:à|au|aux) "
        r"(?P<v>(?:(?:la |les |le )|l['’])?[^\W\d_]+)",
        rf"{_USER} est allergique (?:à|au|aux) (?P<v>(?:(?:la |les |le )|l['’])?[^\W\d_]+)",
    ),
    "smoking habit": (
        r"i (?P<no>do ?n['’]t |do not |no longer )?(?P<v>smoke)(?: (?P<new>any ?more))?|(?:i['’]m|i am) an? (?P<no>non-?)?(?P<v>smoker)",
        r"ich (?P<v>rauche)(?P<no> nicht(?: (?P<new>mehr))?)?|ich bin (?P<no>nicht)?(?P<v>raucher(?:in)?)",
        r"(?:yo )?(?P<no>(?:(?P<new>ya) )?no )?(?P<v>fumo)|(?P<no>no )?soy (?P<v>fumador[ea]?)",
        r"je (?P<v>fume)|je ne (?P<v>fume)(?P<no> pas| (?P<new>plus))|je suis (?P<no>non-?)?(?P<v>fumeu(?:r|se))",
        rf"{_USER} (?P<v>smokes)|{_USER} (?P<no>does ?n['’]t |does not )(?P<v>smoke)",
    ),
    "marital status": (
        rf"(?:i['’]m|i am)(?: (?P<new>now))? (?P<v>married|single|divorced)|{_USER} is (?P<v>married|single|divorced)|"
        rf"marital status: (?P<v>married|single|divorced)",
        rf"(?:ich bin|{_USER} ist)(?: (?P<new>jetzt|inzwischen))? (?P<v>verheiratet|ledig|geschieden)",
        rf"(?:estoy|soy|{_USER} está|{_USER} es)(?: (?P<new>ahora))? (?P<v>casad[oa]|solter[oa]|divorciad[oa])",
        rf"(?:je suis|{_USER} est)(?: (?P<new>maintenant))? (?P<v>mariée?|célibataire|divorcée?)",
    ),
    "seat": (
        r"i prefer (?:an? |the )?(?P<v>window|aisle) seats?|(?:the )?(?:user|customer) prefers (?:an? |the )?(?P<v>window|"
        r"aisle) seats?|(?:prefers|seat:) (?P<v>window|aisle)(?: seats?)?",
        r"ich bevorzuge (?:einen |den )?(?P<v>fenster|gang)pl(?:a|ä)tze?|ich sitze (?:lieber|am liebsten) am (?P<v>fenster|gang)",
        r"prefiero (?:un |el |los )?(?:asientos? )?(?:de |en )?(?:la |el )?(?P<v>ventan(?:a|illa)|pasillo)",
        r"je préfère (?:les |la |le |une |un )?(?:places?|sièges?)?(?: ?côté)? ?(?P<v>hublot|couloir|fenêtre)",
    ),
    "price level": (
        rf"i (?:always |much )?prefer (?:to (?:stay in|book|fly|eat in) )?{_LEVEL_EN}{_SCOPE_EN}{_PER_NIGHT}|"
        rf"i (?:only|always) (?:stay in|book) {_LEVEL_EN}{_SCOPE_EN}{_PER_NIGHT}|"
        rf"(?P<task>i (?:want|need)|i(?:['’]d| would) (?:like|prefer)|i(?:['’]m| am) looking for) an? {_LEVEL_EN}{_SCOPE_EN}{_PER_NIGHT}|"
        rf"{_USER} prefers (?:to (?:stay in|book) )?{_LEVEL_EN}{_SCOPE_EN}{_PER_NIGHT}|prefers {_LEVEL_EN}{_SCOPE_EN}{_PER_NIGHT}",
        rf"ich (?:bevorzuge|mag lieber|buche (?:immer|nur)) (?P<v>günstige|billige|preiswerte|luxuriöse|gehobene|teure) "
        rf"(?P<scope>hotels|flüge|restaurants|unterkünfte){_PER_NIGHT}|ich (?:bevorzuge|mag lieber|buche (?:immer|nur)) "
        rf"(?P<v>budget|luxus|5-sterne|fünf-sterne)-?(?P<scope>hotels|restaurants){_PER_NIGHT}|"
        rf"(?P<task>ich (?:möchte|will|suche|brauche|hätte gern)) ein (?P<v>günstiges|billiges|preiswertes|luxuriöses|gehobenes) "
        rf"(?P<scope>hotel|restaurant){_PER_NIGHT}|(?P<task>ich (?:möchte|will|suche|brauche|hätte gern)) ein "
        rf"(?P<v>budget|luxus|5-sterne|fünf-sterne)-?(?P<scope>hotel|restaurant)(?: mit (?:5|fünf) sternen)?{_PER_NIGHT}|"
        rf"{_USER} bevorzugt (?P<v>günstige|billige|luxuriöse) (?P<scope>hotels|flüge|restaurants){_PER_NIGHT}",
        rf"(?:prefiero|siempre reservo|{_USER} prefiere)(?: los| las)? (?P<scope>hoteles|vuelos|restaurantes|alojamientos) "
        rf"(?P<v>baratos|económicos|de lujo|de (?:5|cinco) estrellas)(?: de (?:lujo|(?:5|cinco) estrellas))?{_PER_NIGHT}",
        rf"(?:je préfère|je réserve toujours|{_USER} préfère) (?:les |des )?(?P<scope>hôtels|vols|restaurants|hébergements) "
        rf"(?P<v>bon marché|pas chers|économiques|de luxe|(?:de )?(?:5|cinq) étoiles)(?: (?:de luxe|(?:5|cinq) étoiles))?{_PER_NIGHT}",
    ),
    "budget": (
        rf"(?:my|our) (?P<new>new )?(?P<scope>hotel |flight |travel |total |overall )?budget is(?: (?P<new>now))? {_AMOUNT}|"
        rf"{_OF_USER}budget(?: is|:) {_AMOUNT}",
        rf"(?:mein|unser) (?P<new>neues )?(?P<scope>hotel|reise|gesamt)?budget (?:ist|beträgt|liegt bei)(?: (?P<new>jetzt|"
        rf"nun))? {_AMOUNT}",
        rf"(?:mi|nuestro) (?P<new>nuevo )?presupuesto(?P<scope> total)? es(?: (?P<new>ahora))?(?: de)? {_AMOUNT}|presupuesto: {_AMOUNT}",
        rf"(?:mon|notre) (?P<new>nouveau )?budget(?P<scope> total)? est(?: (?P<new>maintenant))?(?: de)? {_AMOUNT}|budget: ?{_AMOUNT}",
        rf"(?:please )?(?P<new>make|set|change|raise|lower|increase|reduce) (?:my|our) budget(?: to)? {_AMOUNT}|"
        rf"(?:bitte )?(?P<new>erhöhe|setze|ändere|senke) (?:mein|unser) budget auf {_AMOUNT}|"
        rf"(?P<new>sube|baja|cambia|pon) (?:mi|nuestro) presupuesto a {_AMOUNT}|"
        rf"(?P<new>augmente|change|monte|baisse) (?:mon|notre) budget à {_AMOUNT}",
    ),
    "people": (
        rf"(?:we are|we['’]re|we['’]ll be|we will be)(?: (?P<new>now))? {_COUNT} (?:people|persons|adults|guests)",
        rf"wir sind(?: (?P<new>jetzt|nun))? {_COUNT} (?:personen|leute|erwachsene|gäste)|wir sind(?: (?P<new>jetzt|"
        rf"nun))? zu (?P<v>zweit|dritt|viert|fünft|sechst)",
        rf"(?:{_NOW_ES} )?somos(?: {_NOW_ES})? {_COUNT} (?:personas|adultos)",
        rf"(?:nous sommes|on est|nous serons)(?: (?P<new>maintenant))? {_COUNT} (?:personnes|adultes)",
    ),
}
"""By attribute: whole sentences that say it."""
MAKE_IT = re.compile(
    r"(?:please )?(?:let['’]s )?(?:make|change|switch) (?:it|that)(?: to| at| for)? (?P<en>.{1,24}?)(?: instead)?(?:,? please)?|"
    r"(?:bitte )?(?:mach(?:en)?(?: wir| sie)? (?:es|das)(?: auf| zu)?|mach(?:en)? wir(?: lieber| doch)?|(?:doch |"
    r"dann )?lieber)(?: um)? (?P<de>.{1,24}?)"
    r"(?: daraus)?(?:,? bitte)?|"
    r"(?:mejor|que sean?|cámbialo|ponlo)(?: a| en)?(?: las| la)? (?P<es>.{1,24}?)(?: mejor)?(?:,? por favor)?|"
    r"(?:plutôt|disons|mettez|mets|changez?)(?:-le)?(?: à| en| pour)? (?P<fr>.{1,24}?)(?: plutôt)?(?:,? s['’]il (?:te|vous) pla[iî]t)?",
    re.I,
)
"""What was spoken of is to be something else."""
OF_A_NAME = re.compile(
    r"[A-ZÀ-Þ][\w-]{1,20}(?: (?:now |currently )?(?:lives|wohnt|vive|habite) | hat am |['’]s (?:birthday|e-?mail|phone|number) )|"
    r"[Ee]l cumpleaños de |[Ll]['’]anniversaire d|" + _SUBJECTS
)
"""How a sentence begins that is about somebody by name, or about a deployment."""
