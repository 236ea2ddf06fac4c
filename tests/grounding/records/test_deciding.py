"""Statements beside the cells of tables: right, wrong, or not theirs to decide."""

import pytest

from proxy.grounding.claims.claims import claims_of
from proxy.grounding.records.clause import Records
from proxy.grounding.records.deciding import MAX_FIELDS, decide
from tests.cost import below

BOATS = """boat,harbour,length_m,crew,launched,insured,state
Gannet,Oban,12,4,2011,yes,afloat
Petrel,Oban,31,9,1998,no,in dock
Skua,Wick,18,5,2020,yes,afloat"""
TRAINS = """| Zug | Ziel | Abfahrt | Gleis | Status |
|---|---|---|---|---|
| RE 12 | Nordau | 08:15 | 3 | pünktlich |
| RB 40 | Seebruck | 08:40 | 5 | ausgefallen |"""
CAMP = '{"site": "Elm", "pitches": [{"name": "Oak", "price": 18.5, "power": true, "guest": "Ruiz"}, {"name": "Ash", "price": 26, "power": false, "guest": null}]}'
STAFF = """name,team,manager
Ola Stern,Sales,Kim Beck
Ida Wolf,Sales,Kim Beck
Kim Beck,Leadership,Per Lind"""
JOBS = """03:00 job sync started
04:01 job sync failed error="disk full"
05:00 job mail started"""
SERVERS = '[{"id": "SRV-1", "owner": "Platform", "status": "running"}, {"id": "SRV-2", "owner": "Data", "status": "stopped"}]'
ROOMS = "room,seats,price_per_hour,free_from\nAtrium,40,85,14:00\nLoft,12,30,09:30\nCellar,25,45,16:00"
VANS = """van,driver,depot,battery,range_km,next_service
Van 15,Lindqvist,Depot A,40%,120,2026-12-04
Van 16,Bo Dahl,Depot B,81%,230,2026-12-11"""
ORDERS = """pedido,cliente,estado,salida,total
P-12,Hotel Mar,cargado,09:40,510
P-14,Casa Luz,anulado,20:30,230
P-19,Hotel Mar,entregado,11:00,75"""
PARCELS = """parcel,courier,state,weight_kg,insured_eur
Q-1,Ola Stern,delivered,4,500
Q-2,Kim Beck,lost,6,50
Q-3,Ola Stern,in transit,9,1200"""
TWO_FORMS = "Tag: Q-1\nHolder: Ola Stern\nState: lost\n\nTag: Q-2\nHolder: Kim Beck\nState: found"
BUSES = """2026-09-20 08:28 INFO route=L17 state=normal 1st_bus=07:25
2026-09-20 08:41 INFO route=L66 state=diverted 1st_bus=06:10"""
INVOICES = """invoice,client,payment_term,gross,issued_at,shop
SI-16,Ferncroft School,21,236.0,2026-03-04 21:40:02+00,LEJ
SI-18,Lowell Bros,10,118.4,2026-03-06 11:15:37+00,HAJ
SI-20,R. Adair,30,512.5,2026-03-09 08:29:10+00,LEJ"""
WARDS = """- Ward 5C: beds 13, sister Sr. Ersoy, rounds 10:10
- Ward 4A: beds 27, sister Sr. Tran, rounds 09:00"""
SEATS = "flight,from,seat\nVA 318,Bio,14C\nVA 2040,Ort,31A\n"
MEETINGS = """BEGIN:VEVENT
SUMMARY:Kick-off
ATTENDEE;PARTSTAT=DECLINED:Joost Velt
STATUS:CONFIRMED
END:VEVENT
BEGIN:VEVENT
SUMMARY:Pricing review
ATTENDEE;PARTSTAT=TENTATIVE:Maud Ellery
STATUS:CONFIRMED
END:VEVENT
"""
CONTAINERS = """{"anfrage": "BK 77", "stand": "2025-08-21", "container": [{"nr": "TRLU 3", "inhalt": "Möbel", "frei_bis": "2025-08-26"},
 {"nr": "TRLU 9", "inhalt": "Keramik", "frei_bis": null}]}"""
