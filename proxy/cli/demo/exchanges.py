"""The five exchanges of the guided tour: what is asked through which shipped policy, what the prepared model says, and what to look at.

The model's answers are prepared, so that the tour needs no key and is the same for everybody. All else is what any client would get.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

Body = Mapping[str, Any]
KNOWLEDGE = Path(__file__).parent / "knowledge"
WINDOW_TOKENS = 4096
"""Of the prepared model: small, so that a chat of a few pages fills it."""
_THINGS = ("flight", "hotel", "train", "car", "taxi", "museum", "restaurant", "concert", "visa", "currency", "weather", "map", "parcel")
_VERBS = {"search": "Search for {}s", "book": "Book a {}", "cancel": "Cancel a booked {}"}


class DemoExchange(Struct, frozen=True):
    """One of the five."""

    title: str
    policy: str
    messages: tuple[Body, ...]
    says: str
    """The prepared model's answer."""
    look_at: tuple[str, ...]
    """Headers that tell what happened, without their prefix."""
    learns: str
    """What there is to see, in a sentence."""
    context: tuple[Body, ...] = ()
    tools: tuple[Body, ...] = ()


def exchanges() -> tuple[DemoExchange, ...]:
    """In the order of the tour."""
    return _grounded(), _planted(), _contradiction(), _tools(), _long_chat()


def passages() -> tuple[Body, ...]:
    """The knowledge folder's files, as a retriever would hand them over."""
    return tuple({"content": file.read_text(encoding="utf-8").strip(), "source": file.name} for file in sorted(KNOWLEDGE.glob("*.md")))


def _talk(*texts: str) -> tuple[Body, ...]:
    """The user and the model in turn."""
    return tuple({"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts))


def _grounded() -> DemoExchange:
    return DemoExchange(
        "A grounded answer",
        "rag",
        _talk("How much can the Kestrel cargo bike carry?"),
        "The Kestrel cargo bike carries a load of 180 kilograms [Passage 1]. Confidence: HIGH",
        ("verdict", "faithfulness", "citations", "confidence"),
        "Each statement and citation is held against the passages, and borne out.",
        context=passages(),
    )


def _planted() -> DemoExchange:
    return DemoExchange(
        "A planted error, caught",
        "strict",
        _talk("How far does the Kestrel cargo bike go on a charge?"),
        "The battery of the Kestrel cargo bike lasts 120 kilometres on a charge [Passage 1]. Confidence: HIGH",
        ("verdict", "faithfulness", "warnings"),
        "The passage says 70 kilometres, so strict refuses the answer, and the client gets an error instead of a wrong number.",
        context=passages(),
    )


def _contradiction() -> DemoExchange:
    return DemoExchange(
        "A contradiction",
        "agent",
        _talk(
            "I prefer budget hotels.",
            "Noted: budget hotels.",
            "I prefer luxury hotels. What is there in Trieste?",
        ),
        "In Trieste there are several luxury hotels by the harbour.",
        ("verdict", "clashes", "warnings"),
        "Two wishes of the user cannot both hold; a note tells the model that the newer one counts.",
    )


def _tools() -> DemoExchange:
    names = [(verb, thing) for thing in (*_THINGS, "invoice", "letter") for verb in _VERBS]
    return DemoExchange(
        f"{len(names)} tools, cut to those that the task needs",
        "agent",
        _talk("Book a hotel in Paris."),
        "Which days are you staying in Paris?",
        ("verdict", "tools"),
        "The model gets the few tools that fit, and a search for the rest.",
        tools=tuple(_tool(verb, thing) for verb, thing in names),
    )


def _tool(verb: str, thing: str) -> Body:
    parameters = {"type": "object", "properties": {"place": {"type": "string", "description": f"where the {thing} is"}}}
    name = f"{verb}_{thing}" + "s" * (verb == "search")
    return {"type": "function", "function": {"name": name, "description": f"{_VERBS[verb].format(thing)}.", "parameters": parameters}}


def _long_chat() -> DemoExchange:
    said = []
    for day in range(1, 21):
        said.append(f"Day {day} of the move: " + " ".join(f"Box {day}-{n} with {what} goes to {room}." for n, (what, room) in _boxes(day)))
        said.append(f"Day {day} is noted, with {len(_ROOMS)} boxes.")
    return DemoExchange(
        "A long chat, compressed",
        "default",
        _talk(*said, "Which room do the plates of day 2 go to?"),
        "The plates of day 2 go to the kitchen.",
        ("verdict", "context", "compression"),
        f"At 80% of its window of {WINDOW_TOKENS:,} tokens the older part becomes a summary; all of it stays readable in the archive.",
    )


_ROOMS = ("the kitchen", "the study", "the attic", "the cellar", "the hall", "the nursery", "the bathroom", "the garage", "the bedroom")
_GOODS = ("plates", "letters", "winter coats", "jam jars", "umbrellas", "picture books", "towels", "spanners", "blankets")


def _boxes(day: int) -> list[tuple[int, tuple[str, str]]]:
    """What is packed on a day."""
    return list(enumerate(((f"{what} of shelf {day}", room) for what, room in zip(_GOODS, _ROOMS, strict=True)), 1))
