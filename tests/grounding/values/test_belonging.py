"""Whether anything calls for the calculation that a claim's number would need."""

import pytest

from proxy.grounding.values.arithmetic import called_for
from proxy.language.quantities import read_quantities


def follows(claim: str, *pieces: str, asked: str = "", rows: tuple[str, ...] = (), language: str = "en") -> bool:
    """Whether the last number of the claim does."""
    number = read_quantities(claim, language).numbers[-1]
    return called_for(number, claim, asked, pieces, rows, pieces, language)


@pytest.mark.parametrize(
    ("claim", "pieces", "language"),
    [
        ("Both together cost 45 euros.", ("The ring costs 20 euros.", "The chain costs 25 euros."), "en"),
        ("For 5 guests that is 60 euros.", ("Breakfast is 12 euros per guest.",), "en"),
        ("5 guests pay 60 euros.", ("A guest pays 12 euros.",), "en"),
        ("The rest, 15 litres, remains.", ("Of 40 litres 25 litres were used.",), "en"),
        ("That is a rise of 50%.", ("It grew from 40 staff to 60 staff.",), "en"),
        ("Für 3 Tage macht das insgesamt 54 Euro.", ("Das Rad kostet 18 Euro pro Tag.",), "de"),
        ("Im Durchschnitt sind es 30 Euro.", ("Der erste Kurs kostet 20 Euro.", "Der zweite Kurs kostet 40 Euro."), "de"),
        ("Por 4 noches son 200 euros en total.", ("La habitación cuesta 50 euros por noche.",), "es"),
        ("Il reste 30 euros.", ("Le budget est de 80 euros, dont 50 euros sont dépensés.",), "fr"),
        ("Per 3 persone fa in tutto 27 euro.", ("Il pranzo costa 9 euro a persona.",), "it"),
        ("Para 2 dias são ao todo 70 euros.", ("O carro custa 35 euros por dia.",), "pt"),
        ("It takes 45 minutes.", ("The tour takes place from 14:00 to 14:45.",), "en"),
    ],
)
def test_what_claim_or_passage_asks_for_follows(claim: str, pieces: tuple[str, ...], language: str) -> None:
    assert follows(claim, *pieces, language=language)


@pytest.mark.parametrize(
    ("claim", "pieces", "language"),
    [
        ("For 80% of the hours it is £3.60.", ("The voucher is £4.50 whatever the hours.",), "en"),
        ("For 3 parcels the charge is 15 euros.", ("The charge is a flat rate of 5 euros for all parcels.",), "en"),
        ("Bei 3 Personen sind es zusammen 90 Euro.", ("Die Gebühr beträgt pauschal 30 Euro, egal wie viele Personen kommen.",), "de"),
        ("Por 2 maletas se pagan en total 80 euros.", ("El recargo es fijo: 40 euros, sin importar las maletas.",), "es"),
        ("Pour 2 mois, cela fait au total 50 euros.", ("Le forfait est de 25 euros quelle que soit la durée en mois.",), "fr"),
        ("Per 4 notti fa in tutto 40 euro.", ("La tassa è di 10 euro, a prescindere dalle notti.",), "it"),
        ("Para 4 noites são ao todo 40 euros.", ("A taxa é de 10 euros, independentemente das noites.",), "pt"),
        ("Together it is 26 km.", ("The ticket costs 20 euros.", "The path is 6 km long."), "en"),
        ("There remain 8 kg.", ("The box weighs 20 kg.", "Shelf 12 is free."), "en"),
        ("It costs 45 euros.", ("The ring costs 20 euros.", "The chain costs 25 euros."), "en"),
        ("The repair takes 90 minutes.", ("The shop is open from 10:00 to 11:30.",), "en"),
    ],
)
def test_what_nothing_asks_for_does_not(claim: str, pieces: tuple[str, ...], language: str) -> None:
    assert not follows(claim, *pieces, language=language)


def test_columns_are_added_up_one_by_one() -> None:
    rows = ("Item: bag; Price: 10; Stock: 7", "Item: hat; Price: 20; Stock: 9", "Item: cap; Price: 5; Stock: 4")
    assert follows("The total price is 35.", *rows, rows=rows)
    assert not follows("The total price is 51.", *rows, rows=rows)
