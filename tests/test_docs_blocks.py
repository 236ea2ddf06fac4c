"""What README and docs/ give to copy works: Python runs, YAML loads, commands exist with the options that are given."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import io
import json
import re
import shlex
import shutil
import sys
import threading
import tokenize
import tomllib
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
import yaml
from jsonschema import Draft202012Validator
from starlette.routing import Match

from docs import openapi, openapi_clients
from proxy.__main__ import _parser
from proxy.app import DIALECTS, App
from proxy.config.settings import Settings, load_settings
from proxy.policy.loading import load_policy
from proxy.testing import ReceivedCall, ScriptedUpstream, completion, reply, serving, stream, streamed
from tests.cluster import engines
from tests.docs_blocks import ROOT, Block, blocks, pages

SERVER = "http://127.0.0.1:4000"
STAGE = ROOT / "examples" / "stage"
AGENTS = {
    "claude": "@anthropic-ai/claude-code",
    "codex": "@openai/codex",
    "gemini": "@google/gemini-cli",
    "cline": "@cline/cli-linux-x64",
    "aider": "aider-chat==",
}
"""Commands of agents, with the packages that ``tests/clients`` installs to run them: of npm, and aider's of Python."""
_INLINE = re.compile(r"(?<!`)`((?:make|python -m|groundwire) [^`]+)`(?!`)")


# ---- YAML ----


@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_yaml_is_taken_by_the_loader(block: Block, tmp_path: Path) -> None:
    given = yaml.safe_load(block.text)
    assert isinstance(given, dict)
    file = tmp_path / "given.yaml"
    if set(given) <= set(Settings.__struct_fields__):
        file.write_text(yaml.safe_dump(_whole_config(given)), "utf-8")
        load_settings(file, {})
    else:
        shutil.copy(STAGE / "links.py", tmp_path)
        file.write_text(yaml.safe_dump({"name": "given", **given}, sort_keys=False), "utf-8")
        assert load_policy(file).stages or given["stages"] == []


def _whole_config(given: dict[str, Any]) -> dict[str, Any]:
    """With what a whole file has around a piece of it."""
    upstreams = {"openai": {"kind": "openai", "base_url": "https://api.example/v1"}, **given.get("upstreams", {})}
    routes = given.get("routes", [{"prefix": "", "upstream": "openai", "policy": "policies/default.yaml"}])
    return {**given, "upstreams": upstreams, "routes": routes}


def test_a_key_that_does_not_exist_is_found_out(tmp_path: Path) -> None:
    wrong = Block(ROOT / "README.md", 1, "yaml", "stages: [{budget: {warm_at: 0.5}}]")
    with pytest.raises(Exception, match="warm_at"):
        test_yaml_is_taken_by_the_loader(wrong, tmp_path)


# ---- commands ----


