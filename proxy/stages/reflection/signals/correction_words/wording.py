"""The shape of one language's words, the numbers, and how a pattern's marks become groups.

A pattern is matched at the start of a clause of folded text: lower case, no accents (``hochstens``), ``'`` for every apostrophe, the name
of a tool replaced by as many `TOOL_MARK`s. In it ``<no>`` is a tool that is forbidden, ``<yes>`` one that is wanted, ``<cap>`` a number,
``<.>`` the clause's end, pleasantries aside. Typical misspellings (``thats``, ``hoechstens``, ``ca marche pas``) are in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from proxy.language.patterns import LazyPattern

TOOL_MARK = "\ue000"
_TOOL = (
    r"(?:(?:the|that|den|die|das|el|la|le|l'|les|dem|der) ?)?(?:tool |function |werkzeug |herramienta |funcion |outil |"
    r"fonction )?[\"'`]?(?P<{}>\ue000{{1,128}})"
)
_END = (
    r"(?=\s{0,4}(?:$|please|pls|thanks|thx|bitte|danke|por favor|gracias|merci|stp|svp|s'il|now|next|here|ok|per |at a time|pro |por |"
    r"par |a la fois|auf einmal|a la vez))"
)


class CorrectionWords(Struct, frozen=True):
    """One language."""

    opener: LazyPattern
    """What may stand before a clause and says nothing: "well", "please", "I think"."""
    denial: LazyPattern
    """An opener that denies: "no", "nope"."""
    ask: LazyPattern
    """How a question begins."""
    polite: LazyPattern
    """How an instruction in the form of a question begins: "could you"."""
    aside: LazyPattern
    """Anywhere before the clause in its sentence: somebody else speaks, or it is only supposed."""
    task: LazyPattern
    """How a message begins whose rest is material to work on: "translate", "review"."""
    rejected: LazyPattern
    """How it is said outright; the many other ways are `correction_model`'s."""
    override: LazyPattern
    cap: LazyPattern
    """A highest number of results or calls."""


NUMBERS: Mapping[str, int] = {
    word: number
    for number, words in {
        1: "one a single|ein eine einen einem|un uno una|une",
        2: "two zwei dos deux",
        3: "three drei tres trois",
        4: "four vier cuatro quatre",
        5: "five funf fuenf cinco cinq",
        6: "six sechs seis",
        7: "seven sieben siete sept",
        8: "eight acht ocho huit",
        9: "nine neun nueve neuf",
        10: "ten zehn diez dix",
        11: "eleven elf once onze",
        12: "twelve zwolf zwoelf doce douze",
        15: "fifteen funfzehn fuenfzehn quince quinze",
        20: "twenty zwanzig veinte vingt",
        25: "funfundzwanzig veinticinco",
        30: "thirty dreißig dreissig treinta trente",
        40: "forty vierzig cuarenta quarante",
        50: "fifty funfzig fuenfzig cincuenta cinquante",
        100: "hundred hundert cien cent",
    }.items()
    for word in re.split(r"[ |]", words)
    if word
}
_NUMBER = r"(?P<{}>\d{{1,5}}(?![\d.,:/]?\d)|(?:" + "|".join(sorted(NUMBERS, key=lambda w: (-len(w), w))) + r")\b)"


def compiled(*patterns: str) -> LazyPattern:
    """One alternation, compiled at its first use; ``<no>``, ``<yes>`` and ``<cap>`` become groups, each with a number of its own."""
    count = 0

    def group(match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        name = f"{match[1]}{count}"
        return (_NUMBER if match[1] == "cap" else _TOOL).format(name)

    joined = "|".join(patterns).replace("<.>", _END)
    return LazyPattern(rf"(?:{re.sub(r'<(no|yes|cap)>', group, joined)})")
