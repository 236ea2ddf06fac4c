from itertools import pairwise
from pathlib import Path

import pytest

from proxy.config.settings import EmbeddedSettings, OpenAISettings, Settings, load_settings
from proxy.errors import ConfigError

BASE = """
upstreams: {local: {kind: embedded}, openai: {kind: openai, base_url: "http://x/v1"}}
routes: [{upstream: local, policy: p.yaml}]
"""

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{below}'] * 10)}]\n" for below, name in pairwise("abcdefghijkl")
)
"""Twelve lines that stand for 10^12 values."""
MERGE_BOMB = BOMB.replace("[x, x, x, x, x, x, x, x, x, x]", "{x: y}").replace("[", "{<<: [").replace("]", "]}")


def load(tmp_path: Path, text: str, **environ: str) -> Settings:
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return load_settings(path, environ)


def refused(tmp_path: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    return str(caught.value).removeprefix(str(tmp_path / "config.yaml") + ": ")


def test_defaults_fill_what_is_not_said(tmp_path: Path) -> None:
    settings = load(tmp_path, BASE)
    assert ("127.0.0.1", 4000, 1) == (settings.server.host, settings.server.port, settings.server.workers)
    assert isinstance(settings.upstreams["local"], EmbeddedSettings)
    assert str(tmp_path) == settings.folder


def test_environment_variables_are_put_in(tmp_path: Path) -> None:
    text = BASE + 'server: {port: "${PORT}", admin_key: "${KEY:-none}-${KEY:-}"}\n'
    server = load(tmp_path, text, PORT="99").server
    assert (99, "none-") == (server.port, server.admin_key)
    assert "s-s" == load(tmp_path, text, PORT="99", KEY="s").server.admin_key


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_line_break_at_the_end_of_a_secret_is_none_of_it(tmp_path: Path, end: str) -> None:
    assert "s3cret" == load(tmp_path, BASE + 'server: {admin_key: "${KEY}"}\n', KEY=f"s3cret{end}").server.admin_key
    assert "default" == load(tmp_path, BASE + 'server: {admin_key: "${KEY:-default}"}\n', KEY=end).server.admin_key


def test_a_default_may_hold_an_address(tmp_path: Path) -> None:
    upstream = load(tmp_path, BASE.replace("http://x/v1", "${BASE:-https://api.example.com/v1}")).upstreams["openai"]
    assert isinstance(upstream, OpenAISettings)
    assert "https://api.example.com/v1" == upstream.base_url


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BASE + "server: {prt: 3}", "server: unknown key 'prt'; did you mean 'port'?"),
        (BASE + "server: {port: no}", "server.port: expected `int`, got `bool`"),
        (BASE + "server: {port: 70000}", "server.port: expected `int` <= 65535"),
        (BASE + "server: {party_share: 0.4}", "server.party_share: expected `float` >= 0.5"),
        (BASE + "server: {write_stall_s: 0}", "server.write_stall_s: expected `float` > 0.0"),
        (BASE + "server: {max_connections: 0}", "server.max_connections: expected `int` >= 1"),
        (
            BASE + "server: {max_bodies_bytes: 30000000}",
            "server.max_bodies_bytes: expected at least twice max_body_bytes (20000000), got 30000000",
        ),
        (
            BASE.replace("http://x/v1", 'http://x/v1", api_key: "one\\ntwo'),
            "upstreams.openai.api_key: has a line break or another control character, which no header can have",
        ),
        (
            BASE.replace("http://x/v1", 'http://x/v1", headers: {x-key: "one\\rtwo"}, model_prefix: "p/'),
            "upstreams.openai.headers.x-key: has a line break or another control character, which no header can have",
        ),
        (
            BASE + "server: {hosts: ['http://a.test']}",
            "server.hosts[0]: expected a name in lower case without port, as groundwire.test, got 'http://a.test'",
        ),
        (BASE + "folder: x", "folder: unknown key"),
        (BASE + "sever: {}", "unknown key 'sever'; did you mean 'server'?"),
        (
            BASE.replace("embedded", "embeded"),
            "upstreams.local.kind: invalid value 'embeded'; known: anthropic, builtin, embedded, gemini, litellm, openai",
        ),
        (
            BASE.replace('"http://x/v1"', '"http://x/v1", timeouts: {conect_s: 1}'),
            "upstreams.openai.timeouts: unknown key 'conect_s'; did you mean 'connect_s'?",
        ),
        (BASE.replace('"http://x/v1"', "x/v1"), "upstreams.openai.base_url: expected http://… or https://…, got 'x/v1'"),
        (BASE.replace("http://x/v1", "http://x y/v1"), "upstreams.openai.base_url: expected http://… or https://…, got 'http://x y/v1'"),
        (
            BASE.replace("http://x/v1", "http://x/v1/v1"),
            "upstreams.openai.base_url: expected it up to and with its version, and no further: did you mean 'http://x/v1'?",
        ),
        (
            BASE.replace("http://x/v1", "http://x/v1/chat/completions?api-version=1"),
            "upstreams.openai.base_url: expected it up to and with its version, and no further: did you mean 'http://x/v1?api-version=1'?",
        ),
        (
            BASE.replace("{kind: openai, base_url", "{kind: openai, bas_url"),
            "upstreams.openai: unknown key 'bas_url'; did you mean 'base_url'?",
        ),
        (
            BASE.replace("upstream: local", "upstream: loca"),
            "routes[0].upstream: 'loca' is not one of: local, openai; did you mean 'local'?",
        ),
        (
            BASE.replace("policy: p.yaml", "policy: p.yaml, prefix: rag"),
            "routes[0].prefix: expected '' or a path like /rag without a slash at its end, got 'rag'",
        ),
        (
            BASE.replace("policy: p.yaml", "policy: p.yaml, prefix: /metrics"),
            "routes[0].prefix: '/metrics' is one of the server's own paths",
        ),
        (BASE.replace("}]", "}, {upstream: openai, policy: q.yaml}]"), "routes[1].prefix: '' is taken by an earlier route"),
        (
            BASE.replace("kind: embedded", "kind: embedded, fallback: [opnai]"),
            "upstreams.local.fallback: 'opnai' is not one of: local, openai; did you mean 'openai'?",
        ),
        (
            BASE.replace("kind: embedded", "kind: embedded, fallback: [local]"),
            "upstreams.local.fallback: an upstream cannot be its own fallback",
        ),
        (BASE + "keys: [{name: a, sha256: abc}]", "keys[0].sha256: expected `str` matching regex '^[0-9a-fA-F]{64}$'"),
        (BASE + f"keys: [{{name: a, sha256: {'a' * 64}}}, {{name: a, sha256: {'b' * 64}}}]", "keys[1].name: 'a' stands here twice"),
        (BASE + f"keys: [{{name: a, sha256: {'a' * 64}, routes: [/rag]}}]", "keys[0].routes: no route has the prefix '/rag'"),
        (
            BASE.replace('"http://x/v1"', '"http://x/v1", api_key: forward') + f"keys: [{{name: a, sha256: {'a' * 64}}}]",
            "upstreams.openai.api_key: forward cannot go with keys: a client's Authorization is then Groundwire's own key and must not leave",
        ),
        (
            BASE.replace("kind: embedded", "kind: litellm"),
            "upstreams.local.model_prefix: is needed, or a list of models: else a client could choose any provider whose key lies in the environment",
        ),
        (
            BASE.replace("kind: embedded", "kind: litellm, api_key: x"),
            "upstreams.local.model_prefix: is needed beside an api_key (as anthropic/): without it a client could choose the provider that gets the key",
        ),
        (
            BASE + 'server: {admin_key: "${NOT_SET}"}',
            "server.admin_key: the environment variable NOT_SET is not set; write ${NOT_SET:-default} to give a default",
        ),
        ("a: 1\nb: 2023-02-30\n", "line 2, column 4: not valid YAML: this is no timestamp"),
        ("a: !!timestamp\n", "line 1, column 4: not valid YAML: this is no timestamp"),
        (f"a: {'9' * 5000}\n", "line 1, column 4: not valid YAML: this is no int"),
        ('a: "\\ud800"\n', "line 1, column 4: not valid YAML: half a character (a lone surrogate)"),
        ("[" * 1000, "line 1, column 101: not valid YAML: more than 100 open brackets"),
        ("- " * 1000, "nested too deeply, or an alias inside its own anchor"),
        ("a: &a [1, *a]\n", "nested too deeply, or an alias inside its own anchor"),
        (BOMB, "line 6, column 4: not valid YAML: more than 1000000 values, with those that aliases stand for"),
        (MERGE_BOMB, "line 7, column 12: not valid YAML: more than 1000000 values, with those that aliases stand for"),
        ("upstreams: {}\nroutes: []\n", "routes: at least one route is needed"),
        ("routes: []\n", "object missing required field `upstreams`"),
        ("", "expected `object`, got `null`"),
    ],
)
def test_a_wrong_configuration_is_refused_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    assert message == refused(tmp_path, text)


def test_a_variable_of_a_part_that_nobody_needs_may_be_unset(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(BASE + 'server: {admin_key: "${NOT_SET}", port: "${NOT_SET_EITHER}"}\nstore: {retention_days: 7}\n')
    assert 7 == load_settings(config, {}, parts=("store",)).store.retention_days
    with pytest.raises(ConfigError, match="NOT_SET is not set"):
        load_settings(config, {}, parts=("server",))


def test_where_a_value_must_be_the_unset_variable_is_said_all_the_same(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(BASE.replace("kind: embedded", 'kind: "${NOT_SET}"'))
    with pytest.raises(ConfigError, match="NOT_SET is not set"):
        load_settings(config, {}, parts=("store",))


def test_a_secret_is_not_in_the_message_of_a_refusal(tmp_path: Path) -> None:
    text = BASE.replace('"http://x/v1"', '"http://x/v1", api_key: {nested: sk-secret}')
    assert "sk-secret" not in refused(tmp_path, text)
