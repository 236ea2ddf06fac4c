"""How somebody plainly says where they work, how many of one thing they have, none among them, and which product stands in one place.

In: nothing. Out: whole sentences with groups, as in `clashes.plain_words`, which they are part of, and what the groups' words
come to: ``kids`` and ``Kinder`` are one thing, ``Postgres 15`` is a database. Only closed lists: of questions, meetings or ideas one has
another number every hour, and of most tools several.
"""

from __future__ import annotations

import re

from proxy.language.names import folded

_THING_WORDS = {
    "children": "father mother parent mum mom dad child children kid kids kind kinder kindern hijo hijos niño niños enfant enfants",
    "sons": "son sons sohn söhne fils",
    "daughters": "daughter daughters tochter töchter hija hijas fille filles",
    "grandchildren": "grandchild grandchildren grandkids enkel enkelkind enkelkinder nieto nietos petits-enfants",
    "brothers": "brother brothers bruder brüder hermano hermanos frère frères",
    "sisters": "sister sisters schwester schwestern hermana hermanas sœur sœurs soeur soeurs",
    "siblings": "sibling siblings geschwister",
    "pets": "pet pets haustier haustiere mascota mascotas",
    "dogs": "dog dogs hund hunde hunden perro perros chien chiens",
    "cats": "cat cats katze katzen gato gatos chat chats",
    "cars": "car cars auto autos coche coches voiture voitures",
    "employees": "employee employees angestellte mitarbeiter mitarbeitende empleado empleados employé employés salarié salariés",
    "offices": "office offices büro büros niederlassungen oficina oficinas bureau bureaux",
    "shops": "shop shops store stores laden läden filiale filialen tienda tiendas magasin magasins",
    "servers": "server servers servidor servidores serveur serveurs",
}
"""What one has a number of for longer than a task, in four languages."""
_THINGS = {folded(word): thing for thing, words in _THING_WORDS.items() for word in words.split()}
_THING = rf"(?P<scope>{'|'.join(sorted({word for words in _THING_WORDS.values() for word in words.split()}, key=len, reverse=True))})"
_N = r"(?P<v>\d{1,4}|[^\W\d]{2,14})"
_PRODUCTS = {
    "database": r"postgre(?:s|sql)|mysql|mariadb|sqlite|oracle|(?:ms |microsoft )?sql server|mongo(?:db)?|cassandra|dynamodb|cockroachdb",
    "operating system": r"ubuntu|debian|rhel|red hat|centos|fedora|alpine|windows(?: server)?|macos",
    "cloud": r"aws|amazon web services|azure|google cloud|gcp|hetzner|digitalocean",
    "web server": r"nginx|apache|caddy|iis",
    "web framework": r"django|flask|fastapi|rails|laravel|spring boot",
    "frontend framework": r"react|vue|angular|svelte",
    "build server": r"jenkins|github actions|gitlab ci|circleci",
    "message broker": r"kafka|rabbitmq|nats",
}
"""By what stands in one place of a deployment: products of which each takes another's."""
_SAME_PRODUCT = {
    "postgres": "postgresql",
    "mongo": "mongodb",
    "ms sql server": "sql server",
    "microsoft sql server": "sql server",
    "gcp": "google cloud",
    "amazon web services": "aws",
    "red hat": "rhel",
}
_PRODUCT = rf"(?P<v>(?:{'|'.join(_PRODUCTS.values())})(?: (?:v|version )?\d{{1,4}}(?:\.\d{{1,3}}){{0,2}})?(?: lts)?)"
_WHERE_EN = r"(?P<scope>(?:production |prod |staging |test |testing |dev |development |local |analytics |reporting )?)"
_PLACE_WORDS = (
    "database|db|datenbank|base de datos|base de données|operating system|os|betriebssystem|web server|webserver|cloud|message broker"
)
_SYSTEMS_EN = "app|application|backend|service|system|server|deployment|site|website|project|product|stack|platform"
_NOW_EN, _NOW_DE = r"(?P<new>now|currently)", r"(?P<new>jetzt|nun|inzwischen|mittlerweile|derzeit)"
_IN = r"(?:'s|’s)?"
_TOWN = r"(?P<v>[^\W\d_][\w'’.-]*?(?: [^\W\d_][\w'’.-]*?){0,2}?)"

