"""The request as it came and as it went: its messages side by side in order, words taken out and put in, tools left out.

In: two lists of messages. Out: `DiffStep` values, then HTML. Bounded in time: texts that are too long for a comparison by words are
compared by lines, and longer ones shown whole as taken out and put in.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from proxy.admin.dashboard.html import Child, Html, cut, el, own, shown
from proxy.exchange import tool_name
from proxy.language.amounts import many
from proxy.language.text import text_of

Kind = Literal["kept", "changed", "removed", "added"]
_WORD = re.compile(r"\s*(?:\w+|[^\w\s]|$)")
_MAX_STEPS = 1_000_000
"""Of a comparison: pieces of the one side times pieces of the other; some tenths of a second."""
_SHOWN_CHARS, _CONTEXT_CHARS, _PREVIEW_CHARS = 6000, 300, 90
_MAX_CHANGED, _MAX_KEPT = 150, 50
"""Messages that a page shows; a conversation may have thousands."""
_SIGNS: Mapping[Kind, str] = {"kept": "=", "changed": "±", "removed": "−", "added": "+"}
_MEANING: Mapping[Kind, str] = {"kept": "as it came", "changed": "changed", "removed": "left out", "added": "put in"}


class DiffStep(Struct, frozen=True):
    """One message, on one or both sides."""

    kind: Kind
    role: str
    before: str
    after: str


def steps(before: Sequence[Any], after: Sequence[Any]) -> list[DiffStep]:
    """The messages of both sides, matched in order."""
    ours, theirs = [_key(m) for m in before], [_key(m) for m in after]
    head = _same(ours, theirs)
    tail = _same(ours[head:][::-1], theirs[head:][::-1])
    i, j = len(ours) - tail, len(theirs) - tail
    return [*_kept(before[:head]), *_matched(before[head:i], after[head:j], ours[head:i], theirs[head:j]), *_kept(before[i:])]


def _same(one: Sequence[str], other: Sequence[str]) -> int:
    """How many both begin with."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _kept(messages: Sequence[Any]) -> list[DiffStep]:
    return [DiffStep("kept", _role(m), words, words) for m in messages for words in (_text(m),)]


def _matched(before: Sequence[Any], after: Sequence[Any], ours: Sequence[str], theirs: Sequence[str]) -> list[DiffStep]:
    if len(ours) * len(theirs) > _MAX_STEPS:
        return [*(DiffStep("removed", _role(m), _text(m), "") for m in before), *(DiffStep("added", _role(m), "", _text(m)) for m in after)]
    found: list[DiffStep] = []
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, ours, theirs).get_opcodes():
        found += _kept(before[i1:i2]) if tag == "equal" else _between(before[i1:i2], after[j1:j2])
    return found


def _between(before: Sequence[Any], after: Sequence[Any]) -> list[DiffStep]:
    """Between two places where both sides agree: messages of one role are the same one, changed; the others came or went."""
    roles_before, roles_after = [_role(m) for m in before], [_role(m) for m in after]
    found: list[DiffStep] = []
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, roles_before, roles_after).get_opcodes():
        if tag == "equal":
            found += [DiffStep("changed", _role(a), _text(a), _text(b)) for a, b in zip(before[i1:i2], after[j1:j2], strict=True)]
        else:
            found += [DiffStep("removed", _role(m), _text(m), "") for m in before[i1:i2]]
            found += [DiffStep("added", _role(m), "", _text(m)) for m in after[j1:j2]]
    return found


def shown_steps(found: Sequence[DiffStep]) -> Html:
    """The list; messages that came through as they were are folded."""
    counts = {kind: sum(step.kind == kind for step in found) for kind in _SIGNS}
    sums = ", ".join(f"{count:,} {_MEANING[kind]}" for kind, count in counts.items() if count)
    listed = _listed(found)
    more = f" {many(len(found) - len(listed), 'message')} not listed: the JSON has all." if len(listed) < len(found) else ""
    return el("div", el("p", f"{many(len(found), 'message')}: {sums}.{more}", class_="hint"), el("ol", map(_step, listed), class_="diff"))


def _listed(found: Sequence[DiffStep]) -> list[DiffStep]:
    """Those that a page has room for, in order: what changed before what did not."""
    changed = [i for i, step in enumerate(found) if step.kind != "kept"][:_MAX_CHANGED]
    kept = [i for i, step in enumerate(found) if step.kind == "kept"][-_MAX_KEPT:]
    return [found[i] for i in sorted([*changed, *kept])]