TRAIN_CHANGES = """id,stazione_cambio,attesa_min,avvisi
A,Sclavi Bivio,22,nessuno
B,Montelago,9,aria condizionata fuori servizio
D,Montelago,15,Bus sostitutivo Montelago-Punta Sclavi per lavori"""
BALANCE = """Mitarbeiter ........ 30417  Szymanski, Ralf
Stand .............. 31.08.2024

GLEITZEIT
  Saldo Vormonat ... +11:20
  Soll August ...... 165:00
  Saldo neu ........ +05:05
  Kappung .......... +40:00 (Jahresende)
  Ampel ............ gruen (rot ab -10:00)"""
DOWELS = """cod;descr;scorta_min;data_arrivo;note
V-1020;Vite 4x40;5000;;
T-0310;Tassello nylon 8;2000;2024-11-15;in ritardo (era 2024-10-30)"""
LOANS = """Materiale | pezzi | ritardo €/giorno
Libri | 8 | 0,20
DVD | 3 | 0,50"""
NIGHTS = """date,asleep_min,hr_low,spo2_min,score
2024-02-06,412,49,94,81
2024-02-07,271,57,,52
2024-02-08,486,51,91,78"""
CATCH = """Lote | Barco | Espécie | Kg | €/kg
101 | Flor da Barra | sardinha | 840 | 1,12
107 | Virgem do Cabo | sardinha | 1120 | 0,88"""
FLIGHTS = """flight,gate,pilot,work
OB 77,B1,Matsuda,A check
TQ 318,C9,Lindgren,C check"""
METERS = """unit,fuel,rate_h,hour_meter
Tractor 1,full,140,5720
Tractor 2,half,36,2600"""
FORM = "Antrag 88\nName: Vera Kolb\nBetrag: 420,00 €\nFrist: 14 Tage\nStatus: genehmigt"


def verdict(statement: str, *texts: str, language: str = "en") -> bool | None:
    """Whether the cells support it; None where they do not decide."""
    found = decide(statement, Records(texts), language)
    return None if found is None else found.supported


@pytest.mark.parametrize(
    ("statement", "evidence", "language"),
    [
        ("The Skua is 12 metres long.", BOATS, "en"),
        ("The Gannet lies in Wick.", BOATS, "en"),
        ("The Petrel was launched in 2020.", BOATS, "en"),
        ("The Gannet has a crew of 14.", BOATS, "en"),
        ("The Petrel is insured.", BOATS, "en"),
        ("The longest boat is the Skua.", BOATS, "en"),
        ("Together the three boats have a crew of 28.", BOATS, "en"),
        ("Der RE 12 fährt um 08:40 ab.", TRAINS, "de"),
        ("Die RB 40 nach Seebruck ist pünktlich.", TRAINS, "de"),
        ("Der RE 12 fährt auf Gleis 5.", TRAINS, "de"),
        ("Oak costs 26.", CAMP, "en"),
        ("Ash has power.", CAMP, "en"),
        ("Der Betrag ist 240 Euro.", FORM, "de"),
        ("Der Antrag ist abgelehnt.", FORM, "de"),
        ("The holder of Q-1 is Kim Beck.", TWO_FORMS, "en"),
        ("The state of Q-2 is lost.", TWO_FORMS, "en"),
        ("P-12 sale a las 20.30.", ORDERS, "es"),
        ("The Gannet is longer than the Skua.", BOATS, "en"),
        ("The Gannet has a larger crew than the Petrel.", BOATS, "en"),
        ("Der RE 12 fährt später ab als die RB 40.", TRAINS, "de"),
        ("The payment term of SI-16 is 10 days.", INVOICES, "en"),
        ("SI-18 is for 512.5 euros in all.", INVOICES, "en"),
        ("SI-16 was not written for Ferncroft School.", INVOICES, "en"),
        ("The payment term of SI-18 is not 10 days.", INVOICES, "en"),
        ("Client of SI-16: Lowell Bros.", INVOICES, "en"),
        ("Ward 5C has 27 beds.", WARDS, "en"),
        ("The rounds of Ward 4A begin at 10:10.", WARDS, "en"),
        ("The pilot of OB 77 is Lindgren.", FLIGHTS, "en"),
    ],
)
def test_another_value_than_the_cells_is_contradicted(statement: str, evidence: str, language: str) -> None:
    assert False is verdict(statement, evidence, language=language)


