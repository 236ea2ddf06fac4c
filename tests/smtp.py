"""An SMTP server on loopback that keeps what it gets."""

from __future__ import annotations

import asyncio
import email
from contextlib import suppress
from email.message import EmailMessage
from email.policy import default
from typing import Any


class MailSink:
    """Use with ``async with``; RFC 5321 as far as one client needs it."""

    def __init__(self, *, refuse: bool = False) -> None:
        self._refuse = refuse
        self.mails: list[EmailMessage] = []
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
        answers = {b"DATA": b"354 go on", b"QUIT": b"221 bye"}
        writer.write(b"220 sink\r\n")
        with suppress(ConnectionError):
            while line := await reader.readline():
                verb = line[:4].upper()
                if verb == b"RCPT":
                    self.recipients.append(line.decode().partition("<")[2].partition(">")[0])
                refused = self._refuse and verb == b"RCPT"
                writer.write((b"550 no" if refused else answers.get(verb, b"250 ok")) + b"\r\n")
                if verb == b"DATA":
                    whole: Any = email.message_from_bytes(await reader.readuntil(b"\r\n.\r\n"), policy=default)
                    self.mails.append(whole)
                    writer.write(b"250 ok\r\n")
                if verb == b"QUIT":
                    break
        writer.close()
