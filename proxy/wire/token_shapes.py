"""The shape of log probabilities (`proxy.wire.shapes`): tokens say the text that they are of, once more, and their alternatives are tokens.

In: a ``logprobs`` list of chat completions or Responses. Out: the same where, one after another, its tokens are the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from proxy.wire.shapes import ABSENT, Fields, Reading, listed, number

_LONGEST_TOKEN = 128
"""Characters; the longest of o200k, a run of blanks, has as many."""
_WILD = re.compile(r"bytes:|.*\ufffd|<[|/]?[\w|-]*>$|\Z", re.S)
"""Tokens that are no text of their own: half a character, an end mark, nothing."""
_MOST_GAP = 4
"""Characters that a run of such tokens may stand for before the next one is found."""


def tells(tokens: Iterable[Mapping[str, Any]], said: str) -> bool:
    """Whether `tokens`, one after another, say what was said; a token that is half of a character stands for anything."""
    at, gap = 0, False
    for entry in tokens:
        token = entry["token"]
        if token and said.startswith(token, at):
            at, gap = at + len(token), False
        elif _WILD.match(token):
            gap = True
        elif gap and (found := said.find(token, at, at + len(token) + _MOST_GAP)) >= 0:
            at, gap = found + len(token), False
        else:
            return False
    return at == len(said) or (gap and len(said) - at <= _MOST_GAP)


_ONE = Fields("logprobs", {"bytes": listed(number, "bytes")}, text="token", number="logprob")
_TOKEN = _ONE.but(top_logprobs=listed(_ONE, "top_logprobs"))


def _token(value: Any, reading: Reading) -> Any:
    made = _TOKEN(value, reading)
    if made is ABSENT or made.get("token").__class__ is not str:
        return ABSENT
    if given := made.get("top_logprobs"):
        made["top_logprobs"] = [one for one in given if _is_token(one.get("token"))]
        if len(made["top_logprobs"]) != len(given):
            reading.leave_out("top_logprobs.token")
    for entry in (made, *(made.get("top_logprobs") or ())):
        if entry.get("bytes") is not None and not _spells(entry["bytes"], entry["token"]):
            reading.leave_out("logprobs.bytes")
            entry["bytes"] = None
    return made


def _is_token(value: object) -> bool:
    """Whether it can be one token: no blank between two words."""
    return isinstance(value, str) and len(value) <= _LONGEST_TOKEN and len(value.split()) <= 1


def _spells(given: list[Any], token: str) -> bool:
    try:
        return "\ufffd" in token or token.startswith("bytes:") or bytes(given) == token.encode()
    except (ValueError, TypeError):
        return False


TOKENS = listed(_token, "logprobs")
