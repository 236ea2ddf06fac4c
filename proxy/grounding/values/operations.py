"""Whether a claim's number follows from numbers that belong together, by an operation that claim, question or passage asks for.

`proxy.grounding.values.recomputing` says that a number can be made of those that were said, which is enough not to call it wrong. To call
it supported takes more: "£4.50 whatever the hours" makes no "in proportion £3.60", and a price plus a distance makes nothing. Here the
numbers stand in one piece of the nearest evidence, in one column of a table, or have one unit; a word calls for the sum, difference, mean,
product or share; and no word says that the amount stays what it is. Pure; bounded by `MAX_OPERANDS` numbers of a kind.
"""
# ruff: noqa: E501 - a pattern is read alternative by alternative

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations

from msgspec import Struct

from proxy.grounding.evidence.reading import FUNCTION_WORDS, read_evidence
from proxy.grounding.evidence.retrieval import terms
from proxy.grounding.values import recomputing as ways
from proxy.grounding.values.places import words_of
from proxy.grounding.values.times import is_span
from proxy.language.patterns import LazyPattern
from proxy.language.quantities import Quantities, Quantity, read_quantities

MAX_OPERANDS = 24
MAX_ROWS = 200
"""Rows of tables whose columns are summed up."""
_STEM_CHARS = 4
"""Letters that "guest" and "guests" share with each other, and with hardly another word of a sentence."""
_FLAT = LazyPattern(
    r"\b(?:whatever|regardless|irrespective|no matter|independent(?:ly)? of|flat[- ](?:rate|fee|price|sum|charge)|flat|fixed|lump sum|(?:not|never) (?:reduced|prorated|pro-rated|cut|scaled|multiplied|divided|split|shared)"
    r"|(?:is|are|stays?|remains?) the same|in (?:any|every) case|(?:does|do) not (?:change|depend|vary)|once only|one-off"
    r"|unabhängig|egal|pauschal\w*|gleich(?:bleibend|viel)|fest(?:preis|betrag|er|e|es)?|einmalig\w*|in jedem fall|nicht (?:gekürzt|anteilig|geteilt|reduziert)|ungeachtet"
    r"|independiente\w*|sin importar|fij[oa]s?|tarifa plana|a tanto alzado|en todo caso|en cualquier caso|(?:única|una sola) vez|no se (?:reduce|prorratea|divide)"
    r"|quel(?:le)?s? que soi\w+|peu importe|forfait\w*|fixes?|indépendamment|en tout cas|dans tous les cas|unique|n(?:e |['’])(?:est|sont) pas (?:réduit|proratis)\w*"
    r"|indipendentemente|a prescindere|qualunque|fiss[oaie]|forfettari[oa]|in ogni caso|non (?:viene|è) (?:ridott|proporzion)\w*"
    r"|independentemente|qualquer que seja|não importa|fix[oa]s?|em qualquer caso|não é (?:reduzid|proporcional)\w*)\b",
    re.I,
)
"""The passage says that an amount does not go by anything."""
_RATE = LazyPattern(
    r"\b(?:per|each|every|a (?:piece|head|person|day|night|week|month|year|hour|kilo|litre|liter)|an hour|hourly|daily|weekly|monthly|yearly|annual\w*|apiece|for (?:one|every|each)"
    r"|pro|je|jeweils|jede[rnsm]?|stündlich|täglich|wöchentlich|monatlich\w*|jährlich\w*|am tag|im (?:monat|jahr)|die (?:stunde|woche|nacht)"
    r"|por|cada|al (?:día|mes|año)|a la (?:hora|semana)|la (?:hora|noche)|mensual\w*|diari[oa]s?|anual\w*"
    r"|par|chaque|chacun\w?|l['’]heure|la (?:nuit|semaine|pièce)|le (?:kilo|mois|litre)|mensuel\w*|annuel\w*"
    r"|per|ogni|ciascun\w?|al (?:giorno|mese|chilo)|all['’](?:ora|anno)|a (?:persona|notte|settimana|testa)|mensil\w*|annu\w*|cada|ao (?:dia|mês|ano)|à (?:hora|noite)|por)\b|(?<=[\w€$£])/ ?(?:h|hr|day|d|kg|l|m|month|mo|year|y|unit|tag|monat|stk|mes|día|mois|jour|mese|giorno|dia|mês)\b",
    re.I,
)
"""The passage gives an amount for each of something."""
_COUNTING = LazyPattern(
    r"\b(?:there (?:is|are|was|were)|in (?:total|all)|total\w*|count\w*|how many|contain\w*|has|have|list\w*|found|return\w*|shows?|of (?:them|these|those|the)|results?|items?|entr\w+|rows?|records?|match\w*|all"
    r"|es (?:gibt|sind|waren)|insgesamt|anzahl|wie ?viele?|enth\w+|hat|haben|gefunden|einträge?\w*|zeilen?|treffer|davon|sind"
    r"|hay|había|en total|cuánt\w+|contiene\w*|tiene\w*|encontr\w+|filas?|elementos?|resultados?|registros?|son|de ell[oa]s"
    r"|il y a|y avait|au total|combien|contien\w+|ont|a|trouv\w+|lignes?|éléments?|résultats?|sont|d['’]entre"
    r"|c['’](?:è|erano)|ci sono|in tutto|quant\w+|contien\w+|ha|hanno|trovat\w+|righe|elementi|risultati|há|existem|ao todo|no total|contém|tem|têm|encontrad\w+|linhas|itens)\b",
    re.I,
)
"""The claim counts something."""


