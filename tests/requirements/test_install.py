"""What `make serve` says while it installs, and what it installs."""

import sys
from pathlib import Path

import pytest

from requirements.install import BUILD_LOCK, LOCK, UV_LOCK, Progress, _run, _told, pins

TEXT = """\
a-b==1.0 \\
    --hash=sha256:00 \\
    --hash=sha256:11
    # via c
c==2 ; sys_platform != 'win32' \\
    --hash=sha256:22
    # via
    #   -r x
"""


def test_a_pin_has_its_version_marker_and_hashes_and_no_comment() -> None:
    first, second = pins(TEXT)
    assert ["a-b==1.0 \\", "    --hash=sha256:00 \\", "    --hash=sha256:11"] == first.splitlines()
    assert ["c==2 ; sys_platform != 'win32' \\", "    --hash=sha256:22"] == second.splitlines()
    assert [second] == pins(TEXT, ["c"])


def test_every_package_of_the_lock_is_installed_and_what_builds_it() -> None:
    text = LOCK.read_text("utf-8")
    assert sum("==" in line and not line.startswith((" ", "#")) for line in text.splitlines()) == len(pins(text))
    assert 1 == len(pins(BUILD_LOCK.read_text("utf-8"), ["setuptools"]))
    assert 1 == len(pins(UV_LOCK.read_text("utf-8"), ["uv"]))


def test_without_a_terminal_each_step_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(2)
    for step in ("one", "two"):
        progress.begin(step)
        progress.more("not shown")
    progress.end()
    assert "[1/2] one\n[2/2] two\n" == capsys.readouterr().out


@pytest.mark.process
def test_what_the_installer_names_is_counted_and_its_words_are_shown_where_it_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "pip.py"
    script.write_text("print('Collecting numpy==2 (from -r x)'); print('ERROR: no network'); raise SystemExit(3)")
    said: list[str] = []
    progress = Progress(1)
    progress.more = said.append  # type: ignore[method-assign]
    assert 3 == _run([sys.executable, str(script)], 2, progress)
    assert ["1 of 2 packages: numpy"] == said
    assert "ERROR: no network" in capsys.readouterr().out


def test_uv_is_told_of_the_mirror_that_pip_is_told_of_and_the_environment_goes_first() -> None:
    config = """\
:env:.index-url='https://mirror.example/simple'
global.cert='/etc/ssl/certs/ca-certificates.crt'
global.extra-index-url='https://a.example/simple\\nhttps://b.example/simple'
global.index-url='https://pypi.org/simple'
"""
    extra = ["--extra-index-url", "https://a.example/simple", "--extra-index-url", "https://b.example/simple"]
    assert [*extra, "--index-url", "https://mirror.example/simple"] == _told(config)
