"""Exact contradictions: another value in the same place of the same statement, and nothing less."""

import pytest

from proxy.grounding.values.slots import may_differ, slot
from proxy.grounding.values.stated import StatedValues
from proxy.language.quantities import read_quantities


def found(claim: str, *sentences: str, language: str = "en", said: str = "", asked: str = "") -> tuple[str, str] | None:
    """The claim's value and the evidence's, where that is plain."""
    there = slot(claim, sentences, StatedValues([*sentences, said]), language, asked)
    return (there.claim, there.evidence) if there is not None and there.placed and there.aligned >= 0.5 else None


@pytest.mark.parametrize(
    ("claim", "sentence", "language"),
    [
        ("The draft is due on 11 June 2026.", "The board meets on 16 June 2026; the draft is due the Thursday before.", "en"),
        ("The shop is closed on 2 May.", "The shop is closed on 1 May and on the following day.", "en"),
        ("Payment is due on 14 July 2026.", "Payment is due on 10 July 2026 or, on a holiday, two business days later.", "en"),
        ("Die Unterlagen gehen am 5. März raus.", "Die Sitzung ist am 6. März, die Unterlagen gehen am Vortag raus.", "de"),
        ("Der Aufbau beginnt am 21. Mai 2026.", "Die Messe öffnet am 26. Mai 2026, der Aufbau beginnt am Donnerstag davor.", "de"),
        ("El ensayo es el 9 de abril.", "El concierto es el 11 de abril; el ensayo es el jueves anterior.", "es"),
        ("La répétition a lieu le 13 juin.", "Le concert a lieu le 14 juin, la répétition la veille.", "fr"),
        ("La consegna è il 4 maggio 2026.", "La riunione è il 5 maggio 2026, la consegna il giorno precedente.", "it"),
        ("A entrega é a 19 de junho de 2026.", "A reunião é a 23 de junho de 2026 e a entrega na sexta-feira anterior.", "pt"),
    ],
)
def test_a_day_that_is_told_by_another_is_none(claim: str, sentence: str, language: str) -> None:
    assert found(claim, sentence, language=language) is None


@pytest.mark.parametrize(
    ("claim", "sentence"),
    [
        ("The draft is due on 11 August 2026.", "The board meets on 16 June 2026; the draft is due the Thursday before."),
        ("The invoice is due on 5 March 2025.", "The invoice is due on 19 March 2025, before noon on any day."),
    ],
)
def test_a_date_that_no_other_day_tells_is_one(claim: str, sentence: str) -> None:
    assert found(claim, sentence) is not None


@pytest.mark.parametrize(
    ("claim", "sentence", "language", "values"),
    [
        ("The Eiffel Tower is in Rome.", "The Eiffel Tower is in Paris.", "en", ("Rome", "Paris")),
        ("The Eiffel Tower is 440 metres tall.", "The Eiffel Tower is 330 metres tall.", "en", ("440 metres", "330 metres")),
        ("The tower was opened in 1923.", "The tower was opened in 1889.", "en", ("1923", "1889")),
        ("The invoice is due on 5 March 2025.", "The invoice is due on 19 March 2025.", "en", ("5 March 2025", "19 March 2025")),
        ("The invoice is due in May.", "The invoice is due on 19 March.", "en", ("May", "March")),
        ("The shop opens at 10:30.", "The shop opens at 9:00.", "en", ("10:30", "9:00")),
        ("It was written by Nora Whitfield.", "It was written by Jane Scott.", "en", ("Nora Whitfield", "Jane Scott")),
        ("Der Turm steht in Rom.", "Der Turm steht in Paris.", "de", ("Rom", "Paris")),
        ("Das Paket kostet 45 Euro.", "Das Paket kostet 30 Euro.", "de", ("45 Euro", "30 Euro")),
        ("La torre está en Roma.", "La torre está en París.", "es", ("Roma", "París")),
        ("El plan cuesta 45 euros al mes.", "El plan cuesta 30 euros al mes.", "es", ("45 euros", "30 euros")),
        ("La tour se trouve à Rome.", "La tour se trouve à Paris.", "fr", ("Rome", "Paris")),
        ("La tour a été inaugurée en 1923.", "La tour a été inaugurée en 1889.", "fr", ("1923", "1889")),
        ("Cash is covered up to 500 euros.", "Cash is covered up to 900 euros.", "en", ("500 euros", "900 euros")),
        ("The permit is valid until 30 June 2025.", "The permit is valid until 31 May 2025.", "en", ("30 June 2025", "31 May 2025")),
        ("Ruth has lived there since 1922.", "Ruth has lived there since 1933, and the roof is of 1990.", "en", ("1922", "1933")),
        ("It contains up to 59% fat.", "It contains up to 20% fat, the older kind 7% at most.", "en", ("59%", "20%")),
        ("The pump holds 4.0412 bar.", "The pump holds 4.03 bar.", "en", ("4.0412 bar", "4.03 bar")),
    ],
)
def test_another_value_in_its_place_is_a_contradiction(claim: str, sentence: str, language: str, values: tuple[str, str]) -> None:
    assert values == found(claim, sentence, language=language)