class _Operand(Struct, frozen=True):
    """A number of the evidence."""

    number: Quantity
    kind: str
    """Its unit's dimension, or what is counted; "" where nobody can tell."""
    place: int
    """Of its piece or column: numbers of one place belong together."""
    text: str
    """Of its piece."""

    @property
    def value(self) -> float:
        return self.number.base_values()[0]


def called_for(
    number: Quantity, claim: str, asked: str, nearest: Sequence[str], rows: Sequence[str], texts: Sequence[str], language: str = "en"
) -> bool:
    """Whether `number` of `claim` is rounded, counted or made of numbers in the pieces `nearest`, or in a column of `rows`, as asked for.

    `texts` is all that was said, whose lists and JSON arrays are counted.
    """
    cues = f"{claim} {asked}"
    own = [q for q in read_quantities(claim, language).numbers if (q.start, q.end) != (number.start, number.end)]
    own += read_quantities(asked, language).numbers
    pieces = [read_evidence(piece) for piece in nearest]
    if any(ways.is_rounded(number, other) for piece in pieces for other in piece.quantities.numbers):
        return True
    if _COUNTING.search(cues) and ways.is_counted(number, texts):
        return True
    if number.dimension == "duration" and _is_span(number, cues, [(piece.text, piece.quantities) for piece in pieces]):
        return True
    operands = [*_of_pieces(nearest, frozenset(rows)), *_of_columns(rows, len(nearest))]
    fixed = any(_FLAT.search(operand.text) for operand in operands if operand.number.dimension == number.dimension)
    made = (
        *_added(cues, operands, number),
        *(() if fixed else _scaled(cues, operands, own, number, claim)),
        *_shares(cues, operands, number),
    )
    return any(ways.hits(number, value) for value in made) or any(ways.hits(number, value) for value in ways.of_arrays(cues, texts))


def _is_span(number: Quantity, cues: str, pieces: Sequence[tuple[str, Quantities]]) -> bool:
    """Whether two dates or times of one piece that speaks of the same thing are so far apart."""
    wanted = words_of(cues)
    return any(is_span(number, quantities) for text, quantities in pieces if not wanted or wanted & words_of(text))


def _of_pieces(pieces: Sequence[str], rows: frozenset[str]) -> Iterator[_Operand]:
    """The numbers of each piece; in a row of a table what follows a number is not what it counts."""
    for place, piece in enumerate(pieces):
        for q in read_evidence(piece).quantities.numbers[:MAX_OPERANDS]:
            yield _Operand(q, q.dimension or ("" if piece in rows else _counted_noun(piece, q.end)), place, piece)


def _of_columns(rows: Sequence[str], first: int) -> Iterator[_Operand]:
    """The numbers in rows that name their columns ("Item: bag; Price: 30"), a place for each column."""
    places: dict[str, int] = {}
    for row in rows[:MAX_ROWS]:
        for cell in row.split("; "):
            name, mark, value = cell.partition(": ")
            numbers = read_evidence(value).quantities.numbers if mark and len(value) <= 40 else ()
            if len(numbers) == 1:
                place = places.setdefault(name, len(places))
                yield _Operand(numbers[0], numbers[0].dimension or name.casefold(), first + place, cell)


