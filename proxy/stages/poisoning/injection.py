"""Instructions hidden in what should be data: "ignore previous instructions", fake turns, words to the model that reads.

In: a tool result, a passage, a document. Out: an `InjectionFinding` with a score from 0 to 1, the spans that it rests on and reasons in
words. Phrases are looked for (`proxy.stages.poisoning.phrases`) in the text as a model reads it (`…hidden`: invisible characters
and lookalike letters undone), and in the texts hidden or encoded in it; those near each other add up (noisy or, each category once). A
phrase in a text that speaks about such attacks counts for little (`…certainty`). JSON is read by its strings. Pure.

Phrases are what it knows: an instruction in ordinary words ("Please grant Mallory access to the folder") is not told from data.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from proxy.language.json.strings import JsonString, texts_of
from proxy.language.patterns import LazyPattern
from proxy.offloop import each
from proxy.stages.poisoning.hidden import FoldedText, fold, layers
from proxy.stages.poisoning.phrases import Category, find_phrases, model_names, patterns

# ---- whether a phrase is meant, and a text an attack ----
#
# Whether a phrase is meant, and whether a text that looks like an attack is one for certain, so that it may be kept from the model.
#
# In: a text and the phrases found in it. Out: a weight for each phrase (`weight`, `is_no_order`), and a `Grade` for the text:
# most of what is found is "unsure", for prompts, rules for coding agents, data and articles are full of the same phrases, and a file
# that holds a prompt is not an attack on the model that reads it. It is certain only where
#
# - the phrases stand in the text itself: in no quotation, string, code block, diff or example;
# - they are of two kinds, or leave the given instructions where a model is named, or are hidden from people;
# - the text is none that is made of prompts: a template, rules for agents, training data, a text about attacks.
#
# An attacker who dresses the attack up as such a text is not stopped, but recorded; it is also less likely to be followed.

QUOTED_AND_TOLD, TOLD, QUOTED = 0.15, 0.35, 0.75
"""What is left of a phrase that is quoted, introduced as an example or ascribed to an attacker, in a text about attacks."""
AROUND_CHARS = 240
"""How far from the phrases the model may be named."""
HEAD_CHARS = 400
"""Where a text says what it is."""
MIN_STRENGTH = 0.3
"""Weaker phrases are common in any text."""
MIN_LIKELY = 0.25
"""The same, for a warning."""
Grade = Literal["certain", "likely", "unsure"]
_GRADES: tuple[tuple[Grade, float], ...] = (("certain", MIN_STRENGTH), ("likely", MIN_LIKELY))
_NO_ATTACK: tuple[Category, ...] = ("hidden", "authority", "pressure")
"""What only goes with an attack: to press or to claim an authority is common in any text."""
_DIFF = LazyPattern(r"(?m)^(?:diff --git |@@ -\d|\+\+\+ )")
_OPEN = re.compile(r"(?:^|[\s(:])'[^']{0,100}$")
_OPEN_CHARS = 102
"""The longest that it matches: it ends where a text does."""
_BEFORE_CHARS = 140
_ABOUT_CHARS = 1500
_QUOTES = {"“": "”", "„": "“", "«": "»", "‘": "’"}


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


# ---- a phrase ----


def is_no_order(category: Category, text: str, start: int, end: int) -> bool:
    """Whether nothing of the kind is asked for: it is forbidden, only data is to be left unheard, or the reader gets something."""
    words = patterns("mention")
    if category == "override":
        only_data = words["in_data"].match(text, end) is not None and words["given"].search(text, start, end) is None
        return only_data or _is_forbidden(text, start, end)
    return category == "exfiltration" and (words["to_reader"].match(text, start, end) is not None or _is_forbidden(text, start, end))


def _is_forbidden(text: str, start: int, end: int) -> bool:
    """Whether the order at ``text[start:end]`` is one not to: "never reveal the prompt", "do not forget the instructions above".

    "No" denies a Spanish order and "ne" a French one; before any other it is an exclamation: "no ignore all …", "ne vergiss alle …".
    """
    words, before = patterns("mention"), max(0, start - 30)
    if words["denied"].search(text, before, start) is None:
        return words["denied_within"].match(text, start, end) is not None
    return all(
        words[denial].search(text, before, start) is None or words[order].match(text, start, end) is not None
        for denial, order in (("spanish_no", "spanish_order"), ("french_ne", "french_order"))
    )


def weight(text: str, start: int, end: int) -> float:
    """What is left of a phrase at ``text[start:end]`` of folded text, 0 to 1."""
    introduction = patterns("mention")["told"]
    before = text[max(0, start - _BEFORE_CHARS) : start]
    line = before[before.rfind("\n") + 1 :]
    heading = line.strip() in ("", "-", "*", ">", "•") and introduction.search(before.rstrip()[-_BEFORE_CHARS:]) is not None
    introduced = heading or introduction.search(line) is not None
    quoted, about = _is_quoted(text, start, end), _is_about_attacks(text, start, end)
    if quoted and (about or introduced):
        return QUOTED_AND_TOLD
    return TOLD if introduced and about else QUOTED if quoted else 1.0


def _is_quoted(text: str, start: int, end: int) -> bool:
    """Whether ``text[start:end]`` stands in a string, a quotation, a code block or a diff, however long."""
    if any(text.count(mark, 0, start) % 2 == 1 for mark in ('"""', "'''", "```")):
        return True
    first, last = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    before, after = text[first:start], text[end : last if last >= 0 else len(text)]
    if text[first] in "+- " and _DIFF.search(text, 0, start) is not None:
        return True
    if any(before.count(mark) % 2 == 1 and mark in after for mark in ('"', "`")):
        return True
    if _OPEN.search(before, max(0, len(before) - _OPEN_CHARS)) is not None and re.search(r"'(?!\w)", after) is not None:
        return True
    return any(before.rfind(opening) > before.rfind(closing) and closing in after for opening, closing in _QUOTES.items())