@pytest.mark.parametrize(
    ("statement", "evidence", "language"),
    [
        ("The Skua is 18 metres long.", BOATS, "en"),
        ("The Gannet lies in Oban.", BOATS, "en"),
        ("The Petrel has a crew of 9.", BOATS, "en"),
        ("Der RE 12 fährt um 08:15 ab.", TRAINS, "de"),
        ("Oak costs 18.50.", CAMP, "en"),
    ],
)
def test_what_a_cell_says_and_nothing_else_is_supported(statement: str, evidence: str, language: str) -> None:
    assert True is verdict(statement, evidence, language=language)


@pytest.mark.parametrize(
    ("statement", "evidence", "language"),
    [
        ("The Petrel is by far the longest of the boats.", BOATS, "en"),
        ("The Skua is about 60 feet long.", BOATS, "en"),
        ("The Petrel is 13 metres longer than the Skua.", BOATS, "en"),
        ("The Skua will be 20 metres long once the bow is rebuilt.", BOATS, "en"),
        ("Two of the three boats are insured.", BOATS, "en"),
        ("No boat is in Leith.", BOATS, "en"),
        ("The Skua would need a crew of 6 in winter.", BOATS, "en"),
        ("The harbour master of Oban has 12 assistants.", BOATS, "en"),
        ("Der RE 12 fährt pünktlich nach Nordau.", TRAINS, "de"),
        ("Für 3 Nächte kostet Oak 55,50.", CAMP, "de"),
        ("Two nights on Oak cost 37.", CAMP, "en"),
        ("Die Frist beträgt zwei Wochen.", FORM, "de"),
        ("The Skua is not 12 metres long.", BOATS, "en"),
        ("The Gannet does not lie in Wick.", BOATS, "en"),
        ("It is not in 2020 that the Petrel was launched.", BOATS, "en"),
        ("Die RB 40 fährt nicht um 08:15 ab.", TRAINS, "de"),
        ("El total de P-14 no es de 510.", ORDERS, "es"),
        ("At most 5 people are the crew of the Skua.", BOATS, "en"),
        ("The smallest group is that of the Skua.", BOATS, "en"),
        ("The insurance of Q-1 is 500 euros.", PARCELS, "en"),
        ("Q-2 was delivered by Kim Beck's brother.", PARCELS, "en"),
        ("Kim Beck delivered a letter with Q-2.", PARCELS, "en"),
        ("P-14 carga seis cajas.", ORDERS, "es"),
        ("P-12 sale a las 9.40.", ORDERS, "es"),
        ("P-19 es el pedido más barato.", ORDERS, "es"),
        ("El pedido P-14 es de Casa Luz.", ORDERS, "es"),
        ("The first L17 leaves at 7:25.", BUSES, "en"),
        ("The Skua is longer than the Gannet.", BOATS, "en"),
        ("The Gannet is prettier than the Skua.", BOATS, "en"),
        ("The Petrel was launched longer ago than the Skua.", BOATS, "en"),
        ("Die RB 40 fährt später ab als der RE 12.", TRAINS, "de"),
        ("Q-1 is lost, and its holder is Ola Stern.", TWO_FORMS, "en"),
        ("SI-16 is due in 3 weeks.", INVOICES, "en"),
        ("SI-16 was issued at 22:40 in Berlin.", INVOICES, "en"),
        ("Then come SI-18 (Lowell Bros, HAJ) and SI-16 (Ferncroft School, LEJ).", INVOICES, "en"),
        ("Adair's invoice is not the only one from LEJ.", INVOICES, "en"),
        ("OB 77 boards at gate B1.", FLIGHTS, "en"),
        ("On VA 2040 you have 31A.", SEATS, "en"),  # its number could be a year
        ("Maud Ellery is tentative.", MEETINGS, "en"),
        ("Standgeldfrei steht er dort bis zum 26. August.", CONTAINERS, "de"),
        ("La B lascia solo 9 minuti per cambiare a Montelago.", TRAIN_CHANGES, "it"),
        ("Ihr Gleitzeitsaldo liegt Ende August bei +5:05 Stunden und die Ampel steht auf Grün.", BALANCE, "de"),
        ("At the end of August the balance of flexitime is 5:05 hours.", BALANCE, "en"),
        ("A fine de agosto o saldo de horas é de 5:05 horas.", BALANCE, "pt"),
        ("La consegna dei tasselli è slittata di 16 giorni.", DOWELS, "it"),
        ("Dieci giorni di ritardo su un libro costano due euro.", LOANS, "it"),
        ("The lowest value otherwise was 91.", NIGHTS, "en"),
        ("À Virgem do Cabo só restam 20 kg de sardinha.", CATCH, "pt"),
        ("The work on OB 77 is not a C check.", FLIGHTS, "en"),
        ("Tractor 1 has 5,720 hours on the meter.", METERS, "en"),
        ("P-12 no está anulado.", ORDERS, "es"),
        ("The term of 10 days is wrong for SI-16.", INVOICES, "en"),
    ],
)
def test_what_may_be_right_is_not_contradicted(statement: str, evidence: str, language: str) -> None:
    assert False is not verdict(statement, evidence, language=language)


