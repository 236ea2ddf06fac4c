"""Codes of verdicts and errors in the words of ``reasons.words.toml``."""

from __future__ import annotations

import tomllib
from pathlib import Path

from proxy.store.records import NOTHING

_WORDS = tomllib.loads(Path(__file__).with_suffix(".words.toml").read_text("utf-8"))
REASONS: dict[str, str] = _WORDS["reasons"]


def in_words(code: str) -> str:
    """A code as a phrase; "" for none."""
    if code in REASONS:
        return REASONS[code]
    if code.startswith("unchecked_language_"):
        return f"{REASONS['unchecked_language']}: {code.removeprefix('unchecked_language_').replace('_', ', ')}"
    if code.startswith("upstream_"):
        return f"the provider said {code.removeprefix('upstream_').replace('_', ' ')}"
    return code.replace("_", " ")


def codes_alike(code: str) -> tuple[str, ...]:
    """`code` and those with the same words; nothing for none."""
    return tuple(dict.fromkeys([code, *(one for one, words in REASONS.items() if words == REASONS.get(code))])) if code else ()


def why(reason: str, would: str) -> str:
    """What happened, in a few words: what a policy in shadow mode held back comes first."""
    held = _WORDS["would"].get(would, "") if would != NOTHING else ""
    return ": ".join(part for part in (held, in_words(reason)) if part)
