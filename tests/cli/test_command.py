"""The command's words: what it prints, what it refuses, what it exits with."""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import proxy
from proxy.__main__ import config_path, main
from tests.processes import write_config

ROOT = Path(__file__).parents[2]
Captured = pytest.CaptureFixture[str]


def said(capsys: Captured) -> str:
    return capsys.readouterr().out


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_config(tmp_path, "http://127.0.0.1:9/v1")


def test_the_version(capsys: Captured) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (0, f"groundwire {proxy.__version__}\n") == (ended.value.code, said(capsys))


@pytest.mark.parametrize("arguments", [[], ["srve"], ["serve", "--port", "x"], ["explain", "--nonsense"]])
def test_a_wrong_command_line_is_refused_with_the_usage(arguments: list[str], capsys: Captured) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert 2 == ended.value.code
    assert capsys.readouterr().err.startswith("usage: groundwire")


@pytest.mark.process
def test_a_wrong_configuration_ends_serve_with_one_line_and_status_2(config: Path) -> None:
    config.write_text(config.read_text().replace("base_url", "base_ulr"))
    ended = subprocess.run(
        [sys.executable, "-m", "proxy", "serve", "--config", str(config)], cwd=ROOT, capture_output=True, text=True, timeout=30
    )
    assert (2, "") == (ended.returncode, ended.stdout)
    assert [f"groundwire: {config}:3: upstreams.main: unknown key 'base_ulr'; did you mean 'base_url'?"] == ended.stderr.splitlines()


@pytest.mark.parametrize("command", ["serve", "check"])
@pytest.mark.parametrize(
    ("policy", "line", "problem"),
    [
        ("name: p\ndelivery: tap\nstages: [{budget: {windw: 3}}]\n", 3, "stages[0].budget: unknown key 'windw'; did you mean 'window'?"),
        ("name: p\ndelivery: tip\n", 2, "delivery: expected one of hold, gate, tap, got 'tip'; did you mean 'tap'?"),
    ],
)
def test_a_wrong_policy_is_one_line_with_its_file_and_place(
    config: Path, command: str, policy: str, line: int, problem: str, capsys: Captured
) -> None:
    (config.parent / "policy.yaml").write_text(policy)
    assert 2 == main([command, "--config", str(config)])
    assert [f"groundwire: {config.parent / 'policy.yaml'}:{line}: {problem}"] == capsys.readouterr().err.splitlines()


@pytest.mark.parametrize("arguments", [["serve", "--config"], ["check", "--config"], ["explain"]])
def test_a_file_that_is_not_there_is_named(arguments: list[str], tmp_path: Path, capsys: Captured) -> None:
    missing = str(tmp_path / "missing.yaml")
    assert 2 == main([*arguments, missing])
    assert f"groundwire: {missing}: cannot be read: No such file or directory\n" == capsys.readouterr().err


def test_a_store_that_can_never_work_is_one_line_with_its_place(config: Path, capsys: Captured) -> None:
    config.write_text(config.read_text().replace("sqlite+aiosqlite:", "mysql:"))
    assert 2 == main(["check", "--config", str(config)])
    assert "store.url: unknown database or driver 'mysql'" in capsys.readouterr().err


@pytest.mark.process
@pytest.mark.parametrize(("option", "value"), [("--port", "65536"), ("--workers", "0")])
def test_a_number_that_cannot_be_is_refused_before_anything_starts(config: Path, option: str, value: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "proxy", "serve", "--config", str(config), "--port", "0", option, value],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=10,
    )
    assert 2 == ended.returncode
    assert option in ended.stderr.splitlines()[-1]
    assert "Traceback" not in ended.stderr


# ---- init ----


def test_init_writes_what_check_accepts(tmp_path: Path, capsys: Captured) -> None:
    folder = tmp_path / "new" / "place"
    assert 0 == main(["init", str(folder)])
    assert {"config.yaml", "policies", "schemas"} == {path.name for path in folder.iterdir()}
    assert {"default.yaml", "observe.yaml", "rag.yaml", "agent.yaml", "strict.yaml"} == {
        path.name for path in (folder / "policies").iterdir()
    }
    assert 0 == main(["check", "--config", str(folder / "config.yaml")])


def test_init_leaves_what_is_there(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "policies").mkdir()
    for name in ("config.yaml", "policies/rag.yaml"):
        (tmp_path / name).write_text("mine")
    assert 0 == main(["init", str(tmp_path)])
    told = said(capsys).splitlines()
    assert ["mine", "mine"] == [(tmp_path / name).read_text() for name in ("config.yaml", "policies/rag.yaml")]
    assert f"{tmp_path}/config.yaml: left as it is" in told
    assert f"{tmp_path}/policies/default.yaml: written" in told


def test_init_where_nothing_can_be_written_is_one_line(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "file").write_text("")
    assert 2 == main(["init", str(tmp_path / "file")])
    assert 1 == len(capsys.readouterr().err.splitlines())


# ---- new-key, and the file that is used ----


def test_a_new_key_comes_with_the_entry_that_lets_it_in(capsys: Captured) -> None:
    assert 0 == main(["new-key", "ann"])
    told = said(capsys)
    key = re.search(r"gw-[\w-]{43}", told)
    assert key
    assert f'- {{name: "ann", sha256: "{hashlib.sha256(key[0].encode()).hexdigest()}"}}' in told


@pytest.mark.parametrize("name", ["a, b", "x: y", "*", "yes", "12", 'Zoë "Z"'])
def test_the_entry_of_a_new_key_is_yaml_whatever_its_name(name: str, capsys: Captured) -> None:
    main(["new-key", name])
    (entry,) = yaml.safe_load(said(capsys).rpartition("config.yaml:\n")[2])
    assert (name, 64) == (entry["name"], len(entry["sha256"]))


def test_without_a_configuration_here_the_built_in_one_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert (ROOT / "config.yaml").read_bytes() == config_path(None).read_bytes()
    (tmp_path / "config.yaml").write_text("")
    assert Path("config.yaml") == config_path(None)
    assert Path("other.yaml") == config_path(Path("other.yaml"))
