"""Documents, sound and video: by pages and seconds, never by bytes alone."""

from __future__ import annotations

import base64
import os
import struct
import zlib
from typing import Any

import pytest

from proxy.exchange.answers import OutputRequirements
from proxy.models.tokens import media as files
from proxy.models.tokens.counter import TiktokenCounter


def pdf(pages: int, size: int = 1000, *, compressed: bool = False) -> bytes:
    tree = b"".join(b"%d 0 obj << /Type /Page /Parent 2 0 R >> endobj\n" % (9 + i) for i in range(pages))
    body = zlib.compress(tree) if compressed else b"2 0 obj << /Type /Pages /Count %d >> endobj\n" % pages + tree
    return b"%PDF-1.7\n" + os.urandom(size).replace(b"/", b"_") + body + b"\n%%EOF"


def address(data: bytes, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def document(data: bytes, kind: str = "application/pdf") -> dict[str, Any]:
    return {"type": "file", "file": {"filename": "x.pdf", "file_data": address(data, kind)}}


@pytest.mark.parametrize(("pages", "size"), [(1, 1000), (1, 1_000_000), (12, 50_000), (40, 9_000_000)])
def test_a_pdf_is_counted_by_its_pages(pages: int, size: int) -> None:
    assert files.tokens_of("file", document(pdf(pages, size)), "gpt-4o") == pages * files.PAGE_TOKENS


def test_google_bills_less_a_page() -> None:
    assert files.tokens_of("file", document(pdf(3)), "gemini-3-pro") == 3 * 258


@pytest.mark.parametrize("size", [1000, 1_000_000, 15_000_000])
def test_pages_that_cannot_be_seen_are_guessed_with_a_bound(size: int) -> None:
    assert files.PAGE_TOKENS <= files.tokens_of("file", document(pdf(5, size, compressed=True)), "x") <= files.MOST_GUESSED_TOKENS


def wav(seconds: int, rate: int) -> bytes:
    return b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x02\0" + struct.pack("<II", 44100, rate) + bytes(4) + bytes(seconds * rate)


def test_sound_is_counted_by_its_seconds() -> None:
    found = files.tokens_of(
        "input_audio",
        {"type": "input_audio", "input_audio": {"format": "wav", "data": base64.b64encode(wav(7, 176_400)).decode()}},
        "gpt-4o",
    )
    assert 70 <= found <= 73
    assert 7 * 32 <= files.tokens_of("audio_url", {"audio_url": {"url": address(wav(7, 176_400), "audio/wav")}}, "gemini-2.5") <= 7 * 32 + 4


@pytest.mark.parametrize("front", [True, False])
def test_video_is_counted_by_its_seconds(front: bool) -> None:
    head = b"\0\0\0\x6cmvhd\0\0\0\0" + bytes(8) + struct.pack(">II", 1000, 12_500) + bytes(80)
    data = head + os.urandom(9_000_000) if front else os.urandom(9_000_000) + head
    found = files.tokens_of("video_url", {"video_url": {"url": address(data, "video/mp4")}}, "any")
    assert found == 12.5 * files.VIDEO_TOKENS_PER_SECOND


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("file", {"file": {"file_id": "file-1"}}),
        ("file", {"file": None}),
        ("file", {"file": {"file_data": "data:application/zip;base64," + "A" * 5_000_000}}),
        ("video_url", {"video_url": {"url": "https://example.com/a.mp4"}}),
        ("video_url", {"video_url": {"url": "data:video/mp4;base64," + "é" * 100}}),
        ("audio_url", {"audio_url": "data:audio/ogg;base64," + "A" * 20_000_000}),
        ("input_audio", {"input_audio": {"format": "mp3", "data": "A" * 20_000_000}}),
    ],
)
def test_what_cannot_be_read_has_a_bound(kind: str, part: dict[str, Any]) -> None:
    assert 1 <= files.tokens_of(kind, part, "any") <= files.MOST_GUESSED_TOKENS + 1


def test_text_in_a_file_is_counted_as_text() -> None:
    assert files.tokens_of("file", document(b"word " * 4000, "text/plain"), "any") == 5000


@pytest.mark.parametrize(
    "part",
    [
        document(pdf(300)),
        {"type": "video_url", "video_url": {"url": address(os.urandom(3_000_000), "video/mp4")}},
        {"type": "some_scan", "source": {"type": "base64", "data": "QUJD" * 400_000}},
    ],
)
async def test_what_is_estimated_is_told_apart(part: dict[str, Any]) -> None:
    counter = TiktokenCounter({})
    message = {"role": "user", "content": [part, {"type": "text", "text": "Sum it up"}]}

    use = await counter.count_request([message], (), OutputRequirements(), counter.model("gpt-4o"))
    assert (use.exact, 1 <= use.used_tokens - (use.guessed_tokens or 0) < 40) == (False, True)


async def test_words_in_a_part_of_an_unknown_kind_are_counted_as_words() -> None:

    counter = TiktokenCounter({})
    message = {"role": "user", "content": [{"type": "note", "note": "many words " * 500}]}
    use = await counter.count_request([message], (), OutputRequirements(), counter.model("gpt-4o"))
    assert not use.guessed_tokens
    assert use.used_tokens >= 1000
