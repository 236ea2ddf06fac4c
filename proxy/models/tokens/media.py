"""Images, documents, sound and video in a message -> tokens, by the provider's published rules or, where there are none, by size, pages and
seconds.

Used by `proxy.models.tokens.counter`. OpenAI's rules for images are those of its guide "Images and vision": models with tiles pay a base
and so much for each tile of 512 pixels, after the image was made to fit 2048 by 2048 and its shorter side 768; later small models pay for
patches of 32 pixels. Only sizes are read, from the first bytes of a ``data:`` address; a remote image is not fetched and is taken as a
large one.

Pages and seconds are read from the file's own structure where it tells them; what cannot be read is a guess with an upper bound. None of
these counts is exact, and none of them is a reason to refuse a request: the provider alone knows. Rates: Anthropic's guide "PDF support"
(1,500 to 3,000 tokens of text a page, and the page as an image), Google's "Document understanding" (258 tokens a page), "Audio
understanding" (32 tokens a second) and "Video understanding" (about 300 tokens a second with its sound), OpenAI's "Audio" (10 tokens a
second).
"""

from __future__ import annotations

import re
import struct
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping
from math import ceil, sqrt
from typing import Any

from proxy.models.tokens.encodings import TextCount

TILES: tuple[tuple[str, int, int], ...] = (
    (r"gpt-4o-mini", 2833, 5667),
    (r"gpt-4o|gpt-4\.1$|gpt-4\.1-\d|gpt-4\.5|gpt-4-|chatgpt-4o", 85, 170),
    (r"o1|o3(?!-mini)", 75, 150),
    (r"gpt-5(-chat|-20|$)", 70, 140),
)
"""Model, base and tile tokens."""
PATCHES: tuple[tuple[str, float], ...] = (
    (r"gpt-4\.1-nano|gpt-5-nano", 2.46),
    (r"gpt-4\.1-mini|gpt-5-mini", 1.62),
    (r"o4-mini", 1.72),
)
"""Model, tokens a patch."""
MAX_PATCHES = 1536
UNKNOWN_SIZE = (768, 2048)
"""Costs as much as anything can under the tile rule: eight tiles."""
CLAUDE_PIXELS_PER_TOKEN = 750
CLAUDE_MAX_TOKENS = 1600
"""Anthropic's guide "Vision": width times height by 750, after scaling down to about 1,600 tokens."""
HEADER_CHARACTERS = 400_000
"""Base64 characters read for the size: a JPEG's may stand behind a profile and a preview."""


def image(part: Mapping[str, Any], model: str, *, exact: bool) -> TextCount:
    """Tokens of an ``image_url`` part for `model`; `exact` is whether the model's counts can be exact at all."""
    given = part.get("image_url")
    given = given if isinstance(given, Mapping) else {"url": given}
    size = size_of(str(given.get("url") or ""))
    name = model.rpartition("/")[2].removeprefix("ft:")
    width, height = size or UNKNOWN_SIZE
    if "claude" in name:
        return TextCount(min(CLAUDE_MAX_TOKENS, ceil(width * height / CLAUDE_PIXELS_PER_TOKEN)) if size else CLAUDE_MAX_TOKENS, False)
    low = given.get("detail") == "low"
    for pattern, per_patch in PATCHES:
        if re.match(pattern, name):
            return TextCount(ceil(_patches(width, height) * per_patch), False)
    for pattern, base, tile in TILES:
        if re.match(pattern, name):
            return TextCount(base if low else base + tile * tiles(width, height), exact and (low or size is not None))
    return TextCount(85 + 170 * tiles(width, height), False)


def tiles(width: int, height: int) -> int:
    """Tiles of 512 pixels after scaling down, never up."""
    scale = min(1.0, 2048 / max(width, height))
    width, height = int(width * scale), int(height * scale)
    scale = min(1.0, 768 / max(1, min(width, height)))
    return max(1, ceil(int(width * scale) / 512) * ceil(int(height * scale) / 512))


def _patches(width: int, height: int) -> int:
    patches = ceil(width / 32) * ceil(height / 32)
    if patches <= MAX_PATCHES:
        return patches
    shrink = sqrt(32 * 32 * MAX_PATCHES / (width * height))
    return min(MAX_PATCHES, ceil(width * shrink / 32) * ceil(height * shrink / 32))


def size_of(url: str) -> tuple[int, int] | None:
    """Width and height of the image in a ``data:`` address, None when it is not one or its header cannot be read."""
    head, comma, body = url[: HEADER_CHARACTERS + 100].partition(",")
    if not comma or not head.startswith("data:") or "base64" not in head:
        return None
    body = body[: HEADER_CHARACTERS - HEADER_CHARACTERS % 4]
    try:
        data = b64decode(body[: len(body) - len(body) % 4])
        size = _png(data) or _gif(data) or _webp(data) or _jpeg(data)
    except (Base64Error, ValueError, struct.error, IndexError):
        return None
    return size if size and min(size) > 0 else None


def _png(data: bytes) -> tuple[int, int] | None:
    return struct.unpack(">II", data[16:24]) if data.startswith(b"\x89PNG\r\n\x1a\n") else None


def _gif(data: bytes) -> tuple[int, int] | None:
    return struct.unpack("<HH", data[6:10]) if data[:6] in (b"GIF87a", b"GIF89a") else None


def _webp(data: bytes) -> tuple[int, int] | None:
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP":
        return None
    if data[12:16] == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if data[12:16] == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    width, height = struct.unpack("<HH", data[26:30])
    return width & 0x3FFF, height & 0x3FFF


def _jpeg(data: bytes) -> tuple[int, int] | None:
    """From the frame header: markers C0 to CF without C4, C8 and CC (ITU-T T.81, table B.1)."""
    if not data.startswith(b"\xff\xd8"):
        return None
    at = 2
    while at + 9 <= len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF:  # fill byte
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return width, height
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None


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
_LINEARIZED_PAGES = re.compile(rb"/Linearized\s.{0,200}?/N\s{1,9}(\d{1,6})", re.S)
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
    if found := _LINEARIZED_PAGES.search(first[:2048]):
        return max(1, int(found[1]))
    seen = sum(1 for piece in (first, last) for _ in _PAGE.finditer(piece))
    counted = max((int(found[1]) for piece in (first, last) for found in _COUNT.finditer(piece)), default=0)
    if seen and (not last or counted < seen):  # outlines have counts, too, so that the objects go first where all of them were seen
        return seen
    return counted or seen or min(MOST_GUESSED_TOKENS // PAGE_TOKENS, ceil(size / PDF_BYTES_PER_PAGE))


def _seconds_of_sound(data: str, *, raw: bool) -> float:
    """By the header of a RIFF WAVE file, at 16 kHz and 16 bit where it has none; of anything else by size."""
    head = _decode(data[:4096])
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


def _decode(characters: str) -> bytes:
    try:
        return b64decode(characters[: len(characters) - len(characters) % 4])
    except (Base64Error, ValueError):
        return b""


def _size(data: str) -> int:
    """Bytes."""
    return len(data) * 3 // 4 - data[-2:].count("=")
