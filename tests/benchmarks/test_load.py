"""The load benchmark measures right answers only, and measures them rightly."""

import json
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks.load import bodies, statistics, stub
from benchmarks.load.generator import BadAnswer, Expected, closed_loop, request_bytes
from benchmarks.load.processes import Server, cores, free_port
from benchmarks.load.streaming import read_streams
from benchmarks.load.systems import Place, System, check, direct, floor

REPOSITORY = Path(__file__).resolve().parents[2]
CHUNKS = 6


@pytest.fixture
def place(tmp_path):
    with ExitStack() as stack:
        port = free_port()
        command = [sys.executable, "-m", "benchmarks.load.stub", "--port", str(port), "--chunks", str(CHUNKS), "--gap-ms", "2"]
        server = Server("stub", command, port, tmp_path / "stub.log", cores()[1], {"PYTHONPATH": str(REPOSITORY)})
        stack.callback(server.stop)
        server.wait_ready(None)
        yield Place(tmp_path, cores()[0], port, stack)


def test_bodies_are_the_same_every_time_and_of_the_stated_size():
    assert bodies.large() == bodies.large()
    assert 250 <= len(bodies.small()) <= 350
    assert 200_000 <= len(bodies.large()) <= 208_000
    assert len(json.loads(bodies.large())["messages"]) == 200


def test_an_agents_body_is_the_same_every_time_and_made_of_what_agents_send():
    body = bodies.agent()
    messages = json.loads(body)["messages"]
    said = "".join(message["content"] or "" for message in messages)
    assert body == bodies.agent()
    assert 200_000 <= len(body) <= 212_000
    assert {"system", "user", "assistant", "tool"} == {message["role"] for message in messages}
    assert {"def ", "diff --git", '{"total":', "Traceback", "\x1b[32m", "```", "заказ", "订单", "ऑर्डर"} == {
        sign for sign in ("def ", "diff --git", '{"total":', "Traceback", "\x1b[32m", "```", "заказ", "订单", "ऑर्डर") if sign in said
    }
    assert min(body.count(b"{"), body.count(b"\\n"), body.count(b'\\"')) > 1000


def test_a_percentile_is_a_value_that_was_seen():
    assert [statistics.percentile([3, 1, 2, 4], share) for share in (0.5, 0.95, 1.0)] == [2, 4, 4]


def test_an_interval_is_the_same_every_time_and_holds_the_mean():
    found = statistics.estimate([1.0, 2.0, 4.0, 3.0])
    assert found == statistics.estimate([1.0, 2.0, 4.0, 3.0])
    assert found.low <= found.mean <= found.high


@pytest.mark.process
def test_every_answer_of_a_closed_loop_is_counted(place):
    system = direct(place)
    sample = closed_loop(system.port, system.request(bodies.large()), system.expected(), 3, 0.1)
    assert sample.per_second > 0
    assert len(sample.latencies_ms) >= 12


@pytest.mark.process
def test_an_answer_of_another_length_stops_the_measurement(place):
    expected = Expected(len(stub.COMPLETION) - 1, b"stub")
    with pytest.raises(BadAnswer):
        closed_loop(place.upstream_port, request_bytes("/", bodies.small(), "key", {}), expected, 1, 0.05)


@pytest.mark.process
def test_an_answer_without_the_stubs_text_stops_the_measurement(place):
    expected = Expected(len(stub.COMPLETION), b"something else")
    with pytest.raises(BadAnswer):
        closed_loop(place.upstream_port, request_bytes("/", bodies.small(), "key", {}), expected, 1, 0.05)


@pytest.mark.process
def test_the_floor_passes_answers_and_streams_through(place):
    system = check(floor(place))
    with system.awake():
        seen = read_streams(system.port, system.request(bodies.small(stream=True)), CHUNKS, 2, 2)
    assert len(seen.first_token_ms) == 4
    assert len(seen.delays_ms) == 4 * CHUNKS
    assert min(seen.delays_ms) > 0


@pytest.mark.process
def test_a_stream_with_too_few_chunks_stops_the_measurement(place):
    system = System("direct", place.upstream_port)
    with pytest.raises(BadAnswer):
        read_streams(system.port, system.request(bodies.small(stream=True)), CHUNKS + 1, 1, 1)


@pytest.mark.process
def test_a_server_is_gone_after_stop_even_while_paused(place):
    system = floor(place)
    assert system.server is not None
    system.server.pause()
    system.server.stop()
    assert system.server.process.returncode is not None


def test_the_floor_stays_below_sixty_lines():
    assert len((REPOSITORY / "benchmarks" / "floor.py").read_text().splitlines()) < 60