def test_a_value_that_other_text_has_may_be_meant() -> None:
    note = "After the refit the Skua is 20 metres long."
    assert (False, None) == (verdict("The Skua is 20 metres long.", BOATS), verdict("The Skua is 20 metres long.", BOATS, note))


def test_where_not_all_text_is_looked_at_any_value_may_stand_in_it() -> None:
    much = "The weather was fine that day, and nobody went out. " * 1000
    assert (False, None) == (verdict("The Skua is 20 metres long.", BOATS), verdict("The Skua is 20 metres long.", BOATS, much))


def test_a_table_of_very_many_rows_is_text() -> None:
    rows = "\n".join(f"boat {i},Oban,{i}" for i in range(700))
    assert [] == Records([f"boat,harbour,length_m\n{rows}"]).places


def test_what_differs_is_named_with_its_place() -> None:
    records = Records(["No table.", BOATS])
    found = decide("The Gannet has a crew of 9.", records, "en")
    assert found is not None
    assert ("9", "4", 1, "Gannet") == (found.claim, found.evidence, found.place.text, found.place.table.rows[found.row].values[0])


@pytest.mark.cost
def test_a_statement_costs_no_more_than_the_rows() -> None:
    rows = "\n".join(f"boat {i},harbour {i % 7},{i},{i % 3},open" for i in range(2000))
    records = Records([f"boat,harbour,length_m,crew,state\n{rows}"])
    decide("warm up", records, "en")
    with below(4.0):
        for i in range(20):
            decide(f"Boat {i} of harbour 3 is {i + 1} metres long with a crew of 2 and open, {'crew ' * 60}.", records, "en")


def last_verdict(answer: str, *texts: str, language: str = "en") -> bool | None:
    """Of an answer's last claim, with what the answer states before it."""
    claim = claims_of(answer)[-1]
    found = decide(claim.text, Records(texts), language, claim.before)
    return None if found is None else found.supported


@pytest.mark.parametrize(
    ("answer", "evidence", "language", "right"),
    [
        ("The Skua lies in Wick. It has a crew of 5.", BOATS, "en", True),
        ("The Skua lies in Wick. It has a crew of 9.", BOATS, "en", False),
        ("The Skua lies in Wick. Its crew is 9.", BOATS, "en", False),
        ("SRV-1 is owned by Platform. It's stopped.", SERVERS, "en", False),
        ("SRV-1 is owned by Platform. It's running.", SERVERS, "en", True),
        ("The Skua lies in Wick and its crew is 9.", BOATS, "en", False),
        ("The Skua lies in Wick. It is new. It has a crew of 9.", BOATS, "en", False),
        ("Der RE 12 fährt nach Nordau. Er fährt um 08:40 ab.", TRAINS, "de", False),
        ("Der RE 12 fährt nach Nordau. Sein Gleis ist 5.", TRAINS, "de", False),
    ],
)
def test_a_pronoun_means_the_row_that_was_named_before(answer: str, evidence: str, language: str, right: bool) -> None:
    assert last_verdict(answer, evidence, language=language) is right