def _step(step: DiffStep) -> Html:
    mark = el("span", _SIGNS[step.kind], class_="mark", aria_hidden="true")
    size = f"{len(step.after or step.before):,} characters"
    preview = own(cut(" ".join((step.after or step.before)[: 4 * _PREVIEW_CHARS].split()), _PREVIEW_CHARS))
    head = el(
        "summary",
        mark,
        el("span", _MEANING[step.kind], class_="kind"),
        el("strong", own(step.role)),
        el("span", preview, class_="preview"),
        el("span", size, class_="dim size"),
    )
    body = _changes(step.before, step.after) if step.kind == "changed" else shown(cut(step.after or step.before, _SHOWN_CHARS))
    if step.kind == "removed":
        body = el("del", body)
    elif step.kind == "added":
        body = el("ins", body)
    return el("li", el("details", head, el("div", body, class_="text", dir="auto"), open=step.kind != "kept"), class_=step.kind)


def _changes(before: str, after: str) -> Html:
    """Words taken out and put in; long stretches that are the same are cut in their middle."""
    old, new = _WORD.findall(before), _WORD.findall(after)
    head = _same(old, new)
    tail = _same(old[head:][::-1], new[head:][::-1])
    i, j = len(old) - tail, len(new) - tail
    first, last = "".join(old[:head]), "".join(old[i:])
    return el("div", shown(_middle_cut(first)), _differing(old[head:i], new[head:j]), shown(_middle_cut(last)))


def _differing(old: Sequence[str], new: Sequence[str]) -> list[Child]:
    """By words, else by lines, else as a whole."""
    for split in (False, True):
        if split:
            old, new = "".join(old).splitlines(keepends=True), "".join(new).splitlines(keepends=True)
        if len(old) * len(new) <= _MAX_STEPS:
            codes = difflib.SequenceMatcher(None, old, new).get_opcodes()
            return [_piece(tag, "".join(old[i1:i2]), "".join(new[j1:j2])) for tag, i1, i2, j1, j2 in codes]
    return [_piece("replace", "".join(old), "".join(new))]


def _piece(tag: str, gone: str, come: str) -> Child:
    if tag == "equal":
        return shown(_middle_cut(gone))
    taken_out = el("del", shown(cut(gone, _SHOWN_CHARS))) if gone else None
    return taken_out, el("ins", shown(cut(come, _SHOWN_CHARS))) if come else None


def _middle_cut(text: str) -> str:
    left_out = len(text) - 2 * _CONTEXT_CHARS
    if left_out < _CONTEXT_CHARS:
        return text
    return f"{text[:_CONTEXT_CHARS]} … {left_out:,} characters as they came … {text[-_CONTEXT_CHARS:]}"


def shown_tools(before: Sequence[Any], after: Sequence[Any]) -> Html | None:
    """Which tools went to the model; None where there were none."""
    names = [tool_name(tool) for tool in before if isinstance(tool, Mapping)]
    kept = [tool_name(tool) for tool in after if isinstance(tool, Mapping)]
    if not names and not kept:
        return None
    left_out, added = [n for n in names if n not in kept], [n for n in kept if n not in names]
    groups = (("Sent", [n for n in kept if n in names], "kept"), ("Put in", added, "added"), ("Left out", left_out, "removed"))
    lists = [
        el(
            "details",
            el("summary", f"{title}: {many(len(some), 'tool')}"),
            el("ul", [el("li", own(n)) for n in some], class_=f"names {kind}"),
            open=kind == "added" or len(some) <= 8,
        )
        for title, some, kind in groups
        if some
    ]
    return el("div", el("h3", f"Tools: {len(names)} offered, {len(kept)} sent"), lists)


def _key(message: Any) -> str:
    return json.dumps(message, sort_keys=True, ensure_ascii=False)


def _role(message: Any) -> str:
    role = message.get("role") if isinstance(message, Mapping) else None
    return role if isinstance(role, str) else "message"


def _text(message: Any) -> str:
    """What a message says: its text, and whatever else it has as JSON."""
    if not isinstance(message, Mapping):
        return _pretty(message)
    content = message.get("content")
    said = text_of(content)
    rest = {name: value for name, value in message.items() if name not in ("role", "content") and value is not None}
    other = (
        [p for p in content if not (isinstance(p, Mapping) and p.get("type") in ("text", "output_text"))]
        if isinstance(content, list)
        else []
    )
    return "\n".join(piece for piece in (said, *(_pretty(part) for part in other), _pretty(rest) if rest else "") if piece)


def _pretty(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)
