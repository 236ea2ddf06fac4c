"""``alerts:`` of config.yaml: channels that messages go through, rules on figures, and the weekly report."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta

from proxy.config.conversion import suggested
from proxy.config.sections import Count, Positive, Seconds, Section

Figure = Literal["unsure", "unsupported", "blocked", "errors", "spend_usd", "provider_p95_ms", "own_p95_ms", "drift", "store_away_s"]
"""What a rule can watch; `proxy.admin.alerts.FIGURES` says how each is counted."""
SHARES: tuple[Figure, ...] = ("unsure", "unsupported", "blocked", "errors")
"""From 0 to 1."""
STATES: Mapping[Figure, float] = {"drift": 0.0, "store_away_s": 60.0}
"""Of the processes and not of exchanges: no window, and a threshold of their own."""
ROUTE_WINDOW_S = 3600
"""The longest window of a rule with a route: its exchanges are read at every look, where sums are kept of all routes together."""
Weekday = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
WEEKDAYS: tuple[Weekday, ...] = get_args(Weekday)


class _Channel(Section, frozen=True, kw_only=True, tag_field="kind"):
    """``alerts.channels.NAME``"""


class WebhookSettings(_Channel, frozen=True, kw_only=True, tag="webhook"):
    """JSON, signed as https://www.standardwebhooks.com has it."""

    url: str
    """Where it is posted to."""
    secret: str
    """Key of the signature, as ``${ALERT_SECRET}``: it may stand in the environment only."""


class SlackSettings(_Channel, frozen=True, kw_only=True, tag="slack"):
    """An incoming webhook of Slack, or of what takes the same, as Mattermost."""

    url: str
    """As ``${SLACK_URL}``: whoever has it can post, so it may stand in the environment only."""


class EmailSettings(_Channel, frozen=True, kw_only=True, tag="email"):
    """Through an SMTP server."""

    host: str
    """The SMTP server."""
    sender: str
    """Address that the message comes from."""
    to: Annotated[tuple[str, ...], Meta(min_length=1)]
    """Addresses that it goes to."""
    port: Annotated[int, Meta(ge=1, le=65535)] = 587
    """Of the server."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    """``starttls`` on port 587, ``tls`` from the first byte (mostly port 465), or ``none`` for a server on this machine."""
    user: str = ""
    """Empty for a server that asks for none."""
    password: str = ""
    """As ``${SMTP_PASSWORD}``: it may stand in the environment only."""


Channel = WebhookSettings | SlackSettings | EmailSettings


class RuleSettings(Section, frozen=True, kw_only=True):
    """``alerts.rules[]``: it rings when the figure is above `above`, and clears at `clear_at` or less, or after `clear_after_s`."""

    figure: Figure
    """What is watched."""
    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_. -]{0,60}$")] = ""
    """Empty for the figure's; two rules cannot have one name."""
    route: str | None = None
    """Prefix of the one route whose exchanges count, ``/`` for the empty one; left out, all count."""
    above: Annotated[float, Meta(ge=0)] | None = None
    """Threshold: a share from 0 to 1, USD, milliseconds or seconds. Left out, ``drift`` has 0 and ``store_away_s`` 60."""
    clear_at: Annotated[float, Meta(ge=0)] | None = None
    """Below the threshold, so that a figure that swings around it does not ring again and again; by default the threshold."""
    clear_after_s: Seconds = 1800.0
    """After so long without being above the threshold it clears too, as where no request comes any more."""
    window_s: Annotated[float, Meta(ge=60)] = 900.0
    """Of how much time until now the figure is."""
    min_count: Count = 20
    """Exchanges below which a share or a percentile rings nobody."""
    repeat_s: Annotated[float, Meta(ge=0)] = 14_400.0
    """How often it is said again while it lasts; 0 for once."""
    channels: tuple[str, ...] = ()
    """Names of channels; empty for all."""

    @property
    def title(self) -> str:
        """`name`, or its default."""
        return self.name or (self.figure if self.route is None else f"{self.figure} {self.route or '/'}")

    @property
    def threshold(self) -> float:
        """`above`, or its default."""
        return STATES.get(self.figure, 0.0) if self.above is None else self.above

    @property
    def clears_at(self) -> float:
        """`clear_at`, or its default."""
        return self.threshold if self.clear_at is None else self.clear_at


class WeeklySettings(Section, frozen=True, kw_only=True):
    """``alerts.weekly``: the report of seven days, as one HTML page by e-mail."""

    channels: Annotated[tuple[str, ...], Meta(min_length=1)]
    """Names of channels of kind ``email``."""
    day: Weekday = "monday"
    """When it is sent."""
    hour: Annotated[int, Meta(ge=0, le=23)] = 7
    """In UTC."""