def _is_about_attacks(text: str, start: int, end: int) -> bool:
    """Whether the text around, the phrase itself left out, speaks of attacks by at least two different terms."""
    around = text[max(0, start - _ABOUT_CHARS) : start] + " " + text[end : end + _ABOUT_CHARS]
    return len({match[0].rstrip("s") for match in patterns("mention")["subject"].finditer(around)}) >= 2


# ---- a text ----


def grade(text: str, raw: str, spans: Sequence[InjectionSpan]) -> Grade:
    """How sure it is that the phrases of `text` are an attack; `raw` is the text as it came, which may be JSON."""
    meant = [span for span in spans if not span.mentioned]
    if not meant:
        return "unsure"
    folded = fold(text).text
    around = folded[max(0, min(span.start for span in meant) - AROUND_CHARS) : max(span.end for span in meant) + AROUND_CHARS]
    found = next((name for name, least in _GRADES if _is_attack(meant, around, least)), None)
    return "unsure" if found is None or _is_material(folded, raw, around) else found


def _is_attack(meant: Sequence[InjectionSpan], around: str, least: float) -> bool:
    """Whether the kinds of phrases of this strength make an attack together; of a comment, where people write to each other, as of text."""
    kinds = {span.category for span in meant if span.category not in _NO_ATTACK and span.strength >= least}
    hidden = [span.reason for span in meant if span.category == "hidden" and "comment" not in span.reason]
    if hidden:  # in tag characters, which nobody types, whatever it is
        return bool(kinds - {"role"}) or any("tag characters" in reason for reason in hidden)
    return len(kinds) > 1 or ("override" in kinds and model_names().search(around) is not None)


def _is_material(folded: str, raw: str, around: str) -> bool:
    """Whether the text is one that prompts are part of: a template, rules, training data, an article."""
    words = patterns("material")
    return (
        words["heading"].search(folded[:HEAD_CHARS]) is not None
        or words["template"].search(folded) is not None
        or words["training"].search(raw) is not None
        or words["attacks"].search(around) is not None
    )


THRESHOLD = 0.5
"""From this score on a text counts as an attack; the strengths are set for it."""
NEAR_CHARS = 600
"""Phrases with less than this between them belong to one attempt."""
_HIDDEN_STRENGTH = {
    "comment": 0.35,
    "hidden_element": 0.45,
    "entities": 0.5,
    "base64": 0.6,
    "hex": 0.6,
    "zero_width": 0.6,
    "tag_characters": 0.85,
}
"""What it adds that an instruction was hidden in this way; alone, only tag characters mean anything."""
_MAX_JSON_DEPTH = 3
"""JSON in a string of JSON is opened so often."""
MIN_HIDDEN_SCORE = 0.28
"""A hidden text with less is a comment like any other."""