@pytest.mark.parametrize(
    ("claim", "text", "language"),
    [
        ("The warranty ends on 14 March 2027.", "The warranty began on 15 March 2025. It covers two years.", "en"),
        ("The warranty ends on 15 March 2027.", "The warranty began on 15 March 2025. It covers 24 months.", "en"),
        ("The trial ends on 28 February 2026.", "The trial began on 31 January 2026. It takes one month.", "en"),
        ("The period ends on 19 May 2026.", "The period began on 5 May 2026. It has 14 days.", "en"),
        ("El plazo termina el 22 de enero de 2026.", "El plazo empieza el 8 de enero de 2026. Tiene dos semanas.", "es"),
        ("Le bail finit le 31 août 2029.", "Le bail commence le 1er septembre 2026. Une période est de trois ans.", "fr"),
        ("La prova finisce il 9 giugno 2026.", "La prova inizia il 10 marzo 2026. Ha tre mesi.", "it"),
    ],
)
def test_a_date_that_may_be_worked_out_is_none(claim: str, text: str, language: str) -> None:
    first, span = text.split(". ", 1)
    assert found(claim, f"{first}.", language=language) is not None, "without the span nothing leads to it"
    assert found(claim, f"{first}.", span, language=language) is None


@pytest.mark.parametrize(
    ("claim", "sentence", "language"),
    [
        ("The mine closed in 1954.", "The mine opened in 1953 and closed a year later.", "en"),
        ("The mine closed in 1954.", "The mine opened in 1953 and closed the next year.", "en"),
        ("The mine closed in 1963.", "The mine opened in 1953 and closed a decade later.", "en"),
        ("Die Mine schloss 1954.", "Die Mine wurde 1953 eröffnet und schloss im Jahr darauf.", "de"),
        ("La mina cerró en 1954.", "La mina abrió en 1953 y cerró al año siguiente.", "es"),
        ("La mine a fermé en 1954.", "La mine a ouvert en 1953 et a fermé l'année suivante.", "fr"),
        ("La miniera chiuse nel 1954.", "La miniera aprì nel 1953 e chiuse l'anno dopo.", "it"),
        ("A mina fechou em 1954.", "A mina abriu em 1953 e fechou no ano seguinte.", "pt"),
        ("She was launched in December.", "She was laid down in March 1967 and launched nine months later.", "en"),
        ("He was born in 1950.", "He died in 2010 at the age of 60.", "en"),
        ("She turned 40 in 2024.", "She was born in 1984.", "en"),
        ("The bakery opens at 9:30.", "The bakery opens half an hour after the kiosk, which opens at 9:00.", "en"),
        ("The payment is due on 29 September 2026.", "Payments are due on 25 March, 24 June and 29 September.", "en"),
        ("The ticket costs €24.", "The ticket costs €20 plus 20% VAT.", "en"),
        ("The coat now costs €80.", "The coat costs €100, less 20% this week.", "en"),
        ("Son loyer sera de 824 €.", "Le loyer est de 800 €, révisé de 3 % par an.", "fr"),
        ("At 80 kg the patient gets 1,200 mg a day.", "The patient gets 15 mg per kg a day.", "en"),
        ("A portion of 45 g has 8.1 g of fat.", "Nutrition of 100 g: fat 18 g, sugar 22 g, salt 0.65 g.", "en"),
        ("The species lives at depths of 300 m.", "The species lives at depths of 200–400 m.", "en"),
        ("The test takes 25 minutes.", "The test takes between 20 and 30 minutes.", "en"),
        ("For FY2026 that is 31 December 2025.", "FY2026 therefore runs from 1 April 2025 to 31 March 2026.", "en"),
    ],
)
def test_what_follows_from_the_sentence_is_none(claim: str, sentence: str, language: str) -> None:
    assert found(claim, sentence, language=language) is None


