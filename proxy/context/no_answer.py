"""What the proxy says in a model's stead where the context has no answer."""

from __future__ import annotations

from collections.abc import Mapping

from proxy.language.detection import language
from proxy.language.patterns import wordings

NO_ANSWER = wordings(__file__, str)


def no_answer(texts: str | Mapping[str, str], *samples: str) -> str:
    """`texts`, a policy's own, or the proxy's, in the language of the first of `samples` that tells one."""
    if isinstance(texts, str):
        return texts
    tongue = next((found for sample in samples if (found := language(sample, default=""))), "en")
    known = {**NO_ANSWER, **texts}
    return known.get(tongue, known["en"])
