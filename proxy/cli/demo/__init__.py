"""``groundwire demo``: a guided tour without a key: five prepared exchanges through the shipped policies, then the dashboard with them.

A server of its own, with a store that is gone when the tour ends; the provider is a script on this machine. Nothing else is prepared.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import textwrap
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import aiohttp
from msgspec import Struct
from rich.text import Text

from proxy.app import App
from proxy.cli.terminal import Terminal, harmless
from proxy.config.settings import ServerSettings, Settings, load_settings
from proxy.server.startup import check_port
from proxy.testing import ScriptedUpstream, completion, reply, serving

Body = Mapping[str, Any]
KNOWLEDGE = Path(__file__).parent / "knowledge"
WINDOW_TOKENS = 4096
"""Of the prepared model: small, so that a chat of a few pages fills it."""
_THINGS = ("flight", "hotel", "train", "car", "taxi", "museum", "restaurant", "concert", "visa", "currency", "weather", "map", "parcel")
_VERBS = {"search": "Search for {}s", "book": "Book a {}", "cancel": "Cancel a booked {}"}


class DemoExchange(Struct, frozen=True):
    """One of the five."""

    title: str
    policy: str
    messages: tuple[Body, ...]
    says: str
    """The prepared model's answer."""
    look_at: tuple[str, ...]
    """Headers that tell what happened, without their prefix."""
    learns: str
    """What there is to see, in a sentence."""
    context: tuple[Body, ...] = ()
    tools: tuple[Body, ...] = ()


def exchanges() -> tuple[DemoExchange, ...]:
    """In the order of the tour."""
    return _grounded(), _planted(), _contradiction(), _tools(), _long_chat()


def passages() -> tuple[Body, ...]:
    """The knowledge folder's files, as a retriever would hand them over."""
    return tuple({"content": file.read_text(encoding="utf-8").strip(), "source": file.name} for file in sorted(KNOWLEDGE.glob("*.md")))


