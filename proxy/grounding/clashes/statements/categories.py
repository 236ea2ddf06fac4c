"""What belongs to what: "steak" is meat.

In: two texts. Out: whether one names a member of what the other names. The lists are this project's own, small, and of
what people may not eat or drink. English, German, Spanish and French.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

from proxy.language.names import folded

_MEMBERS = """
meat fleisch carne viande: meat beef steak pork bacon ham chicken turkey lamb veal burger sausage salami pepperoni ribs brisket
  meatball fleisch schnitzel wurst speck hahnchen rind schwein carne pollo cerdo jamon chorizo cordero viande poulet porc boeuf
  jambon agneau saucisse carnitas barbecue bbq prosciutto duck ente pato canard
fish fisch pescado poisson seafood meeresfruchte mariscos shellfish fruits-de-mer: fish salmon tuna cod sushi sashimi trout
  anchovy anchovies herring ceviche seafood shrimp shrimps prawn prawns lobster crab crabs oyster oysters clam clams mussel
  mussels scallop scallops calamari squid octopus fisch lachs thunfisch forelle garnelen krabben pescado salmon atun bacalao
  gambas mariscos poisson saumon thon crevettes huitres moules
pork schwein schweinefleisch cerdo porc: pork bacon ham prosciutto salami pepperoni chorizo carnitas schwein schweinefleisch
  schweinebraten schinken speck jamon tocino panceta porc jambon lardons saucisson
dairy milchprodukte lacteos laitiers lactose laktose lactosa: milk cheese butter cream yogurt yoghurt ice-cream mozzarella
  parmesan feta latte cappuccino whey custard creamy cheesy milch kase sahne joghurt leche queso mantequilla nata yogur lait
  fromage beurre creme yaourt
nuts nusse nueces noix peanuts erdnusse cacahuetes frutos-secos fruits-a-coque: nut nuts peanut peanuts
  almond almonds walnut walnuts cashew cashews pistachio pistachios hazelnut hazelnuts pecan pecans praline nutella satay nusse
  erdnuss mandeln nueces almendras cacahuete noix amandes
  noisettes
gluten wheat weizen trigo ble: bread pasta pizza noodles wheat flour croissant bagel baguette couscous spaghetti lasagna ramen
  brot nudeln pan fideos pain pates
alcohol alkohol alcool: alcohol beer wine whisky whiskey vodka gin rum cocktail cocktails champagne margarita mojito sangria
  tequila brewery winery pub bier wein sekt cerveza vino biere vin
sweet sweets sugar suss zucker dulce dulces azucar sucre: sweet sugar cake cakes chocolate candy candies cookie cookies honey
  syrup dessert desserts pancakes donut donuts doughnut doughnuts caramel kuchen schokolade pastel tarta gateau chocolat bonbons
spicy scharf picante epice hot: spicy chili chilli jalapeno vindaloo sriracha habanero curry hot-sauce scharf chili picante epice
  piment szechuan kimchi cayenne
caffeine koffein cafeina cafeine: coffee espresso cappuccino latte americano tea energy-drink kaffee cafe te matcha cola
"""
_SUBSTITUTES = (
    "vegan",
    "vegane",
    "veganer",
    "vegano",
    "vegana",
    "vegetarian",
    "plant-based",
    "faux",
    "mock",
    "vegetarisch",
    "vegetariano",
    "vegetarien",
)
_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_ENDINGS = ("es", "en", "s", "n", "e")
_FREE = re.compile(r"\b(?:[\w-]+-free|\w{3,}frei(?:e[mnrs]?)?\b|(?:free (?:of|from)|without|no|sans|sin|ohne|kein\w{0,2}) [\w-]+)")


_FREE_ENDING = re.compile(r"frei(?:e[mnrs]?)?$")
_OF_TWO_WORDS = re.compile(r"\b(?:frutos secos|fruits a coque|fruits de mer|ice cream|hot sauce|energy drink)\b")


def _stem(word: str) -> str:
    """A folded word without the ending of a plural."""
    return next((word[: -len(end)] for end in _ENDINGS if word.endswith(end) and len(word) - len(end) > 3), word)


@cache
def _substitutes() -> frozenset[str]:
    """Words that make a thing only look like one of its kind: "vegan burger"."""
    return frozenset(_stem(word) for word in _SUBSTITUTES)


@cache
def _animal() -> frozenset[str]:
    """The kinds that they stand in for; a vegan cake may well have nuts."""
    return frozenset(_stem(word) for word in ("meat", "fish", "dairy"))


@cache
def _members() -> list[tuple[frozenset[str], frozenset[str]]]:
    """The two sides of each line, as stems; an indented line belongs to the one before it."""
    sides = [line.split(":") for line in _MEMBERS.replace("\n  ", " ").strip().splitlines()]
    return [(frozenset(map(_stem, one.split())), frozenset(map(_stem, other.split()))) for one, other in sides]


@lru_cache(maxsize=2048)
def stems(text: str) -> frozenset[str]:
    """The words of a text, folded and without endings; of "gluten-free" neither half."""
    plain = _FREE.sub(" ", _OF_TWO_WORDS.sub(lambda match: match[0].replace(" ", "-"), folded(text)))
    words = _WORD.findall(plain)
    return frozenset(_stem(word) for word in (*words, *(part for word in words if "-" in word for part in word.split("-"))))


def kinds_in(text: str) -> frozenset[str]:
    """The kinds of things that a text names, or names one of: "almond cake" has nuts and sweets."""
    said = stems(text)
    return frozenset(min(names) for names, members in _members() if said & (names | members))


def is_without(text: str, what: str) -> bool:
    """Whether a text says that it is without something: "nut-free", "ohne Nüsse"."""
    words = [word for match in _FREE.finditer(folded(text)) for word in _WORD.findall(match[0].replace("-", " "))]
    return bool(frozenset(_stem(_FREE_ENDING.sub("", word)) for word in words) & stems(what))


def names_member(whole: str, part: str) -> bool:
    """Whether `whole` names a kind of things and `part` one of them: "no meat" and "a grilled steak"."""
    kinds, things = stems(whole), stems(part)
    if is_without(part, whole):
        return False
    replaced = _animal() if things & _substitutes() else frozenset()
    return any(kinds & names and things & (members | names) for names, members in _members() if not names & replaced)