@pytest.fixture(scope="module")
def admin_routes(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the proxy serves beside its clients' API."""
    folder = tmp_path_factory.mktemp("served")
    shutil.copytree(ROOT / "policies", folder / "policies")
    (folder / "config.yaml").write_text(
        yaml.safe_dump(_whole_config({"store": {"url": f"sqlite+aiosqlite:///{folder}/store.db"}})), "utf-8"
    )
    return App(load_settings(folder / "config.yaml", {}))._admin.routes


@pytest.fixture(scope="module")
def served(admin_routes: Any) -> Any:
    """Whether the proxy serves a path under a method."""

    def asked(path: str, method: str) -> bool:
        scope = {"type": "http", "path": path, "method": method, "headers": []}
        return path in ("/v1/chat/completions", "/v1/systemone") or any(route.matches(scope)[0] is Match.FULL for route in admin_routes)

    return asked


def commands(text: str) -> Iterator[list[str]]:
    """The commands of a script, of a pipeline the first one."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            yield words[: words.index("|")] if "|" in words else words


def problem(words: list[str], served: Any) -> str:
    """What is wrong with a command; "" where nothing is."""
    if "=" in words[0] and len(words) > 1:
        return problem(words[1:], served)
    name, rest = words[0], words[1:]
    if name == "groundwire":
        return _groundwire(rest)
    if name in AGENTS:
        node = json.loads((ROOT / "tests/clients/node/package.json").read_text("utf-8"))
        packages = {**node["dependencies"], **node["optionalDependencies"]}
        installed = AGENTS[name] in packages or AGENTS[name] in (ROOT / "tests/clients/aider.in").read_text("utf-8")
        return "" if installed else f"no test runs {name}"
    if name == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
        return "" if rest[0] in targets else f"no target {rest[0]}"
    if name == "python" and rest[0] == "-m":
        return "" if importlib.util.find_spec(rest[1]) else f"no module {rest[1]}"
    if name == "pip" and rest[-1].startswith(("requirements/", ".")):  # of a checkout
        return "" if (ROOT / rest[-1]).exists() else f"no {rest[-1]}"
    if name == "pip":
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
        wanted = re.fullmatch(r"groundwire(?:\[([a-z,-]+)\])?", rest[-1])
        return "" if wanted and (wanted[1] is None or set(wanted[1].split(",")) <= set(extras)) else f"no package {rest[-1]}"
    if name == "curl":
        address = urlsplit(next(word for word in rest if word.startswith("http")))
        method = "POST" if "-d" in rest else "GET"
        ours = f"{address.scheme}://{address.netloc}" == SERVER
        return "" if ours and served(address.path, method) else f"nobody serves {method} {address.path}"
    if name == "apt-get":
        return next((f"no test has {word}" for word in rest[1:] if word not in ("postgresql", *engines.PACKAGES)), "")
    if name == "export":
        return ""
    named = [word for word in rest if "/" in word]
    files = {"cp": rest[-2:-1], "pytest": named, "sh": named, "haproxy": named, "docker": [*named, "Dockerfile"]}.get(name)
    return f"no such command: {name}" if files is None else next((f"no {file}" for file in files if not (ROOT / file).exists()), "")


def _groundwire(arguments: list[str]) -> str:
    try:
        _parser().parse_args(arguments)
    except SystemExit as left:
        return "" if left.code == 0 else "its options are not those of the command"
    return ""


@pytest.mark.parametrize("block", blocks("sh"), ids=str)
def test_commands_exist_with_their_options(block: Block, served: Any) -> None:
    assert {} == {" ".join(words): found for words in commands(block.text) if (found := problem(words, served))}


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_commands_within_a_sentence_exist_too(page: Path, served: Any) -> None:
    named = [text for text in _INLINE.findall(page.read_text("utf-8")) if "|" not in text]
    assert {} == {text: found for text in named if (found := problem(shlex.split(text), served))}


@pytest.mark.parametrize(
    "wrong",
    [
        "groundwire tail --colour red",
        "make tea",
        "pip install 'groundwire[tea]'",
        "python -m benchmarks.tea",
        "tea",
        "A=b tea",
        "cp tea knowledge",
        f"curl {SERVER}/groundwire/v1/tea",
        f"curl {SERVER}/groundwire/v1/quarantine/qr_1/approve",
    ],
)
def test_what_does_not_exist_is_found_out(wrong: str, served: Any) -> None:
    assert problem(shlex.split(wrong), served)


def test_the_description_of_the_http_api_has_every_operation(admin_routes: Any) -> None:
    served = {
        (method, route.path) for route in admin_routes if not route.path.startswith("/dashboard") for method in route.methods - {"HEAD"}
    }
    assert served == {(made.method, made.path) for made in openapi.OPERATIONS}


def test_the_description_of_the_http_api_is_openapi() -> None:
    described = json.loads(openapi.text())
    for schema in described["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    for kind in ("schemas", "headers", "parameters", "responses"):
        named = set(re.findall(rf'"\$ref": "#/components/{kind}/([\w-]+)"', openapi.text()))
        assert named <= set(described["components"][kind])
    operations = [
        (path, one["operationId"]) for path, entry in described["paths"].items() for one in entry.values() if isinstance(one, dict)
    ]
    assert len(operations) == len({name for _, name in operations})
    assert len(openapi.OPERATIONS) == sum(not path.startswith(("/v1/", "/v1beta/")) for path, _ in operations)


def test_the_description_has_what_clients_call() -> None:
    described = json.loads(openapi.text())["paths"]
    policed = {path for path, entry in described.items() if "through the policy" in entry.get("post", {}).get("summary", "")}
    assert {dialect.path for dialect in DIALECTS} == set(openapi_clients.BODIES)
    assert policed == {path for own in openapi_clients.BODIES for path in openapi_clients.ADDRESSES.get(own, (f"/v1{own}",))}
    assert {"get", "servers"} == set(described["/v1/models"])
    assert {"delete", "get", "post", "servers"} == set(described["/v1/responses/{below}"])


# ---- Python ----


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_compiles(block: Block) -> None:
    compile(block.text, str(block), "exec")


async def provider(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
    """Answers what the pages ask, in the dialect in which they ask."""
    path, body = call.path.partition("?")[0], call.json
    said = "The Eiffel Tower is in Paris, France [Passage 1]." if "Eiffel" in call.body.decode() else "Jupiter is the largest planet."
    if path.endswith("/responses"):
        part = {"type": "output_text", "text": said, "annotations": [], "logprobs": []}
        message = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [part]}
        usage = {"input_tokens": 13, "output_tokens": 6, "total_tokens": 19, "input_tokens_details": {"cached_tokens": 0}}
        usage["output_tokens_details"] = {"reasoning_tokens": 0}
        head = {
            "id": "resp_1",
            "object": "response",
            "created_at": 1700000000,
            "status": "completed",
            "model": body["model"],
            "error": None,
        }
        more = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "usage": usage, "incomplete_details": None, "metadata": {}}
        await reply({**head, "output": [message], "instructions": None, "temperature": 1.0, "top_p": 1.0, **more})(writer, call)
    elif path.endswith("/messages"):
        usage = {"input_tokens": 13, "output_tokens": 6}
        head = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "stop_reason": "end_turn",
            "stop_sequence": None,
        }
        await reply({**head, "content": [{"type": "text", "text": said}], "usage": usage})(writer, call)
    elif body.get("stream"):
        await stream(streamed([f"{word} " for word in said.split()]))(writer, call)
    else:
        await reply(completion(said))(writer, call)


class Running(threading.Thread):
    """The shipped config.yaml's routes to real providers, in front of the scripted one, on a thread of its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(name="docs", daemon=True)
        self._folder, self._up = folder, threading.Event()
        self.url = ""

    def run(self) -> None:
        try:
            asyncio.run(self._serve())
        finally:
            self._up.set()

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with ScriptedUpstream(provider) as upstream:
            shipped = load_settings(ROOT / "config.yaml", {"OPENAI_API_KEY": "unused", "ANTHROPIC_API_KEY": "unused"})
            routes = tuple(route for route in shipped.routes if route.prefix in ("/openai", "/anthropic"))
            spoken = {name: shipped.upstreams[name] for name in ("openai", "anthropic")}
            upstreams = {name: msgspec.structs.replace(found, base_url=upstream.base_url) for name, found in spoken.items()}
            store = msgspec.structs.replace(shipped.store, url=f"sqlite+aiosqlite:///{self._folder}/store.db")
            app = App(msgspec.structs.replace(shipped, routes=routes, upstreams=upstreams, store=store))
            async with serving(app) as self.url:
                self._up.set()
                await self._over.wait()

    def wait(self) -> str:
        self._up.wait(60)
        assert self.url
        return self.url

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self.join()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    thread = Running(tmp_path_factory.mktemp("docs"))
    thread.start()
    yield thread.wait()
    thread.stop()


def told(block: Block) -> dict[int, str]:
    """The comments beside calls of print, by line: they begin with what is printed."""
    tokens = list(tokenize.generate_tokens(io.StringIO(block.text).readline))
    return {t.start[0]: t.string.lstrip("# ") for t in tokens if t.type == tokenize.COMMENT and t.line.startswith(("print(", "    print("))}


def printed(block: Block, url: str, names: dict[str, Any]) -> dict[int, str]:
    """Run it, with `url` for the server's address; what it prints, by line."""
    said: dict[int, str] = {}

    def keep(*values: object) -> None:
        said[sys._getframe(1).f_lineno] = " ".join(map(str, values))

    exec(compile(block.text.replace(SERVER, url), str(block), "exec"), {**names, "print": keep, "__name__": "page"})
    return said


_NAMESPACES = ("google",)
"""Packages of many distributions: that one of them is there says nothing of another."""


def _runnable() -> list[Block]:
    """Those whose libraries are installed here; ``tests/clients/test_connect.py`` runs those of agents' libraries."""
    return [block for block in blocks("python") if all(importlib.util.find_spec(name) for name in _imported(block))]


def _imported(block: Block) -> set[str]:
    """The top-level packages that it imports."""
    nodes = list(ast.walk(ast.parse(block.text)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    found = [(node.module, node.names[0].name) for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    names += [f"{module}.{name}" if module in _NAMESPACES else module for module, name in found]
    return {name if name.partition(".")[0] in _NAMESPACES else name.partition(".")[0] for name in names}


@pytest.mark.slow
@pytest.mark.parametrize("block", _runnable(), ids=str)
def test_python_runs_and_prints_what_the_comment_says(block: Block, running: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    expected = told(block)
    found = printed(block, running, {})
    assert {} == {
        line: (text, found.get(line)) for line, text in expected.items() if not found.get(line) or not text.startswith(found[line])
    }


@pytest.mark.slow
def test_the_address_for_anthropics_library_is_served(running: str) -> None:
    """As the library asks: it puts ``/v1/messages`` behind the base_url that the pages give."""
    given = {match for page in pages() for match in re.findall(r'Anthropic\(base_url="([^"]+)"', page.read_text("utf-8"))}
    assert {f"{SERVER}/anthropic"} == given
    body = {"model": "claude-sonnet-5-5", "max_tokens": 200, "messages": [{"role": "user", "content": "Which planet is the largest?"}]}
    address = f"{given.pop().replace(SERVER, running)}/v1/messages"
    asked = urllib.request.Request(address, json.dumps(body).encode(), {"content-type": "application/json", "x-api-key": "unused"})
    with urllib.request.urlopen(asked) as answer:
        assert "Jupiter is the largest planet." == json.load(answer)["content"][0]["text"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "made", [made for made in openapi.OPERATIONS if made.method == "GET" and "{id}" not in made.path], ids=lambda made: made.path
)
def test_the_server_answers_as_the_description_says(made: openapi.Operation, running: str) -> None:
    """The records are those of the pages' blocks, which were asked before."""
    described = json.loads(openapi.text())
    content = described["paths"][made.path]["get"]["responses"]["200"]["content"]
    asked = urllib.request.Request(running + made.path, headers={"accept": "application/json"})
    with urllib.request.urlopen(asked) as answer:
        kind = answer.headers.get_content_type()
        assert [kind] == list(content)
        if kind == "application/json":
            schema = {**content[kind]["schema"], "components": described["components"]}
            assert [] == [error.message for error in Draft202012Validator(schema).iter_errors(json.load(answer))]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Where is the Eiffel Tower?"}]}),
        ("/v1/responses", {"model": "gpt-4o-mini", "input": "Where is the Eiffel Tower?"}),
        ("/v1/messages", {"model": "claude", "max_tokens": 9, "messages": [{"role": "user", "content": "Where is the Eiffel Tower?"}]}),
    ],
)
def test_a_client_is_answered_as_the_description_says(path: str, body: dict[str, Any], running: str) -> None:
    described = json.loads(openapi.text())
    operation = described["paths"][path]["post"]
    wanted = {**operation["requestBody"]["content"]["application/json"]["schema"], "components": described["components"]}
    body |= {"groundwire": {"context": [{"content": "The Eiffel Tower is in Paris, France.", "source": "towers.md"}]}}
    assert [] == [error.message for error in Draft202012Validator(wanted).iter_errors(body)]
    assert list(Draft202012Validator(wanted).iter_errors({"model": 1}))
    prefix = "/anthropic" if path == "/v1/messages" else "/openai"
    asked = urllib.request.Request(f"{running}{prefix}{path}", json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(asked) as answer:
        said = {name for name in answer.headers if name.startswith("x-groundwire-")}
        assert (200, set()) == (answer.status, said - set(operation["responses"]["200"]["headers"]))
        assert {"x-groundwire-id", "x-groundwire-verdict"} <= said  # the others, where the checks are done in time


@pytest.mark.slow
def test_a_comment_that_is_not_so_is_found_out(running: str) -> None:
    wrong = Block(ROOT / "README.md", 1, "python", 'print("pass")  # block\n')
    assert ({1: "block"}, {1: "pass"}) == (told(wrong), printed(wrong, running, {}))