@pytest.mark.parametrize(
    "answer",
    [
        "The Skua and the Gannet are insured. They have a crew of 9.",  # of two rows
        "The harbour is full. It has a crew of 9.",
        "The Skua is 18 metres long.\n\n# Petrel\n\nIt has a crew of 9.",  # a heading begins something else
        "- The Skua lies in Wick.\n- It has a crew of 9.",
        "The Skua lies in Wick. It rains there, they say.",
        "The Skua lies in Wick. It's in dock.",  # no column is named, and "in dock" is no word for a state
    ],
)
def test_a_pronoun_that_may_mean_something_else_decides_nothing(answer: str) -> None:
    assert last_verdict(answer, BOATS) is None


def test_a_person_is_meant_only_where_nobody_else_is_named() -> None:
    tours = "tour,guide,day,price\nCliffs,Lund,Monday,40\nCaves,Lund,Friday,55\nFens,Okoro,Friday,30"
    assert last_verdict("Cliffs is led by Lund. He is there on Friday, too.", tours) is None
    assert last_verdict("Fens is led by Okoro. He takes 55 as the price.", tours) is None
    assert last_verdict("Okoro has one tour. His price is 55.", tours) is False
    assert last_verdict("Cliffs is led by Lund. He also guides Caves on Friday.", tours) is None


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("**Skua**\n- Harbour: Wick\n- Crew: 5", True),
        ("**Skua**\n- Harbour: Wick\n- Crew: 9", False),
        ("**Skua**\n- Insured: yes\n- Harbour: Oban", False),
        ("| Boat | Crew | Harbour |\n|---|---|---|\n| Skua | 5 | Wick |", True),
        ("| Boat | Crew | Harbour |\n|---|---|---|\n| Skua | 9 | Wick |", False),
        ("| Boat | Fee a day |\n|---|---|\n| Skua | 9 |", None),  # a column of the answer's own
        ("| Boat | Crew |\n|---|---|\n| Skua | 10 |", None),  # in two shifts: no other row's
        ("Here is what I know:\n- Crew: 9", None),
    ],
)
def test_labels_with_values_are_held_against_the_row(answer: str, right: bool | None) -> None:
    assert last_verdict(answer, BOATS) is right


@pytest.mark.parametrize(
    ("answer", "evidence", "language"),
    [
        ("Both the Gannet and the Skua have a crew of 4 or 5. Both are afloat.", BOATS, "en"),
        (
            "Oak and Elder both cost 18.50.",
            '[{"name": "Oak", "price": 18.5}, {"name": "Elder", "price": 18.5}, {"name": "Ash", "price": 26}]',
            "en",
        ),
        ("Die beiden anderen Boote haben genug Crew.", BOATS, "de"),
        ("Ida Wolf works in Sales and reports to Kim Beck. She also manages Ola Stern and reports to Per Lind herself.", STAFF, "en"),
        ("The job sync failed as the disk was full. It had been running for an hour.", JOBS, "en"),
        ("The Skua lies in Wick. It is 31 km from Oban.", BOATS, "en"),
        ("The Skua lies in Wick. They have 12 berths there.", BOATS, "en"),
        ("The Skua was launched in 2020. It replaced a boat from 1998.", BOATS, "en"),
        ("Van 15 has a battery of 40%. It lost 11% overnight.", VANS, "en"),
        ("Van 15 is due on 4 December. It was last serviced on 11 December 2025.", VANS, "en"),
        ("Van 15 has a range of 120 km. It has already driven 81 km today.", VANS, "en"),
        ("Loft has 12 seats. It is too small for 25.", ROOMS, "en"),
        ("Cellar is free from 16:00. It closes at 22:00.", ROOMS, "en"),
        ("Der RE 12 fährt um 08:15 ab. Sie können um 08:40 umsteigen.", TRAINS, "de"),
        ("Der RE 12 fährt auf Gleis 3. Ihr Anschluss steht auf Gleis 5.", TRAINS, "de"),
        ("Der RE 12 ist pünktlich. Es gibt 5 Gleise.", TRAINS, "de"),
    ],
)
def test_right_answers_that_speak_of_several_things_are_left_alone(answer: str, evidence: str, language: str) -> None:
    assert last_verdict(answer, evidence, language=language) is not False


