"""The fuzzer itself: what is broken is found, made small, told apart, and measured."""

import random
from pathlib import Path

import pytest

from tests.fuzz import corpus, mutate
from tests.fuzz.__main__ import fuzz
from tests.fuzz.client import shown_of_body, shown_of_stream
from tests.fuzz.inside import Inside, Reader
from tests.fuzz.running import LIMIT_CPU_S, attempt
from tests.fuzz.shrink import shrunk
from tests.fuzz.targets import AnswerBody, check_read


class Breaks:
    """Fails for every input with a brace that closes before one opens."""

    name = folder = "text"
    mutate = staticmethod(mutate.of_text)

    def run(self, data: bytes) -> None:
        if 0 <= data.find(b"}") < data.find(b"{"):
            raise ValueError(f"at {data.find(b'}')}")

    def close(self) -> None:
        return None


def test_a_failure_is_found_and_saved_small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "seed").write_bytes(b"a {b} c {d} e")
    monkeypatch.setattr(corpus, "ROOT", tmp_path)
    runs, _, failures = fuzz(Breaks(), 5.0, random.Random(1), most=1)
    (found,) = (tmp_path / "text").glob("found-*")
    assert (b"}{", 1) == (found.read_bytes(), len(failures))
    assert runs > 0


def test_a_failing_input_is_shrunk_to_what_makes_it_fail() -> None:
    assert b"ab" == shrunk(b"x" * 500 + b"a" + b"y" * 300 + b"b" + b"z", lambda data: b"a" in data and b"b" in data)


def test_failures_that_differ_in_figures_alone_are_of_one_kind() -> None:
    kinds = {attempt(Breaks(), data).failure.kind for data in (b"}{", b"xxx}{")}  # type: ignore[union-attr]
    assert {"ValueError in test_running.py:run: at #"} == kinds


def test_an_input_that_takes_too_long_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.running.LIMIT_CPU_S", 0.0)
    assert "too slow" == attempt(Breaks(), b"x").failure.kind  # type: ignore[union-attr]
    assert LIMIT_CPU_S > 0


def test_text_that_was_delivered_and_not_read_is_seen() -> None:
    Reader.read.sentences, Reader.read.refusals = {"0": "It stands in Paris."}, {}
    check_read({("0", "content"): "It stands in Paris."})
    with pytest.raises(AssertionError, match="refusal of choice 0 was delivered and not read"):
        check_read({("0", "refusal"): "Rome"})


def test_the_reader_of_the_tests_shows_what_a_client_would() -> None:
    body = (
        b'\xef\xbb\xbf{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"type":"thinking","text":"b"}],"refusal":"\\ud800"}}]}'
    )
    assert {("0", "content"): "a", ("0", "refusal"): "\ud800"} == shown_of_body(body)
    stream = b'data: {"choices":[{"delta":{"content":"a"}}]}\r\n\r\ndata: {"choices":[{"text":"b"}]}\n\ndata: [DONE]\n\ndata: {}'
    assert {("0", "content"): "a", ("0", "other"): "b"} == shown_of_stream(stream)


def test_an_exception_that_the_proxy_caught_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Reader, *_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Reader, "on_sentence", broken)
    target = AnswerBody()
    try:
        result = attempt(target, b'{"choices":[{"index":0,"message":{"content":"a"}}]}')
    finally:
        target.close()
    assert result.failure is not None
    assert "ZeroDivisionError" in result.failure.kind


def test_the_whole_proxy_answers_without_a_socket() -> None:
    proxy = Inside()
    try:
        proxy.upstream.pieces = [b'{"choices":[]}']
        got = proxy.post("tap", b'{"model":"m","messages":[{"role":"user","content":"a"}]}')
    finally:
        proxy.close()
    assert (200, b'{"choices":[]}', True) == (got.status, got.body, got.ended)
