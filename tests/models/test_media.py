"""Images: what the provider publishes where the size can be read, a large image where not."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest

from proxy.models.tokens import media


def image(width: int = 1024, height: int = 1024, **more: Any) -> dict[str, Any]:
    png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height)
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64.b64encode(png).decode()}", **more}}


@pytest.mark.parametrize(
    ("model", "part", "tokens"),
    [
        ("gpt-4o", image(1024, 1024), 85 + 4 * 170),
        ("gpt-4o", image(2048, 4096), 85 + 6 * 170),
        ("gpt-4o", image(4096, 8192, detail="low"), 85),
        ("gpt-4o", image(100, 100), 85 + 170),
        ("gpt-4o-mini", image(1024, 1024), 2833 + 4 * 5667),
        ("o1", image(1024, 1024), 75 + 4 * 150),
    ],
)
def test_an_image_costs_what_the_provider_publishes(model: str, part: dict[str, Any], tokens: int) -> None:
    assert (tokens, True) == media.image(part, model, exact=True)


@pytest.mark.parametrize("url", ["https://example.com/a.png", "data:image/png;base64,AAAA", "data:image/png;base64,!", "", "data:,"])
def test_an_image_of_unknown_size_is_taken_as_large(url: str) -> None:
    assert media.image({"image_url": {"url": url}}, "gpt-4o", exact=True) == (85 + 8 * 170, False)


def webp(kind: bytes, body: bytes) -> bytes:
    return b"RIFF\0\0\0\0WEBP" + kind + b"\0\0\0\0" + body


@pytest.mark.parametrize(
    "data",
    [
        b"GIF89a" + struct.pack("<HH", 300, 200),
        b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08" + struct.pack(">HH", 200, 300) + b"\x03",
        webp(b"VP8X", b"\0\0\0\0" + (299).to_bytes(3, "little") + (199).to_bytes(3, "little")),
        webp(b"VP8L", b"\x2f" + (299 | 199 << 14).to_bytes(4, "little")),
        webp(b"VP8 ", b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 300, 200)),
    ],
    ids=["gif", "jpeg", "webp-x", "webp-lossless", "webp-lossy"],
)
def test_a_size_is_read_from_the_header(data: bytes) -> None:
    assert media.size_of("data:image/any;base64," + base64.b64encode(data).decode()) == (300, 200)
