"""Requests for `benchmarks.stage_costs`: conversations, passages, answers and tools, written by seeded rules and never twice the same.

The texts are a town's records: facts about made-up places, each in one wording for the passage and in another for the answer, with
sentences between them that hold no figure. Of an answer's five sentences one has a wrong number.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

Message = dict[str, Any]

_HEADS = """
    Bran Cor Del Est Fal Gren Hal Ister Kal Lor Mar Nor Ost Pel Quin Ros Sel Tor Ul Ver Wel Zan
""".split()  # noqa: SIM905
_TAILS = """
    ach beck dale ermont field gate haven ingen kirk lund mere nau ow pont quay rath stead thal ust wick
""".split()  # noqa: SIM905
_FACTS = (
    (
        "The water works of {p} was built in {y} and serves {n} households.",
        "Since {y} the water works has stood in {p}, and {n} homes get water from it.",
    ),
    (
        "In {y} the council of {p} set aside {n} euros for new school buildings.",
        "The council gave {n} euros for schools in {p} in {y}.",
    ),
    (
        "The library of {p} holds {n} volumes and opened its doors in {y}.",
        "{p} has a library since {y}, with {n} books on its shelves.",
    ),
    (
        "The harbour of {p} handled {n} tonnes of freight in {y}, most of it timber.",
        "Mostly timber, {n} tonnes of freight passed through {p} in {y}.",
    ),
    ("A survey counted {n} trees along the streets of {p} in {y}.", "According to the count of {y}, {n} trees line the streets of {p}."),
    (
        "The tram line through {p} is used by {n} passengers a day and was extended in {y}.",
        "Each day {n} people ride the tram in {p}, whose line was made longer in {y}.",
    ),
    (
        "The hospital in {p} treated {n} patients in {y} and employs three surgeons.",
        "Three surgeons work in {p}'s hospital, which saw {n} patients in {y}.",
    ),
    (
        "The fair of {p} drew {n} visitors in {y}, the highest figure so far.",
        "More people than ever, {n} of them, went to the fair in {p} in {y}.",
    ),
)
_FILLER = (
    "Residents describe the {a} as {q}, although opinions differ from street to street.",
    "The office keeps a {q} register of every change to the {a}, which anybody may read.",
    "Work on the {a} is carried out by a {q} team of volunteers and two paid clerks.",
    "Before that the {a} had been looked after by the neighbouring parish, with {q} results.",
    "An engineer called the {a} {q} in a letter that the archive of the {b} still keeps.",
    "The plan for the {a} was discussed for a long time, since the {b} needed repairs as well.",
    "Visitors who come for the {b} usually pass the {a} on their way to the station.",
    "Money for the {a} comes from fees, from the {b} and from a {q} fund of the region.",
)
_THINGS = [
    "market hall",
    "old bridge",
    "town archive",
    "sports ground",
    "bakery",
    "music school",
    "cemetery",
    "post office",
    "weir",
    "clock tower",
    "tannery",
    "printing house",
    "ferry landing",
    "orchard",
    "fire station",
    "theatre",
    "brewery",
    "rope walk",
    "quarry",
    "lighthouse",
    "granary",
    "toll house",
    "botanical garden",
    "chapel",
]
_QUALITIES = """
    useful costly quiet modest popular outdated sturdy careful uneven generous plain cheerful narrow remarkable damp orderly
""".split()  # noqa: SIM905
_ASKS = (
    "What do the records say about {a} and {b} in {p}?",
    "Could you tell me who looks after the {a} in {p}, and since when?",
    "How many people used the {a} near {p} last year, and was it more than before?",
    "I am writing a short piece on {p}. What should I say about the {a} and the {b}?",
    "My group visits {p} with {n} pupils; is the {a} open, and what does it cost?",
)
_VERBS = """
    list find create update cancel export approve archive compare schedule refund translate assign measure rename publish
""".split()  # noqa: SIM905
_OBJECTS = """
    invoice flight hotel ticket calendar_event mail contract customer shipment sensor report meeting playlist recipe lab_sample
    tenant vehicle prescription course donation backup certificate branch survey refund_claim warehouse_bin podcast visa poem
    drone loan menu
