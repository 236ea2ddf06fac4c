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
FLAT = LazyPattern(_TEXTS.FLAT, re.I)
"""The passage says that an amount does not go by anything."""
RATE = LazyPattern(_TEXTS.RATE, re.I)
"""The passage gives an amount for each of something."""
COUNTING = LazyPattern(_TEXTS.COUNTING, re.I)
"""The claim counts something."""
