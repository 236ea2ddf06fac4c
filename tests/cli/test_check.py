"""``groundwire check``: everything that is wrong, each with its line."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from proxy.__main__ import main
from proxy.store.schema import HEAD
from tests.processes import write_config

Captured = pytest.CaptureFixture[str]
CONFIG = """\
upstreams:
  openai:
    kind: openai
    api_base: https://api.example.com/v1
  local: {kind: embeded}
logging: {level: verbos}
port: 4000
routes:
  - prefix: /rag
    upstream: openai
    policy: policies/rags.yaml
  - {upstream: opnai, policy: policies/rag.yaml}
"""


def problems(capsys: Captured, folder: Path) -> list[str]:
    assert 2 == main(["check", "--config", str(folder / "config.yaml")])
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == f"{len(lines) - 1} problems" or len(lines) == 1
    return [line.removeprefix(f"groundwire: {folder}/") for line in lines if not line.endswith(" problems")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "rag.yaml").write_text("name: rag\nstages:\n  - budget\n")
    (tmp_path / "config.yaml").write_text(CONFIG)
    return tmp_path


def test_all_problems_come_at_once_in_the_order_of_their_lines(folder: Path, capsys: Captured) -> None:
    assert [
        "config.yaml:4: upstreams.openai: unknown key 'api_base'; did you mean 'base_url'?",
        "config.yaml:5: upstreams.local.kind: invalid value 'embeded'; known: anthropic, builtin, embedded, gemini, litellm, openai",
        "config.yaml:6: logging.level: expected one of debug, info, warning, error, got 'verbos'",
        "config.yaml:7: unknown key 'port'; it belongs below server:",
    ] == problems(capsys, folder)


def test_what_can_be_mended_does_not_hide_the_rest(folder: Path, capsys: Captured) -> None:
    (folder / "config.yaml").write_text(CONFIG.replace("embeded", "embedded"))
    assert [
        "config.yaml:4: upstreams.openai: unknown key 'api_base'; did you mean 'base_url'?",
        "config.yaml:6: logging.level: expected one of debug, info, warning, error, got 'verbos'",
        "config.yaml:7: unknown key 'port'; it belongs below server:",
        f"config.yaml:11: routes[0].policy: no such policy file: {folder}/policies/rags.yaml; did you mean 'policies/rag.yaml'?",
        "config.yaml:12: routes[1].upstream: 'opnai' is not one of: local, openai; did you mean 'openai'?",
    ] == problems(capsys, folder)


def test_a_policy_that_no_route_names_is_checked_too(folder: Path, capsys: Captured) -> None:
    (folder / "policies" / "mine.yaml").write_text(
        "name: mine\ndelivery: tap\nstages:\n  - citations: {action: blok}\n  - bugdet\nenfore: 1\n"
    )
    (folder / "config.yaml").write_text("upstreams: {local: {kind: embedded}}\nroutes: [{upstream: local, policy: policies/rag.yaml}]\n")
    assert 0 == main(["check", "--config", str(folder / "config.yaml")])
    lines = capsys.readouterr().out.splitlines()
    found = [line.strip().removeprefix(f"{folder}/") for line in lines[lines.index("  mine.yaml: no route uses it, and none could:") + 1 :]]
    assert [
        "policies/mine.yaml:4: stages[0].citations.action: expected one of annotate, redact, block, got 'blok'; did you mean 'block'?",
        "policies/mine.yaml:5: stages[1]: unknown stage 'bugdet'; did you mean 'budget'?",
        "policies/mine.yaml:6: enfore: unknown key; did you mean 'enforce'?",
    ] == found


def test_a_variable_that_is_not_set_is_one_problem_of_many(folder: Path, capsys: Captured) -> None:
    text = "server: {admin_key: '${NOT_SET_1}', prt: 1}\nupstreams:\n  openai: {kind: openai, base_url: '${NOT_SET_2}'}\n"
    (folder / "config.yaml").write_text(text + "routes: [{upstream: openai, policy: policies/rag.yaml}]\n")
    found = problems(capsys, folder)
    assert [1, 1, 3] == [int(line.split(":")[1]) for line in found]
    assert ["'prt'", "NOT_SET_1", "NOT_SET_2"] == sorted(set(re.findall(r"NOT_SET_\d|'prt'", "".join(found))))


def test_a_policy_with_several_mistakes_has_them_all(folder: Path, capsys: Captured) -> None:
    wrong = "name: rag\ndelivery: tap\nstages:\n  - faithful\n  - relevance\n  - claims: {action: block}\n  - claims\n"
    (folder / "policies" / "rag.yaml").write_text(wrong)
    (folder / "config.yaml").write_text("upstreams: {local: {kind: embedded}}\nroutes: [{upstream: local, policy: policies/rag.yaml}]\n")
    assert [4, 6, 7] == [int(line.split(":")[1]) for line in problems(capsys, folder)]


def test_each_route_is_shown_with_its_policy(tmp_path: Path, capsys: Captured) -> None:
    config = write_config(tmp_path, "http://127.0.0.1:9/v1")
    assert 0 == main(["check", "--config", str(config)])
    lines = capsys.readouterr().out.splitlines()
    assert f"{config}: ok" == lines[0]
    assert [True, True] == [
        bool(re.fullmatch(rf"  {path} -> main, empty@[0-9a-f]{{8}} \(tap: no stages\)", line))
        for path, line in zip(("/rag/v1", "/v1"), lines[1:3], strict=True)
    ]


def test_it_says_whose_clients_are_translated(folder: Path, capsys: Captured) -> None:
    upstreams = """
    {chat: {kind: openai, base_url: 'http://x/v1', apis: [chat], fallback: [claude]}, claude: {kind: anthropic},
     all: {kind: openai, base_url: 'http://x/v1', apis: [messages, chat, responses]}, unused: {kind: embedded}}"""
    routes = "[{prefix: /a, upstream: chat, policy: policies/rag.yaml}, {upstream: all, policy: policies/rag.yaml}]"
    (folder / "config.yaml").write_text(f"upstreams: {upstreams}\nroutes: {routes}\n")
    assert 0 == main(["check", "--config", str(folder / "config.yaml")])
    said = [line.strip() for line in capsys.readouterr().out.splitlines() if "translated" in line]
    assert [
        "chat: Responses, Messages and Gemini's generateContent translated to Chat Completions",
        "claude: Chat Completions, Responses and Gemini's generateContent translated to Messages",
        "all: Gemini's generateContent translated to Messages",
    ] == said


def test_a_policy_that_no_route_uses_is_named_where_all_is_well(folder: Path, capsys: Captured) -> None:
    (folder / "policies" / "mine.yaml").write_text("name: mine\ndelivery: tap\nstages: [budget]\n")
    (folder / "config.yaml").write_text("upstreams: {local: {kind: embedded}}\nroutes: [{upstream: local, policy: policies/rag.yaml}]\n")
    assert 0 == main(["check", "--config", str(folder / "config.yaml")])
    assert "  mine.yaml: no route uses it; tap: budget" in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("wrong", ["{", "- a", ""])
def test_a_file_that_is_no_configuration_is_one_problem(folder: Path, capsys: Captured, wrong: str) -> None:
    (folder / "config.yaml").write_text(wrong)
    assert 1 == len(problems(capsys, folder))


def test_what_serve_refuses_check_refuses_too(folder: Path, capsys: Captured) -> None:
    text = "upstreams: {main: {kind: openai, base_url: 'http://x/v1', api_key: sk-1}}\nserver: {host: 0.0.0.0}\n"
    (folder / "config.yaml").write_text(text + "routes: [{upstream: main, policy: policies/rag.yaml}]\n")
    (found,) = problems(capsys, folder)
    assert found.startswith(
        "config.yaml:2: server.host: 0.0.0.0 is not loopback, and without client keys anyone who reaches it spends the key"
    )


def test_an_unused_policy_that_is_wrong_keeps_nothing_from_starting(tmp_path: Path, capsys: Captured) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "upstreams: {u: {kind: openai, base_url: 'http://x/v1'}}\nroutes: [{prefix: '', upstream: u, policy: policies/p.yaml}]\n"
    )
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "p.yaml").write_text("name: p\nstages: []\n")
    (tmp_path / "policies" / "old.yaml").write_text("name: old\nstages: [budgett]\n")
    assert 0 == main(["check", "--config", str(config)])
    assert "  old.yaml: no route uses it, and none could:" in capsys.readouterr().out


def test_a_policys_bare_name_is_told_its_file(tmp_path: Path, capsys: Captured) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("upstreams: {u: {kind: openai, base_url: 'http://x/v1'}}\nroutes: [{prefix: '', upstream: u, policy: default}]\n")
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "default.yaml").write_text("name: default\nstages: []\n")
    assert 2 == main(["check", "--config", str(config)])
    assert "did you mean 'policies/default.yaml'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("https://api.openai.com", "https://api.openai.com/v1"),
        ("https://api.openai.com/v1/chat/completions", "https://api.openai.com/v1"),
        ("http://10.0.0.5:8000/v1/responses/", "http://10.0.0.5:8000/v1"),
    ],
)
def test_a_base_url_that_cannot_work_is_refused(tmp_path: Path, capsys: Captured, given: str, meant: str) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"upstreams: {{u: {{kind: openai, base_url: '{given}'}}}}\nroutes: [{{prefix: '', upstream: u, policy: p.yaml}}]\n")
    (tmp_path / "p.yaml").write_text("name: p\nstages: []\n")
    assert 2 == main(["check", "--config", str(config)])
    assert f"did you mean {meant!r}?" in capsys.readouterr().err


def test_a_store_is_brought_to_this_release_without_a_server(tmp_path: Path, capsys: Captured) -> None:
    config = str(write_config(tmp_path, "http://127.0.0.1:9/v1"))
    assert [0, 0] == [main(["migrate", "--config", config]) for _ in range(2)]
    assert 2 == capsys.readouterr().out.count(f"store.db has revision {HEAD}")
    (tmp_path / "store.db").unlink()
    (tmp_path / "store.db").mkdir()
    assert 2 == main(["migrate", "--config", config])
    assert "cannot be migrated" in capsys.readouterr().err


def test_a_program_of_an_mcp_server_that_is_not_here_is_noted(folder: Path, capsys: Captured) -> None:
    config = "upstreams: {local: {kind: embedded}}\nroutes: [{upstream: local, policy: policies/rag.yaml}]\n"
    servers = "mcp: {servers: {files: {command: no-such-program}, mine: {command: sh}}}\n"
    (folder / "config.yaml").write_text(config + servers)
    assert 0 == main(["check", "--config", str(folder / "config.yaml")])
    notes = [line for line in capsys.readouterr().out.splitlines() if "mcp.servers" in line]
    assert ["  note: mcp.servers.files.command: there is no program 'no-such-program' on this machine"] == notes


def noted(capsys: Captured, folder: Path, policy: str) -> list[str]:
    """The notes on a policy that a route names."""
    (folder / "policies" / "rag.yaml").write_text(policy)
    (folder / "config.yaml").write_text("upstreams: {local: {kind: embedded}}\nroutes: [{upstream: local, policy: policies/rag.yaml}]\n")
    assert 0 == main(["check", "--config", str(folder / "config.yaml")])
    return [line.strip().removeprefix("note: ") for line in capsys.readouterr().out.splitlines() if line.startswith("    note: ")]


def test_a_policy_that_judges_by_passages_and_hands_none_over_is_noted(folder: Path, capsys: Captured) -> None:
    missing = "mine has citations, claims, and no stage hands the passages of groundwire.context to the model: faithful does"
    stages = "name: mine\nstages: [budget, poisoning, citations, claims, faithful: {enabled: false}]\n"
    assert [missing] == noted(capsys, folder, stages)
    assert [] == noted(capsys, folder, stages.replace("false", "true"))
    assert [] == noted(capsys, folder, "name: mine\nstages: [budget, poisoning]\n")


@pytest.mark.parametrize(
    ("judge", "is_noted"),
    [
        ("kind: chat, upstream: local, model: own, max_usd_per_day: 2", True),
        ("kind: chat, upstream: local, model: own", False),
        ("kind: chat, upstream: far, model: gpt-4o-mini, max_usd_per_day: 2", False),
        ("kind: decisions, upstream: far, model: own, max_usd_per_day: 2", True),
        ("kind: decisions, upstream: told, model: own, max_usd_per_day: 2", False),
        ("kind: builtin, max_usd_per_day: 2", False),
    ],
)
def test_a_budget_that_cannot_be_kept_is_noted(folder: Path, capsys: Captured, judge: str, is_noted: bool) -> None:
    far = "{kind: openai, base_url: 'http://127.0.0.1:9/v1', api_key: sk-1"
    upstreams = f"local: {{kind: embedded}}, far: {far}}}, told: {far}, decisions: {{usd_per_million_tokens: 0.1}}}}"
    (folder / "policies" / "rag.yaml").write_text(f"name: mine\njudge: {{{judge}}}\nstages: [budget, claims]\n")
    (folder / "config.yaml").write_text(f"upstreams: {{{upstreams}}}\nroutes: [{{upstream: local, policy: policies/rag.yaml}}]\n")
    assert 0 == main(["check", "--config", str(folder / "config.yaml")])
    assert is_noted == ("mine has judge.max_usd_per_day, and no price of" in capsys.readouterr().out)


def test_an_address_without_a_path_is_noted(folder: Path, capsys: Captured) -> None:
    upstreams = "a: {kind: openai, base_url: 'http://127.0.0.1:9'}, b: {kind: openai, base_url: 'http://127.0.0.1:9/v1'}"
    (folder / "config.yaml").write_text(f"upstreams: {{{upstreams}}}\nroutes: [{{upstream: a, policy: policies/rag.yaml}}]\n")
    assert 0 == main(["check", "--config", str(folder / "config.yaml")])
    notes = [line for line in capsys.readouterr().out.splitlines() if "base_url" in line]
    assert ["  note: upstreams.a.base_url: has no path, as /v1: calls go to http://127.0.0.1:9/chat/completions"] == notes


def test_a_policy_with_a_shipped_ones_name_is_noted(folder: Path, capsys: Captured) -> None:
    said = "rag.yaml has the name of a shipped policy, strict, in headers and records"
    assert [said] == noted(capsys, folder, "name: strict\nstages: [budget]\n")
    assert [] == noted(capsys, folder, "name: rag\nstages: [budget]\n")


@pytest.mark.process
@pytest.mark.slow
def test_a_local_model_that_does_not_load_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("xllamacpp", reason="needs the extra groundwire[local]", exc_type=ImportError)
    (tmp_path / "cut.gguf").write_bytes(b"GGUF" + bytes(1000))
    (tmp_path / "p.yaml").write_text("name: p\nstages: []\n")
    config = tmp_path / "config.yaml"
    upstream = f"{{kind: embedded, model_path: '{tmp_path}/cut.gguf'}}"
    config.write_text(
        f"store: {{url: 'sqlite+aiosqlite:///{tmp_path}/s.db'}}\nupstreams: {{u: {upstream}}}\nroutes: [{{upstream: u, policy: p.yaml}}]\n"
    )
    assert 2 == main(["check", "--config", str(config)])
    assert "the model does not load" in capsys.readouterr().err


def test_a_verifier_of_ones_own_that_cannot_be_read_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.yaml").write_text("name: p\ndelivery: hold\nstages: [claims]\n")
    (tmp_path / "mine").mkdir()
    config = tmp_path / "config.yaml"
    config.write_text(
        f"store: {{url: 'sqlite+aiosqlite:///{tmp_path}/s.db'}}\nupstreams: {{u: {{kind: openai, base_url: 'http://127.0.0.1:9/v1'}}}}\n"
        "grounding: {model: mine}\nroutes: [{upstream: u, policy: p.yaml}]\n"
    )
    assert 2 == main(["check", "--config", str(config)])
    assert f"{config}:3: grounding" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("store", "said"),
    [("no/such/store.db", "the folder {folder}/no/such does not exist"), ("text.db", "{folder}/text.db is no database that can be used")],
)
def test_a_store_that_cannot_be_opened_is_found_and_nothing_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], store: str, said: str
) -> None:
    (tmp_path / "text.db").write_text("no database " * 100)
    (tmp_path / "p.yaml").write_text("name: p\nstages: []\n")
    config, before = tmp_path / "config.yaml", {*tmp_path.iterdir()}
    config.write_text(
        f"store:\n  url: 'sqlite+aiosqlite:///{tmp_path}/{store}'\nupstreams: {{u: {{kind: openai, base_url: 'http://127.0.0.1:9/v1'}}}}\n"
        "routes: [{upstream: u, policy: p.yaml}]\n"
    )
    assert 2 == main(["check", "--config", str(config)])
    assert f"{config}:2: store.url: {said.format(folder=tmp_path)}" in capsys.readouterr().err
    assert {*before, config} == {*tmp_path.iterdir()}


def test_a_store_that_another_program_holds_is_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.yaml").write_text("name: p\nstages: []\n")
    config = tmp_path / "config.yaml"
    config.write_text(
        f"store: {{url: 'sqlite+aiosqlite:///{tmp_path}/s.db'}}\nupstreams: {{u: {{kind: openai, base_url: 'http://127.0.0.1:9/v1'}}}}\n"
        "routes: [{upstream: u, policy: p.yaml}]\n"
    )
    with closing(sqlite3.connect(tmp_path / "s.db", isolation_level=None)) as other:
        other.execute("CREATE TABLE t (x)")
        other.execute("BEGIN EXCLUSIVE")
        assert 0 == main(["check", "--config", str(config)])
    assert f"note: store: {tmp_path}/s.db is locked by another program" in capsys.readouterr().out
