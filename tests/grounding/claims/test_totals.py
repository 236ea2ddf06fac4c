"""Totals of lists and tables that do not add up."""

from __future__ import annotations

import pytest

from proxy.grounding.claims.claims import claims_of

STAY = "Four nights:\n\n- Labrador: 4 × £29 = £116\n- Jack Russell (less the discount): 4 × £14.25 = £57.00\n- **Total: £{total}**\n"
TRIP = "1. Flug: 300 €\n2. Hotel: 420,50 €\n\n**Gesamtkosten: {total} €**\n"
BILL = "- Igiene: 85,00 €\n- Otturazioni: 220,00 €\n- Subtotale: 305,00 €\n- Spedizione: 5,00 €\n- Totale: {total} €\n"
TABLE = "| Shop | Orders | Sales | Average price |\n|---|---|---|---|\n| A | 1,200 | $90.50 | $4 |\n| B | 34 | $10 | $6 |\n| **Total** | {orders} | ${sales} | $5 |\n"


def wrong(text: str) -> list[str]:
    return [claim.wrong_sum for claim in claims_of(text) if claim.wrong_sum]


@pytest.mark.parametrize(
    ("text", "sums"),
    [
        (STAY.format(total="183.00"), ["£116 + £57.00 = £183.00"]),
        (STAY.format(total="173.00"), []),
        (TRIP.format(total="730,50"), ["300 € + 420,50 € = 730,50 €"]),
        (TRIP.format(total="720,50"), []),
        (BILL.format(total="315,00"), ["305,00 € + 5,00 € = 315,00 €"]),
        (BILL.format(total="310,00"), []),
        (TABLE.format(orders="1,234", sales="100.50"), []),
        (TABLE.format(orders="1,244", sales="100.50"), ["1,200 + 34 = 1,244"]),
        (TABLE.format(orders="1,234", sales="101.50"), ["$90.50 + $10 = $101.50"]),
    ],
)
def test_a_total_is_the_sum_of_what_stands_above_it(text: str, sums: list[str]) -> None:
    assert sums == wrong(text)


@pytest.mark.parametrize(
    "text",
    [
        "- Rent: $1,200\n- Food: about $400\n- Total: $1,900\n",
        "- Coffee: 2 × $4.50\n- Cake: $5\n- Total: $15\n",
        "- Rent: $1,200\n- Food: $400\n- Total incl. VAT: $1,900\n",
        "- Rent: $1,200\n- Food: $400. You save $20.\n- Total: $1,580\n",
        "- Rent: $1,200\n- Parking\n- Total: $1,900\n",
        "- Rent: $1,200\n  - of it heating: $100\n- Total: $1,200\n",
        "- Zug: 40 €\n- Bus: 12 €\n- Total: unos 50 €\n",
        "- Rent: $1,200\n- Food: $400\n\nWhat else do you need?\n\nTotal: $1,900\n",
    ],
)
def test_of_a_total_that_may_have_more_or_less_in_it_nothing_is_said(text: str) -> None:
    assert [] == wrong(text)


def test_a_wrong_total_is_judged_though_it_is_a_heading() -> None:
    total = claims_of(TRIP.format(total="730,50"))[-1]
    assert (True, "Gesamtkosten: 730,50 €") == (total.checkable, total.text)
    assert not claims_of(TRIP.format(total="720,50"))[-1].checkable
