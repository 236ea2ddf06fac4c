"""The start page of ``groundwire serve`` on a terminal."""

from pathlib import Path

import pytest
from rich.cells import cell_len

from proxy.cli.start_page import lines
from proxy.config.settings import ServerSettings, load_settings
from proxy.server.start_page import GENERATED_KEY_VARIABLE, start_page, welcome
from tests.processes import write_config


def page(tmp_path: Path, columns: int = 80, **server: str) -> list[str]:
    settings = load_settings(write_config(tmp_path, "http://127.0.0.1:9/v1"), {})
    notes = {"main": ("no key: set OPENAI_API_KEY",)}
    found = start_page(settings, ServerSettings(**server), 4000, notes, "store: it is locked")
    return [line.plain for line in lines(found, columns)]


def test_it_has_addresses_dashboard_notes_and_a_line_to_paste(tmp_path: Path) -> None:
    told = page(tmp_path)
    for part in (
        "is up at http://127.0.0.1:4000",
        "base_url   http://127.0.0.1:4000/rag/v1",
        "! no key: set OPENAI_API_KEY",
        "dashboard  http://127.0.0.1:4000/dashboard",
        "open to this machine, no key needed",
        "! store: it is locked",
        "curl http://127.0.0.1:4000/v1/chat/completions",
    ):
        assert [True] == list({part in line for line in told if part in line}), part


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_it_fits_the_screen_but_for_the_line_to_paste(tmp_path: Path, columns: int) -> None:
    assert [] == [
        line for line in page(tmp_path, columns) if cell_len(line) > columns and not line.startswith("curl ") and "README" not in line
    ]


def test_a_key_that_this_start_has_made_is_shown_and_one_of_the_file_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [] == [line for line in page(tmp_path, admin_key="s3cret-of-the-file") if "s3cret" in line]
    monkeypatch.setenv(GENERATED_KEY_VARIABLE, "made-just-now")
    assert ["             sign in with the key of this start: made-just-now"] == [
        line for line in page(tmp_path) if "made-just-now" in line
    ]


def test_the_log_never_has_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(GENERATED_KEY_VARIABLE, "made-just-now")
    settings = load_settings(write_config(tmp_path, "http://127.0.0.1:9/v1"), {})
    assert [] == [line for line in welcome(start_page(settings, ServerSettings(), 4000)) if "made-just-now" in line]
