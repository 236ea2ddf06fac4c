"""Which place lies in which: a statement of a country does not contradict one of a city in it.

A small list of countries, large cities and their districts, in English, German, Spanish and French; a place that is not in it may lie
anywhere. In: two folded names. Out: whether one person can be in both at once.
"""

from __future__ import annotations

_COUNTRIES = """
germany deutschland alemania allemagne: berlin hamburg munich munchen munique cologne koln colonia frankfurt stuttgart dusseldorf
  leipzig dresden bremen hannover nuremberg nurnberg bonn bavaria bayern
france frankreich francia: paris lyon marseille toulouse nice nizza bordeaux lille nantes strasbourg strassburg montpellier rennes
  montmartre provence
spain spanien espana espagne: madrid barcelona valencia sevilla seville sevilla malaga bilbao zaragoza granada palma mallorca
italy italien italia italie: rome rom roma milan mailand milano naples neapel napoli venice venedig venezia venecia florence
  florenz firenze florencia turin torino bologna sicily
united_kingdom uk great_britain england grossbritannien reino_unido inglaterra royaume-uni angleterre: london londres manchester
  birmingham liverpool leeds bristol oxford cambridge edinburgh glasgow cardiff belfast
united_states usa us america vereinigte_staaten estados_unidos etats-unis: new_york new_york_city nyc brooklyn
  los_angeles la chicago houston phoenix philadelphia san_francisco sf boston seattle washington miami denver austin dallas
  atlanta portland las_vegas san_diego california texas florida
austria osterreich autriche: vienna wien viena vienne salzburg graz innsbruck linz
switzerland schweiz suiza suisse: zurich geneva genf ginebra geneve basel bern lausanne lucerne luzern
portugal: lisbon lissabon lisboa lisbonne porto faro
netherlands niederlande holland paises_bajos pays-bas: amsterdam rotterdam utrecht the_hague den_haag eindhoven
belgium belgien belgica belgique: brussels brussel bruselas bruxelles antwerp ghent bruges
ireland irland irlanda irlande: dublin cork galway
denmark danemark dinamarca: copenhagen kopenhagen copenhague aarhus
sweden schweden suecia suede: stockholm estocolmo gothenburg malmo
norway norwegen noruega norvege: oslo bergen
finland finnland finlandia finlande: helsinki tampere
poland polen polonia pologne: warsaw warschau varsovia varsovie krakow krakau gdansk
czech_republic czechia tschechien republica_checa tchequie: prague prag praga brno
greece griechenland grecia grece: athens athen atenas athenes thessaloniki crete kreta
turkey turkei turquia turquie: istanbul ankara antalya
japan japon: tokyo tokio osaka kyoto kioto sapporo hiroshima
china chine: beijing peking pekin shanghai shenzhen guangzhou hong_kong
india indien inde: delhi new_delhi mumbai bangalore chennai kolkata hyderabad goa
canada kanada: toronto montreal vancouver ottawa calgary quebec
mexico mexiko mexique: mexico_city ciudad_de_mexico guadalajara monterrey cancun
brazil brasilien brasil bresil: rio_de_janeiro rio sao_paulo brasilia
argentina argentinien argentine: buenos_aires cordoba mendoza
australia australien australie: sydney melbourne brisbane perth adelaide canberra
thailand tailandia thailande: bangkok phuket chiang_mai
egypt agypten egipto egypte: cairo kairo el_cairo le_caire luxor
morocco marokko marruecos maroc: marrakech casablanca rabat
south_korea sudkorea corea_del_sur coree_du_sud: seoul seul busan
united_arab_emirates uae emirates: dubai abu_dhabi
"""
"""Each country in its languages: what lies in it. Underscores join words."""
_DISTRICTS = """
berlin: kreuzberg mitte neukolln neukoelln friedrichshain charlottenburg prenzlauer_berg wedding schoneberg spandau pankow
hamburg: altona st_pauli eimsbuttel
munich: schwabing sendling giesing
paris: montmartre marais le_marais belleville la_defense montparnasse
london: soho camden hackney brixton shoreditch westminster greenwich chelsea notting_hill
new_york: manhattan brooklyn queens bronx harlem staten_island
madrid: malasana chueca lavapies salamanca
barcelona: gracia eixample born raval
los_angeles: hollywood santa_monica venice_beach
"""
REGIONS = frozenset(
    ("europe", "europa", "asia", "asien", "asie", "africa", "afrika", "afrique", "america", "scandinavia", "eu", "alps", "alpen")
)
_PARTS_OF_COUNTRIES = frozenset(
    "bavaria bayern provence sicily mallorca california texas florida crete kreta goa brittany andalusia england inglaterra".split()  # noqa: SIM905
)
"""What cities lie in though no list says which."""
_SEVERAL_PLACES = frozenset("washington cambridge portland birmingham cordoba guadalajara".split())  # noqa: SIM905
"""Names of a city and of another one, or of a state."""
_SAME_CITY = """
munich munchen munique
cologne koln colonia
rome rom roma
milan mailand milano
naples neapel napoli
venice venedig venezia venecia
florence florenz firenze florencia
vienna wien viena vienne
geneva genf ginebra geneve
lisbon lissabon lisboa lisbonne
london londres
seville sevilla
brussels brussel bruselas bruxelles
copenhagen kopenhagen copenhague
warsaw warschau varsovia varsovie
prague prag praga
athens athen atenas athenes
tokyo tokio
kyoto kioto
beijing peking pekin
new_york new_york_city nyc
los_angeles la
san_francisco sf
nice nizza
strasbourg strassburg
nuremberg nurnberg
cairo kairo el_cairo le_caire
stockholm estocolmo
turin torino
"""
"""One city a line, by its names."""
_SAME = {name: names.split()[0] for names in _SAME_CITY.strip().splitlines() for name in names.split()}


