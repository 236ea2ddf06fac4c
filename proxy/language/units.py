"""Units of measurement: which dimension a unit's word belongs to, and how much of the dimension's base unit it is.

Used by `proxy.language.quantities`. Factors are the exact ones of the SI and of the international yard and pound agreement (1959);
months and years are averages, the US gallon and ton are meant.
"""

from __future__ import annotations

from msgspec import Struct


class Unit(Struct, frozen=True):
    """One unit: ``value * factor + offset`` is the same in the dimension's base unit."""

    dimension: str
    factor: float = 1.0
    offset: float = 0.0


_TABLE: dict[str, dict[float, str]] = {
    "length": {
        1: "m metre metres meter meters metern metro metros mètre mètres metri",
        1e3: (
            "km kilometre kilometres kilometer kilometers kilometern kilómetro kilómetros kilomètre kilomètres chilometro chilometri "
            "quilômetro quilômetros quilómetro quilómetros"
        ),
        1e-2: "cm centimetre centimetres centimeter centimeters zentimeter centímetros centimètres centimetro centimetri",
        1e-3: "mm millimetre millimetres millimeter millimeters milímetros millimètres millimetro millimetri",
        1609.344: "mi mile miles meile meilen milla millas",
        0.3048: "ft foot feet fuß pie pies pied pieds",
        0.0254: "inch inches zoll pulgada pulgadas pouce pouces",
        0.9144: "yd yard yards",
        1e-6: "µm μm",
        1e-9: "nm",
    },
    "mass": {
        1: (
            "kg kilo kilos kilogram kilograms kilogramm kilogramo kilogramos kilogramme kilogrammes chilo chili chilogrammi "
            "quilo quilos quilogramas"
        ),
        1e-3: "g gram grams gramm gramo gramos gramme grammes grammo grammi grama gramas",
        1e-6: "mg milligram milligrams milligramm miligramos milligrammes",
        0.45359237: "lb lbs pound pounds pfund libra libras",
        1e3: "t tonne tonnes tonnen tonelada toneladas tonnellata tonnellate",
        907.18474: "ton tons",
        0.028349523125: "oz ounce ounces onza onzas onces",
    },
    "duration": {
        1: "s sec secs second seconds sekunde sekunden segundo segundos seconde secondes secondi",
        60: "min mins minute minutes minuten minuto minutos minuti",
        3600: "h hr hrs hour hours stunde stunden hora horas heure heures ora ore",
        86400: "day days tag tage tagen día días jour jours giorno giorni dia dias",
        604800: "week weeks woche wochen semana semanas semaine semaines settimana settimane",
        2629746: "month months monat monate monaten mes meses mois mese mesi mês",
        31556952: "year years yr yrs jahr jahre jahren año años an ans année années anno anni ano anos",
        315569520: "decade decades jahrzehnt jahrzehnte jahrzehnten década décadas décennie décennies",
        3155695200: "century centuries jahrhundert jahrhunderte siglo siglos siècle siècles",
        1e-3: "ms millisecond milliseconds millisekunden",
    },
    "volume": {
        1: "l litre litres liter liters litern litro litros litri",
        1e-3: "ml millilitre millilitres milliliter milliliters mililitros",
        3.785411784: "gallon gallons gallonen galones",
        1e-2: "cl",
        1e-1: "dl",
        0.473176473: "pint pints",
        1e3: (
            "m³ m3 cubic_metre cubic_metres cubic_meter cubic_meters kubikmeter kubikmetern metro_cúbico metros_cúbicos mètre_cube "
            "mètres_cubes"
        ),
    },
    "data": {
        1: "byte bytes",
        1e3: "kB KB",
        1e6: "MB megabyte megabytes",
        1e9: "GB gigabyte gigabytes",
        1e12: "TB terabyte terabytes",
        1024: "KiB",
        2**20: "MiB",
        2**30: "GiB",
        2**40: "TiB",
        0.125: "bit bits",
    },
    "speed": {1: "km/h kmh kph", 1.609344: "mph", 3.6: "m/s", 1.852: "kn knots knoten"},
    "area": {
        1: (
            "m² m2 sqm square_metre square_metres square_meter square_meters quadratmeter quadratmetern metro_cuadrado metros_cuadrados "
            "metri_quadri metros_quadrados "
            "mètre_carré mètres_carrés"
        ),
        1e6: (
            "km² km2 square_kilometre square_kilometres square_kilometer square_kilometers quadratkilometer quadratkilometern "
            "kilómetros_cuadrados kilomètres_carrés"
        ),
        0.09290304: "square_foot square_feet",
        2589988.110336: "square_mile square_miles",
        1e4: "ha hectare hectares hektar hectáreas ettaro ettari hectare hectares",
        4046.8564224: "acre acres",
    },
    "pressure": {1: "bar", 1e-3: "mbar hPa", 1e-5: "Pa", 1e-2: "kPa", 0.0689476: "psi"},
    "power": {1: "W watt watts", 1e3: "kW", 1e6: "MW megawatt megawatts", 1e9: "GW gigawatt gigawatts"},
    "energy": {1: "Wh", 1e3: "kWh", 1e6: "MWh", 1e9: "GWh", 1e12: "TWh"},
    "frequency": {1: "Hz", 1e3: "kHz", 1e6: "MHz", 1e9: "GHz"},
    "ratio": {0.01: "% percent per_cent prozent pct por_ciento pour_cent per_cento por_cento", 1e-3: "‰ promille"},
    "USD": {1: "$ US$ USD dollar dollars dólar dólares"},
    "EUR": {1: "€ EUR euro euros"},
    "GBP": {1: "£ GBP sterling"},
    "JPY": {1: "¥ JPY yen"},
    "CHF": {1: "CHF franken"},
    "INR": {1: "₹ INR rupee rupees"},
}
UNITS: dict[str, Unit] = {
    word.replace("_", " "): Unit(dimension, factor)
    for dimension, rows in _TABLE.items()
    for factor, words in rows.items()
    for word in words.split()
}
UNITS |= dict.fromkeys(("°C", "degrees celsius", "grad celsius", "grados celsius", "degrés celsius"), Unit("temperature"))
UNITS |= dict.fromkeys(("°F", "degrees fahrenheit", "grad fahrenheit"), Unit("temperature", 5 / 9, -160 / 9))
MONEY = frozenset(("USD", "EUR", "GBP", "JPY", "CHF", "INR"))
CURRENCY_SIGNS = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY", "₹": "INR"}


def unit_of(word: str) -> Unit | None:
    """The unit that is written `word`: symbols by their exact case, words by any."""
    if (unit := UNITS.get(word)) is not None:
        return unit
    return UNITS.get(word.lower()) if len(word) > 2 else None