def _counted_noun(text: str, end: int) -> str:
    following = terms(text[end : end + 30])
    return following[0] if following and following[0] not in FUNCTION_WORDS and not following[0].isdigit() else ""


def _belong(a: _Operand, b: _Operand) -> bool:
    """Whether two numbers may be added: of one unit or counted thing, or plain ones of one place."""
    if a.number.dimension != b.number.dimension:
        return False
    return a.place == b.place if not a.kind or not b.kind else a.kind == b.kind


def _groups(operands: Sequence[_Operand], number: Quantity) -> list[list[float]]:
    """Numbers of the claim's unit (a table's cells have none) that belong together: of a column or piece, and of a unit over all pieces."""
    alike = [o for o in operands if o.number.dimension in (number.dimension, "")]
    by: dict[tuple[str, int | None], list[float]] = {}
    for operand in alike:
        by.setdefault((operand.number.dimension, operand.place), []).append(operand.value)
        if operand.kind:
            by.setdefault((operand.kind, None), []).append(operand.value)
    return [values[:MAX_ROWS] for values in by.values() if len(values) > 1]


def _added(cues: str, operands: Sequence[_Operand], number: Quantity) -> Iterator[float]:
    """Sums, differences and means."""
    alike = [o for o in operands if o.number.dimension in (number.dimension, "")][:MAX_OPERANDS]
    pairs = [(a.value, b.value) for a, b in combinations(alike, 2) if _belong(a, b)]
    if ways.SUM.search(cues):
        yield from (a + b for a, b in pairs)
        for values in _groups(operands, number):
            yield from (sum(values[:n]) for n in range(3, len(values) + 1))
            yield sum(dict.fromkeys(values))
    if ways.DIFFERENCE.search(cues):
        yield from (abs(a - b) for a, b in pairs)
    if ways.MEAN.search(cues):
        yield from ((a + b) / 2 for a, b in pairs)
        yield from (sum(values) / len(values) for values in _groups(operands, number))


def _scaled(cues: str, operands: Sequence[_Operand], own: Sequence[Quantity], number: Quantity, claim: str) -> Iterator[float]:
    """So many times an amount, or a part of it: where the passage gives it for each, the claim says so, or counts what the passage names."""
    for amount in [o for o in operands if o.number.dimension == number.dimension][:MAX_OPERANDS]:
        near = [o.number for o in operands if o.place == amount.place and o.number is not amount.number]
        rate, named = bool(_RATE.search(amount.text)), frozenset(word[:_STEM_CHARS] for word in terms(amount.text)) - FUNCTION_WORDS
        asked = ways.PRODUCT.search(cues) is not None
        for factor in [*own, *near]:
            times = factor.base_values()[0] if factor.dimension == "ratio" else factor.values[0]
            counts = factor in own and _counted_noun(claim, factor.end)[:_STEM_CHARS] in named
            if factor.dimension == "ratio" and (ways.RATIO.search(cues) or ways.DIFFERENCE.search(cues)):
                yield from (amount.value * times, amount.value * (1 - times), amount.value * (1 + times))
            elif factor.dimension == number.dimension and number.dimension:
                continue
            elif times > 1 and (rate or asked or counts):
                yield amount.value * times
                if asked:
                    yield amount.value / times
        if rate:
            yield from (amount.value * n for n in (2, 7, 12, 24, 52, 365) if ways.PRODUCT.search(cues))


def _shares(cues: str, operands: Sequence[_Operand], number: Quantity) -> Iterator[float]:
    """Shares, ratios and changes in per cent of two numbers that belong together."""
    if number.dimension != "ratio" and not ways.RATIO.search(cues):
        return
    for a, b in combinations([o for o in operands if o.number.dimension != "ratio"][:MAX_OPERANDS], 2):
        if a.value and b.value and a.value != b.value and (_belong(a, b) or a.place == b.place):
            for x, y in ((a.value, b.value), (b.value, a.value)):
                yield from (x / y, x / y * 100, abs(x - y) / y, abs(x - y) / y * 100)
