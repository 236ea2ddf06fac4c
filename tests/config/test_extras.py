"""What a plain install lacks is named with its extra, at the place that needs it, by check and before a start."""

from pathlib import Path

import pytest

from proxy.__main__ import main
from proxy.config.extras import installed, missing

Captured = pytest.CaptureFixture[str]
UPSTREAMS = {
    "litellm": "{kind: litellm, model_prefix: mistral/, api_key: x}",
    "xllamacpp": "{kind: embedded}",
}


def without(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.config.extras.installed", lambda name: name != module)


def config(folder: Path, upstream: str, stages: str = "[]") -> str:
    (folder / "policy.yaml").write_text(f"name: p\nstages: {stages}\n")
    path = folder / "config.yaml"
    path.write_text(
        f"server: {{port: 0}}\nstore: {{url: 'sqlite+aiosqlite:///{folder}/store.db'}}\nupstreams:\n  u: {upstream}\n"
        "routes:\n  - {prefix: '', upstream: u, policy: policy.yaml}\n"
    )
    return str(path)


@pytest.mark.parametrize("command", ["check", "serve"])
@pytest.mark.parametrize(("module", "extra"), [("litellm", "litellm"), ("xllamacpp", "local")])
def test_an_upstream(command: str, module: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    without(module, monkeypatch)
    path = config(tmp_path, UPSTREAMS[module])
    assert 2 == main([command, "--config", path])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"groundwire: {path}:4: upstreams.u.kind: needs "), line
    assert line.endswith(f", which is not installed: pip install 'groundwire[{extra}]'")


@pytest.mark.parametrize("command", ["check", "serve"])
def test_a_policy(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    without("faiss", monkeypatch)
    (tmp_path / "facts").mkdir()
    path = config(tmp_path, "{kind: openai, base_url: 'http://127.0.0.1:9/v1'}", "[knowledge: {folder: facts}]")
    assert 2 == main([command, "--config", path])
    where, problem = f"{tmp_path}/policy.yaml:2: stages.knowledge", "needs FAISS, which is not installed: pip install 'groundwire[tools]'"
    assert [f"groundwire: {where}: {problem}"] == capsys.readouterr().err.splitlines()


def test_a_module_of_a_package_that_is_not_there() -> None:
    assert not installed("no_such_package.module")
    assert "" == missing("JSON", "json.decoder", "none")
