"""An SMTP server on loopback that keeps what it gets."""

from __future__ import annotations

import asyncio
import email
from collections.abc import Mapping
from contextlib import suppress
from email.message import EmailMessage
from email.policy import default
from typing import Any


class MailSink:
    """Use with ``async with``; RFC 5321 as far as one client needs it."""

    def __init__(self, answers: Mapping[str, bytes] | None = None) -> None:
        """`answers` by command, as ``QUIT``; by recipient, as ``RCPT a@example.com``."""
        self._answers = {"DATA": b"354 go on", "QUIT": b"221 bye", **(answers or {})}
        self.mails: list[EmailMessage] = []
        self.bodies: list[bytes] = []
        """The same as they came."""
        self.recipients: list[str] = []
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> MailSink:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 sink\r\n")
        with suppress(ConnectionError):
            while line := await reader.readline():
                name, recipient = line[:4].decode().upper(), line.decode().partition("<")[2].partition(">")[0]
                if name == "RCPT":
                    self.recipients.append(recipient)
                answer = self._answers.get(name, b"250 ok")
                writer.write(self._answers.get(f"{name} {recipient}", answer) + b"\r\n")
                if name == "DATA":
                    self.bodies.append(await reader.readuntil(b"\r\n.\r\n"))
                    whole: Any = email.message_from_bytes(self.bodies[-1], policy=default)
                    self.mails.append(whole)
                    writer.write(b"250 ok\r\n")
                if name == "QUIT":
                    break
        writer.close()