@pytest.mark.parametrize(
    ("claim", "sentence", "values"),
    [
        ("The mine closed in 1956.", "The mine opened in 1953 and closed a year later.", ("1956", "1953")),
        ("She was launched in May.", "She was laid down in March 1967 and launched nine months later.", ("May", "March")),
        ("The ticket costs €29.", "The ticket costs €20 plus 20% VAT.", ("€29", "€20")),
        ("The test takes 35 minutes.", "The test takes between 20 and 30 minutes.", ("35 minutes", "30 minutes")),
        ("The shop opens at 10:30.", "The shop opens half an hour after the bank, at 9:30.", ("10:30", "9:30")),
    ],
)
def test_what_does_not_follow_from_it_is_one(claim: str, sentence: str, values: tuple[str, str]) -> None:
    assert values == found(claim, sentence)


def test_an_amount_for_each_is_scaled_by_what_anybody_has_said() -> None:
    claim, sentence = "The daily dose is 1,560 mg.", "The daily dose is 60 mg per kg."
    assert ("1,560 mg", "60 mg") == found(claim, sentence)
    assert found(claim, sentence, said="My son has 26 kg.") is None


@pytest.mark.parametrize(
    ("claim", "sentence", "values"),
    [
        (
            "The warranty ends on 14 May 2027.",
            "The warranty ends on 14 March 2027, two years after the purchase.",
            ("14 May 2027", "14 March 2027"),
        ),
        ("The permit is valid until 31 July 2026.", "The permit is valid until 31 May 2026.", ("31 July 2026", "31 May 2026")),
    ],
)
def test_a_date_that_no_span_leads_to_is_a_contradiction(claim: str, sentence: str, values: tuple[str, str]) -> None:
    assert values == found(claim, sentence)


@pytest.mark.parametrize(
    ("claim", "sentence", "language"),
    [
        ("It has 1000 seats.", "It has 1,000 seats.", "en"),
        ("It has 1 000 seats.", "It has 1000 seats.", "en"),
        ("The shop opens at 3 pm.", "The shop opens at 15:00.", "en"),
        ("It is due on March 5.", "It is due on 5 March.", "en"),
        ("Es ist am 5. März fällig.", "Es ist am 05.03.2025 fällig.", "de"),
        ("It weighs about 21 kg.", "It weighs 21.4 kg.", "en"),
        ("It weighs 21 kg.", "It weighs 21.4 kg.", "en"),
        ("It has over 1,200 members.", "It has 1,250 members.", "en"),
        ("It has over 1,200 members.", "It has 1,250 members and 300 guests.", "en"),
        ("It was opened after 1900.", "It was opened in 1933.", "en"),
        ("Es hat fast 500 Mitglieder.", "Es hat 492 Mitglieder.", "de"),
        ("Tiene casi 500 miembros.", "Tiene 492 miembros.", "es"),
        ("Il compte environ 500 membres.", "Il compte 492 membres.", "fr"),
        ("It is 1.5 km away.", "It is 1500 m away.", "en"),
        ("There are twelve chairs in the hall.", "There are 12 chairs in the hall.", "en"),
        ("He did field work with the Nuba.", "He did field work with the Nouba.", "en"),
        ("The WHO published the report.", "The World Health Organization published the report.", "en"),
        ("Exactly it is 25.8479 and 25.1771 ct.", "The price is 25.85 ct, rounded.", "en"),
        ("The pump holds 4.0312 bar.", "The pump holds 4.03 bar.", "en"),
        ("An apron is a must with 50 litres.", "With more than 5 litres an apron is a must.", "en"),
        ("Bei 50 Litern ist eine Schürze Pflicht.", "Bei mehr als 5 Litern ist eine Schürze zu tragen.", "de"),
    ],
)
def test_the_same_value_in_another_form_is_none(claim: str, sentence: str, language: str) -> None:
    assert found(claim, sentence, language=language) is None


