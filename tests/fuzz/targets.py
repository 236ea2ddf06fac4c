"""The targets: each takes one input and raises where something does not hold that must hold whatever comes."""

from __future__ import annotations

import hashlib
import json
import random
import re
import tempfile
from collections import Counter
from collections.abc import Container
from pathlib import Path
from typing import Any, Protocol

from proxy.config.settings import load_settings
from proxy.errors import ConfigError
from proxy.policy.loading import load_policy
from proxy.wire import sse
from proxy.wire.chat.completions import ChatDialect
from tests.fuzz import mutate
from tests.fuzz.client import Shown, parsed, payloads, shown_of_body, shown_of_stream
from tests.fuzz.inside import BLANK, Inside, Reader, Response

CHAT = b'{"model":"gpt-4o","messages":[{"role":"user","content":"Where is it?"}]}'
STREAMED = CHAT[:-1] + b',"stream":true}'


class Target(Protocol):
    """What is fuzzed."""

    name: str
    folder: str
    """Of its corpus."""
    mutate: mutate.Mutation

    def run(self, data: bytes) -> None:
        """Raises `AssertionError`, or whatever the code under test raises, where an invariant is broken."""

    def close(self) -> None:
        """Let go of what it holds."""


def exact(data: bytes | str) -> Any:
    """JSON with its numbers as they are written; None for what is no JSON."""
    try:
        return json.loads(data, parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        return None


def rng_of(data: bytes) -> random.Random:
    """Choices that an input makes: the same each time it runs."""
    return random.Random(hashlib.sha256(data).digest())


def cut(data: bytes, rng: random.Random) -> list[bytes]:
    """`data` in pieces."""
    if rng.random() < 0.2 and len(data) < 5000:
        return [data[i : i + 1] for i in range(len(data))]
    places = sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice((0, 1, 3, 20))))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True) if a < b]


class Through:
    """A target that goes through the whole proxy."""

    def __init__(self) -> None:
        self._made: Inside | None = None
        self._runs = 0

    @property
    def proxy(self) -> Inside:
        """Started by the first input."""
        if self._made is None:
            self._made = Inside()
        return self._made

    def _written(self) -> None:
        """Now and then, see that the records could be written."""
        self._runs += 1
        if self._runs % 50 == 0:
            self.proxy.flush()

    def close(self) -> None:
        if self._made is not None:
            self._made.flush()
            self._made.close()
            self._made = None


class RequestBody(Through):
    """A client's body: refused with 400 and an envelope, or sent on byte for byte."""

    name = folder = "request"
    mutate = staticmethod(mutate.of_json)

    def run(self, data: bytes) -> None:
        """Through a policy without stages, and one that judges."""
        for route in ("tap", "closed-hold"):
            self.proxy.upstream.kind, self.proxy.upstream.pieces = "application/json", [ANSWER]
            self.proxy.upstream.calls.clear()
            got = self.proxy.post(route, data)
            assert got.ended, "the response has no end"
            assert got.status in (200, 400, 413), f"status {got.status}"
            assert got.headers["x-groundwire-id"], "no record id"
            if got.status != 200:
                error = json.loads(got.body)["error"]
                assert {"message", "type", "param", "code"} == set(error), "no envelope"
                assert error["code"], "no code"
                assert not self.proxy.upstream.calls, "refused and sent all the same"
                continue
            self._check_sent(data, self.proxy.upstream.calls[0].body)
        self._written()

    @staticmethod
    def _check_sent(data: bytes, sent: Any) -> None:
        before = exact(data)
        if "groundwire" not in before and not any("groundwire" in message for message in before["messages"]):
            assert sent == data, "bytes changed that no policy touches"
            return
        before.pop("groundwire", None)
        for message in before["messages"]:
            message.pop("groundwire", None)
        assert exact(sent) == before, "more than the extension is gone"


_TELLS_ERROR = re.compile(rb'"(?:error|errors|detail|message|Message|msg|title)"\s*:\s*[^{\s]|"error"\s*:\s*\{')
ANSWER = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"Hi."},"finish_reason":"stop"}]}'


def told_otherwise(data: bytes) -> bool:
    """Whether an answer with status 200 is none: an error, or an event stream that nobody asked for."""
    return _TELLS_ERROR.search(data) is not None or data.lstrip()[:1] in (b"d", b"e", b":", b"i", b"r", b"\xef")


