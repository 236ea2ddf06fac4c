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
from collections.abc import Callable, Mapping
from contextlib import nullcontext
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
QUIET = ("uvicorn.error", "uvicorn.access", "faiss.loader", "httpx", "httpcore", "httpx2", "httpcore2", "urllib3")
"""From ``warning`` on: what they say below is said elsewhere, no news, or an address with a key in it."""

HOLD_S = 0.05
"""How long the line of an exchange that went well may wait for others, to be written with them."""
HELD_LINES = 64
"""How many may: less than a millisecond of work."""
_ONE_WRITE_BYTES = 4096
"""What a pipe takes in one piece (POSIX's ``PIPE_BUF`` on Linux), so that lines of several processes do not mix."""

exchanges = logging.getLogger("groundwire.exchange")
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
    """Write the line of an exchange that is over: a warning, and at once, where it failed; else `LineHandler` lets it wait a moment."""
    level = logging.WARNING if line.failed else logging.INFO
    if not exchanges.isEnabledFor(level):
        return
    if level == logging.INFO and (handler := _only_handler()) is not None and handler.hold(line):
        return
    exchanges.handle(_record(line, level))


def _record(line: LogLine, level: int) -> logging.LogRecord:
    return logging.LogRecord(exchanges.name, level, __file__, 0, _Message(line), None, None)


def _only_handler() -> LineHandler | None:
    """The one that an exchange's line goes to, where that is all that becomes of it: nobody else looks at it, or leaves it out."""
    found, logger = list[logging.Handler](), exchanges
    while logger is not None:
        found += logger.handlers
        logger = logger.parent if logger.propagate else None  # type: ignore[assignment]
    only = found[0] if len(found) == 1 and not exchanges.filters else None
    return only if type(only) is LineHandler and not only.filters and only.level <= logging.INFO else None


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
        text = self._line(record.created, record.levelname, record.name, _message(record))
        if trace := _traceback(self, record):
            text += "".join(f"\n  | {one_line(line)}" for line in trace.splitlines())
        return text

    def exchange(self, at: float, level: str, line: LogLine) -> str:
        """The line of one, at this time."""
        return self._line(at, level, exchanges.name, _said(line))

    def _line(self, at: float, level: str, logger: str, message: str) -> str:
        second = int(at)
        if second != self._second:
            self._second, self._stamp = second, time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
        return f"{self._stamp},{int(at % 1 * 1000):03d} {level:7} {logger}: {one_line(message)}"


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
        """The line of one, at this time."""
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

    An exchange's line waits for those of others, to be written with them. Any other record, which may be about what goes wrong, is written
    at once and behind those that wait.
    """

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(stream)
        self._waiting: list[bytes | tuple[float, LogLine]] = []
        """Lines, and of exchanges what is made one when it is written."""
        self._loop: asyncio.AbstractEventLoop | None = None
        """The one on which a timer runs."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write it at once; what cannot be written is lost."""
        try:
            self._waiting.append(self.format(record).encode("utf-8", "backslashreplace") + b"\n")
        except Exception:
            self.handleError(record)
        self.flush()

    def hold(self, line: LogLine) -> bool:
        """Write the line of an exchange that went well within `HOLD_S`; False, and nothing is done, where nothing can wait.

        What a `LogRecord` takes, and to ask each logger on its way, is more than all else that is done for the line.
        """
        if not isinstance(self.formatter, ConsoleFormatter | JsonFormatter) or not self._set_timer():
            return False
        with self.lock or nullcontext():
            self._waiting.append((time.time(), line))
        if len(self._waiting) >= HELD_LINES:
            self.flush()
        return True

    def flush(self) -> None:
        """Write what waits."""
        with self.lock or nullcontext():
            waiting, self._waiting, together = self._waiting, [], b""
            for line in [one if isinstance(one, bytes) else self._made(*one) for one in waiting]:
                if len(together) + len(line) > _ONE_WRITE_BYTES:
                    self._put(together)
                    together = b""
                together += line
            self._put(together)

    def _made(self, at: float, line: LogLine) -> bytes:
        """The line, or nothing where it cannot be made: those that wait with it, and who logs next, go on."""
        formatter = self.formatter
        try:
            assert isinstance(formatter, ConsoleFormatter | JsonFormatter)
            return formatter.exchange(at, "INFO", line).encode("utf-8", "backslashreplace") + b"\n"
        except Exception:
            self.handleError(_record(line, logging.INFO))
            return b""

    def _set_timer(self) -> bool:
        """Whether what waits will be written soon."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        if self._loop is not loop:
            self._loop = loop
            loop.call_later(HOLD_S, self._timed)
        return True

    def _timed(self) -> None:
        self._loop = None
        self.flush()

    def _put(self, lines: bytes) -> None:
        try:
            descriptor = self.stream.fileno() if lines else -1
            while lines:
                lines = lines[os.write(descriptor, lines) :]
        except (OSError, ValueError):
            return
