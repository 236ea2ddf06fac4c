"""What a refusal states: its field's text is shown to a user as the answer's is, and is read as it is. Pure functions.

That the model does not help is not a claim about the world: a sentence in which the speaker declines, and which says nothing besides, is
not checkable, in the four languages. "I can't help, but the tower stands in Rome" says something besides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from proxy.exchange import Choice
from proxy.exchange.judgements import Claim
from proxy.grounding.claims.claims import claims_of
from proxy.grounding.claims.redaction import redacted
from proxy.stages.claims.reading import AnswerStatement

_DECLINING = re.compile(
    r"""(?ix) (?:
        \b(?:i|we)\b\W{0,3} (?:(?:a|wi)?m\s|are\s|have\sto\s|must\s|will\s|would\s|do\s|can\s?|could\s|should\s|'?m\s|'?ll\s|'?re\s)?
            (?:just\s|really\s|also\s|simply\s|unfortunately\s|therefore\s)?
            (?:not\s|can't\s|cannot\s|can’t\s|won't\s|won’t\s|couldn't\s|don't\s|shouldn't\s|unable\s)
            (?:\W?\w+){0,4}?\W?
            (?:help|assist|comply|answer|respond|provide|do|support|fulfil\w*|continue|share|discuss|give|offer|create|generate|write|
               engage|participate|process|complete)\b
      | \b(?:i|we)\b (?:\W?\w+){0,3}?\s (?:decline|refuse)\b
      | \b(?:ich|wir)\b .{0,40}\b(?:nicht|keine[nrms]?|nichts)\b .{0,40}\b(?:\w*helfen|unterstützen|beantworten|antworten|dienen|erfüllen|
            nachkommen|anbieten|geben|machen|tun|besprechen|bereitstellen|schreiben|erstellen)\b
      | \b(?:ich|wir)\b .{0,30}\b(?:ab(?:lehnen)?|lehne[n]?)\b
      | \bno\s(?:puedo|podemos|debo|debemos|voy\sa|vamos\sa)\s (?:\w+\s){0,2}
            (?:ayudar|asistir|responder|contestar|cumplir|proporcionar|dar|ofrecer|hacer|continuar|hablar|escribir|crear|generar|compartir)\w{0,4}\b
      | \b(?:je|nous)\s ne\s (?:\w+\s)? (?:peux|pouvons|vais|allons|dois|devons)\s (?:\w+\s){0,2}pas\b .{0,20}
            \b(?:aider|assister|répondre|fournir|donner|faire|continuer|traiter|écrire|créer|partager|satisfaire|accéder)\b
    )"""
)
_BESIDES = re.compile(
    r"(?i)\d|[;:—–]|,\s*\w+\s+\w+\s+\w+|\b(?:because|since|but|although|though|whereas|while|as|and|which|"
    r"weil|denn|aber|obwohl|während|da|und|dass|porque|pues|pero|aunque|mientras|y|car|puisque|parce|mais|quoique|tandis|et)\b"
)
"""Where a sentence goes on to say something of the world: a value, another clause."""
MAX_WORDS = 18


def declines(text: str) -> bool:
    """Whether a sentence says that its speaker does not help, and nothing besides."""
    return len(text.split()) <= MAX_WORDS and _DECLINING.search(text) is not None and _BESIDES.search(text) is None


def read_refusals(choices: Sequence[Choice], question: str) -> list[AnswerStatement]:
    """The statements in what `choices` refuse with."""
    return [statement for choice in choices for statement in read_refusal(choice, question)]


def read_refusal(choice: Choice, question: str) -> list[AnswerStatement]:
    """All statements of a choice's refusal."""
    claims = claims_of(choice.refusal, question) if choice.refusal.strip() else []
    return [AnswerStatement(_settled(claim), choice.index, span=(claim.start, claim.end), refusal=True) for claim in claims]


def without(choice: Choice, failing: list[AnswerStatement], marker: str) -> str:
    """`choice`'s refusal without its failing statements."""
    return redacted(choice.refusal, [statement.span for statement in failing], marker)


def _settled(claim: Claim) -> Claim:
    return replace(claim, checkable=False, reason="refusal") if claim.checkable and declines(claim.text) else claim