@pytest.mark.parametrize(
    ("claim", "sentence"),
    [
        ("The Eiffel Tower was painted in 1968.", "The Eiffel Tower is in Paris."),
        ("The Louvre has 380,000 objects.", "The Eiffel Tower is 330 metres tall."),
        ("Ada Lovelace wrote the first program.", "The engine was designed in London."),
        ("The tower is not in Rome.", "The Eiffel Tower is in Paris."),
        ("The fee is 60%, not 90%.", "The fee is 60% for members."),
        ("If you book 20 days ahead you pay less.", "If you book 30 days ahead you pay less."),
    ],
)
def test_what_is_merely_not_there_is_none(claim: str, sentence: str) -> None:
    assert found(claim, sentence) is None


@pytest.mark.parametrize(
    ("claim", "sentence", "language"),
    [
        ("In Berlin the call begins at 3 pm (CET).", "The call begins at 14:00 UTC.", "en"),
        ("The call begins at 15:00 your time.", "The call begins at 14:00 UTC.", "en"),
        ("Die Besprechung beginnt um 15 Uhr deutscher Zeit.", "Die Besprechung beginnt um 9 Uhr.", "de"),
        ("La reunión empieza a las 15:00, hora local.", "La reunión empieza a las 14:00.", "es"),
        ("La réunion commence à 15h30, heure de Paris.", "La réunion commence à 9h30.", "fr"),
    ],
)
def test_a_time_in_another_zone_is_none(claim: str, sentence: str, language: str) -> None:
    assert found(claim, sentence, language=language) is None


@pytest.mark.parametrize("claim", ["The call begins at 15:00 UTC.", "The call begins at 14:20."])
def test_another_time_in_the_same_zone_or_by_minutes_is_one(claim: str) -> None:
    assert found(claim, "The call begins at 14:00 UTC.") is not None


def test_a_value_that_anybody_has_said_is_none() -> None:
    assert found("The tower is in Rome.", "The tower is in Paris.", said="Please move it to Rome.") is None


@pytest.mark.parametrize(
    ("claim", "sentences"),
    [
        ("The total price is 330 euros.", ("The total price of the flight is 300 euros.", "The luggage costs 30 euros.")),
        ("On average the price is 15 euros.", ("The price is 10 euros.", "The price of the other is 20 euros.")),
        ("The price is 20 euros lower than before.", ("The price is 80 euros.", "The price was 100 euros.")),
        ("The stay lasts 4 days.", ("The stay begins on 3 May 2025.", "The stay ends on 7 May 2025.", "The last stay lasts 2 days.")),
    ],
)
def test_what_can_be_worked_out_is_none(claim: str, sentences: tuple[str, ...]) -> None:
    assert found(claim, *sentences) is None


def test_a_value_that_the_answer_works_out_step_by_step_is_none() -> None:
    claim, said = "With the insurance at 18 € you pay 159.60 €.", StatedValues(["The insurance is 9 € per day."])
    assert slot(claim, said.texts, said, "en") is not None
    assert slot(claim, said.texts, said, "en", earlier="Two days are 124 €, and 80 km beyond the limit 17.60 €.") is None


