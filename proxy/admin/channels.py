"""Where alerts go: a webhook with a signature, what takes Slack's messages, an SMTP server. `send` blocks; `Sending` does not.

In: a channel of config.yaml and a `Message`. Out: nothing, or `NotSent` with a reason that has no address and no secret in it.
Redirects are not followed: the signature and the address, which may be a secret, go where the operator said and nowhere else.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import http.client
import smtplib
import ssl
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

import msgspec
from msgspec import Struct

from proxy.config.alerts import Channel, EmailSettings, WebhookSettings
from proxy.errors import GroundwireError
from proxy.observe.logs import one_line

TIMEOUT_S, TRY_S = 10.0, 60.0
"""For each answer of the other side, or a piece of one; and for one try."""
_MAX_REASON_CHARS = 200
_MAX_REPLY_BYTES = 65_536
"""Of all that a mail server answers in one try, which is some hundred bytes a command."""
_SEVEN_BITS = SMTP.clone(cte_type="7bit")
"""Texts that also a server without 8BITMIME (RFC 6152) takes."""


class NotSent(GroundwireError):
    """The channel did not take it."""


class PartlySent(NotSent):
    """Some of its recipients have it, and would get it twice by another try."""


class Message(Struct, frozen=True, kw_only=True):
    """One message, for every kind of channel."""

    id: str
    """The same in every try, so that a receiver knows what it has already."""
    at: float
    """Seconds since the epoch."""
    subject: str
    text: str
    """Lines for a person."""
    data: Mapping[str, Any]
    """JSON for programs."""
    page: str = ""
    """HTML, which goes by e-mail beside the text."""


def send(channel: Channel, message: Message) -> None:
    """One try. Raises `NotSent`."""
    needed = () if isinstance(channel, EmailSettings) else ("url", "secret") if isinstance(channel, WebhookSettings) else ("url",)
    if missing := [name for name in needed if not getattr(channel, name)]:
        raise NotSent(f"its {' and its '.join(missing)} is empty: is the environment variable set?")
    try:
        if isinstance(channel, EmailSettings):
            _mail(channel, message)
        elif isinstance(channel, WebhookSettings):
            body = msgspec.json.encode({"id": message.id, "text": message.text, **message.data})
            _post(channel.url, body, signature(channel.secret, message.id, int(message.at), body))
        else:
            text = message.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")  # as Slack wants it
            _post(channel.url, msgspec.json.encode({"text": text}), {})
    except HTTPError as error:
        error.close()
        raise NotSent(f"it answers {error.code}") from None  # its reason phrase is anybody's text
    except (OSError, http.client.HTTPException, smtplib.SMTPException, ValueError) as error:
        why = error.reason if isinstance(error, URLError) else error
        raise NotSent(one_line(_words(why))[:_MAX_REASON_CHARS]) from None


class Sending:
    """Tries, each in a thread that nobody waits for past `TRY_S`: who answers byte by byte, each of them in time, keeps neither the other
    channels nor the end of the process waiting.
    """

    def __init__(self) -> None:
        self._left: dict[Channel, threading.Thread] = {}
        """By channel, the try that nobody waits for any more."""

    async def send(self, channel: Channel, message: Message) -> None:
        """One try, unless an earlier one still goes on. Raises what `send` does."""
        if (left := self._left.get(channel)) is not None and left.is_alive():
            raise NotSent("it has not ended its answer to an earlier try")
        done: Future[None] = Future()
        done.set_running_or_notify_cancel()  # whoever waits no more cannot cancel it

        def attempt() -> None:
            try:
                send(channel, message)
            except Exception as error:
                done.set_exception(error)
            else:
                done.set_result(None)

        trying = threading.Thread(target=attempt, name="alert", daemon=True)
        trying.start()
        try:
            async with asyncio.timeout(TRY_S):
                await asyncio.wrap_future(done)
        except TimeoutError:
            self._left[channel] = trying
            raise NotSent(f"no whole answer within {TRY_S:g} s") from None


def signature(secret: str, message_id: str, at: int, body: bytes) -> dict[str, str]:
    """Headers as https://www.standardwebhooks.com has them; a secret that begins with ``whsec_`` is base64, any other its own bytes."""
    key = secret.encode()
    if secret.startswith("whsec_"):
        try:
            key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        except binascii.Error:
            raise NotSent("its secret begins with whsec_, and what follows is not base64") from None
    signed = hmac.new(key, f"{message_id}.{at}.".encode() + body, hashlib.sha256).digest()
    return {"webhook-id": message_id, "webhook-timestamp": str(at), "webhook-signature": f"v1,{base64.b64encode(signed).decode()}"}


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """A redirect is an answer like any other that is not a success."""


