"""What leaves through each channel, on real sockets: bytes, signatures, addresses; and what is said where nothing is taken."""

import asyncio
import base64
import hashlib
import hmac
from contextlib import suppress
from typing import Any

import pytest

from proxy.admin import channels
from proxy.admin.channels import Message, NotSent, PartlySent, Sending, send, signature
from proxy.config.alerts import Channel, EmailSettings, SlackSettings, WebhookSettings
from proxy.testing import ScriptedUpstream, reply
from tests.smtp import MailSink

MESSAGE = Message(id="alert_1", at=1_700_000_000.5, subject="Groundwire: a", text="a <b> & c", data={"event": "firing", "value": 0.5})


async def sent(channel: Channel, message: Message = MESSAGE) -> None:
    await asyncio.to_thread(send, channel, message)


def mail_to(port: int, **more: Any) -> EmailSettings:
    given = {"host": "127.0.0.1", "port": port, "security": "none", "sender": "gw@example.com", "to": ("a@example.com", "b@example.com")}
    return EmailSettings(**given | more)


async def test_a_webhook_gets_json_with_a_signature_that_the_secret_proves() -> None:
    async with ScriptedUpstream(reply({})) as sink:
        await sent(WebhookSettings(url=sink.base_url + "/ops", secret="s3cret"))
    (call,) = sink.calls
    signed = f"alert_1.1700000000.{call.body.decode()}".encode()
    expected = base64.b64encode(hmac.new(b"s3cret", signed, hashlib.sha256).digest()).decode()
    assert ("POST", "/v1/ops") == (call.method, call.path)
    assert {"id": "alert_1", "text": "a <b> & c", "event": "firing", "value": 0.5} == call.json
    assert (f"v1,{expected}", "alert_1", "1700000000") == tuple(
        call.headers[name] for name in ("webhook-signature", "webhook-id", "webhook-timestamp")
    )


def test_the_signature_is_that_of_the_specification() -> None:
    # The example of https://github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md and its libraries' tests.
    found = signature("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" == found["webhook-signature"]


async def test_slack_gets_a_text_without_its_own_marks() -> None:
    async with ScriptedUpstream(reply(b"ok")) as sink:
        await sent(SlackSettings(url=sink.base_url))
    assert {"text": "a &lt;b&gt; &amp; c"} == sink.calls[0].json


async def test_a_mail_goes_to_everybody_with_the_page_beside_its_text() -> None:
    page = Message(id="alert_2", at=1_700_000_000.0, subject="Report", text="lines", data={}, page="<h1>Wöche</h1>")
    async with MailSink() as sink:
        await sent(mail_to(sink.port), page)
    (mail,) = sink.mails
    (attached,) = mail.iter_attachments()
    body = mail.get_body(("plain",))
    assert (["a@example.com", "b@example.com"], "Report", "<alert_2@example.com>") == (sink.recipients, mail["Subject"], mail["Message-ID"])
    assert ("lines", "text/html") == (body.get_content().strip() if body is not None else None, attached.get_content_type())
    assert "<h1>Wöche</h1>" == attached.get_content().strip()


@pytest.mark.parametrize(("status", "location"), [(500, ""), (302, "http://127.0.0.1:9/elsewhere"), (404, "")])
async def test_what_is_no_success_is_not_sent_and_a_redirect_is_not_followed(status: int, location: str) -> None:
    async with ScriptedUpstream(reply(b"SECRET PAGE", status, {"location": location} if location else {})) as sink:
        with pytest.raises(NotSent, match=f"^it answers {status}$"):
            await sent(WebhookSettings(url=sink.base_url, secret="x"))
        assert 1 == len(sink.calls)


@pytest.mark.parametrize(
    ("channel", "message"),
    [
        (SlackSettings(url="http://127.0.0.1:9/T0/SECRET"), "Connection refused"),
        (SlackSettings(url="http://127.0.0.1:9/T0/SEC RET"), "InvalidURL"),
        (SlackSettings(url=""), "its url is empty: is the environment variable set?"),
        (WebhookSettings(url="http://127.0.0.1:9", secret=""), "its secret is empty: is the environment variable set?"),
        (WebhookSettings(url="http://127.0.0.1:9", secret="whsec_!"), "its secret begins with whsec_, and what follows is not base64"),
        (mail_to(9), "Connection refused"),
    ],
)
async def test_what_is_said_has_no_secret_in_it(channel: Channel, message: str) -> None:
    with pytest.raises(NotSent) as caught:
        await sent(channel)
    assert message == str(caught.value)


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        ({"RCPT": b"550 no"}, "the mail server refuses every recipient"),
        ({"MAIL": b"451 later", "QUIT": b"250 ok"}, "the mail server answers 451"),
        ({"EHLO": b"250-x\r\n" * 20_000 + b"250 x"}, "Connection unexpectedly closed: its answers are too long"),
    ],
)
async def test_a_mail_server_that_does_not_take_it_is_said(answers: dict[str, bytes], problem: str) -> None:
    async with MailSink(answers) as sink:
        with pytest.raises(NotSent, match=f"^{problem}$"):
            await sent(mail_to(sink.port))


@pytest.mark.parametrize("answer", [b"421 closing", b"250 ok", b"\xff", b"250-and"])
async def test_a_mail_that_was_taken_is_sent_whatever_the_server_says_at_the_end(answer: bytes) -> None:
    async with MailSink({"QUIT": answer}) as sink:
        await sent(mail_to(sink.port))
    assert 1 == len(sink.mails)


async def test_a_mail_that_one_recipient_does_not_get_is_said() -> None:
    async with MailSink({"RCPT b@example.com": b"550 no"}) as sink:
        with pytest.raises(PartlySent, match=r"^the mail server refuses 1 of 2 recipients$"):
            await sent(mail_to(sink.port))
    assert 1 == len(sink.mails)


async def test_a_mail_has_no_byte_that_a_server_without_8bitmime_refuses() -> None:
    async with MailSink() as sink:
        await sent(mail_to(sink.port), Message(id="alert_3", at=0.0, subject="Wöche", text="Wöche", data={}, page="<h1>Wöche</h1>"))
    assert (True, "Wöche") == (sink.bodies[0].isascii(), sink.mails[0]["Subject"])


async def test_a_mail_server_that_answers_byte_by_byte_ends_with_the_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "TRY_S", 0.5)
    left = asyncio.Event()

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while True:
                writer.write(b"2")
                await writer.drain()
                await asyncio.sleep(0.01)
        writer.close()
        left.set()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server, asyncio.timeout(10):
        with pytest.raises(NotSent, match=r"^Connection unexpectedly closed: timed out$"):
            await sent(mail_to(server.sockets[0].getsockname()[1]))
        await left.wait()


async def test_who_answers_byte_by_byte_is_waited_for_once_and_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "TRY_S", 0.5)
    asked, over = 0, asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        while not over.is_set():
            writer.write(b"H")
            await asyncio.sleep(0.01)
        writer.close()

    sending = Sending()
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server, asyncio.timeout(10):
        channel = SlackSettings(url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        for problem in (r"^no whole answer within 0\.5 s$", r"^it has not ended its answer to an earlier try$"):
            with pytest.raises(NotSent, match=problem):
                await sending.send(channel, MESSAGE)
        async with ScriptedUpstream(reply(b"ok")) as sink:  # another one is not kept waiting
            await sending.send(SlackSettings(url=sink.base_url), MESSAGE)
        over.set()
        await asyncio.to_thread(sending._left[channel].join)
    assert 1 == asked
