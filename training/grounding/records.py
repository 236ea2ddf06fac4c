"""Statements about tool results: made-up records as JSON, tables or lines, and what an assistant says of them, right and wrong.

None of the data sets has what an agent's answers are mostly checked against: orders, bookings, measurements out of an API. A wrong
statement has another value of the same record's field (contradicted), that of another record (contradicted), or says something
about a field or a record that is not there (unsupported).
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from training.grounding.negatives import CONTRADICTED, SUPPORTED, UNSUPPORTED

LANGUAGES = ("en", "de", "es", "fr")
_CITIES = (
    "Lisbon",
    "Oslo",
    "Zürich",
    "Quito",
    "Nairobi",
    "Hanoi",
    "Porto",
    "Malmö",
    "Turin",
    "Cork",
    "Leipzig",
    "Lyon",
    "Sevilla",
    "Osaka",
)
_PEOPLE = (
    "Ana Ruiz",
    "Tom Becker",
    "Lea Martin",
    "Ivo Horvat",
    "Mia Sund",
    "Omar Haddad",
    "Jun Sato",
    "Zoe Klein",
    "Raj Patel",
    "Eva Novak",
)
_PRODUCTS = ("desk lamp", "rain jacket", "coffee grinder", "bike helmet", "USB hub", "water bottle", "office chair", "tent")
_STATUSES = {
    "shipped": ("has shipped", "wurde versandt", "se ha enviado", "a été expédiée"),
    "delivered": ("was delivered", "wurde zugestellt", "se ha entregado", "a été livrée"),
    "cancelled": ("has been cancelled", "wurde storniert", "se ha cancelado", "a été annulée"),
    "pending": ("is still pending", "ist noch offen", "está pendiente", "est encore en attente"),
    "returned": ("was returned", "wurde zurückgeschickt", "se ha devuelto", "a été retournée"),
}
_FLAGS = {"true": ("is", "ist", "está", "est"), "false": ("is not", "ist nicht", "no está", "n'est pas")}


def _date(rng: random.Random) -> str:
    return f"20{rng.randint(18, 27)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"


def _money(rng: random.Random) -> str:
    return f"{rng.randint(3, 900)}.{rng.choice(('00', '50', '90', '99', '25'))}"


def _time(rng: random.Random) -> str:
    return f"{rng.randint(6, 22):02}:{rng.choice(('00', '05', '15', '30', '40', '45'))}"


Maker = Callable[[random.Random], str]


def _int(low: int, high: int) -> Maker:
    return lambda rng: str(rng.randint(low, high))


def _of(values: Iterable[str]) -> Maker:
    listed = tuple(values)
    return lambda rng: rng.choice(listed)


@dataclass(slots=True, frozen=True)
class _Kind:
    key: str
    """Field that names a record."""
    name: Maker
    subject: tuple[str, str, str, str]
    """How a sentence speaks of a record, by language."""
    fields: dict[str, tuple[Maker, tuple[tuple[str, ...], ...]]]
    """Field: a maker of its values, and predicates by language; ``{}`` is the value."""


_KINDS = (
    _Kind(
        "order_id",
        _int(1000, 99999),
        ("Order {}", "Bestellung {}", "El pedido {}", "La commande {}"),
        {
            "status": (_of(_STATUSES), (("{}",), ("{}",), ("{}",), ("{}",))),
            "total": (_money, (("costs {} euros", "comes to EUR {}"), ("kostet {} Euro",), ("cuesta {} euros",), ("coûte {} euros",))),
            "eta": (
                _date,
                (
                    ("should arrive on {}", "is expected on {}"),
                    ("soll am {} ankommen",),
                    ("debería llegar el {}",),
                    ("devrait arriver le {}",),
                ),
            ),
            "items": (
                _int(1, 12),
                (("has {} items", "contains {} items"), ("enthält {} Artikel",), ("tiene {} artículos",), ("contient {} articles",)),
            ),
            "customer": (
                _of(_PEOPLE),
                (("was placed by {}", "belongs to {}"), ("wurde von {} aufgegeben",), ("es de {}",), ("a été passée par {}",)),
            ),
            "carrier": (
                _of(("DHL", "UPS", "GLS", "FedEx", "DPD")),
                (("travels with {}", "is carried by {}"), ("wird von {} geliefert",), ("viaja con {}",), ("est transportée par {}",)),
            ),
        },
    ),
    _Kind(
        "city",
        _of(_CITIES),
        ("In {} it", "In {}", "En {}", "À {}"),
        {
            "temperature_c": (
                _int(-12, 39),
                (
                    ("is {} °C", "is now {} degrees"),
                    ("sind es {} °C", "beträgt die Temperatur {} Grad"),
                    ("hay {} °C",),
                    ("il fait {} °C",),
                ),
            ),
            "wind_kmh": (
                _int(2, 90),
                (("blows at {} km/h",), ("weht der Wind mit {} km/h",), ("el viento sopla a {} km/h",), ("le vent souffle à {} km/h",)),
            ),
            "humidity": (
                _int(15, 99),
                (
                    ("has {} % humidity",),
                    ("liegt die Luftfeuchtigkeit bei {} %",),
                    ("la humedad es del {} %",),
                    ("l'humidité est de {} %",),
                ),
            ),
            "sunrise": (
                _time,
                (("gets light at {}",), ("geht die Sonne um {} auf",), ("el sol sale a las {}",), ("le soleil se lève à {}",)),
            ),
        },
    ),
    _Kind(
        "flight",
        lambda rng: f"{rng.choice(('LH', 'TP', 'AF', 'IB', 'SK'))}{rng.randint(100, 4999)}",
        ("Flight {}", "Flug {}", "El vuelo {}", "Le vol {}"),
        {
            "departure": (
                _time,
                (("leaves at {}", "departs at {}"), ("startet um {}", "fliegt um {} ab"), ("sale a las {}",), ("part à {}",)),
            ),
            "arrival": (_time, (("lands at {}", "arrives at {}"), ("landet um {}",), ("llega a las {}",), ("arrive à {}",))),
            "gate": (
                _of(("A1", "A12", "B4", "B22", "C7", "D18")),
                (("boards at gate {}", "uses gate {}"), ("geht von Gate {}",), ("embarca por la puerta {}",), ("embarque porte {}",)),
            ),
            "from": (_of(_CITIES), (("starts in {}",), ("kommt aus {}",), ("sale de {}",), ("part de {}",))),
            "to": (_of(_CITIES), (("goes to {}", "flies to {}"), ("fliegt nach {}",), ("vuela a {}",), ("va à {}",))),
            "seats_left": (
                _int(0, 60),
                (("has {} seats left",), ("hat noch {} freie Plätze",), ("tiene {} asientos libres",), ("a encore {} places libres",)),
            ),
        },
    ),
    _Kind(
        "product",
        _of(_PRODUCTS),
        ("The {}", "Das Produkt \u201e{}\u201c", "El producto «{}»", "Le produit « {} »"),
        {
            "price": (
                _money,
                (("costs {} dollars", "is sold for ${}"), ("kostet {} Dollar",), ("cuesta {} dólares",), ("coûte {} dollars",)),
            ),
            "stock": (
                _int(0, 400),
                (
                    ("is in stock with {} pieces", "has {} units in stock"),
                    ("ist {}-mal auf Lager",),
                    ("tiene {} unidades en almacén",),
                    ("est disponible à {} exemplaires",),
                ),
            ),
            "weight_g": (_int(90, 9000), (("weighs {} g", "weighs {} grams"), ("wiegt {} g",), ("pesa {} g",), ("pèse {} g",))),
            "color": (_of(("black", "green", "orange", "white")), (("is {}", "comes in {}"), ("ist {}",), ("es {}",), ("est {}",))),
            "rating": (
                _of(("3.1", "3.8", "4.2", "4.6", "4.9")),
                (("is rated {}", "has a rating of {} stars"), ("ist mit {} Sternen bewertet",), ("tiene {} estrellas",), ("a {} étoiles",)),
            ),
        },
    ),
    _Kind(
        "name",
        _of(_PEOPLE),
        ("{}", "{}", "{}", "{}"),
        {
            "department": (
                _of(("Sales", "Finance", "Support", "Legal", "Research")),
                (("works in {}", "is in the {} department"), ("arbeitet in der Abteilung {}",), ("trabaja en {}",), ("travaille chez {}",)),
            ),
            "city": (_of(_CITIES), (("lives in {}", "is based in {}"), ("wohnt in {}",), ("vive en {}",), ("habite à {}",))),
            "hired": (
                _date,
                (("was hired on {}", "started on {}"), ("wurde am {} eingestellt",), ("entró el {}",), ("a été engagé le {}",)),
            ),
            "vacation_days": (
                _int(0, 30),
                (("has {} vacation days left",), ("hat noch {} Urlaubstage",), ("tiene {} días de vacaciones",), ("a {} jours de congé",)),
            ),
            "manager": (_of(_PEOPLE), (("reports to {}",), ("berichtet an {}",), ("depende de {}",), ("relève de {}",))),
        },
    ),
    _Kind(
        "host",
        lambda rng: f"{rng.choice(('web', 'db', 'cache', 'queue'))}-{rng.randint(1, 40):02}",
        ("The server {}", "Der Server {}", "El servidor {}", "Le serveur {}"),
        {
            "cpu_percent": (
                _int(1, 99),
                (
                    ("runs at {} % CPU", "uses {} percent of its CPU"),
                    ("hat {} % CPU-Last",),
                    ("usa el {} % de la CPU",),
                    ("utilise {} % du CPU",),
                ),
            ),
            "memory_gb": (
                _int(1, 512),
                (("has {} GB of memory",), ("hat {} GB Speicher",), ("tiene {} GB de memoria",), ("a {} Go de mémoire",)),
            ),
            "uptime_days": (
                _int(0, 700),
                (("has been up for {} days",), ("läuft seit {} Tagen",), ("lleva {} días encendido",), ("tourne depuis {} jours",)),
            ),
            "version": (
                lambda rng: f"{rng.randint(1, 9)}.{rng.randint(0, 20)}.{rng.randint(0, 9)}",
                (("runs version {}",), ("läuft mit Version {}",), ("ejecuta la versión {}",), ("exécute la version {}",)),
            ),
            "healthy": (_of(_FLAGS), (("{} healthy",), ("{} gesund",), ("{} sano",), ("{} en bonne santé",))),
        },
    ),
    _Kind(
        "invoice",
        lambda rng: f"INV-{rng.randint(100, 9999)}",
        ("Invoice {}", "Rechnung {}", "La factura {}", "La facture {}"),
        {
            "amount_eur": (
                _money,
                (("is for {} euros", "comes to {} EUR"), ("beläuft sich auf {} Euro",), ("es de {} euros",), ("s'élève à {} euros",)),
            ),
            "due": (_date, (("is due on {}",), ("ist am {} fällig",), ("vence el {}",), ("est due le {}",))),
            "paid": (_of(_FLAGS), (("{} paid",), ("{} bezahlt",), ("{} pagada",), ("{} payée",))),
            "customer": (_of(_PEOPLE), (("was sent to {}",), ("ging an {}",), ("se envió a {}",), ("a été envoyée à {}",))),
        },
    ),
)
_ALIKE = {"city": "location", "order_id": "id", "name": "employee", "host": "hostname", "flight": "flightNumber", "invoice": "number"}
"""Other names of a field, so that the model does not wait for one of them."""


def made(n: int, rng: random.Random) -> Iterator[tuple[str, str, int, str]]:
    """``(claim, context, target, language)``, `n` of them, as many wrong ones as right ones."""
    for i in range(n):
        language = rng.choices(range(4), (4, 2, 2, 2))[0]
        kind = rng.choice(_KINDS)
        yield _one(kind, language, bool(i % 2), rng)


def _one(kind: _Kind, language: int, right: bool, rng: random.Random) -> tuple[str, str, int, str]:
    names: list[str] = []
    while len(names) < rng.choice((1, 1, 2, 4, 7)):
        if (name := kind.name(rng)) not in names:
            names.append(name)
    left_out = rng.choice(list(kind.fields)) if rng.random() < 0.5 else ""
    fields = [f for f in kind.fields if f != left_out]
    rows = [{kind.key: name, **{f: kind.fields[f][0](rng) for f in fields}} for name in names]
    row = rng.choice(rows)
    asked = rng.sample(fields, min(rng.choice((1, 1, 2)), len(fields)))
    said = {f: row[f] for f in asked}
    subject, target = row[kind.key], SUPPORTED
    if not right:
        subject, target = _spoiled(kind, said, rows, row, left_out, rng)
    predicates = [_predicate(kind, field, value, language, rng) for field, value in said.items()]
    joined = (" and ", " und ", " y ", " et ")[language].join(predicates)
    claim = f"{kind.subject[language].format(subject)} {joined}."
    return claim, _shown(kind, rows, rng), target, LANGUAGES[language]


def _spoiled(
    kind: _Kind, said: dict[str, str], rows: list[dict[str, str]], row: dict[str, str], left_out: str, rng: random.Random
) -> tuple[str, int]:
    """Makes one thing of `said` wrong, or the subject; returns the subject and what the statement then is."""
    wrong = rng.choice(list(said))
    way = rng.random()
    others = [r[wrong] for r in rows if r[wrong] != row[wrong]]
    if way < 0.2 and left_out:
        said.pop(wrong)
        said[left_out] = kind.fields[left_out][0](rng)
        return row[kind.key], UNSUPPORTED
    if way < 0.35:
        return next(name for name in iter(lambda: kind.name(rng), None) if name not in {r[kind.key] for r in rows}), UNSUPPORTED
    new = rng.choice(others) if others and rng.random() < 0.5 else kind.fields[wrong][0](rng)
    while new == row[wrong]:
        new = kind.fields[wrong][0](rng)
    said[wrong] = new
    return row[kind.key], CONTRADICTED


def _predicate(kind: _Kind, field: str, value: str, language: int, rng: random.Random) -> str:
    words = _STATUSES.get(value) or _FLAGS.get(value)
    return str(rng.choice(kind.fields[field][1][language])).format(words[language] if words else value)


def _shown(kind: _Kind, rows: list[dict[str, str]], rng: random.Random) -> str:
    key = _ALIKE.get(kind.key, kind.key) if rng.random() < 0.4 else kind.key
    typed = [{(key if name == kind.key else name): _typed(value) for name, value in row.items()} for row in rows]
    way = rng.random()
    if way < 0.65:
        whole = typed[0] if len(typed) == 1 else rng.choice((typed, {"results": typed, "count": len(typed)}))
        return json.dumps(whole, ensure_ascii=False, indent=rng.choice((None, None, 2)))
    if way < 0.85:
        return "\n\n".join("\n".join(f"{name.replace('_', ' ').capitalize()}: {value}" for name, value in row.items()) for row in typed)
    head = list(typed[0])
    lines = [head, ["---"] * len(head), *([str(row[name]) for name in head] for row in typed)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _typed(value: str) -> object:
    if value in _FLAGS:
        return value == "true"
    try:
        return int(value)
    except ValueError:
        return value