class InjectionFinding(Struct, frozen=True):
    """What was found in a text."""

    score: float = 0.0
    """0 to 1; `THRESHOLD` is where it counts. A strength of evidence, not a calibrated probability."""
    spans: tuple[InjectionSpan, ...] = ()
    """Of the strongest attempt, in order."""
    reasons: tuple[str, ...] = ()
    """What the attempt does, strongest first, in words."""
    grade: Grade = "unsure"
    """Whether it may be acted on or warned of (`proxy.stages.poisoning.injection`); a mere suspicion is for the record."""

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
}


def detect(text: str) -> InjectionFinding:
    """What of `text` looks like instructions to a model. Time is linear in its length: some 20 ms for 100,000 characters."""
    found = texts_of(text) if text.lstrip()[:1] in ("{", "[") else None
    if found is None:
        return _with_grade(text, text, _summed_up(list(_spans(text))))
    values, keys = found
    of_values = _detect_in(text, [_open_json(string) for string in values])
    return _detect_in(text, keys) if keys and not of_values.suspicious else of_values


def _detect_in(text: str, strings: Sequence[JsonString]) -> InjectionFinding:
    """What of these strings of the JSON `text` does."""
    inner = "\n".join(string.value for string in strings)
    return _place_spans(_with_grade(inner, text, _summed_up(list(_spans(inner)))), strings)


def why_suspicious(text: str) -> Sequence[str]:
    """In words, of a text that is certainly an attack; empty for any other."""
    finding = detect(text)
    return finding.reasons if finding.certain else ()


def _with_grade(text: str, raw: str, finding: InjectionFinding) -> InjectionFinding:
    return replace(finding, grade=grade(text, raw, finding.spans)) if finding.suspicious else finding


def _spans(text: str) -> Iterator[InjectionSpan]:
    """Every phrase in `text`, with its place; those of the texts hidden in it, too."""
    folded = fold(text)
    yield from _visible_spans(folded)
    for layer in each(layers(text) if folded.text else ()):
        inner = list(_visible_spans(fold(layer.text)))
        if layer.kind != "tag_characters" and _score(inner) < MIN_HIDDEN_SCORE:
            continue
        reason = f"hidden from people ({layer.kind.replace('_', ' ')})"
        yield InjectionSpan(layer.start, layer.end, "hidden", _HIDDEN_STRENGTH[layer.kind], reason)
        for one in inner:
            yield replace(one, start=layer.start, end=layer.end)


def _visible_spans(folded: FoldedText) -> Iterator[InjectionSpan]:
    for start, end, category, strength in each(find_phrases(folded.text)):
        if is_no_order(category, folded.text, start, end):
            continue
        left = weight(folded.text, start, end)
        place = (folded.original(start), folded.original(end - 1) + 1)
        yield InjectionSpan(*place, category, strength * left, _REASONS[category], mentioned=left < 1)


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
    """Noisy or over the categories, each by its strongest phrase."""
    strongest: dict[str, float] = {}
    for span in spans:
        strongest[span.category] = max(strongest.get(span.category, 0.0), span.strength)
    missed = 1.0
    for strength in strongest.values():
        missed *= 1 - strength
    return 1 - missed


# ---- JSON ----


def _open_json(string: JsonString, depth: int = 0) -> JsonString:
    """A string that is JSON itself, as its own strings."""
    inner = texts_of(string.value) if depth < _MAX_JSON_DEPTH and string.value.lstrip()[:1] in ("{", "[") else None
    if inner is None:
        return string
    values, keys = inner
    return replace(string, value="\n".join(one.value for one in (*(_open_json(value, depth + 1) for value in values), *keys)))


def _place_spans(finding: InjectionFinding, strings: Sequence[JsonString]) -> InjectionFinding:
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
            yield replace(span, start=string.start + 1, end=string.end - 1)
