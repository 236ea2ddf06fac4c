"""Whether a text that looks like an attack is one for certain, so that it may be kept from the model, or only worth a note.

In: a text and the phrases found in it (`proxy.stages.poisoning.injections.injection`). Out: yes, or "unsure", which is most of what is
found: prompts, rules for coding agents, training data, tests and articles are full of the same phrases, and a file that holds a prompt is
not an attack on the model that reads it. It is certain only where all of this holds:

- the phrases stand in the text itself: in no quotation, string, code block or example (`proxy.stages.poisoning.injections.mentions`);
- they are of two kinds that together make an attack: addressed to the model and against its user, or leaving the given instructions in
  order to do something, or hidden from people;
- the model, its user or their conversation is named near them: "ignore my previous e-mail" is for people;
- the text is none that is made of prompts: a template, rules for agents, training data, a test, a text about attacks.

An attacker who dresses the attack up as such a text is not stopped, but recorded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, Protocol

from proxy.language.patterns import LazyPattern
from proxy.stages.poisoning.injections.hidden import fold
from proxy.stages.poisoning.injections.phrases.signal import MODEL_WORDS

AROUND_CHARS = 240
"""How far from the phrases the model or its user may be named."""
HEAD_CHARS = 400
"""Where a text says what it is."""
MIN_STRENGTH = 0.3
"""Weaker phrases are common in any text."""
MIN_LIKELY = 0.25
"""The same, for a warning."""
Grade = Literal["certain", "likely", "unsure"]
_GRADES: tuple[tuple[Grade, float], ...] = (("certain", MIN_STRENGTH), ("likely", MIN_LIKELY))
TOGETHER: tuple[frozenset[str], ...] = tuple(
    frozenset(pair.split("+"))
    for pair in (
        "override+exfiltration",
        "override+concealment",
        "override+command",
        "override+addressee",
        "override+role",
        "override+fake_turn",
        "addressee+exfiltration",
        "addressee+concealment",
        "addressee+command",
        "addressee+role",
        "fake_turn+exfiltration",
        "fake_turn+concealment",
        "fake_turn+command",
        "fake_turn+role",
        "exfiltration+concealment",
        "exfiltration+command",
        "exfiltration+role",
        "concealment+command",
        "role+command",
    )
)
"""Kinds that are an attack together: each says who is spoken to, or what is to be left, and what is to be done against the user."""
COMMENT = "comment"
"""Of hidden texts the one that hides nothing in code and Markdown: there it is where people write to each other."""
_PARTIES = LazyPattern(
    r"\b(?:the|your|this|dem|den|der|des|al?|del?|el|du|l['’]|de l['’]) ?(?:user|human|assistant|chatbot|nutzer|benutzer|anwender|usuario|"
    r"utilisateur|asistente)s?\b|"
    r"\b(?:conversation|chat) (?:history|so far|log)|\bthe conversation\b|\bchatverlauf|\bhistorial de|\bhistorique de|"
    r"\b(?:system|hidden|initial) ?prompts?\b|\bsystemprompt|\bprompt de(?:l)? sistema|\binvite systeme"
)
_PROMPT = LazyPattern(
    r"\{\{.{0,80}?\}\}|\{%.{0,80}?%\}|\{[a-z_]{2,24}\}|\$\{\w{1,40}\}|<<sys>>|"  # a template
    r"\b\w{0,30}(?:prompt|template|instructions?|persona|attacks?|payloads?|examples?|fixtures?|cases?|macro)\w{0,20}[ \"']{0,3}"
    r"(?:=|:=|: ?[|>\n])|"
    r"^\s{0,6}(?:- )?(?:input|expect(?:ed)?|prompt|system|instruction|output|label) ?:",
    re.M,
)
_TRAINING = LazyPattern(r'"(?:role|instruction|prompt|system|messages|completion|label|chat_template)"\s?:')
_TEST = LazyPattern(
    r"\b(?:assert|def test_|it\(|describe\(|expect\(|@test|unittest|pytest|fixtures?[/\s]|test case|testdaten)|^\w+,\w+,label", re.M
)
_HEAD = LazyPattern(
    r"^[#\s*=-]{0,6}[^\n]{0,80}\b(?:agents?\.md|claude\.md|gemini\.md|copilot|cursor ?rules|llms\.txt|"
    r"coding (?:agents?|assistants?)|"
    r"(?:rules|guide|guidelines|playbook|instructions|hinweise|reglas|regles|consignes) (?:for|fur|para|pour) )|"
    r"alwaysapply:|^[#*\s]{0,6}(?:\w+ ){0,2}system ?prompts?\b|"
    r"^\s{0,4}(?:you are|du bist|eres|tu es|vous etes) (?!now|jetzt|ahora|maintenant|desormais|ab sofort|reading|an? (?:ai|llm|language))"
)
_ABOUT = LazyPattern(
    r"prompt[ -]injection|jailbreak|red[ -]team|owasp|guardrail|\bcve-\d|indirect injection|llm security|adversarial (?:prompt|example)|"
    r"inyeccion de|injection (?:de|consiste)|attacker|angreifer|atacante|attaquant|researchers?\b|forscher|vulnerabilit|faille\b|"
    r"patched|corregid[oa]|corrigee|experiment\b|lecture\b"
)


class Phrase(Protocol):
    """As `proxy.stages.poisoning.injections.injection.InjectionSpan`."""

    @property
    def start(self) -> int:
        """Characters before it."""

    @property
    def end(self) -> int:
        """Characters up to its end."""

    @property
    def category(self) -> str:
        """What it tries to do."""

    @property
    def strength(self) -> float:
        """0 to 1."""

    @property
    def reason(self) -> str:
        """In words."""

    @property
    def mentioned(self) -> bool:
        """Whether it is quoted or told of."""


def grade(text: str, raw: str, phrases: Sequence[Phrase]) -> Grade:
    """How sure it is that the `phrases` of `text` are an attack; `raw` is the text as it came, which may be JSON."""
    told = [phrase for phrase in phrases if not phrase.mentioned]
    if not told:
        return "unsure"
    folded = fold(text).text
    start = max(0, min(phrase.start for phrase in told) - AROUND_CHARS)
    around = folded[start : max(phrase.end for phrase in told) + AROUND_CHARS]
    if not _hidden(told) and not _names_a_party(around, told):
        return "unsure"
    names_model = MODEL_WORDS.search(around) is not None
    found = next((name for name, least in _GRADES if _is_attack(told, least, names_model=names_model)), None)
    return "unsure" if found is None or _is_material(folded, raw, around) else found


def _is_attack(told: Sequence[Phrase], least: float, *, names_model: bool) -> bool:
    """Whether the kinds of phrases of this strength make an attack together."""
    kinds = {phrase.category for phrase in told if phrase.category != "hidden" and phrase.strength >= least}
    if _hidden(told):
        return bool(kinds & {"override", "exfiltration", "concealment", "addressee", "command", "fake_turn"}) or _unreadable(told)
    if "override" in kinds and names_model:
        return True
    return any(pair <= kinds for pair in TOGETHER)


def _hidden(told: Sequence[Phrase]) -> bool:
    """Whether something is kept from people's eyes that no editor shows as a comment."""
    return any(phrase.category == "hidden" and COMMENT not in phrase.reason for phrase in told)


def _unreadable(told: Sequence[Phrase]) -> bool:
    """Whether words stand in characters that no person can see, and that nobody types."""
    return any(phrase.category == "hidden" and "tag characters" in phrase.reason for phrase in told)


def _names_a_party(around: str, told: Sequence[Phrase]) -> bool:
    """Whether it is about a model and the one it works for; only a model is told to leave its instructions and how to answer."""
    kinds = {phrase.category for phrase in told}
    named = {"addressee", "fake_turn"} & kinds or {"override", "command"} <= kinds
    return bool(named) or _PARTIES.search(around) is not None or MODEL_WORDS.search(around) is not None


def _is_material(folded: str, raw: str, around: str) -> bool:
    """Whether the text is one that prompts are part of: a template, rules, training data, a test, an article."""
    head = folded[:HEAD_CHARS]
    return (
        _HEAD.search(head) is not None
        or _PROMPT.search(folded) is not None
        or _TEST.search(folded) is not None
        or (_TRAINING.search(raw) is not None)
        or _ABOUT.search(around) is not None
    )
