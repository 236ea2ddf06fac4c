"""What is known before the server starts: one sentence each, and what to do."""

import socket
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from proxy.config.settings import ServerSettings, Settings, load_settings
from proxy.errors import ConfigError
from proxy.server.startup import Reach, check_models, check_port, key_notes, store_note
from tests.processes import free_port


def configured(folder: Path, upstreams: str, store: str = "store.db") -> tuple[Settings, str]:
    path = folder / "config.yaml"
    text = f"store: {{url: 'sqlite+aiosqlite:///{folder}/{store}'}}\nupstreams: {upstreams}\n"
    path.write_text(text + "routes: [{upstream: main, policy: p.yaml}]\n")
    return load_settings(path, {}), str(path)


def test_a_port_that_is_taken_is_refused_with_another(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError) as refused:
            check_port(ServerSettings(port=port))
    said = f"127.0.0.1:{port}: port {port} is in use by another program: stop that, or take another with --port {port + 1}"
    assert said == str(refused.value)


def test_a_free_port_and_any_port_are_not_refused() -> None:
    check_port(ServerSettings(port=free_port()))
    check_port(ServerSettings(port=0))


def test_an_address_of_another_machine_cannot_be_listened_on() -> None:
    with pytest.raises(ConfigError, match=r"server\.host is one of this machine's addresses"):
        check_port(ServerSettings(host="192.0.2.1", port=free_port()))


def test_a_models_file_that_is_missing_is_refused_before_anything_starts(tmp_path: Path) -> None:
    settings, _ = configured(tmp_path, f"{{main: {{kind: embedded, model_path: {tmp_path}/none.gguf}}}}")
    with pytest.raises(ConfigError, match="the model cannot be read"):
        check_models(settings)


# ---- the store ----


def test_a_locked_store_is_a_note_with_what_to_do(tmp_path: Path) -> None:
    settings, source = configured(tmp_path, "{main: {kind: embedded}}")
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
        other.execute("CREATE TABLE t (x)")
        other.execute("BEGIN EXCLUSIVE")
        note = store_note(settings, source)
    assert f"store: {tmp_path}/store.db is locked by another program" in note
    assert "set another store.url" in note


def test_a_store_that_is_free_or_not_there_yet_needs_no_note(tmp_path: Path) -> None:
    settings, source = configured(tmp_path, "{main: {kind: embedded}}")
    assert "" == store_note(settings, source)
    assert not (tmp_path / "store.db").exists()
    with closing(sqlite3.connect(tmp_path / "store.db")) as made:
        made.execute("CREATE TABLE t (x)")
    assert "" == store_note(settings, source)


@pytest.mark.parametrize(("store", "said"), [("no/such/store.db", "does not exist"), ("text.db", "is no database that can be used")])
def test_a_store_that_cannot_be_is_a_note(tmp_path: Path, store: str, said: str) -> None:
    (tmp_path / "text.db").write_text("no database " * 100)
    assert said in store_note(*configured(tmp_path, "{main: {kind: embedded}}", store))


# ---- upstreams ----


@pytest.mark.parametrize(
    ("upstream", "notes"),
    [
        ("{kind: openai, base_url: 'https://api.example.com/v1', api_key: '${NOT_SET:-}'}", {"main": "no key: set NOT_SET"}),
        (
            "{kind: openai, base_url: 'https://api.example.com/v1'}",
            {"main": "no key: set api_key, or api_key: forward for the client's own"},
        ),
        ("{kind: openai, base_url: 'https://api.example.com/v1', api_key: forward}", {}),
        ("{kind: openai, base_url: 'http://127.0.0.1:8000/v1', api_key: '${NOT_SET:-}'}", {}),
        ("{kind: openai, base_url: 'http://vllm:8000/v1'}", {}),
        ("{kind: litellm, model_prefix: anthropic/, api_key: '${NOT_SET:-}'}", {"main": "no key: set NOT_SET"}),
        ("{kind: embedded}", {}),
    ],
)
def test_a_missing_key_is_named_by_its_variable(tmp_path: Path, upstream: str, notes: dict[str, str]) -> None:
    assert notes == key_notes(*configured(tmp_path, f"{{main: {upstream}}}"))


def reached(tmp_path: Path, base_url: str, **given: Any) -> dict[str, str]:
    settings, _ = configured(tmp_path, f"{{main: {{kind: openai, base_url: '{base_url}', api_key: k}}}}")
    return Reach(settings, **given).notes(5.0)


def test_an_upstream_that_refuses_connections_is_named_with_the_reason(tmp_path: Path) -> None:
    port = free_port()
    assert {"main": f"cannot be reached (127.0.0.1:{port}: connection refused): check base_url"} == reached(
        tmp_path, f"http://127.0.0.1:{port}/v1"
    )


def test_an_upstream_that_listens_needs_no_note(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        assert {} == reached(tmp_path, f"http://127.0.0.1:{server.getsockname()[1]}/v1")


def test_a_network_that_swallows_everything_is_no_answer(tmp_path: Path) -> None:
    def never(address: tuple[str, int], timeout: float) -> socket.socket:
        raise TimeoutError

    said = {"main": "no answer from api.example.com: check base_url and the network"}
    assert said == reached(tmp_path, "https://api.example.com/v1", connect=never)
