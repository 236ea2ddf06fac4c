"""What a text works out in so many words, and what follows from an empty result: "2 + 3 = 6", "none were found", "all tests pass".

In: a statement of an answer, and all that was said. Out: whether a calculation that it writes out is right (`calculation`), whether it is
so of a result without members or failures (`follows`). Pure.
"""
# ruff: noqa: E501 - a pattern is read alternative by alternative

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

_EQUATION = re.compile(
    r"(?<![\w.,+*/×·÷−–-])(?<!\d[ \u00a0\u202f])(?P<left>\$?\d[\d.,]{0,14}[€$%]?(?:[ ]{0,2}[-+*/×·÷−–x][ ]{0,2}\$?\d[\d.,]{0,14}[€$%]?){1,9})"
    r"[ ]{0,2}=[ ]{0,2}(?P<right>[€$]?-?\d[\d.,]{0,14})(?![\d%]|[.,]\d|[ \u00a0\u202f]\d{3}(?!\d)|[ ]{0,2}[-+*/×·÷−–])"
)
_TERM = re.compile(r"([-+*/×·÷−–x]?)[ ]{0,2}\$?(\d[\d.,]{0,14})")
_TOTAL_OF = re.compile(
    r"\b(?:total|sum|summe|suma|somme) (?:of|von|aus|de) (?P<a>\d[\d.,]{0,14}) (?:and|und|y|et) (?P<b>\d[\d.,]{0,14})"
    r" (?:is|equals|makes|ist|beträgt|ergibt|es|est|fait) (?P<c>\d[\d.,]{0,14})(?![\d%])",
    re.I,
)
_NONE = re.compile(
    r"\b(?:no|none|nothing|not any|zero|empty|(?:did|could|were|was|is|are|have|has) ?n[o'’]t|without|keine?[rns]?|nichts|leer|ohne|nicht"
    r"|ning[uú]n[oa]?s?|nada|vac[ií][oa]s?|sin|aucune?s?|rien|vide|pas)\b",
    re.I,
)
_FOUND = re.compile(
    r"\b(?:result\w*|match\w*|found|find|item\w*|entr\w+|record\w*|hit\w?|there|list\w*|available|exist\w*|return\w*|response"
    r"|ergebnis\w*|treffer\w*|gefunden|einträge?\w*|gibt|vorhanden|liste|resultad\w*|coinciden\w*|encontr\w*|hay|existe\w*|elemento\w*"
    r"|résultat\w*|trouvé\w*|correspond\w*|existe\w*|éléments?)\b",
    re.I,
)
_NOTHING_SAID = re.compile(
    r"\s*(?:\[\s*\]|\{\s*\}|null|none|\(empty\)|no (?:results?|matches|items|records|rows|files?|events?)(?: (?:were )?found)?\.?"
    r"|0 (?:results?|matches|rows|items|hits)(?: found)?\.?|)\s*",
    re.I,
)
_EMPTY_MEMBER = re.compile(r"\"\w{1,40}\"\s*:\s*\[\s*\]|\"(?:count|total|total_count|totalResults|hits|found|matches)\"\s*:\s*0\b")
_ALL_PASS = re.compile(
    r"\b(?:all|every|each|alle|jeder?|sämtliche|tod[oa]s|cada|tou(?:s|tes))\b.{0,60}\b(?:pass\w*|succe\w*|green|ok|bestanden|bestehen|erfolgreich"
    r"|grün|durch\w*|pasa\w*|pasado|éxito|verdes?|réussi\w*|pass\w+|verts?)\b",
    re.I,
)
_PASSED = re.compile(r"\b(\d{1,6}) (?:tests? )?(?:passed|passing|ok|bestanden|successful|succeeded)\b|\bOK \((\d{1,6}) tests?", re.I)
_FAILED = re.compile(
    r"(?i:\b[1-9]\d{0,5} (?:tests? )?(?:failed|failures?|failing|errors?|fehlgeschlagen)\b)|\bFAILED\b|\"failed\"\s*:\s*[1-9]"
)


class Calculation(Struct, frozen=True):
    """A calculation that a text writes out."""

    text: str
    right: bool
    result: str
    """What it really makes."""


# ---- calculations that are written out ----


def calculation(text: str) -> Calculation | None:
    """The first calculation in `text` whose operands and result can each be read in one way only; None without one."""
    for match in _EQUATION.finditer(text):
        told, result = _plain(match["right"].strip("€$")), _worked_out(match["left"])
        if told is not None and result is not None:
            share = "/" in match["left"] or "÷" in match["left"]  # 61 / 150 = 40.7 is told in per cent
            right = any(abs(told - made) <= _reach(match["right"], made) for made in ((result, 100 * result) if share else (result,)))
            return Calculation(match[0], right, f"{result:.10g}")
    match_total = _TOTAL_OF.search(text)
    if match_total:
        a, b, c = (_plain(match_total[name]) for name in "abc")
        if a is not None and b is not None and c is not None:
            return Calculation(match_total[0], abs(a + b - c) <= _reach(match_total["c"], a + b), f"{a + b:.10g}")
    return None


def _plain(written: str) -> float | None:
    """A number that can be read in one way: digits, with at most one mark of decimals; "1,234" is none."""
    written = written.rstrip(".,")
    if re.fullmatch(r"-?\d{1,15}", written):
        return float(written)
    found = re.fullmatch(r"(-?\d{1,15})[.,](\d{1,2}|\d{4,9})", written)
    return float(f"{found[1]}.{found[2]}") if found else None


def _reach(written: str, result: float) -> float:
    """By how much a result may miss that is rounded to the places it is given with, or to a whole number."""
    decimals = re.search(r"[.,](\d+)\D*$", written)
    step = 10.0 ** -len(decimals[1]) if decimals else 1.0 if result != int(result) else 0.0
    return step * 1.001 + 1e-9 * abs(result)


def _worked_out(left: str) -> float | None:
    """``2 + 3 * 4``, products first; None for a number that cannot be read or a division by zero."""
    if "%" in left:
        return None
    sums: list[float] = []
    for sign, written in _TERM.findall(left):
        value = _plain(written)
        if value is None:
            return None
        if sign in ("*", "×", "·", "x") and sums:
            sums[-1] *= value
        elif sign in ("/", "÷") and sums:
            if not value:
                return None
            sums[-1] /= value
        else:
            sums.append(-value if sign in ("-", "−", "–") else value)
    return sum(sums)


# ---- statements that follow ----


def follows(claim: str, texts: Sequence[str]) -> bool:
    """Whether `claim` says of an empty result that nothing was found, or of tests without a failure that all pass."""
    if _ALL_PASS.search(claim) and any(_PASSED.search(text) and not _FAILED.search(text) for text in texts):
        return not any(_FAILED.search(text) for text in texts)
    return bool(_NONE.search(claim) and _FOUND.search(claim)) and any(_is_empty(text) for text in texts)


def _is_empty(text: str) -> bool:
    return _NOTHING_SAID.fullmatch(text) is not None or (len(text) < 2000 and _EMPTY_MEMBER.search(text) is not None)