def test_a_row_of_very_many_fields_is_not_looked_up() -> None:
    fields = ["Boat: Skua", *["Crew: 9"] * (MAX_FIELDS - 1)]
    assert verdict("; ".join(fields), BOATS) is False
    assert verdict("; ".join([*fields, "Crew: 9"]), BOATS) is None


STOCK = "| {} | {} | {} |\n|---|---|---|\n| {} | 400 | 12 |\n| {} | 410 | 15 |"
STOCKS = {
    "ru": STOCK.format("Товар", "Остаток", "Цена", "Болт", "Гайка"),
    "nl": STOCK.format("Artikel", "Voorraad", "Prijs", "Bout", "Moer"),
    "tr": STOCK.format("Ürün", "Stok", "Fiyat", "Vida", "Somun"),
    "ar": STOCK.format("المنتج", "المخزون", "السعر", "برغي", "صامولة"),
}


@pytest.mark.parametrize(
    ("language", "statement"),
    [
        ("ru", "Остаток Болт не 410."),
        ("ru", "Раньше остаток Болт был 410."),
        ("ru", "Цена Болт ниже 15."),
        ("nl", "De voorraad van Bout is niet 410."),
        ("nl", "De prijs van Bout ligt boven 10."),
        ("tr", "Vida stok 410 değil."),
        ("ar", "المخزون من برغي ليس 410."),
    ],
)
def test_of_a_language_whose_words_for_not_and_below_are_unknown_nothing_is_said(language: str, statement: str) -> None:
    assert verdict(statement, STOCKS[language], language=language) is None


@pytest.mark.parametrize(
    ("language", "statement"),
    [("ru", "Остаток Болт — 410."), ("ru", "Болт: Остаток: 410"), ("tr", "Vida stok 410."), ("nl", "Bout: Voorraad: 410")],
)
def test_a_statement_of_the_tables_own_words_is_read_in_any_language(language: str, statement: str) -> None:
    assert verdict(statement, STOCKS[language], language=language) is False


@pytest.mark.parametrize(
    ("language", "statement"),
    [
        ("en", "Atrium used to have 12 seats."),
        ("en", "Atrium almost has 12 seats."),
        ("en", "Atrium will have 12 seats."),
        ("en", "I set the seats of Atrium to 12 as you asked."),
        ("en", "Set the seats of Atrium to 12."),
        ("en", "Done! Atrium now has 12 seats."),
        ("en", "Say Atrium had 12 seats."),
        ("en", "You asked whether Atrium has 12 seats."),
        ("en", "Does Atrium have 12 seats?"),
        ("en", "Atrium isnt one with 12 seats."),
        ("de", "Ich habe die Seats von Atrium auf 12 gesetzt."),
        ("de", "Atrium wird 12 Seats haben."),
        ("de", "Atrium hat beinahe 12 Seats."),
        ("fr", "Atrium aura 12 seats."),
        ("fr", "J'ai mis les seats de Atrium à 12."),
        ("es", "Atrium tendrá 12 seats."),
        ("es", "He puesto los seats de Atrium en 12."),
        ("it", "Atrium avrà 12 seats."),
        ("pt", "Atrium terá 12 seats."),
    ],
)
def test_of_another_time_an_act_or_a_supposition_the_cells_say_nothing(language: str, statement: str) -> None:
    assert verdict(statement, ROOMS, language=language) is None


def test_plain_statements_are_still_contradicted() -> None:
    assert [False] * 2 == [verdict(text, ROOMS) for text in ("Atrium has 12 seats.", "The seats of Atrium are 12.")]


FLAGS = """[{"name": "pix_pay", "dev": true, "prod": false, "insured": false, "active": false},
{"name": "new_cart", "dev": true, "prod": true, "insured": true, "active": true}]"""


