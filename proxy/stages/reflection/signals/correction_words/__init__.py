"""The words by which people correct an agent, in four languages. Read by `proxy.stages.reflection.signals.corrections`; pure data."""

from __future__ import annotations

import re
from collections.abc import Mapping

from proxy.stages.reflection.signals.correction_words.english import ENGLISH
from proxy.stages.reflection.signals.correction_words.french import FRENCH
from proxy.stages.reflection.signals.correction_words.german import GERMAN
from proxy.stages.reflection.signals.correction_words.spanish import SPANISH
from proxy.stages.reflection.signals.correction_words.wording import NUMBERS, TOOL_MARK, CorrectionWords

__all__ = ["CALLS", "NUMBERS", "TOOL_MARK", "WORDS", "CorrectionWords"]

WORDS: Mapping[str, CorrectionWords] = {"en": ENGLISH, "de": GERMAN, "es": SPANISH, "fr": FRENCH}
CALLS = re.compile(
    r"\b(?:searches|search|calls?|times|attempts?|tries|quer(?:y|ies)|requests?|retries|suchen|abfragen|aufrufen?|versuchen?|mal|anfragen|"
    r"busquedas?|llamadas?|veces|intentos?|consultas?|peticiones|recherches?|appels?|fois|tentatives?|essais|requetes?)\b"
)
"""What a number counts where it is not results."""
