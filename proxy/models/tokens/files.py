"""Documents, sound and video in a message -> tokens, by pages and seconds as providers bill them.

Used by `proxy.models.tokens.counter`. Pages and seconds are read from the file's own structure where it tells them; what cannot be read is
a guess with an upper bound. None of these counts is exact, and none of them is a reason to refuse a request: the provider alone knows.

Rates: Anthropic's guide "PDF support" (1,500 to 3,000 tokens of text a page, and the page as an image), Google's "Document understanding"
(258 tokens a page), "Audio understanding" (32 tokens a second) and "Video understanding" (about 300 tokens a second with its sound),
OpenAI's "Audio" (10 tokens a second).
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping
from math import ceil
from typing import Any

KINDS = frozenset(("file", "input_audio", "audio_url", "video_url"))
PAGE_TOKENS, GOOGLE_PAGE_TOKENS = 2_000, 258
AUDIO_TOKENS_PER_SECOND, GOOGLE_AUDIO_TOKENS_PER_SECOND = 10, 32
VIDEO_TOKENS_PER_SECOND = 300
PDF_BYTES_PER_PAGE = 100_000
"""Where no page can be found: between a page of text (30 KB with its fonts) and a scan (a few hundred KB)."""
AUDIO_BYTES_PER_SECOND = 4_000
"""32 kbit/s, for everything compressed. Better recordings have fewer seconds, so this errs upward."""
VIDEO_BYTES_PER_SECOND = 125_000
"""1 Mbit/s."""
TEXT_BYTES_PER_TOKEN = 4
UNKNOWN_TOKENS = 2_000
"""A file that is only named, or that nobody can look into here."""
MOST_GUESSED_TOKENS = 20_000
"""Upper bound of what is guessed from a size."""
_LONGEST_WORD = 1_000
READ_BYTES = 3 * 2**20
"""Looked at from each end of a file. A multiple of 3, so that base64 can be cut there."""
_PAGE = re.compile(rb"/Type\s{0,9}/Page(?![A-Za-z])")
_COUNT = re.compile(rb"/Count\s{1,9}(\d{1,6})")
_LINEARIZED = re.compile(rb"/Linearized\s.{0,200}?/N\s{1,9}(\d{1,6})", re.S)
_TEXT_TYPES = re.compile(r"text/|application/(?:json|xml|yaml|x-yaml|csv|javascript|x-ndjson)")


def address_of(kind: str, part: Mapping[str, Any]) -> str:
    """A part's ``data:`` address, bare base64 or remote address; "" where it has none."""
    given = part.get(kind)
    given = given if isinstance(given, Mapping) else {"url": given}
    return next((found for name in ("file_data", "data", "url") if isinstance(found := given.get(name), str) and found), "")


def holds_data(part: object, depth: int = 4) -> bool:
    """Whether a part of a kind that is not known has a file in it: a long string without any space."""
    if isinstance(part, str):
        return len(part) > _LONGEST_WORD and not any(map(str.isspace, part[:_LONGEST_WORD]))
    inner = part.values() if isinstance(part, Mapping) else part if isinstance(part, list | tuple) else ()
    return depth > 0 and any(holds_data(value, depth - 1) for value in inner)


def tokens_of(kind: str, part: Mapping[str, Any], model: str) -> int:
    """Tokens of a part of one of `KINDS`, or of an unknown kind, for `model`: an estimate."""
    address = address_of(kind, part)
    head, comma, data = address.partition(",") if address.startswith("data:") else ("", "", address)
    given = part.get(kind)
    media_type = head.removeprefix("data:").partition(";")[0] or str(given.get("format") if isinstance(given, Mapping) else "")
    if not data or (not comma and kind.endswith("_url")):
        return UNKNOWN_TOKENS
    google = "gemini" in model
    if kind == "video_url" or media_type.startswith("video/"):
        return ceil(_seconds_of_video(data) * VIDEO_TOKENS_PER_SECOND)
    if kind in ("input_audio", "audio_url") or media_type.startswith("audio/"):
        rate = GOOGLE_AUDIO_TOKENS_PER_SECOND if google else AUDIO_TOKENS_PER_SECOND
        return 1 + ceil(_seconds_of_sound(data, raw=media_type == "pcm16") * rate)
    if _TEXT_TYPES.match(media_type):
        return ceil(_size(data) / TEXT_BYTES_PER_TOKEN)
    first, last = ends(data)
    if first.lstrip()[:5] == b"%PDF-":
        return pages_of(first, last, _size(data)) * (GOOGLE_PAGE_TOKENS if google else PAGE_TOKENS)
    return min(UNKNOWN_TOKENS, ceil(_size(data) / TEXT_BYTES_PER_TOKEN))


def ends(data: str) -> tuple[bytes, bytes]:
    """The first and the last `READ_BYTES` of a file in base64; of a short one, all of it and nothing. Empty where it is no base64."""
    characters = READ_BYTES * 4 // 3
    try:
        if len(data) <= characters:
            return b64decode(data[: len(data) - len(data) % 4]), b""
        behind = max(characters, len(data) - characters)
        return b64decode(data[:characters]), b64decode(data[behind + -behind % 4 :])
    except (Base64Error, ValueError):
        return b"", b""


def pages_of(first: bytes, last: bytes, size: int) -> int:
    """Pages of a PDF of `size` bytes (ISO 32000-1): of the page tree's count, or its page objects; guessed from the size where both are
    in compressed streams."""
    if found := _LINEARIZED.search(first[:2048]):
        return max(1, int(found[1]))
    seen = sum(1 for piece in (first, last) for _ in _PAGE.finditer(piece))
    counted = max((int(found[1]) for piece in (first, last) for found in _COUNT.finditer(piece)), default=0)
    if seen and (not last or counted < seen):  # outlines have counts, too, so that the objects go first where all of them were seen
        return seen
    return counted or seen or min(MOST_GUESSED_TOKENS // PAGE_TOKENS, ceil(size / PDF_BYTES_PER_PAGE))


def _seconds_of_sound(data: str, *, raw: bool) -> float:
    """By the header of a RIFF WAVE file, at 16 kHz and 16 bit where it has none; of anything else by size."""
    head = _decoded(data[:4096])
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE" and (at := head.find(b"fmt ")) > 0 and len(head) >= at + 20:
        rate = int.from_bytes(head[at + 16 : at + 20], "little") or 32_000
        return _size(data) / rate
    return min(_size(data) / (32_000 if raw else AUDIO_BYTES_PER_SECOND), MOST_GUESSED_TOKENS / AUDIO_TOKENS_PER_SECOND)


def _seconds_of_video(data: str) -> float:
    """By the movie header of an MP4 or MOV file (ISO 14496-12, ``mvhd``); of anything else by size."""
    for piece in ends(data):
        at = piece.find(b"mvhd")
        if at >= 0 and len(piece) >= at + 36:
            long = piece[at + 4] == 1
            scale, length = (at + 24, 8) if long else (at + 16, 4)
            units = int.from_bytes(piece[scale : scale + 4], "big")
            if units:
                return int.from_bytes(piece[scale + 4 : scale + 4 + length], "big") / units
    return min(_size(data) / VIDEO_BYTES_PER_SECOND, MOST_GUESSED_TOKENS / VIDEO_TOKENS_PER_SECOND)


def _decoded(characters: str) -> bytes:
    try:
        return b64decode(characters[: len(characters) - len(characters) % 4])
    except (Base64Error, ValueError):
        return b""


def _size(data: str) -> int:
    """Bytes."""
    return len(data) * 3 // 4 - data[-2:].count("=")
