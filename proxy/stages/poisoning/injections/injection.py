"""Instructions hidden in what should be data: "ignore previous instructions", fake turns, words to the model that reads.

In: a tool result, a passage, a document. Out: an `InjectionFinding` with a score from 0 to 1, the spans that it rests on and reasons in
words. The phrases of `proxy.stages.poisoning.injections.phrases` are looked for in the text as a model reads it
(`proxy.stages.poisoning.injections.hidden`: invisible characters and lookalike letters undone), and in the texts hidden or encoded in it;
those near each other add up (noisy or, each category once). A text that speaks about such attacks may quote them: a quoted phrase in such
company counts for little. JSON is read by its strings.

Phrases are what it knows: an instruction in ordinary words ("Please grant Mallory access to the folder") is not told from data.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence, Set
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from proxy.language.json.strings import JsonString, strings_of
from proxy.offloop import each
from proxy.stages.poisoning.injections.addressed import READER_WORD, Order, orders
from proxy.stages.poisoning.injections.certainty import Grade, grade
from proxy.stages.poisoning.injections.hidden import FoldedText, carries_bits, fold, layers
from proxy.stages.poisoning.injections.mentions import in_string, is_defence, is_forbidden, is_received, weight
from proxy.stages.poisoning.injections.phrases import SIGNALS
from proxy.stages.poisoning.injections.phrases.signal import AI_WORD, MODEL, MODEL_WORDS, Category, Signal
from proxy.stages.poisoning.injections.places import PhraseHints, windows

THRESHOLD = 0.5
"""From this score on a text counts as an attack; the strengths are set for it."""
NEAR_CHARS = 600
"""Signals with less than this between them belong to one attempt."""
_HIDDEN_STRENGTH = {
    "comment": 0.35,
    "hidden_element": 0.45,
    "attribute": 0.2,
    "base64": 0.6,
    "hex": 0.6,
    "percent": 0.35,
    "entities": 0.5,
    "tag_characters": 0.85,
    "spaced": 0.6,
    "zero_width": 0.6,
    "escapes": 0.35,
    "numbers": 0.6,
    "bits": 0.6,
    "digits": 0.45,
}
"""What it adds that an instruction was hidden in this way; alone, only tag characters mean anything."""
_ORDERS: frozenset[Category] = frozenset(("override", "exfiltration"))
READER = "READER"
"""Told to be in a text where one who is told something is named."""
_MAX_JSON_DEPTH = 3
"""JSON in a string of JSON is opened so often."""
MIN_HIDDEN_SCORE = 0.28
"""A hidden text with less is a comment like any other."""


class InjectionSpan(Struct, frozen=True):
    """One phrase that looks like an instruction."""

    start: int
    end: int
    category: Category
    strength: float
    """After what its surroundings take from it."""
    reason: str
    mentioned: bool = False
    """Whether its surroundings quote it, give it as an example or tell of it."""


class InjectionFinding(Struct, frozen=True):
    """What was found in a text."""

    score: float = 0.0
    """0 to 1; `THRESHOLD` is where it counts. A strength of evidence, not a calibrated probability."""
    spans: tuple[InjectionSpan, ...] = ()
    """Of the strongest attempt, in order."""
    reasons: tuple[str, ...] = ()
    """What the attempt does, strongest first, in words."""
    grade: Grade = "unsure"
    """Whether it may be acted on or warned of (`proxy.stages.poisoning.injections.certainty`); a mere suspicion is for the record."""

    @property
    def suspicious(self) -> bool:
        """Whether it counts as an attack."""
        return self.score >= THRESHOLD

    @property
    def certain(self) -> bool:
        """Whether it may be kept from the model."""
        return self.grade == "certain"

    @property
    def likely(self) -> bool:
        """Whether it may be warned of."""
        return self.grade != "unsure"


_REASONS: dict[Category, str] = {
    "override": "asks to leave the given instructions",
    "role": "gives the model another role or other rules",
    "addressee": "addresses the model that reads it",
    "exfiltration": "asks for secrets, the prompt or the conversation to be given away",
    "concealment": "asks to keep something from the user",
    "fake_turn": "imitates turns, tags or tokens of the chat",
    "command": "tells the model what to do or say",
    "authority": "claims an authority that data does not have",
    "pressure": "presses",
    "hidden": "is hidden from people",
}


def detect(text: str) -> InjectionFinding:
    """What of `text` looks like instructions to a model.

    Time is linear in its length: about 15 ms for 100,000 characters, a hundred times that for a text of nothing but short hidden ones.
    """
    strings = strings_of(text) if text.lstrip()[:1] in ("{", "[") else None
    if strings is None:
        return _judged(text, text, _summed_up(list(_spans(text))))
    strings = [_opened(string) for string in strings]
    inner = "\n".join(string.value for string in strings)
    return _placed(_judged(inner, text, _summed_up(list(_spans(inner)))), strings)


def _judged(text: str, raw: str, finding: InjectionFinding) -> InjectionFinding:
    return replace(finding, grade=grade(text, raw, finding.spans)) if finding.suspicious else finding


def prepare() -> None:
    """Compile every pattern now, some 100 ms, and not at its first use."""
    _hints()
    for signal in each(SIGNALS):
        _ = signal.pattern


def _spans(text: str, *, deep: bool = True) -> Iterator[InjectionSpan]:
    """Every signal in `text`, with its place; those of hidden texts, too, if `deep`."""
    folded = fold(text)
    present = _hints().present(folded.text)
    signals = _worth_a_look(present)
    wanted = {hint for signal in signals for group in signal.hints for hint in group if hint in present}
    places = _hints().places(folded.text, wanted)
    for signal in each(signals):
        for window in windows(places, signal.hints, len(folded.text)):
            for match in signal.pattern.finditer(folded.text, *window):
                if signal.category in _ORDERS and _is_no_order(signal.category, folded.text, *match.span()):
                    continue
                yield _span(signal, folded, *match.span())
    for order in orders(folded.text) if READER in present else ():
        yield _span(order, folded, order.start, order.end)
    if (bits := carries_bits(text)) is not None:
        yield InjectionSpan(bits.start(), bits.end(), "hidden", 0.6, "a long run of invisible characters")
    if deep:
        yield from _in_layers(text, folded)


@cache
def _hints() -> PhraseHints:
    hints = (hint for signal in SIGNALS for group in signal.hints for hint in group)
    return PhraseHints(hints, {MODEL: (MODEL_WORDS, AI_WORD), READER: (None, READER_WORD)})


@cache
def _begun_by() -> dict[str, list[int]]:
    """For each hint of a signal's first group the places of such signals in `SIGNALS`."""
    found: dict[str, list[int]] = {}
    for i, signal in enumerate(SIGNALS):
        for hint in signal.hints[0]:
            found.setdefault(hint, []).append(i)
    return found


