"""How the log looks: one line an event, on standard error, the same for every part and in every worker process.

Two formats, ``console`` for a person and ``json`` for a machine. A line is written with one call, so that lines of several processes do
not mix, and what is in it can neither end it nor pass for another: control characters and separators are escaped, a traceback's lines
are indented (console) or one field (JSON). Secrets in messages and tracebacks are masked. Libraries are heard from ``info`` on, those
that would write the addresses they call, which may hold a key, from ``warning`` on; Python's warnings are lines too.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import IO, Any

import msgspec
import orjson

from proxy.config.conversion import checked
from proxy.config.sections import LoggingSettings
from proxy.errors import ConfigError
from proxy.observe.finished import LogLine
from proxy.store.masking import mask_text

LEVEL_VARIABLE = "GROUNDWIRE_LOG_LEVEL"
FORMAT_VARIABLE = "GROUNDWIRE_LOG_FORMAT"
"""How ``serve`` hands its options to workers; an operator may set them too. They win over ``logging:`` in config.yaml."""
OWN = ("groundwire", "proxy")
"""Loggers of this program: the only ones that are ever heard below ``info``."""
STARTING = "groundwire"
"""The logger of what is said at the start."""
QUIET = ("uvicorn.error", "uvicorn.access", "faiss.loader", "httpx", "httpcore", "urllib3")
"""From ``warning`` on: what they say below is said elsewhere, no news, or an address with a key in it."""

HOLD_S = 0.05
"""How long the line of an exchange that went well may wait for others, to be written with them."""
HELD_LINES = 64
"""How many may: less than a millisecond of work."""
_ONE_WRITE_BYTES = 4096
"""What a pipe takes in one piece (POSIX's ``PIPE_BUF`` on Linux), so that lines of several processes do not mix."""

exchanges = logging.getLogger("groundwire.exchange")
_own = logging.getLogger("groundwire")
_encode = msgspec.json.Encoder().encode


def configure(given: LoggingSettings | None = None, *, level: str | None = None, form: str | None = None) -> None:
    """Send the log to standard error: as `level` and `form` say, else the environment, else `given`. Raises `ConfigError`.

    What `level` and `form` say holds for the processes that this one starts, too. Does nothing to a log that is set up by someone else.
    """
    for variable, value in ((LEVEL_VARIABLE, level), (FORMAT_VARIABLE, form)):
        if value:
            os.environ[variable] = value
    settings = _settings(given or LoggingSettings(), os.environ)
    root = logging.getLogger()
    mine = [handler for handler in root.handlers if isinstance(handler, LineHandler)]
    if root.handlers and not mine:
        return
    handler = mine[0] if mine else LineHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.format == "json" else ConsoleFormatter())
    if not mine:
        root.addHandler(handler)
    number = logging.getLevelNamesMapping()[settings.level.upper()]
    root.setLevel(max(number, logging.INFO))
    for name in OWN:
        logging.getLogger(name).setLevel(number)
    for name in QUIET:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))
    logging.captureWarnings(True)


def writes_json() -> bool:
    """Whether the log is for a machine."""
    return any(isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers)


def _settings(given: LoggingSettings, environ: Mapping[str, str]) -> LoggingSettings:
    wishes = {"level": environ.get(LEVEL_VARIABLE) or given.level, "format": environ.get(FORMAT_VARIABLE) or given.format}
    try:
        return checked(wishes, LoggingSettings, "")
    except ConfigError as error:
        raise ConfigError("environment", LEVEL_VARIABLE if error.path == "level" else FORMAT_VARIABLE, error.problem) from error


def exchange(line: LogLine) -> None:
    """Write the line of an exchange that is over, at once where it failed: then it is a warning; else `LineHandler.hold` may."""
    if line.failed:
        if exchanges.isEnabledFor(logging.WARNING):
            exchanges.handle(_record(logging.WARNING, line))
    elif exchanges.isEnabledFor(logging.INFO):
        handler = _only_handler()
        if handler is None or not handler.hold(line):
            exchanges.handle(_record(logging.INFO, line))


