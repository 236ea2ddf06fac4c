"""Whether the user asks for a text that is made up, or for another wording of a text: nothing in the answer is then a claim about a
context.

English, German, Spanish and French at once. "According to the text" makes it one again. Pure.
"""
# ruff: noqa: E501 - a pattern is read alternative by alternative

from __future__ import annotations

import re

from proxy.language.patterns import LazyPattern

MAX_CHARS = 4000
_INVENTED = (
    r"(?:short |bedtime |funny |little )?(?:stor(?:y|ies)|poem|haiku|limerick|song|lyrics|sonnet|fairy ?tale|fable|novel|fiction|joke|riddle|dialogue|monologue|screenplay"
    r"|script|scene|rap|verse|slogan|tagline|jingle|backstory|character|legend|myth)s?"
)
_ERFUNDEN = r"(?:\w*geschichte|\w*gedicht|haiku|lied\w*|song\w*|märchen|fabel|roman|witz|rätsel|dialog|monolog|drehbuch|szene|vers\w*|slogan|werbespruch|legende)n?s?"
_INVENTADO = r"(?:historia|cuento|poema|haiku|canción|letra|fábula|novela|chiste|adivinanza|diálogo|monólogo|guion|guión|escena|verso|eslogan|leyenda)s?"
_INVENTÉ = (
    r"(?:histoire|conte|poème|haïku|chanson|paroles|fable|roman|blague|devinette|dialogue|monologue|scénario|scène|vers|slogan|légende)s?"
)
_GAP = r"[^.!?\n]{0,60}?"
_ASKED = LazyPattern(
    rf"\b(?:write|tell|compose|make up|invent|create|draft|give|sing)\b{_GAP}\b{_INVENTED}\b|\b(?:role-?play|pretend|imagine|act as|play the (?:role|part))\b"
    r"|\btranslat(?:e|ion)\b|\b(?:rewrite|reword|rephrase|paraphrase|proofread)\b"
    rf"|\b(?:schreibe?|erzähle?|dichte|erfinde|verfasse|gib)\b{_GAP}\b{_ERFUNDEN}\b|\b(?:rollenspiel|stell dir vor|spiel(?:e|en)? (?:die|den|eine?n?)\b.{{0,20}}\brolle)\b"
    r"|\bübersetz(?:e|en|ung)?\b|\b(?:formuliere?|schreibe?)\b[^.!?\n]{0,60}\bum\b|\bumformulier\w*"
    rf"|\b(?:escribe|escríbeme|cuéntame|cuenta|inventa|compón|crea|dame)\b{_GAP}\b{_INVENTADO}\b|\b(?:imagina|finge|juego de rol|actúa como)\b"
    r"|\btradu(?:ce|cir|zca|cción)\b|\b(?:reescrib\w+|reformula\w*|parafrasea\w*)\b"
    rf"|\b(?:écris|écrivez|raconte|invente|compose|crée|donne)\b{_GAP}\b{_INVENTÉ}\b|\b(?:imagine|jeu de rôle|joue le rôle|fais semblant)\b"
    r"|\btradui(?:s|sez|re|t)\b|\btraduction\b|\b(?:réécri\w+|reformule\w*|paraphrase\w*)\b",
    re.I,
)
_BY_THE_TEXT = LazyPattern(
    r"\b(?:according to|based (?:only |solely )?on|using only|faithful to|true to)\b|\b(?:laut|gemäß|anhand|auf (?:grundlage|basis))\b"
    r"|\b(?:según|de acuerdo con|basándote en|basado en)\b|\b(?:selon|d'après|en te basant sur|à partir d)",
    re.I,
)


def asks_to_make_up(question: str) -> bool:
    """Whether `question` asks for fiction, a translation or another wording, and not for what a text says."""
    asked = question[-MAX_CHARS:].replace("’", "'")
    return _ASKED.search(asked) is not None and _BY_THE_TEXT.search(asked) is None