def test_a_bare_number_said_before_leads_to_no_amount() -> None:
    claim, said = "The plan costs €18 per user.", StatedValues(["The plan costs €8 per user."])
    assert slot(claim, said.texts, said, "en", earlier="It is for 5 users, not for 10.") is not None


@pytest.mark.parametrize(
    ("claim", "sentence", "language"),
    [
        ("That's £433 per person.", "Flights: £184 per person.", "en"),
        ("Das sind 433 € pro Person.", "Der Flug kostet 184 € pro Person.", "de"),
        ("Ça fait 433 € par personne.", "Le vol coûte 184 € par personne.", "fr"),
        ("Eso son 433 € por persona.", "El vuelo cuesta 184 € por persona.", "es"),
    ],
)
def test_what_points_back_to_the_answer_is_of_no_sentence(claim: str, sentence: str, language: str) -> None:
    assert found(claim, sentence, language=language) is None


def test_an_elliptical_answer_is_placed_by_its_question() -> None:
    assert ("Rome", "Paris") == found("It is in Rome.", "The Eiffel Tower is in Paris.", asked="Where is the Eiffel Tower?")


MANUAL = "Anzeige Schloss-Symbol. Blinkt es, konnte die Tür nicht verriegelt werden."


@pytest.mark.parametrize(
    ("asked", "claim", "language"),
    [
        ("waschmaschine läuft nicht mehr los, blinkt nur das schloss symbol. was tun", "Rausziehen.", "de"),
        ("Blinkt nur das Schloss Symbol. Was kann ich tun?", "Abwarten.", "de"),
        ("The Schloss Symbol blinks. What should I do?", "Restart.", "en"),
        ("Parpadea el Schloss Symbol, ¿qué hago?", "Reiniciar.", "es"),
    ],
)
def test_the_first_word_of_what_is_to_be_done_is_no_name(asked: str, claim: str, language: str) -> None:
    assert slot(claim, [MANUAL], StatedValues([MANUAL]), language, asked) is None


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ("Admiral was Best of Breed at the show.", "BOB Admiral at the show, BP Lullaby"),
        ("The rehearsal moved to Studio 2.", "The rehearsal moved to St 2."),
        ("Las piezas llegan el 12 de septiembre.", "estado TALLER; piezas llegan 12/09; tacografo 2025-10-01"),
    ],
)
def test_what_the_evidence_has_in_short_is_said(claim: str, said: str) -> None:
    language = "es" if claim.startswith("Las") else "en"
    assert [] == may_differ(claim, read_quantities(claim, language), [said], StatedValues([said]), language)


def test_the_first_word_of_an_answer_to_who_is_a_name() -> None:
    text = "The director of the film is Marta Kessler."
    found = slot("Lindqvist.", [text], StatedValues([text]), "en", "Who is the director of the film?")
    assert found is not None
    assert found.evidence == "Marta Kessler"


def test_more_than_can_be_looked_through_decides_nothing() -> None:
    assert found("The tower is in Rome.", "The tower is in Paris.", said="word " * 20_000) is None


BOOKING = "booking: H-33180; hotel: Casa Verde; nights: 6; free_cancellation_until: 2025-05-03"


def test_a_date_of_a_field_that_is_not_spoken_of_is_of_something_else() -> None:
    assert found("Casa Verde is booked from May 6 to 12.", BOOKING) is None
    assert found("The booking of Casa Verde has free cancellation until May 5.", BOOKING) == ("May 5", "2025-05-03")


@pytest.mark.parametrize("claim", ["The board call is at 9:00.", "The board call starts at 9:00."])
def test_a_field_that_only_says_when_is_of_the_thing_itself(claim: str) -> None:
    assert found(claim, "title: Board call; date: 2025-02-14; start: 15:00") == ("9:00", "15:00")


def test_a_word_before_a_sentence_is_no_field() -> None:
    assert found("The shop is closed on 2 May.", "Note: The shop is closed on 1 May.") == ("2 May.", "1 May.")
