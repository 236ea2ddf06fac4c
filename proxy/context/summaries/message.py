"""How a summary stands in the prompt: as data, between tags that its text cannot close, with one plain sentence before them."""

from __future__ import annotations

import re

from proxy.exchange import Message
from proxy.language.wordings import wordings

TAG = "conversation_summary"
_INTROS = wordings(__file__, str)
_OPEN, _CLOSE = f"\n<{TAG}>\n", f"\n</{TAG}>"
_TAG_LIKE = re.compile(rf"<(?=[\s/]{{0,9}}{TAG})", re.IGNORECASE)
_ESCAPED = re.compile(rf"&lt;(?=[\s/]{{0,9}}{TAG})", re.IGNORECASE)


def summary_message(text: str, language: str = "en") -> Message:
    """A user message that holds `text`; the sentence before it is in `language` (ISO 639-1) where there is one, else in English."""
    return {"role": "user", "content": f"{_INTROS[language]}{_OPEN}{_TAG_LIKE.sub('&lt;', text)}{_CLOSE}"}


def is_summary(message: Message) -> bool:
    """Whether `summary_message` made it."""
    content = message.get("content")
    if message.get("role") != "user" or not isinstance(content, str) or not content.endswith(_CLOSE):
        return False
    return content.startswith(tuple(intro + _OPEN for intro in _INTROS.values()))


def summary_text(message: Message) -> str:
    """The text that `summary_message` was given."""
    content = str(message["content"])
    inner = content[content.index(_OPEN) + len(_OPEN) : -len(_CLOSE)]
    return _ESCAPED.sub("<", inner)
