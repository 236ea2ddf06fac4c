"""What the proxy itself has written into a conversation: notes, references, frames. It is never evidence.

In: a message's text, as a client may send it back with its history. Out: the pieces of it that the proxy wrote. Known by their shape, since
whoever wrote them stands above this package; the tests hold them against the originals. What a frame encloses is not the proxy's. Pure.
"""

from __future__ import annotations

import re

_MARKS = ("roxy's ", "[archived ", "conversation_summary", "[Another statement", "groundwire_")
"""One of them is in every text of the proxy's: most texts have none, and need no closer look."""
_OWN = re.compile(
    r"\[Proxy's notes on [^\[\]\n]{0,200}\].{0,4000}?\[End of the proxy's notes\]"
    r"|\[This content was removed by the proxy's policy\.\]"
    r"|\[Another statement took the place of this one\.\]"
    r"|\[archived [^\[\]\n]{0,80}: groundwire_\w{1,40} sp_[0-9a-f]{12,32}\]"
    r"|(?:Summary of the earlier conversation|Zusammenfassung des bisherigen Gesprächs|Resumen de la conversación anterior"
    r"|Résumé de la conversation précédente)[^\n]{0,120}(?=\n<conversation_summary>)"
    r"|</?conversation_summary>",
    re.S,
)


def own_texts(text: str) -> tuple[str, ...]:
    """The pieces of `text` that the proxy wrote, each once."""
    if not any(mark in text for mark in _MARKS):
        return ()
    return tuple(dict.fromkeys(match[0] for match in _OWN.finditer(text)))


def without_own_texts(text: str) -> str:
    """`text` without them."""
    return _OWN.sub(" ", text) if any(mark in text for mark in _MARKS) else text


def blank_own_texts(text: str) -> str:
    """`text` with as many spaces in their place: what is left stands where it stood."""
    return _OWN.sub(lambda match: " " * len(match[0]), text) if any(mark in text for mark in _MARKS) else text
