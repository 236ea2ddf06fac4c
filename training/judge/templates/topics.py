"""A topic filled in: a document of some of its sentences, and what follows from them, goes against them, or does neither.

Some sentences are left out of the document, and what is said of them has nothing to rest on. In: a template and a random generator.
Out: a `MadeDocument`.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable

from training.grounding.data import CONTRADICTED, SUPPORTED, UNSUPPORTED
from training.judge.templates.reading import Item, MadeDocument, Statement, TopicTemplate

_SLOT = re.compile(r"\{([a-z0-9]+)(!?)\}")
_LEFT_OUT = 4
"""One sentence in so many."""
_FORMS: tuple[Callable[[list[str]], str], ...] = (
    " ".join,
    " ".join,
    "\n".join,
    "\n\n".join,
    lambda said: "\n".join(f"- {one}" for one in said),
    lambda said: "\n".join(f"{i}. {one}" for i, one in enumerate(said, 1)),
)

Shown = Counter[tuple[str, str]]
"""How often each statement of a topic was shown: those seen least come first, as one that always has one label can be learnt by heart."""


def filled(topic: TopicTemplate, rng: random.Random, shown: Shown | None = None) -> MadeDocument:
    """A document of three to nine of its sentences."""
    shown = Counter() if shown is None else shown
    items = rng.sample(topic.items, min(len(topic.items), rng.randrange(3, 10)))
    values = [{name: rng.choice(slot) for name, slot in item.slots.items()} for item in items]
    said = [_filled(item.doc, item, own, rng) for item, own in zip(items, values, strict=True)]
    out = set(rng.sample(range(len(items)), len(items) // _LEFT_OUT))
    text = rng.choice(_FORMS)([one for i, one in enumerate(said) if i not in out])
    if rng.random() < 0.4:
        text = f"# {topic.topic[:1].upper()}{topic.topic[1:]}\n\n{text}"
    statements: list[Statement] = []
    for i, (item, own) in enumerate(zip(items, values, strict=True)):
        yes, no, maybe = (
            [_filled(template, item, own, rng) for template in _least_shown(templates, most, topic, shown, rng)]
            for templates, most in ((item.yes, 2), (item.no, 2), (item.maybe, 1))
        )
        if i in out:
            statements.append(Statement(rng.choice([*yes, *no]), UNSUPPORTED, f"s{i}"))
            continue
        labelled = [*((one, SUPPORTED) for one in yes), *((one, CONTRADICTED) for one in no), *((one, UNSUPPORTED) for one in maybe)]
        statements += (Statement(one, target, f"s{i}", sentences=(said[i],)) for one, target in labelled)
    return MadeDocument(topic.topic, topic.lang, "prose", text, tuple(statements))


def _least_shown(templates: tuple[str, ...], most: int, topic: TopicTemplate, shown: Shown, rng: random.Random) -> list[str]:
    chosen = sorted(templates, key=lambda template: (shown[topic.topic, template], rng.random()))[:most]
    shown.update((topic.topic, template) for template in chosen)
    return chosen


def _filled(template: str, item: Item, values: dict[str, str], rng: random.Random) -> str:
    def value(slot: re.Match[str]) -> str:
        own = values[slot[1]]
        return rng.choice([other for other in item.slots[slot[1]] if other != own]) if slot[2] else own

    return _SLOT.sub(value, template)