class AlertSettings(Section, frozen=True, kw_only=True):
    """``alerts:``"""

    channels: Mapping[str, Channel] = {}
    """By name."""
    rules: tuple[RuleSettings, ...] = ()
    """What rings."""
    weekly: WeeklySettings | None = None
    """Left out: no report is sent."""
    every_s: Seconds = 30.0
    """Between two looks at the figures."""
    tries: Positive = 5
    """Of a message, with growing pauses from `every_s` on; then it is given up, and ``/ready``, the log and a metric say so."""
    dashboard_url: str = ""
    """Where people reach the dashboard, as ``https://groundwire.example.com/dashboard``; messages link to it."""


_Found = Iterator[tuple[str, str]]


def alert_problems(alerts: AlertSettings, prefixes: Collection[str]) -> _Found:
    """Path and problem of what no single field shows; `prefixes` are the routes'."""
    for name, channel in alerts.channels.items():
        path = f"alerts.channels.{name}"
        if not isinstance(channel, EmailSettings):
            if channel.url and not re.match(r"https?://[^/\s]", channel.url):
                yield f"{path}.url", "expected http://… or https://…"  # it may hold a key
        elif channel.password and channel.security == "none":
            yield f"{path}.security", "is none, which would send the password in the clear: write starttls or tls"
        elif bad := next((one for one in (channel.sender, *channel.to) if not re.fullmatch(r"[^@\s<>,;]+@[^@\s<>,;]+", one)), None):
            yield path, f"expected addresses as ops@example.com, got {bad!r}"
    seen: set[str] = set()
    for i, rule in enumerate(alerts.rules):
        yield from _of_rule(rule, f"alerts.rules[{i}]", alerts, seen)
        yield from _of_route(rule, f"alerts.rules[{i}]", prefixes)
        seen.add(rule.title)
    if alerts.weekly is not None:
        yield from _unknown(alerts.weekly.channels, "alerts.weekly.channels", alerts)
        for i, name in enumerate(alerts.weekly.channels):
            if name in alerts.channels and not isinstance(alerts.channels[name], EmailSettings):
                yield f"alerts.weekly.channels[{i}]", f"{name!r} is no e-mail, and the report is a page: name a channel of kind email"


def _of_rule(rule: RuleSettings, path: str, alerts: AlertSettings, seen: set[str]) -> _Found:
    if rule.title in seen:
        yield f"{path}.name", f"{rule.title!r} is taken by an earlier rule: give this one another name"
    if rule.above is None and rule.figure not in STATES:
        yield f"{path}.above", f"is needed: the {rule.figure} from which it rings" + (", as 0.3" if rule.figure in SHARES else "")
    elif rule.figure in SHARES and rule.threshold >= 1:
        yield f"{path}.above", f"is a share from 0 to 1, which {rule.threshold:g} is never below: did you mean {rule.threshold / 100:g}?"
    if rule.clears_at > rule.threshold:
        yield f"{path}.clear_at", f"expected at most above ({rule.threshold:g}), got {rule.clears_at:g}: it would ring and clear at once"
    if not alerts.channels:
        yield path, "has no channel to ring: add one below alerts.channels"
    yield from _unknown(rule.channels, f"{path}.channels", alerts)


def _of_route(rule: RuleSettings, path: str, prefixes: Collection[str]) -> _Found:
    if rule.route is None:
        return
    if rule.figure in STATES:
        yield f"{path}.route", f"{rule.figure} is of the processes, which have all routes: leave it out"
    elif rule.route.rstrip("/") not in prefixes:
        yield f"{path}.route", f"{rule.route!r} is not the prefix of a route: {', '.join(sorted(one or '/' for one in prefixes))}"
    elif rule.window_s > ROUTE_WINDOW_S:
        yield f"{path}.window_s", f"expected at most {ROUTE_WINDOW_S} with a route, got {rule.window_s:g}: no sums are kept of one route"


def _unknown(names: tuple[str, ...], path: str, alerts: AlertSettings) -> _Found:
    for i, name in enumerate(names):
        if name not in alerts.channels:
            near = suggested(name, tuple(alerts.channels))
            hint = f"; did you mean {near!r}?" if near else ""
            yield f"{path}[{i}]", f"{name!r} is not one of: {', '.join(sorted(alerts.channels)) or '(none)'}{hint}"


_SECRETS: Mapping[str, tuple[str, ...]] = {"webhook": ("secret",), "slack": ("url",), "email": ("password",)}


def written_secrets(raw: Any) -> _Found:
    """Path and problem of secrets that stand in the file itself; `raw` is the whole of it before variables are put in.

    An empty default is none: the channel then says that it cannot send, where something is to be sent.
    """
    found = raw.get("alerts") if isinstance(raw, dict) else None
    channels = found.get("channels") if isinstance(found, dict) else None
    for name, channel in channels.items() if isinstance(channels, dict) else ():
        for field in _SECRETS.get(str(channel.get("kind")), ()) if isinstance(channel, dict) else ():
            value = channel.get(field)
            if value is not None and not re.fullmatch(r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-)?\}", str(value)):
                variable = re.sub(r"\W", "_", f"{name}_{field}").upper()
                yield f"alerts.channels.{name}.{field}", f"may stand in the environment only: write ${{{variable}}}, and set {variable}"
