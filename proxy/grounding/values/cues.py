"""The words that ask for a calculation, that give an amount for each of something, or that say an amount stays what it is; six languages.

For `proxy.grounding.values.arithmetic` and `proxy.grounding.records`.
"""

from __future__ import annotations

import re
from pathlib import Path

from proxy.language.patterns import LazyPattern, phrases

_TEXTS = phrases(Path(__file__).parent)

SUM = LazyPattern(_TEXTS.SUM, re.I)
DIFFERENCE = LazyPattern(_TEXTS.DIFFERENCE, re.I)
MEAN = LazyPattern(_TEXTS.MEAN, re.I)
PRODUCT = LazyPattern(_TEXTS.PRODUCT, re.I)
RATIO = LazyPattern(_TEXTS.RATIO, re.I)
AGE = LazyPattern(_TEXTS.AGE, re.I)
"""Years that lie between two."""