class AnswerBody(Through):
    """A provider's answer that is not streamed."""

    name = folder = "answer"
    mutate = staticmethod(mutate.of_json)

    def run(self, data: bytes) -> None:
        """Untouched, read, refused where it cannot be read, marked, changed."""
        self.proxy.upstream.kind, self.proxy.upstream.pieces = "application/json", [data]
        if told_otherwise(data):  # an error, or events: told in the form that was asked for
            self._post("tap", known=range(200, 600))
            return
        assert self._post("tap").body == data, "tap changed bytes"
        assert self._post("hold").body == data, "a policy that only reads changed bytes"
        got = self._post("closed-hold")
        if got.status == 200:
            assert exact(got.body) is not None, "what was written anew is no JSON"
            check_read(shown_of_body(got.body))
        check_blank(shown_of_body(self._post("blank-hold").body))
        before = exact(data)
        for route in ("tap", "shout"):
            after = exact(self._post(route, inline=True).body)
            assert before is None or after is not None, f"what left {route} is no JSON"
            if isinstance(before, dict) and isinstance(after, dict):
                self._check_kept(before, after, changed=route == "shout")
        self._written()

    def _post(self, route: str, *, inline: bool = False, known: Container[int] = (200, 400)) -> Response:
        got = self.proxy.post(route, CHAT, inline=inline)
        assert got.ended, "the response has no end"
        assert got.status in known, f"status {got.status} through {route}"
        return got

    @staticmethod
    def _check_kept(before: dict[str, Any], after: dict[str, Any], *, changed: bool) -> None:
        left, kept = ({k: v for k, v in one.items() if k != "groundwire"} for one in (before, after))
        if changed:
            left, kept = _without_texts(left), _without_texts(kept)
        assert left == kept, "a field that no stage changes is gone or changed"


def _without_texts(completion: dict[str, Any]) -> dict[str, Any]:
    """Without what a changed text takes with it: the text, its log probabilities, a message that was none."""
    choices = completion.get("choices")
    if not isinstance(choices, list):
        return completion
    found = []
    for choice in choices:
        if isinstance(choice, dict):
            message = choice.get("message")
            kept = {k: v for k, v in message.items() if k not in ("content", "role")} if isinstance(message, dict) else {}
            choice = {k: v for k, v in choice.items() if k not in ("logprobs", "message")} | ({"message": kept} if kept else {})
        found.append(choice)
    return {**completion, "choices": found}


def check_read(shown: Shown) -> None:
    """Whatever a client shows of a closed policy's answer has been read."""
    for (choice, field), text in shown.items():
        read = Reader.read.sentences if field == "content" else Reader.read.refusals if field == "refusal" else {}
        assert text in read.get(choice, ""), f"{field} of choice {choice} was delivered and not read"


def check_blank(shown: Shown) -> None:
    """Of an answer of which every sentence was replaced, nothing else is shown."""
    for (choice, field), text in shown.items():
        assert not text.replace(BLANK, "").strip(), f"{field} of choice {choice} was replaced and delivered all the same"