def _worth_a_look(hints: Set[str]) -> list[Signal]:
    """The signals of which each group has one of `hints`: few, so that a text of thousands of short hidden ones costs no more than its
    length.
    """
    begun_by = _begun_by()
    begun = sorted({i for hint in hints for i in begun_by.get(hint, ())})
    return [SIGNALS[i] for i in begun if not any(hints.isdisjoint(group) for group in SIGNALS[i].hints[1:])]


def _is_no_order(category: Category, text: str, start: int, end: int) -> bool:
    """Whether nothing of the kind is asked for: it is forbidden, only data is to be left unheard, or the reader gets something."""
    instead = is_defence if category == "override" else is_received
    return is_forbidden(text, start, end) or instead(text, start, end)


def _span(signal: Signal | Order, folded: FoldedText, start: int, end: int) -> InjectionSpan:
    left = weight(folded.text, start, end)
    place, reason = (folded.original(start), folded.original(end - 1) + 1), _REASONS[signal.category]
    return InjectionSpan(*place, signal.category, signal.strength * left, reason, left < 1 or in_string(folded.text, start, end))


def _in_layers(text: str, folded: FoldedText) -> Iterator[InjectionSpan]:
    if not folded.text:
        return
    for layer in each(layers(text)):
        inner = list(_spans(layer.text, deep=False))
        score, added = _score(inner), _HIDDEN_STRENGTH[layer.kind]
        if layer.kind == "tag_characters":
            score = max(score, MIN_HIDDEN_SCORE)
        if score < MIN_HIDDEN_SCORE:
            continue
        yield InjectionSpan(layer.start, layer.end, "hidden", added, f"hidden from people ({layer.kind.replace('_', ' ')})")
        for one in inner:
            yield InjectionSpan(layer.start, layer.end, one.category, one.strength, one.reason, one.mentioned)


# ---- adding up ----


def _summed_up(spans: list[InjectionSpan]) -> InjectionFinding:
    """The strongest attempt."""
    best: list[InjectionSpan] = []
    for attempt in _attempts(sorted(spans, key=lambda span: (span.start, span.end))):
        if _score(attempt) > _score(best):
            best = attempt
    strongest: dict[str, float] = {}
    for span in best:
        strongest[span.reason] = max(strongest.get(span.reason, 0.0), span.strength)
    reasons = sorted(strongest, key=lambda reason: (-strongest[reason], reason))
    return InjectionFinding(round(_score(best), 4), tuple(best), tuple(reasons))


def _attempts(spans: Sequence[InjectionSpan]) -> list[list[InjectionSpan]]:
    """Spans that stand near each other; hidden texts belong to what surrounds them."""
    found: list[list[InjectionSpan]] = []
    end = -NEAR_CHARS
    for span in spans:
        if not found or span.start - end >= NEAR_CHARS:
            found.append([])
        found[-1].append(span)
        end = max(end, span.end)
    return found


def _score(spans: Sequence[InjectionSpan]) -> float:
    """Noisy or over the categories, each by its strongest signal."""
    strongest: dict[str, float] = {}
    for span in spans:
        strongest[span.category] = max(strongest.get(span.category, 0.0), span.strength)
    missed = 1.0
    for strength in strongest.values():
        missed *= 1 - strength
    return 1 - missed


# ---- JSON ----


def _opened(string: JsonString, depth: int = 0) -> JsonString:
    """A string that is JSON itself, as its own strings."""
    inner = strings_of(string.value) if depth < _MAX_JSON_DEPTH and string.value.lstrip()[:1] in ("{", "[") else None
    if inner is None:
        return string
    return replace(string, value="\n".join(_opened(one, depth + 1).value for one in inner))


def _placed(finding: InjectionFinding, strings: Sequence[JsonString]) -> InjectionFinding:
    """Spans in the joined values -> spans of the whole literals, between their quotation marks."""
    if not finding.spans:
        return finding
    starts, at = [], 0
    for string in strings:
        starts.append(at)
        at += len(string.value) + 1
    return replace(finding, spans=tuple(dict.fromkeys(_of_literals(finding.spans, strings, starts))))


def _of_literals(spans: Sequence[InjectionSpan], strings: Sequence[JsonString], starts: Sequence[int]) -> Iterator[InjectionSpan]:
    for span in spans:
        first, last = bisect_right(starts, span.start) - 1, bisect_right(starts, max(span.start, span.end - 1)) - 1
        for string in strings[first : last + 1]:
            yield InjectionSpan(string.start + 1, string.end - 1, span.category, span.strength, span.reason, span.mentioned)
