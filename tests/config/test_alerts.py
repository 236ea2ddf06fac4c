"""``alerts:`` of config.yaml: what is refused, where, and what is suggested instead."""

from pathlib import Path

import pytest

from proxy.config.alerts import RuleSettings
from tests.config.test_settings import BASE, load, refused

CHANNELS = """
  channels:
    ops: {kind: webhook, url: "https://hooks.example.com/x", secret: "${S:-}"}
    mail: {kind: email, host: smtp.example.com, sender: gw@example.com, to: [ops@example.com]}
"""


def with_rules(text: str, channels: str = CHANNELS) -> str:
    return f"{BASE}alerts:\n{channels}\n  rules: [{text}]\n"


def test_a_rule_has_defaults(tmp_path: Path) -> None:
    (rule, drift, away) = load(tmp_path, with_rules("{figure: unsure, above: 0.3}, {figure: drift}, {figure: store_away_s}")).alerts.rules
    assert ("unsure", 0.3, 0.3, 900.0, 20) == (rule.title, rule.threshold, rule.clears_at, rule.window_s, rule.min_count)
    assert [0.0, 60.0] == [drift.threshold, away.threshold]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("{figure: unsur, above: 0.3}", "rules[0].figure: expected one of unsure, unsupported, blocked, errors, spend_usd, provider_p95_ms,"
            " own_p95_ms, drift, store_away_s, got 'unsur'; did you mean 'unsure'?"),
        ("{figure: unsure, above: 30}", "rules[0].above: is a share from 0 to 1, which 30 is never below: did you mean 0.3?"),
        ("{figure: blocked}", "rules[0].above: is needed: the blocked from which it rings, as 0.3"),
        ("{figure: spend_usd}", "rules[0].above: is needed: the spend_usd from which it rings"),
        ("{figure: unsure, above: 0.3, clear_at: 0.5}", "rules[0].clear_at: expected at most above (0.3), got 0.5:"
            " it would ring and clear at once"),
        ("{figure: drift}, {figure: drift}", "rules[1].name: 'drift' is taken by an earlier rule: give this one another name"),
        ("{figure: drift, channels: [op]}", "rules[0].channels[0]: 'op' is not one of: mail, ops; did you mean 'ops'?"),
        ("{figure: unsure, above: 0.3, route: /none}", "rules[0].route: '/none' is not the prefix of a route: /"),
        ("{figure: unsure, above: 0.3, route: /, window_s: 7200}", "rules[0].window_s: expected at most 3600 with a route, got 7200:"
            " no sums are kept of one route"),
        ("{figure: drift, route: /}", "rules[0].route: drift is of the processes, which have all routes: leave it out"),
        ("{figure: drift, windw_s: 60}", "rules[0]: unknown key 'windw_s'; did you mean 'window_s'?"),
    ],
)  # fmt: skip
def test_a_rule_that_cannot_work_is_refused_with_its_place(rule: str, message: str, tmp_path: Path) -> None:
    assert f"alerts.{message}" == refused(tmp_path, with_rules(rule))


def test_a_rule_needs_a_channel(tmp_path: Path) -> None:
    assert "alerts.rules[0]: has no channel to ring: add one below alerts.channels" in refused(tmp_path, with_rules("{figure: drift}", ""))


@pytest.mark.parametrize(
    ("channel", "message"),
    [
        ('ops: {kind: webhook, url: "https://x.example", secret: abc}', "ops.secret: may stand in the environment only: write ${OPS_SECRET},"
            " and set OPS_SECRET"),
        ('chat: {kind: slack, url: "https://hooks.slack.com/services/T/B/x"}', "chat.url: may stand in the environment only: write"
            " ${CHAT_URL}, and set CHAT_URL"),
        ('m: {kind: email, host: h, sender: a@b.c, to: [a@b.c], password: "${P:-secret}"}', "m.password: may stand in the environment only:"
            " write ${M_PASSWORD}, and set M_PASSWORD"),
        ('m: {kind: email, host: h, sender: a@b.c, to: [bob]}', "m: expected addresses as ops@example.com, got 'bob'"),
        ('ops: {kind: webhook, url: "ftp://x", secret: "${S:-}"}', "ops.url: expected http://… or https://…"),
        ('ops: {kind: teams, url: "${S:-}"}', "ops.kind: invalid value 'teams'; known: email, slack, webhook"),
    ],
)  # fmt: skip
def test_a_channel_that_cannot_work_is_refused_and_so_is_a_secret_in_the_file(channel: str, message: str, tmp_path: Path) -> None:
    text = f"{BASE}alerts:\n  channels:\n    {channel}\n"
    assert f"alerts.channels.{message}" == refused(tmp_path, text)


def test_a_password_needs_tls(tmp_path: Path) -> None:
    text = f"{BASE}alerts: {{channels: {{m: {{kind: email, host: h, sender: a@b.c, to: [a@b.c], security: none, password: '${{P}}'}}}}}}"
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(Exception, match=r"alerts.channels.m.security: is none, which would send the password in the clear"):
        load(tmp_path, text, P="x")


def test_a_report_goes_by_email_only(tmp_path: Path) -> None:
    text = f"{BASE}alerts:\n{CHANNELS}\n  weekly: {{channels: [ops]}}\n"
    assert "alerts.weekly.channels[0]: 'ops' is no e-mail" in refused(tmp_path, text)


def test_a_rules_name_is_its_figure_unless_it_has_one() -> None:
    assert ["drift", "x"] == [RuleSettings(figure="drift", name=name).title for name in ("", "x")]
