"""Images in a message -> tokens, by the provider's published rules or, where there are none, by size.

Used by `proxy.models.tokens.counter`. OpenAI's rules are those of its guide "Images and vision": models with tiles pay a base and so much
for each tile of 512 pixels, after the image was made to fit 2048 by 2048 and its shorter side 768; later small models pay for
patches of 32 pixels. Only sizes are read, from the first bytes of a ``data:`` address; a remote image is not fetched and is taken
as a large one.
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
