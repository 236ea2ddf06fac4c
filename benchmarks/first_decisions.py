"""What a new user does behind the first answer: a provider, a wrong answer that is caught, a decision about it, an alert.

For `benchmarks.first_minutes`. Everything that is copied comes from the pages: README's Python block, the alerts of docs/guides/alerts.md.
The provider answers from a script on a port of this machine: `RIGHT`, until its text is changed. The decision goes through the review
queue's own form, with the fields that the page has, as a browser sends it.
"""

from __future__ import annotations

import ast
import asyncio
import hashlib
import hmac
import http.cookiejar
import json
import queue
import re
import subprocess
import threading
import time
from base64 import b64encode
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener, urlopen

import yaml

from proxy.testing import ReceivedCall, ScriptedUpstream, completion, reply, stream, streamed
from tests.docs_blocks import Block, blocks

RIGHT, WRONG = "The Eiffel Tower is in Paris, France.", "The Eiffel Tower is in London."
SERVER = "http://127.0.0.1:4000"
"""The address that the pages have."""
SECRET = "a secret of the first minutes"
PATIENCE_S, _TRIES = 120.0, 5
_NOTICE = re.compile(r'role="status">.*?</span>\s*<span>(.*?)</span>', re.DOTALL)


class Provider(threading.Thread):
    """An OpenAI-compatible server on a thread of its own. Use with ``with``."""

    def __init__(self) -> None:
        super().__init__(name="provider", daemon=True)
        self.text, self.base_url = RIGHT, ""
        self._up = threading.Event()

    def __enter__(self) -> Provider:
        self.start()
        self._up.wait(PATIENCE_S)
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self.join()

    def run(self) -> None:
        """Serve until the block ends."""
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with ScriptedUpstream(self._answer) as upstream:
            self.base_url = upstream.base_url
            self._up.set()
            await self._over.wait()

    async def _answer(self, writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
        whole = reply(completion(self.text))
        await (stream(streamed([f"{word} " for word in self.text.split()])) if call.json.get("stream") else whole)(writer, call)


class Receiver:
    """A webhook on this machine: keeps the alerts whose signature is right. Use with ``with``."""

    def __init__(self) -> None:
        self.events: queue.Queue[dict[str, Any]] = queue.Queue()
        events = self.events

        class Hook(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + body
                right = b64encode(hmac.new(SECRET.encode(), signed, hashlib.sha256).digest()).decode()
                accepted = self.headers["webhook-signature"] == f"v1,{right}"
                if accepted:
                    events.put(json.loads(body))
                self.send_response(204 if accepted else 401)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """The run prints what matters."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Hook)
        self.url = f"http://127.0.0.1:{self._server.server_port}/alerts"

    def __enter__(self) -> Receiver:
        threading.Thread(target=self._server.serve_forever, name="webhook", daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def next(self, event: str) -> dict[str, Any]:
        """The next message of this kind. Raises SystemExit where none comes."""
        try:
            while (message := self.events.get(timeout=PATIENCE_S))["event"] != event:
                continue
        except queue.Empty:
            raise SystemExit(f"the webhook got no {event!r} within {PATIENCE_S:.0f} s") from None
        return message


def readme_block(language: str, *words: str) -> Block:
    """README's first block of this language that has these words. Raises SystemExit where it has none."""
    for block in blocks(language):
        if block.page.name == "README.md" and all(word in block.text for word in words):
            return block
    raise SystemExit(f"README.md has no block of {language} with {', '.join(words)}")


def ask_streamed(python: Path, url: str) -> tuple[str, str]:
    """Run README's Python block; the verdict and the label that it prints last.

    Where a slow machine still loads the judge after the block's ten seconds, its verdict is `pending`: a person runs it again.
    """
    text = readme_block("python", "x-groundwire-id").text.replace(SERVER, url)
    for _ in range(_TRIES):
        printed = subprocess.run([python, "-c", text], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        if not printed.stdout.endswith("\npending\n"):
            break
    if printed.returncode:
        raise SystemExit(f"README's Python block failed:\n{printed.stdout[-500:]}{printed.stderr[-2000:]}")
    verdict, label = printed.stdout.split("\n")[-3:-1]
    return verdict, label


def ask_whole(url: str) -> tuple[str, str]:
    """The block's question again without streaming; the verdict that its header has, and the exchange's id."""
    block = readme_block("python", "x-groundwire-id")
    call = next(one for one in ast.walk(ast.parse(block.text)) if isinstance(one, ast.Call) and "messages" in {k.arg for k in one.keywords})
    body = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    body = {**body, **body.pop("extra_body"), "stream": False}
    with urlopen(_post(f"{url}/openai/v1/chat/completions", json.dumps(body).encode(), "application/json"), timeout=PATIENCE_S) as answer:
        answer.read()
        return answer.headers["x-groundwire-verdict"], answer.headers["x-groundwire-id"]


def recorded_labels(url: str, record_id: str) -> list[str]:
    """Labels of the sentences in the exchange's verdict, which is asked for until it is written."""
    with urlopen(f"{url}/groundwire/v1/verdicts/{record_id}?wait_ms=10000", timeout=PATIENCE_S) as answer:
        return [claim["label"] for claim in json.load(answer)["claims"]]


def decide(url: str, record_id: str) -> str:
    """Decide on the page Review that its finding is right; the page's message. Raises SystemExit where it does not show this exchange's.

    A record is in the queue a moment after the client has its answer: records are written in batches.
    """
    browser = build_opener(HTTPCookieProcessor(http.cookiejar.CookieJar()))
    page = f"{url}/dashboard/review"
    end = time.monotonic() + PATIENCE_S
    while True:
        with browser.open(Request(page, headers={"accept": "text/html"}), timeout=PATIENCE_S) as answer:
            form = _Form(answer.read().decode())
        if form.fields.get("record_id") == record_id:
            break
        if time.monotonic() > end:
            raise SystemExit(f"the review queue shows {form.fields or 'nothing'}, and not the exchange {record_id}")
        time.sleep(0.2)
    body = urlencode({**form.fields, "said": "right"}).encode()
    with browser.open(_post(page, body, "application/x-www-form-urlencoded", origin=url), timeout=PATIENCE_S) as answer:
        notice = _NOTICE.search(answer.read().decode())
    return notice[1] if notice else ""


def add_alerts(config: Path, webhook: str, every_s: float | None) -> dict[str, str]:
    """Write the guide's channel `ops` and its first rule into config.yaml, with ``alerts.every_s``; the environment that they need."""
    block = next(one for one in blocks("yaml") if one.page.name == "alerts.md" and "alerts:" in one.text)
    shown = yaml.safe_load(block.text)["alerts"]
    alerts = {"channels": {"ops": {**shown["channels"]["ops"], "url": webhook}}, "rules": shown["rules"][:1]}
    if every_s is not None:
        alerts["every_s"] = every_s
    with config.open("a", encoding="utf-8") as file:
        file.write("\n" + yaml.safe_dump({"alerts": alerts}, sort_keys=False))
    return {"ALERT_SECRET": SECRET}


def _post(url: str, body: bytes, content_type: str, **headers: str) -> Request:
    return Request(url, body, {"content-type": content_type, "accept": "text/html, application/json", **headers}, method="POST")


class _Form(HTMLParser):
    """The hidden fields of the form of a finding."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self._inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a field."""
        given = dict(attrs)
        if tag == "form":
            self._inside = given.get("action") == "/dashboard/review"
        if tag == "input" and self._inside and given.get("type") == "hidden":
            self.fields[given.get("name") or ""] = given.get("value") or ""

    def handle_endtag(self, tag: str) -> None:
        """Leave the form."""
        self._inside = self._inside and tag != "form"
