"""Markup that is safe by construction: every text is escaped unless it is `Html`, and only `el` and `join` make `Html`.

Attributes that could run something (``on…``, ``style``) and addresses outside this server are refused, so that no page can have them by
a slip. Text of models and clients goes through `shown`, which also makes visible what a reader would not see: control characters, marks
that turn the reading direction, characters of no width, letters of Unicode's tag block.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from html import escape
from typing import TypeAlias, Union

import msgspec


class Html(str):
    """Markup, ready to be sent."""

    __slots__ = ()


Child: TypeAlias = Union[Html, str, int, float, Iterable["Child"], None]  # noqa: UP007 - a string cannot be or-ed
Attribute: TypeAlias = str | int | float | bool | None

_VOID = frozenset(("meta", "link", "input", "br", "hr"))
_ADDRESSES = ("href", "src", "action", "formaction")
_OWN = ("/", "#", "?")
_UNSEEN = re.compile(
    "[\U000e0000-\U000e007f]+|[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff]"
)
"""Not among them: tab, line feed, and the joiners and variation selectors that scripts and emoji need."""
_TAG_BLOCK = 0xE0000


def join(children: Child) -> Html:
    """Children as markup, one after the other; what is not `Html` is escaped, None is nothing."""
    if children is None:
        return Html("")
    if isinstance(children, Html):
        return children
    if isinstance(children, str):
        return Html(escape(_sound(children), quote=False))
    if isinstance(children, int | float):
        return Html(str(children))
    return Html("".join(map(join, children)))


def el(tag: str, *children: Child, **attributes: Attribute) -> Html:
    """One element. ``class_`` is ``class``, ``data_id`` is ``data-id``; True is an attribute without a value, None and False leave it out.

    Raises `ValueError` for an attribute that runs something or leads away from this server.
    """
    head = tag + "".join(_attribute(name.rstrip("_").replace("_", "-"), value) for name, value in attributes.items())
    return Html(f"<{head}>") if tag in _VOID else Html(f"<{head}>{join(children)}</{tag}>")


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    text = _sound(str(value))
    if name.startswith("on") or name in ("style", "srcdoc"):
        raise ValueError(f"no page has the attribute {name}")
    if name in _ADDRESSES and (not text.startswith(_OWN) or text.startswith(("//", "/\\"))):
        raise ValueError(f"{name} leads away: {text[:80]!r}")
    return f' {name}="{escape(text)}"'


def data(value: object) -> Html:
    """JSON for the page's own script, in a block that a browser neither shows nor runs."""
    written = msgspec.json.encode(value).decode()
    for character in "<>&":  # nothing in it can end the block
        written = written.replace(character, f"\\u{ord(character):04x}")
    return Html(f'<script type="application/json">{written}</script>')


def _sound(text: str) -> str:
    """Text that UTF-8 can hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def shown(text: str) -> Html:
    """Text from outside, with a mark for each character that cannot be seen."""
    parts: list[Html] = []
    last = 0
    for match in _UNSEEN.finditer(text):
        parts += [join(text[last : match.start()]), _mark(match[0])]
        last = match.end()
    return join([*parts, join(text[last:])])


def own(text: str) -> Html:
    """A short text from outside between our own words: its reading direction stays inside it."""
    return el("bdi", shown(text))


def block(text: str, class_: str = "text") -> Html:
    """A longer text from outside, lines and spaces kept; wrapped, read in its own direction, scrollable by keyboard."""
    return el("div", shown(text), class_=class_, dir="auto", tabindex=0, role="group", aria_label="Text")


def cut(text: str, limit: int) -> str:
    """At most `limit` characters, with an ellipsis where it is shortened."""
    return text if len(text) <= limit else text[:limit] + " …"


def _mark(characters: str) -> Html:
    code = ord(characters[0])
    if code >= _TAG_BLOCK:
        hidden = "".join(chr(ord(c) - _TAG_BLOCK) for c in characters if 0x20 <= ord(c) - _TAG_BLOCK < 0x7F)
        return el(
            "span", f"hidden: {hidden or len(characters)}", class_="unseen", title="letters of Unicode's tag block, which nobody sees"
        )
    return el("span", f"U+{code:04X}", class_="unseen", title=unicodedata.name(chr(code), "control character").lower())
