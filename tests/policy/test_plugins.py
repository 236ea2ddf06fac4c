"""Stages that are not Groundwire's own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.cli.explain import explain_all
from proxy.errors import ConfigError
from proxy.policy.loading import load_policy
from proxy.testing import completion, reply
from tests.conftest import CHAT, Start

EXAMPLE = Path(__file__).parents[2] / "examples" / "stage"
DECLARING = """
from proxy.ports.stage import StageHeader
from proxy.ports.panels import StagePanel
from proxy.ports.stage import Stage
class Clashes(StagePanel):
    name = "clashes"
def broken(facts, verdicts):
    raise RuntimeError("a mistake")
"""
OWN = '''
from proxy.ports.stage import Stage
class Own(Stage):
    """One's own."""
    name = "own"
class Budget(Stage):
    """Called as one that is there."""
    name = "budget"
class Nameless(Stage):
    """Without a name."""
class Other: ...
'''


def policy(folder: Path, entry: str) -> Path:
    path = folder / "p.yaml"
    path.write_text(f"name: p\ndelivery: hold\nstages:\n  - {entry}\n", encoding="utf-8")
    return path


def test_a_class_in_a_file_beside_the_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "own.py").write_text(OWN)
    monkeypatch.chdir("/")
    loaded = load_policy(policy(tmp_path, "checks/own.py:Own: {timeout_ms: 50}"))
    assert [("own", 50)] == [(spec.stage.name, spec.options.timeout_ms) for spec in loaded.stages]
    assert loaded.stages[0].stage is load_policy(tmp_path / "p.yaml").stages[0].stage


def test_a_class_in_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some_checks.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    assert ["own"] == [spec.stage.name for spec in load_policy(policy(tmp_path, "some_checks:Own")).stages]


def test_an_installed_package_offers_one_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "installed_checks.py").write_text(OWN)
    (tmp_path / "installed_checks-1.dist-info").mkdir()
    (tmp_path / "installed_checks-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: installed-checks\nVersion: 1\n")
    (tmp_path / "installed_checks-1.dist-info" / "entry_points.txt").write_text("[groundwire.stages]\nown = installed_checks:Own\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert ["own"] == [spec.stage.name for spec in load_policy(policy(tmp_path, "own")).stages]
    with pytest.raises(ConfigError, match=r"unknown stage 'owm'; did you mean 'own'\?"):
        load_policy(policy(tmp_path, "owm"))


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("missing.py:Own", "missing.py:Own cannot be loaded: FileNotFoundError: no file"),
        ("broken.py:Own", "broken.py:Own cannot be loaded: NameError"),
        ("own.py:Absent", "own.py has no Absent"),
        ("own.py:Other", "own.py:Other is not a class derived from proxy.ports.stage.Stage"),
        ("own.py:Nameless", "own.py:Nameless has no name"),
        ("own.py:Budget", "own.py:Budget is called 'budget', as a stage of Groundwire's own"),
        ("no_such_module:Own", "no_such_module:Own cannot be loaded: ModuleNotFoundError"),
        ("own.py:Own: {no_such: 1}", r"stages\[0\].own.py:Own.*no_such"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_place(tmp_path: Path, entry: str, problem: str) -> None:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "broken.py").write_text("nobody")
    with pytest.raises(ConfigError, match=problem) as refused:
        load_policy(policy(tmp_path, entry))
    assert "p.yaml: stages[0]" in str(refused.value)


async def test_the_example_blocks_a_link_that_nobody_gave(start: Start, tmp_path: Path) -> None:
    shutil.copy(EXAMPLE / "links.py", tmp_path)
    async with start(reply(completion("See https://made.example/up.")), policy=(EXAMPLE / "policy.yaml").read_text()) as proxy:
        got = await proxy.post(CHAT)
    assert (400, "block", "unknown_link") == (got.status, got.verdict, got.json["error"]["param"])


async def test_the_example_has_a_header_and_a_panel_of_its_own(start: Start, tmp_path: Path) -> None:
    shutil.copy(EXAMPLE / "links.py", tmp_path)
    policy = (EXAMPLE / "policy.yaml").read_text().replace("block", "warn")
    async with start(reply(completion("See https://made.example/up and https://given.example.")), policy=policy) as proxy:
        got = await proxy.post({**CHAT, "messages": [{"role": "user", "content": "What does https://given.example say?"}]})
        await proxy.record(got)
        figures = json.loads((await proxy.get("/dashboard/figures")).body)
        pages = [(await proxy.get(path)).body.decode() for path in ("/dashboard", f"/dashboard/records/{got.headers['x-groundwire-id']}")]
    (panel,) = [panel for panel in figures["panels"] if panel["name"] == "links"]
    assert ("1/2", "1", "links made up", ["links 2"]) == (
        got.headers["x-groundwire-links"],
        *(panel[n] for n in ("headline", "meaning", "detail")),
    )
    assert 1.0 == sum(panel["series"][0]["values"])
    assert (True, True) == ('data-panel="links"' in pages[0], "x-groundwire-links" in pages[1])


async def test_a_header_that_cannot_be_written_is_left_out(start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "own.py").write_text(DECLARING + 'class Own(Stage):\n    name = "own"\n    headers = (StageHeader("mine", "?", broken),)\n')
    async with start(reply(completion("Hello.")), policy="name: p\ndelivery: hold\nstages:\n  - own.py:Own\n") as proxy:
        got = await proxy.post(CHAT)
    assert (200, False) == (got.status, "x-groundwire-mine" in got.headers)
    assert "x-groundwire-mine cannot be written" in caplog.text


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ('headers = (StageHeader("Not OK", "?", broken),)', "header 'Not OK': expected small letters"),
        ('headers = (StageHeader("verdict", "?", broken),)', "the header x-groundwire-verdict is Groundwire's own"),
        ('headers = (StageHeader("tools", "?", broken),)', "the header x-groundwire-tools is Groundwire's own"),
        ("panel = Clashes", "the panel 'clashes' is Groundwire's own"),
    ],
)
def test_what_is_groundwires_own_is_not_declared_again(tmp_path: Path, declared: str, problem: str) -> None:
    (tmp_path / "own.py").write_text(f'{DECLARING}class Own(Stage):\n    name = "own"\n    {declared}\n')
    with pytest.raises(ConfigError, match=problem):
        load_policy(policy(tmp_path, "own.py:Own"))


def test_the_example_is_explained() -> None:
    told = explain_all(load_policy(EXAMPLE / "policy.yaml"))
    assert "2. links: Links in an answer that stood nowhere in the request." in told
    assert "reports: x-groundwire-links, unknown_link" in told
    assert "may block (unknown_link): exact" in told


@pytest.mark.process
def test_the_examples_own_tests_pass() -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(EXAMPLE),
        "-o",
        "asyncio_mode=auto",
        str(EXAMPLE),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=EXAMPLE.parent.parent)
    assert (0, "3 passed") == (done.returncode, done.stdout.strip().splitlines()[-1].partition(" in ")[0]), done.stdout