def _names(text: str) -> list[str]:
    return [word.replace("_", " ") for word in text.split()]


def _rows(table: str) -> list[tuple[list[str], list[str]]]:
    """``(names of a place, names of what lies in it)``"""
    lines = table.replace("\n  ", " ").strip().splitlines()
    return [(_names(line.partition(":")[0]), _names(line.partition(":")[2])) for line in lines]


_COUNTRIES_BY_NAME = {name: names[0] for names, _ in _rows(_COUNTRIES) for name in names}
_SAME_PLACE = {name.replace("_", " "): first.replace("_", " ") for name, first in _SAME.items()} | _COUNTRIES_BY_NAME
_LIES_IN = {city: names[0] for names, cities in _rows(_COUNTRIES) for city in cities} | {
    district: names[0] for names, districts in _rows(_DISTRICTS) for district in districts
}
_KNOWN = frozenset(_SAME_PLACE) | frozenset(_LIES_IN) | REGIONS


def place(name: str) -> str:
    """A folded place's one name, whatever the language: "wien" and "vienna" are one."""
    name = name.removeprefix("the ")
    return _SAME_PLACE.get(name, name)


def is_known(name: str) -> bool:
    """Whether a folded name is one of a place in the list."""
    return name.removeprefix("the ") in _KNOWN


def can_both_hold(one: str, other: str) -> bool:
    """Whether somebody can be in both: the same place, one inside the other, or one that nothing is known of and a country or region."""
    one, other = place(one), place(other)
    if one == other or REGIONS & {one, other}:
        return True
    words, others = set(one.replace(",", " ").split()), set(other.replace(",", " ").split())
    if words <= others or others <= words:  # "Berlin" and "Berlin, Germany"
        return True
    around, around_other = _around(one), _around(other)
    if other in around or one in around_other:
        return True
    countries = set(_COUNTRIES_BY_NAME.values())
    unknown = (one in countries and not around_other) or (other in countries and not around)
    return unknown and not {one, other} <= countries


def are_apart(one: str, other: str) -> bool:
    """Whether both are known, and nobody lives in both at once: two cities, two countries, a city and another country."""
    names = [place(name.split(",")[0].strip()) for name in (one, other)]
    known = all(is_known(name) and name not in _PARTS_OF_COUNTRIES | _SEVERAL_PLACES for name in names)
    return known and not can_both_hold(one, other)


def _around(name: str) -> list[str]:
    """What a place lies in, from the smallest on; of "Potsdam, Germany" what stands behind the comma, too."""
    found = [place(part.strip()) for part in name.split(",")[1:]]
    at = place(name.split(",")[0].strip())
    while at in _LIES_IN and _LIES_IN[at] not in found:
        at = place(_LIES_IN[at])
        found.append(at)
    return found