@pytest.mark.parametrize(
    ("language", "statement", "supported"),
    [
        ("en", "pix_pay is on in prod.", False),
        ("en", "pix_pay is insured.", False),
        ("en", "pix_pay is active.", False),
        ("en", "new_cart is disabled in prod.", False),
        ("en", "pix_pay is off in prod.", None),
        ("en", "pix_pay is disabled in prod.", None),
        ("en", "prod is false for pix_pay.", True),
        ("en", "pix_pay is inactive.", None),
        ("en", "pix_pay is uninsured.", None),
        ("en", "pix_pay is missing in prod.", None),
        ("en", "pix_pay is dark in prod.", None),
        ("en", "new_cart is not disabled in prod.", None),
        ("en", "Neither pix_pay nor new_cart is insured in dev.", None),
        ("it", "Né pix_pay né new_cart sono insured.", None),
        ("pt", "pix_pay está desligada em prod.", None),
        ("de", "pix_pay ist in prod abgeschaltet.", None),
        ("de", "pix_pay fehlt in prod.", None),
        ("fr", "pix_pay est désactivée en prod.", None),
    ],
)
def test_a_column_of_yes_and_no_is_affirmed_or_denied_in_many_words(language: str, statement: str, supported: bool | None) -> None:
    assert verdict(statement, FLAGS, language=language) is supported


HALLS = """| Room | Seats | Price per hour (€) | Opens | Booked |
|---|---|---|---|---|
| Atrium | 40 | 85.50 | 08:00 | 75% |
| Loft | 12 | 30.00 | 09:30 | 20% |"""


@pytest.mark.parametrize(
    ("language", "statement"),
    [
        ("en", "Atrium has 25% free."),
        ("en", "Loft has 30% of the seats of Atrium."),
        ("en", "Loft is the only one under 40 €."),
        ("en", "Loft's 12 seats are enough for your 10 people."),
        ("en", "The 40-seat Atrium opens at 8."),
        ("en", "Rounded, the Atrium costs 86 €."),
        ("en", "Loft has 5 too few seats for 17 people."),
        ("en", "The seats of Loft, hall 21 on the plan, are 12."),
        ("en", "Per seat, Atrium and Loft both work out at 2 € an hour."),
        ("en", "Atrium opens at 08:00 and isn't cheap."),
        ("de", "Atrium bietet Seats für 30 Personen."),
        ("de", "Atrium ist zu drei Vierteln booked."),
    ],
)
def test_a_share_a_wish_an_hour_or_a_round_number_is_no_other_value(language: str, statement: str) -> None:
    assert verdict(statement, HALLS, language=language) is not False


def test_a_number_of_a_name_is_no_decimal_with_another_digit() -> None:
    coins = "find,metal,found by,weight (g)\nFind 59,gold,Keeley,4.4\nFind 21,billon,Old Tom,2.9"
    assert verdict("The finder of Find 21 is Old Tom.", coins) is None


PODS = "NAME          READY   STATUS    AGE\n{}   {}     Running   3h\nmailer-77     1/1     Running   9d"


def test_of_two_tables_of_one_thing_the_one_that_says_so_counts() -> None:
    """Which of two listings is the newer one nobody knows: what one of them has may be meant."""
    before, after = PODS.format("redis-cart-0", "0/1"), PODS.format("redis-cart-0", "1/1")
    assert verdict("redis-cart-0 is ready.", before) is False
    assert verdict("redis-cart-0 is ready.", before, after) is not False


def test_the_end_of_a_number_in_groups_names_no_cell() -> None:
    """ "8,000" is not about "12,000 pages": the page that has it under that name says so."""
    pages = [
        "Price: $249\nPages per month: 3,000\nToner: 2,400 pages, $69.60",
        "Price: $379\nPages per month: 8,000\nToner: 12,000 pages, $192.00",
    ]
    assert verdict("The Orla is fine, at 8,000 a month.", *pages) is not False
    assert verdict("The Orla is fine, at 9,000 a month.", *pages) is False


@pytest.mark.parametrize(
    ("language", "statement"),
    [
        ("en", "That makes 30 copies of the new version."),
        ("en", "That comes to 30 copies."),
        ("de", "Das macht 30 copies."),
        ("fr", "Ça fait 30 copies."),
        ("es", "Eso hace 30 copies."),
    ],
)
def test_what_that_makes_is_worked_out(language: str, statement: str) -> None:
    assert verdict(statement, '{"job": "j-403", "status": "done", "copies": 3}', language=language) is not False


def test_a_number_of_the_only_record_is_still_contradicted() -> None:
    assert verdict("It printed 30 copies.", '{"job": "j-403", "status": "done", "copies": 3}') is False