def _only_handler() -> LineHandler | None:
    """Who would get an exchange's record, if it is a handler of ours alone, and nobody else looks at it on its way."""
    handlers = logging.root.handlers
    if len(handlers) != 1 or exchanges.handlers or exchanges.filters or _own.handlers or not (exchanges.propagate and _own.propagate):
        return None
    handler = handlers[0]
    return handler if isinstance(handler, LineHandler) and not handler.filters and handler.level <= logging.INFO else None


def _record(level: int, line: LogLine, at: float | None = None) -> logging.LogRecord:
    """An exchange's record, for handlers that are not ours, and where it failed."""
    found = logging.LogRecord(exchanges.name, level, __file__, 0, _Message(line), None, None)
    if at is not None:
        found.created, found.msecs = at, int(at % 1 * 1000) + 0.0
    return found


class _Message:
    """The message of an exchange's line: read by `JsonFormatter`, spelled out for everyone else."""

    def __init__(self, line: LogLine) -> None:
        self.line = line

    def __str__(self) -> str:
        return _said(self.line)


def _said(line: LogLine) -> str:
    """``ID STATUS VERDICT METHOD PATH name=value …``"""
    head = f"{line.id or '-'} {line.status or '-'} {line.verdict or '-'} {line.method or '-'} {line.path or '-'}"
    fields = msgspec.to_builtins(line).items()
    return " ".join([head, *[f"{name}={_FORMS[type(value)](value)}" for name, value in fields if name not in _HEAD]])


_HEAD = frozenset(("id", "status", "verdict", "method", "path"))
_PLAIN = re.compile(r"[!#-<>-~]*")
"""A value that needs no quotes: printable ASCII without space, ``"`` and ``=``."""


@lru_cache(maxsize=1024)  # most are names, which come again with each line
def _text(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


_FORMS: Mapping[type, Callable[[Any], str]] = {
    str: _text,
    float: "{:.1f}".format,
    int: str,
    bool: str,
    list: lambda value: _text(",".join(value)),
    tuple: lambda value: _text(",".join(value)),
}
"""How a value of a line is written."""


def one_line(text: str) -> str:
    """`text` with everything escaped that is not plain to see: line ends, other control characters, marks that turn the direction."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


class ConsoleFormatter(logging.Formatter):
    """``TIME LEVEL LOGGER: MESSAGE``; the lines of a traceback follow, each after a bar."""

    def __init__(self) -> None:
        super().__init__()
        self._second, self._stamp = -1, ""

    def format(self, record: logging.LogRecord) -> str:
        """One record."""
        text = self._line(record.created, record.msecs, record.levelname, record.name, _message(record))
        if trace := _traceback(self, record):
            text += "".join(f"\n  | {one_line(line)}" for line in trace.splitlines())
        return text

    def exchange(self, at: float, level: str, line: LogLine) -> str:
        """What `format` makes of an exchange's record."""
        return self._line(at, (at - int(at)) * 1000, level, exchanges.name, _said(line))

    def _line(self, at: float, milliseconds: float, level: str, logger: str, message: str) -> str:
        second = int(at)
        if second != self._second:
            self._second, self._stamp = second, time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
        return f"{self._stamp},{int(milliseconds):03d} {level:7} {logger}: {one_line(message)}"


class JsonFormatter(logging.Formatter):
    """One JSON object, in ASCII: ``time``, ``level``, ``logger``, then ``message`` and ``exception``, or the fields of an exchange."""

    def __init__(self) -> None:
        super().__init__()
        self._second, self._stamp, self._pid = -1, "", os.getpid()

    def format(self, record: logging.LogRecord) -> str:
        """One record."""
        if isinstance(record.msg, _Message):
            return self.exchange(record.created, record.levelname, record.msg.line)
        fields = {**self._head(record.created, record.levelname, record.name), "message": _message(record)}
        if trace := _traceback(self, record):
            fields["exception"] = trace
        try:
            return _ascii(orjson.dumps(fields))
        except orjson.JSONEncodeError:  # half of a surrogate pair
            return json.dumps(fields)

    def exchange(self, at: float, level: str, line: LogLine) -> str:
        """What `format` makes of an exchange's record."""
        head = orjson.dumps(self._head(at, level, exchanges.name))
        return _ascii(head[:-1] + b',"event":"exchange",' + _encoded(line)[1:])

    def _head(self, at: float, level: str, logger: str) -> dict[str, str | int]:
        return {"time": self._time(at), "level": level.lower(), "logger": logger, "pid": self._pid}

    def _time(self, created: float) -> str:
        """UTC, as RFC 3339 has it."""
        second = int(created)
        if second != self._second:
            self._second, self._stamp = second, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._stamp}.{int(created % 1 * 1000):03d}Z"