SENTENCES: dict[str, tuple[str, ...]] = {
    "workplace": (
        rf"my (?:office|workplace|desk) is(?: {_NOW_EN})?(?: located)? in {_TOWN}(?: {_NOW_EN})?|my (?:office|workplace): {_TOWN}|"
        rf"(?:i|we)(?: {_NOW_EN})? (?P<no>do ?n['’]t |do not |no longer )?work(?: {_NOW_EN})? (?:from|in|at|out of) (?:our|the|my) {_TOWN} "
        rf"(?:office|branch|site)(?: {_NOW_EN})?|(?:i|we)(?: {_NOW_EN})? work(?: {_NOW_EN})? in {_TOWN}|"
        rf"(?:i['’]m|i am|we['’]re|we are) based (?:in|at) (?:our|the) {_TOWN} office|"
        rf"(?:the )?user{_IN} (?:office|workplace) is in {_TOWN}|(?:the )?user works (?:from|in|at) the {_TOWN} office",
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
}
"""By attribute; ``scope`` of a number is what is counted, of a product where it stands."""
SUBJECTS = (
    rf"(?i:the|die|das|la|el|le) (?:production |prod |staging |test |dev |development |local |analytics |reporting )?"
    rf"(?i:{_PLACE_WORDS}|{_SYSTEMS_EN}|app|anwendung|dienst|plattform|aplicación|servidor|sistema|servicio|serveur|système)\b"
)
"""How a sentence about a deployment begins that is not in the first person."""
NONE = frozenset(("no", "don't", "do not", "doesn't", "does not", "kein", "keine", "keinen", "pas", "aucun", "aucune", "ningun", "ninguna"))
"""How many: none."""
ONE = frozenset(("a", "an", "one", "ein", "eine", "einen", "un", "una", "une"))
PRODUCTION = frozenset(("", "production", "prod"))


def thing(word: str) -> str:
    """What is counted, whatever the language and the number."""
    return _THINGS.get(folded(word), folded(word))


def product(text: str) -> tuple[str, str]:
    """``("database", "postgresql 15")``: the place that a product takes, and which it is."""
    plain = re.sub(r" (?:v|version )?(?=\d)", " ", " ".join(text.lower().split())).removesuffix(" lts")
    name, _, version = plain.rpartition(" ") if plain[-1:].isdigit() else (plain, "", "")
    name = _SAME_PRODUCT.get(name, name)
    kind = next((kind for kind, names in _PRODUCTS.items() if re.fullmatch(names, name)), "")
    return kind, f"{name} {version}".strip()


PLACES = frozenset(_PRODUCTS)
_PARTS = {"children": ("sons", "daughters"), "siblings": ("brothers", "sisters"), "pets": ("dogs", "cats")}
"""What is counted in another number, too."""


_WHOLES = {f"number of {part}": f"number of {whole}" for whole, parts in _PARTS.items() for part in parts}


def whole(attribute: str) -> str:
    """The attribute that counts all of them, where `attribute` counts some; else itself."""
    return _WHOLES.get(attribute, attribute)


def is_more_than_all(part: str, count: str, all_of_them: str, total: str) -> bool:
    """Whether there are more of one kind than of all: a son, and no children. Both are attributes of `clashes.plain`."""
    return part != all_of_them == whole(part) and int(count) > int(total)


def other_product(one: str, other: str) -> bool:
    """Whether two are not one: a version that is not told, or told in part, is any."""
    (name, _, version), (other_name, _, other_version) = (_cut(text) for text in (one, other))
    if name != other_name or not version or not other_version:
        return name != other_name
    short, long = sorted((version, other_version), key=len)
    return not f"{long}.".startswith(f"{short}.")


def _cut(text: str) -> tuple[str, str, str]:
    return text.rpartition(" ") if text[-1:].isdigit() and " " in text else (text, "", "")