class AnswerStream(Through):
    """A provider's answer as an event stream, cut anywhere."""

    name = folder = "stream"
    mutate = staticmethod(mutate.of_stream)

    def run(self, data: bytes) -> None:
        """The parser however it is cut, and every delivery."""
        rng = rng_of(data)
        self._check_cuts(data, rng)
        self.proxy.upstream.kind, self.proxy.upstream.pieces = "text/event-stream", cut(data, rng)
        inline, self._begins_with_error = rng.random() < 0.3, _is_error(next(iter(payloads(data)), ""))
        got = self._post("tap")
        if got.status == 200:
            assert got.body.startswith(sse.WholeEvents().feed(data).rstrip(b"\r\n")), "tap changed bytes"
        whole = self._whole(data)
        if whole:
            assert got.body == data, "tap added bytes"
        for route in ("hold", "gate"):
            got = self._post(route, inline=inline)
            self._check_valid(data, got)
            if whole and got.status == 200:
                assert shown_of_stream(got.body) == shown_of_stream(data), f"{route} changed what the client shows"
                assert inline or route == "gate" or got.body == data, "hold changed bytes"
        for route in ("closed-hold", "closed-gate"):
            got = self._post(route, inline=inline)
            if got.status == 200:
                check_read(shown_of_stream(got.body))
        for route in ("blank-hold", "blank-gate"):
            check_blank(shown_of_stream(self._post(route, inline=inline).body))
        self._written()

    def _post(self, route: str, *, inline: bool = False) -> Response:
        got = self.proxy.post(route, STREAMED, inline=inline)
        known = (200, 400, 502) if "hold" in route else (200,)
        assert got.ended, "the response has no end"
        assert got.status in known or (self._begins_with_error and 400 <= got.status < 600), f"status {got.status} through {route}"
        return got

    @staticmethod
    def _whole(data: bytes) -> bool:
        """Whether it is a stream as the API has it: every choice says all it says before its one end, then the end mark, then nothing."""
        stream = ChatDialect().stream()
        pieces = [*stream.feed(data), *stream.finish()]
        chunks = [parsed(payload) for payload in payloads(data)]
        finished: set[Any] = set()
        for chunk in chunks:
            for choice in chunk.get("choices") or [] if isinstance(chunk, dict) and isinstance(chunk.get("choices"), list) else []:
                if not isinstance(choice, dict) or not isinstance(choice.get("index"), int) or choice["index"] in finished:
                    return False
                if isinstance(choice.get("finish_reason"), str):
                    finished.add(choice["index"])
        ends = bool(pieces) and pieces[-1].done and sum(piece.done for piece in pieces) == 1
        closed = data.endswith((b"\n\n", b"\r\n\r\n", b"\r\r"))
        return ends and closed and stream.complete and not stream.unreadable and stream.error is None

    @staticmethod
    def _check_cuts(data: bytes, rng: random.Random) -> None:
        expected = None
        for pieces in ([data], cut(data, rng), cut(data, rng)):
            splitter, stream = sse.EventSplitter(), ChatDialect().stream(separate=True)
            events = [event for piece in pieces for event in splitter.feed(piece)]
            rest = splitter.finish()
            told = b"".join(event.raw for event in events)
            assert data.startswith(told), "the events are not the stream"
            assert rest is None or rest.raw.rstrip(b"\r\n") == data[len(told) :].rstrip(b"\r\n"), "the last event is not the stream's"
            found = [piece.raw for chunk in pieces for piece in stream.feed(chunk)] + [piece.raw for piece in stream.finish()]
            state = found, stream.answer, stream.unreadable, stream.complete, stream.done, stream.error, stream.usage
            expected = expected or state
            assert state == expected, "another cut gives another answer"

    @staticmethod
    def _check_valid(data: bytes, got: Response) -> None:
        """No event leaves as no JSON that did not come so."""
        known = Counter(payload for payload in payloads(data) if exact(payload) is None)
        if got.status != 200:
            assert exact(got.body) is not None, "the error is no JSON"
            return
        new = Counter(payload for payload in payloads(got.body) if exact(payload) is None)
        assert not new - known, "an event left that is no JSON"


def _is_error(payload: str) -> bool:
    """Whether an event is an error: as the first one it has the status that it names, since nothing has left before it."""
    try:
        found = json.loads(payload)
    except ValueError:
        return False
    return isinstance(found, dict) and bool(found.get("error"))


class _Yaml:
    """A file of the operator's: taken, or refused with its name and the place."""

    mutate = staticmethod(mutate.of_yaml)

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="groundwire-fuzz")
        self._file = Path(self._folder.name) / "file.yaml"

    def run(self, data: bytes) -> None:
        """Load it."""
        self._file.write_bytes(data)
        refusal = self._refusal()
        if refusal is not None:
            assert str(refusal).startswith(str(self._file)), "the refusal does not say where"
            assert refusal.problem, "the refusal does not say what"
            assert len(str(refusal)) < 5000, "the refusal is too long to be read"

    def _refusal(self) -> ConfigError | None:
        try:
            self.load(self._file)
        except ConfigError as error:
            return error
        return None

    def load(self, file: Path) -> None:
        """Raises `ConfigError`."""
        raise NotImplementedError

    def close(self) -> None:
        self._folder.cleanup()


class PolicyFile(_Yaml):
    """policies/*.yaml"""

    name = folder = "policy"

    def load(self, file: Path) -> None:
        load_policy(file)


class ConfigFile(_Yaml):
    """config.yaml"""

    name = folder = "config"

    def load(self, file: Path) -> None:
        load_settings(file, {"SET": "1"})