def _talk(*texts: str) -> tuple[Body, ...]:
    """The user and the model in turn."""
    return tuple({"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts))


def _grounded() -> DemoExchange:
    return DemoExchange(
        "A grounded answer",
        "rag",
        _talk("How much can the Kestrel cargo bike carry?"),
        "The Kestrel cargo bike carries a load of 180 kilograms [Passage 1]. Confidence: HIGH",
        ("verdict", "faithfulness", "citations", "confidence"),
        "Each statement and citation is held against the passages, and borne out.",
        context=passages(),
    )


def _planted() -> DemoExchange:
    return DemoExchange(
        "A planted error, caught",
        "strict",
        _talk("How far does the Kestrel cargo bike go on a charge?"),
        "The battery of the Kestrel cargo bike lasts 120 kilometres on a charge [Passage 1]. Confidence: HIGH",
        ("verdict", "faithfulness", "warnings"),
        "The passage says 70 kilometres, so strict refuses the answer, and the client gets an error instead of a wrong number.",
        context=passages(),
    )


def _contradiction() -> DemoExchange:
    return DemoExchange(
        "A contradiction",
        "agent",
        _talk(
            "I prefer budget hotels.",
            "Noted: budget hotels.",
            "I prefer luxury hotels. What is there in Trieste?",
        ),
        "In Trieste there are several luxury hotels by the harbour.",
        ("verdict", "clashes", "warnings"),
        "Two wishes of the user cannot both hold; a note tells the model that the newer one counts.",
    )


def _tools() -> DemoExchange:
    names = [(verb, thing) for thing in (*_THINGS, "invoice", "letter") for verb in _VERBS]
    return DemoExchange(
        f"{len(names)} tools, cut to those that the task needs",
        "agent",
        _talk("Book a hotel in Paris."),
        "Which days are you staying in Paris?",
        ("verdict", "tools"),
        "The model gets the few tools that fit, and a search for the rest.",
        tools=tuple(_tool(verb, thing) for verb, thing in names),
    )


def _tool(verb: str, thing: str) -> Body:
    parameters = {"type": "object", "properties": {"place": {"type": "string", "description": f"where the {thing} is"}}}
    name = f"{verb}_{thing}" + "s" * (verb == "search")
    return {"type": "function", "function": {"name": name, "description": f"{_VERBS[verb].format(thing)}.", "parameters": parameters}}


def _long_chat() -> DemoExchange:
    said = []
    for day in range(1, 21):
        said.append(f"Day {day} of the move: " + " ".join(f"Box {day}-{n} with {what} goes to {room}." for n, (what, room) in _boxes(day)))
        said.append(f"Day {day} is noted, with {len(_ROOMS)} boxes.")
    return DemoExchange(
        "A long chat, compressed",
        "default",
        _talk(*said, "Which room do the plates of day 2 go to?"),
        "The plates of day 2 go to the kitchen.",
        ("verdict", "context", "compression"),
        f"At 80% of its window of {WINDOW_TOKENS:,} tokens the older part becomes a summary; all of it stays readable in the archive.",
    )


_ROOMS = ("the kitchen", "the study", "the attic", "the cellar", "the hall", "the nursery", "the bathroom", "the garage", "the bedroom")
_GOODS = ("plates", "letters", "winter coats", "jam jars", "umbrellas", "picture books", "towels", "spanners", "blankets")


def _boxes(day: int) -> list[tuple[int, tuple[str, str]]]:
    """What is packed on a day."""
    return list(enumerate(((f"{what} of shelf {day}", room) for what, room in zip(_GOODS, _ROOMS, strict=True)), 1))


MODEL = "prepared-model"
POLICIES = ("default", "rag", "agent", "strict")
_READY_S = 120.0
_TRIES = 50
"""For a catalogue of tools that is still being read: till then all of them go."""
_OUTCOMES = {"pass": "green", "warn": "yellow", "block": "red", "error": "red"}


class Shows(Protocol):
    """Where the tour is told."""

    def line(self, text: str | Text) -> None:
        """Write a line."""


def demo(policies: Path, port: int, *, stay: bool, terminal: Terminal | None = None) -> int:
    """Run the tour; with `stay` serve the dashboard until Ctrl-C. `policies` is the folder of the shipped ones. Raises `ConfigError`."""
    check_port(ServerSettings(port=port))
    shown = terminal or Terminal()
    asyncio.run(_tour(policies, port, shown, shown.columns or 80, stay=stay))
    return 0


async def _tour(policies: Path, port: int, shown: Shows, columns: int, *, stay: bool) -> None:
    shown.line(Text("Groundwire's tour: five exchanges with a model whose answers are prepared.", "bold"))
    shown.line(Text("The server starts and reads its models ...", "dim"))
    with tempfile.TemporaryDirectory(prefix="groundwire-demo-") as folder:
        async with AsyncExitStack() as stack:
            url, upstream = await stack.enter_async_context(touring(Path(folder), policies, port))
            for number, one in enumerate(exchanges(), 1):
                told = await run_exchange(url, upstream, one)
                for line in lines(number, one, told, url if stay else "", columns):
                    shown.line(line)
            if not stay:
                shown.line("\nWithout --once they would be on the dashboard now.")
            else:
                shown.line(f"\nAll five are on the dashboard: {url}/dashboard")
                shown.line(f"Its routes answer too, with prepared words: {url}/rag/v1 and the like.")
                shown.line(Text("Ctrl-C ends the tour; nothing of it is kept.", "dim"))
                await asyncio.Event().wait()


@asynccontextmanager
async def touring(folder: Path, policies: Path, port: int = 0) -> AsyncIterator[tuple[str, ScriptedUpstream]]:
    """The tour's server, ready, and its prepared provider; what it keeps lies in `folder`."""
    async with ScriptedUpstream(reply(completion("This is a prepared answer."))) as upstream:
        app = App(_settings(folder, policies, upstream.base_url))
        async with serving(app, port) as url, aiohttp.ClientSession() as session:
            async with asyncio.timeout(_READY_S):
                while (await session.get(f"{url}/ready")).status != 200:  # noqa: ASYNC110 - as a load balancer asks
                    await asyncio.sleep(0.1)
            yield url, upstream
            await app.records_writer.flush()


def _settings(folder: Path, policies: Path, base_url: str) -> Settings:
    shutil.copytree(KNOWLEDGE, folder / "knowledge")
    routes = "".join(f"  - {{prefix: /{name}, upstream: prepared, policy: '{policies.resolve()}/{name}.yaml'}}\n" for name in POLICIES)
    file = folder / "config.yaml"
    file.write_text(
        f"store: {{url: 'sqlite+aiosqlite:///{folder}/demo.db', bodies: true}}\n"
        "logging: {level: warning}\n"
        f"upstreams: {{prepared: {{kind: openai, base_url: '{base_url}', api_key: unused}}}}\n"
        f"models: {{{MODEL}: {{window: {WINDOW_TOKENS}, max_output_tokens: 512, encoding: o200k_base}}}}\n"
        f"routes:\n{routes}",
        encoding="utf-8",
    )
    return load_settings(file, {})


class DemoReply:
    """What came back."""

    def __init__(self, status: int, headers: Mapping[str, str], body: Mapping[str, Any]) -> None:
        self.status, self._headers, self._body = status, headers, body

    def header(self, name: str) -> str:
        """``x-groundwire-NAME``, "" where there is none."""
        return harmless(self._headers.get(f"x-groundwire-{name}", ""))

    @property
    def text(self) -> str:
        """What the client reads: the answer, or the error's message."""
        return harmless(str(self._body["error"]["message"] if "error" in self._body else self._body["choices"][0]["message"]["content"]))


async def run_exchange(url: str, upstream: ScriptedUpstream, one: DemoExchange) -> DemoReply:
    """Ask as any client would; the record is on the dashboard a moment later."""
    upstream.say(reply(completion(one.says, model=MODEL)))
    body = {"model": MODEL, "messages": one.messages, "max_tokens": 200}
    body |= {"tools": one.tools} if one.tools else {}
    body |= {"groundwire": {"context": one.context}} if one.context else {}
    async with aiohttp.ClientSession() as session:
        for _ in range(_TRIES):
            async with session.post(f"{url}/{one.policy}/v1/chat/completions", json=body) as response:
                told = DemoReply(response.status, response.headers, await response.json())
            if "indexing" not in told.header("tools"):
                break
            await asyncio.sleep(0.1)
    return told


def lines(number: int, one: DemoExchange, told: DemoReply, url: str, columns: int) -> Iterator[Text]:
    """What is told of an exchange, in at most `columns` but for the address of its record; of no record where `url` is ""."""
    yield Text()
    yield Text.assemble((f"{number}. {one.title}", "bold"), (f"  (policy {one.policy})", "dim"))
    question = harmless(str(one.messages[-1]["content"]))
    came = told.text if told.text != one.says else "the same"
    for label, text in (("asked", question), ("model", one.says), ("client got", came)):
        yield from _row(label, text, columns)
    found = [f"{name} {value}" for name in one.look_at if (value := told.header(name))]
    yield from _row("found", ", ".join(found), columns, _OUTCOMES.get(told.header("verdict"), ""))
    yield from _row("", one.learns, columns)
    if url:
        yield Text(f"   record      {url}/dashboard/records/{told.header('id')}")


def _row(label: str, text: str, columns: int, style: str = "") -> Iterator[Text]:
    first, rest = f"   {label:<12}", " " * 15
    for line in textwrap.wrap(text, columns, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False):
        yield Text(line, style)