def _post(url: str, body: bytes, headers: Mapping[str, str]) -> None:
    request = Request(url, body, {"content-type": "application/json", "user-agent": "groundwire", **headers})  # noqa: S310 - http or https
    with build_opener(_NoRedirects).open(request, timeout=TIMEOUT_S) as response:
        response.read(1)


class _Replies:
    """A mail server's answers as smtplib reads them, within bounds: it reads on while a line says that another one follows."""

    def __init__(self, file: IO[bytes], until: float) -> None:
        self._file, self._until, self._left = file, until, _MAX_REPLY_BYTES
        self.close = file.close

    def readline(self, most: int) -> bytes:
        """A line, as a file's. Raises `TimeoutError` past the end of the try, `OSError` for an answer that is too long."""
        line = bytearray()
        while len(line) < most and not line.endswith(b"\n") and (byte := self._file.read(1)):
            line += byte
            self._left -= 1
            if time.monotonic() > self._until:
                raise TimeoutError("timed out")
            if self._left < 0:
                raise OSError("its answers are too long")
        return bytes(line)


class _Server(smtplib.SMTP):
    """A mail server in one try."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._until = time.monotonic() + TRY_S
        super().__init__(*args, **options)

    def getreply(self) -> tuple[int, bytes]:
        """As the base's."""
        if self.file is None and self.sock is not None:
            self.file = _Replies(self.sock.makefile("rb"), self._until)
        return super().getreply()


class _TlsServer(_Server, smtplib.SMTP_SSL):
    """The same, in TLS from the first byte."""


def _mail(channel: EmailSettings, message: Message) -> None:
    mail = EmailMessage(_SEVEN_BITS)
    mail["Subject"], mail["From"], mail["To"] = message.subject, channel.sender, ", ".join(channel.to)
    mail["Date"] = formatdate(message.at, usegmt=True)
    mail["Message-ID"] = f"<{message.id}@{channel.sender.rpartition('@')[2]}>"
    mail.set_content(message.text)
    if message.page:
        mail.add_attachment(message.page, subtype="html", filename="groundwire-report.html")
    context = ssl.create_default_context()
    if channel.security == "tls":
        server: _Server = _TlsServer(channel.host, channel.port, timeout=TIMEOUT_S, context=context)
    else:
        server = _Server(channel.host, channel.port, timeout=TIMEOUT_S)
    try:
        if channel.security == "starttls":
            server.starttls(context=context)
        if channel.user:
            server.login(channel.user, channel.password)
        refused = server.send_message(mail)
    finally:
        with suppress(OSError):
            server.putcmd("QUIT")  # what it answers changes nothing of what became of the message
        server.close()
    if refused:
        raise PartlySent(f"the mail server refuses {len(refused)} of {len(channel.to)} recipients")


def _words(error: object) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {TIMEOUT_S:g} s"
    if isinstance(error, smtplib.SMTPResponseException):
        return f"the mail server answers {error.smtp_code}"
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return "the mail server refuses every recipient"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    return type(error).__name__  # the text of any other may repeat the address