""".split()  # noqa: SIM905


class Texts:
    """Texts of a seed; the next one is always new."""

    def __init__(self, seed: str) -> None:
        self._draw = random.Random(f"stage costs {seed}")

    def place(self) -> str:
        """A name, one of some hundred thousand."""
        draw = self._draw
        return f"{draw.choice(_HEADS)}{draw.choice(_TAILS)} {draw.choice(_HEADS)}{draw.choice(_TAILS)[:3]}"

    def _words(self, place: str) -> dict[str, str]:
        a, b = self._draw.sample(_THINGS, 2)
        return {"p": place, "a": a, "b": b, "q": self._draw.choice(_QUALITIES), "n": f"{self._draw.randint(12, 99)}"}

    def question(self, place: str = "") -> str:
        """About fifteen words."""
        return self._draw.choice(_ASKS).format(**self._words(place or self.place()))

    def talk(self, words: int) -> str:
        """About so many words of sentences without figures."""
        said, place = list[str](), self.place()
        while sum(sentence.count(" ") + 1 for sentence in said) < words:
            said.append(self._draw.choice(_FILLER).format(**self._words(place)))
        return " ".join(said)

    def turns(self, count: int, words: int = 40) -> list[Message]:
        """Questions and answers in turn, without a last question."""
        found: list[Message] = []
        for _ in range(count):
            found.append({"role": "user", "content": f"{self.question()} {self.talk(words - 15)}"})
            found.append({"role": "assistant", "content": self.talk(words)})
        return found

    def passages(self, count: int, words: int) -> tuple[str, list[str], list[tuple[str, str]]]:
        """The place that they are of, the passages, and each one's facts: the wording of an answer, right and with a wrong number."""
        place, found, facts = self.place(), list[str](), list[tuple[str, str]]()
        for i in range(count):
            kind = _FACTS[(i + self._draw.randrange(2) * 4) % len(_FACTS)]
            number, wrong = (f"{self._draw.randint(2, 900)},{self._draw.randint(100, 999)}" for _ in range(2))
            values = {"p": place, "y": str(self._draw.randint(1820, 2015)), "n": number}
            facts.append((kind[1].format(**values), kind[1].format(**{**values, "n": wrong})))
            said = self.talk(words - 15).split(". ")
            said.insert(self._draw.randrange(len(said)), kind[0].format(**values).rstrip("."))
            found.append(". ".join(said))
        return place, found, facts

    def answer(self, facts: Sequence[tuple[str, str]]) -> list[str]:
        """Five sentences, the fourth of them with a wrong number."""
        return [facts[i % len(facts)][i == 3] for i in range(5)]

    def tools(self, count: int) -> list[dict[str, Any]]:
        """Tools of some forty servers, no two alike."""
        found, servers = [], [f"{self._draw.choice(_HEADS)}{self._draw.choice(_TAILS)}".lower() for _ in range(40)]
        for i in range(count):
            verb, thing, server = self._draw.choice(_VERBS), self._draw.choice(_OBJECTS), servers[i % len(servers)]
            words = self._words(self.place())
            described = f"{verb.capitalize()} a {thing.replace('_', ' ')} of {words['p']} for the {words['a']}, by its {words['q']} number."
            fields = {name: {"type": "string", "description": f"The {name} of the {thing}"} for name in self._draw.sample(_OBJECTS, 3)}
            parameters = {"type": "object", "properties": fields, "required": list(fields)[:1]}
            function = {"name": f"{server}_{verb}_{thing}_{i}", "description": described, "parameters": parameters}
            found.append({"type": "function", "function": function})
        return found

    def errand(self) -> str:
        """What somebody wants done with a tool."""
        verb, thing, words = self._draw.choice(_VERBS), self._draw.choice(_OBJECTS).replace("_", " "), self._words(self.place())
        return f"Please {verb} the {thing} that the {words['a']} in {words['p']} asked about, and tell me its number afterwards."
