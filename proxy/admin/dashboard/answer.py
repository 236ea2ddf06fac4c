"""An answer with its sentences marked by what was found of them, and beside it each finding with its evidence.

In: the answer's text and the claims that the stage `claims` has listed. A mark is a link to its finding; each verdict has a colour, a sign
and a kind of underline. Positions are checked against the text before they are used: secrets are masked after claims are placed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from proxy.admin.dashboard.html import Child, Html, block, el, own, shown
from proxy.admin.dashboard.summaries import part
from proxy.language.amounts import score

LABELS = {
    "supported": ("✓", "supported", "the context says so"),
    "contradicted": ("✕", "contradicted", "the context says otherwise"),
    "unsupported": ("?", "not supported", "the context does not say so"),
    "unsure": ("~", "unsure", "no value decides it, and a model's opinion alone does not"),
    "error": ("!", "not checked", "the check could not run"),
    "not_checkable": ("–", "nothing to check", "it states no fact"),
}
_START_CHARS = 12


class ShownClaim(Struct, frozen=True):
    """One entry of the record's list."""

    number: int
    choice: int
    start: int
    end: int
    label: str
    text: str
    entry: Mapping[str, Any]

    @property
    def place(self) -> str:
        """As `proxy.admin.feedback` names it."""
        return f"{self.choice}:{self.start}-{self.end}"

    @property
    def anchor(self) -> str:
        """Of its finding."""
        return f"claim-{self.number}"


def claims_of(entries: Sequence[Mapping[str, Any]]) -> list[ShownClaim]:
    """The entries that have what a mark needs, numbered from 1 in the answer's order."""
    found = []
    for entry in entries:
        span, label = entry.get("span"), entry.get("label")
        if isinstance(span, list) and len(span) == 2 and all(isinstance(at, int) for at in span) and label in LABELS:
            choice = entry.get("choice", 0)
            found.append((choice if isinstance(choice, int) else 0, span[0], span[1], str(label), str(entry.get("text", "")), entry))
    found.sort(key=lambda one: one[:3])
    return [ShownClaim(number, *one) for number, one in enumerate(found, 1)]


def placed(claims: Sequence[ShownClaim], text: str) -> list[ShownClaim]:
    """Those that stand where they say, without overlaps, in order."""
    found: list[ShownClaim] = []
    for claim in claims:
        after = found[-1].end if found else 0
        if after <= claim.start < claim.end <= len(text) and _there(claim.text, text[claim.start : claim.end]):
            found.append(claim)
    return found


def _there(claim: str, piece: str) -> bool:
    """Whether the piece begins with the claim's words, marks of list, emphasis and table aside."""
    words, said = _letters(claim), _letters(piece)
    return not words or words[:_START_CHARS] in said or said[:_START_CHARS] in words


def _letters(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())


def marked(text: str, claims: Sequence[ShownClaim]) -> Html:
    """The text with its marks."""
    parts: list[Child] = []
    last = 0
    for claim in placed(claims, text):
        parts += [shown(text[last : claim.start]), _mark(claim, text[claim.start : claim.end])]
        last = claim.end
    return el("div", parts, shown(text[last:]), class_="text answer", dir="auto")


def _mark(claim: ShownClaim, text: str) -> Html:
    sign, word, _ = LABELS[claim.label]
    if claim.label == "not_checkable":
        return el("span", shown(text), class_="said not_checkable")
    head = el("span", sign, class_="sign", aria_hidden="true")
    return el("a", head, el("span", f"{word}: ", class_="vh"), shown(text), href=f"#{claim.anchor}", class_=f"said {claim.label}")


def findings(claims: Sequence[ShownClaim], left_out: int = 0, ask: Callable[[ShownClaim], Html] | None = None) -> Html:
    """The list of what was found, each with its evidence; `ask` makes the form on which a person says whether one is right."""
    checked = [claim for claim in claims if claim.label != "not_checkable"]
    rest = len(claims) - len(checked)
    said = [f"{rest} more state nothing that could be checked." if rest else "", f"{left_out} more are not listed." if left_out else ""]
    more = " ".join(filter(None, said))
    return el(
        "div",
        el("ol", [_finding(claim, ask) for claim in checked], class_="findings"),
        el("p", more, class_="hint") if more else None,
    )


def _finding(claim: ShownClaim, ask: Callable[[ShownClaim], Html] | None) -> Html:
    sign, word, meaning = LABELS[claim.label]
    entry = claim.entry
    sure = f"; {score(value)} probable" if isinstance(value := entry.get("score"), int | float) else ""
    head = el("p", el("span", sign, class_="mark", aria_hidden="true"), el("strong", word), el("span", f" – {meaning}{sure}", class_="dim"))
    evidence = part(entry, "evidence")
    told: list[Child] = [head, el("p", own(claim.text), class_="claim", dir="auto")]
    if instead := entry.get("instead"):
        told.append(el("p", "Instead the context says: ", el("strong", own(str(instead)))))
    if evidence:
        told.append(el("blockquote", block(str(evidence.get("text", "")), "text small"), el("footer", _whence(evidence))))
    elif claim.label in ("unsupported", "unsure", "contradicted"):
        told.append(el("p", "No piece of the context comes near it.", class_="dim"))
    if reason := entry.get("reason"):
        told.append(el("p", "Why: ", own(str(reason)), class_="dim"))
    if verifier := entry.get("verifier"):
        told.append(el("p", "Checked by ", own(str(verifier)), class_="dim"))
    if ask is not None:
        told.append(ask(claim))
    return el("li", told, id=claim.anchor, class_=claim.label, tabindex=-1, value=claim.number)


def _whence(evidence: Mapping[str, Any]) -> Html:
    """Where the evidence stood."""
    kind = str(evidence.get("kind", "context")).replace("_", " ")
    source, index = evidence.get("source"), evidence.get("message_index")
    parts: list[Child] = [kind]
    if source:
        parts += [", ", own(str(source))]
    if isinstance(index, int):
        parts.append(f", message {index + 1}")
    return el("span", parts)


def legend() -> Html:
    """What the marks mean."""
    items = [
        el("li", el("span", el("span", sign, class_="sign", aria_hidden="true"), word, class_=f"said {label}"))
        for label, (sign, word, _) in LABELS.items()
        if label != "not_checkable"
    ]
    return el("ul", items, class_="legend said-legend", aria_label="What the marks mean")