def _encoded(line: LogLine) -> bytes:
    try:
        return _encode(line)
    except UnicodeEncodeError:  # half of a surrogate pair, in a name
        return json.dumps(msgspec.to_builtins(line)).encode()


def _ascii(line: bytes) -> str:
    """JSON with everything escaped that is not plain ASCII: what some readers take for a line's end is among it."""
    if line.isascii() and b"\x7f" not in line:
        return line.decode("ascii")
    return json.dumps(orjson.loads(line), separators=(",", ":")).replace("\x7f", "\\u007f")


def _message(record: logging.LogRecord) -> str:
    """The record's message, without secrets; what is said at the start stays as it is: the admin key made for it is meant to be read."""
    message = record.getMessage()
    return message if record.name == STARTING or record.name == exchanges.name else mask_text(message)


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    """The record's exception and stack, without secrets; "" when it has neither."""
    parts = [formatter.formatException(record.exc_info)] if record.exc_info and record.exc_info[0] else []
    if record.stack_info:
        parts.append(formatter.formatStack(record.stack_info))
    return mask_text("\n".join(parts)) if parts else ""


class LineHandler(logging.StreamHandler[IO[str]]):
    """Writes each line whole with one call of the system, so that nothing of another process comes between its parts.

    An exchange's line waits for those of others: many formatted and written together cost a third of as many single ones. Any other
    record, which may be about what goes wrong, is written at once and behind those that wait.
    """

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(stream)
        self._held: list[tuple[float, LogLine]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        """The one on which a timer runs."""

    def hold(self, line: LogLine) -> bool:
        """Write the line within `HOLD_S`, where an event loop runs; whether it is so."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        with self._locked:
            held = self._held
            held.append((time.time(), line))
            if len(held) >= HELD_LINES:
                self.flush()
            elif self._loop is not loop:
                self._loop = loop
                loop.call_later(HOLD_S, self._timed)
        return True

    def emit(self, record: logging.LogRecord) -> None:
        """Write it; what cannot be written is lost, as there is no one to tell."""
        self._write([*self._taken(), *self._formatted(record)])

    def flush(self) -> None:
        """Write what waits."""
        with self._locked:
            self._write(self._taken())

    def _timed(self) -> None:
        self._loop = None
        self.flush()

    @property
    def _locked(self) -> AbstractContextManager[object]:
        return self.lock or nullcontext()

    def _taken(self) -> Iterator[str]:
        """The lines that wait; without records, which nobody but a foreign formatter would look at."""
        held, self._held = self._held, []
        form, level = self.formatter, logging.getLevelName(logging.INFO)
        for at, line in held:
            if isinstance(form, ConsoleFormatter | JsonFormatter):
                yield form.exchange(at, level, line)
            else:
                yield from self._formatted(_record(logging.INFO, line, at))

    def _formatted(self, record: logging.LogRecord) -> tuple[str, ...]:
        """Its line; none where it cannot be made."""
        try:
            return (self.format(record),)
        except Exception:
            self.handleError(record)
            return ()

    def _write(self, lines: Iterable[str]) -> None:
        waiting = b""
        for text in lines:
            line = text.encode("utf-8", "backslashreplace") + b"\n"
            if len(waiting) + len(line) > _ONE_WRITE_BYTES:
                self._put(waiting)
                waiting = b""
            waiting += line
        self._put(waiting)

    def _put(self, lines: bytes) -> None:
        try:
            descriptor = self.stream.fileno() if lines else -1
            while lines:
                lines = lines[os.write(descriptor, lines) :]
        except (OSError, ValueError):
            return
