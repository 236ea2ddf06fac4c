"""A finished exchange -> its figures, all in one place: verdict, time, tokens and their cost, scores, thresholds, warnings; and the figures
of upstreams' calls and of client keys.

The path of a request only notes what there is to count; many exchanges are then counted together, with warm caches, which costs a fraction
of counting each between two requests (``python -m benchmarks.metrics``). Calls and keys are counted as they come.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from proxy.exchange import QUIET, Facts, JudgeUse, Usage, Verdict
from proxy.observe.finished import Finished
from proxy.observe.metrics.counts import OTHER, Count, Counts, Names, Spread
from proxy.observe.metrics.families import UPSTREAM_REASONS

BATCH = 128
"""Exchanges that are counted together, unless somebody asks before: well below a millisecond of work."""
MAX_MODELS = 50
MAX_CODES = 100
MAX_UPSTREAM_CODES = 20
"""Codes of an upstream's own errors; apart, so that no upstream can take the place of the stages' codes."""
_THRESHOLDS = {
    "context_usage_high": ("warn",),
    "context_usage_compress": ("warn", "compress"),
    "context_usage_critical": ("warn", "compress", "critical"),
}
_UPSTREAM = "upstream"
_NO_TIMINGS: dict[str, float] = {}
_SEVERITIES, _ACTIONS = ("MEDIUM", "HIGH"), ("summarize", "sliding_window")
_KINDS = ("prompt", "completion", "cached")
_SCORES = ("quality", "faithfulness", "relevance")
_BY_CODE = {"upstream_unreachable": "unreachable", "upstream_timeout": "timeout", "overloaded": "overloaded"}

_Noted = tuple[str, str, int, float | None, str, str, Usage | None, float | None, dict[str, float], Facts | None, Sequence[Verdict]]
"""Of a finished exchange, what there is to count, and not its messages or its answer, which may be long: route, verdict, status, added
seconds, upstream, model, usage, cost, timings, facts, verdicts. A bare tuple, as any class would cost more than the rest of the note."""


class Exchanges:
    """Takes finished exchanges."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._noted: list[_Noted] = []
        self._tokens: dict[tuple[str, str, str], tuple[Count, ...]] = {}
        self._names = Names(MAX_MODELS)
        self._stages: dict[str, Spread | None] = {}
        self._codes, self._upstream_codes = Names(MAX_CODES), Names(MAX_UPSTREAM_CODES)

    def expect(self, stages: Sequence[str]) -> None:
        """Have the counters of these stages' errors at 0, so that the first error is a rise."""
        for stage in stages:
            self._counts.count("groundwire_check_errors", stage)

    def add(self, finished: Finished, usd: float | None) -> None:
        """Note one."""
        noted, exchange, usage = self._noted, finished.exchange, finished.usage
        route, verdict, status = finished.route or "/", finished.verdict, finished.status
        if exchange is None:
            noted.append((route, verdict, status, None, finished.upstream, finished.model, usage, usd, _NO_TIMINGS, None, ()))
        else:
            timings, facts, verdicts = exchange.timings, exchange.facts, exchange.verdicts
            overhead_s = finished.overhead_ms / 1000
            noted.append((route, verdict, status, overhead_s, exchange.upstream, exchange.model, usage, usd, timings, facts, verdicts))
        if len(noted) >= BATCH:
            self.settle()

    def settle(self) -> None:
        """Count what was noted."""
        noted, self._noted = self._noted, []
        for one in noted:
            self._count(one)

    def _count(self, noted: _Noted) -> None:
        route, verdict, status, overhead_s, upstream, model, usage, usd, timings, facts, verdicts = noted
        self._counts.count("groundwire_exchanges", route, verdict, f"{status // 100}xx").value += 1
        after_ms, judged = self._timings(timings)
        if overhead_s is not None:
            self._counts.spread("groundwire_overhead_seconds", route).observe(overhead_s + after_ms / 1000)
        if usage is not None:
            self._usage(route, upstream, model, usage, usd)
        if judged and facts is not None:
            self._facts(route, facts)
            if facts.judge is not None:
                self._judge(facts.judge)
        if verdicts:
            self._verdicts(route, verdicts)

    def _timings(self, timings: dict[str, float]) -> tuple[float, bool]:
        """Milliseconds after the upstream's last byte, and whether any stage ran."""
        judged, known = False, self._stages
        for key, ms in timings.items():
            spread = known.get(key)
            if spread is None:
                if key not in known:
                    stage, dot, hook = key.partition(".")
                    known[key] = self._counts.spread("groundwire_stage_seconds", stage, hook) if dot else None
                spread = known[key]
                if spread is None:
                    continue
            seconds = ms / 1000
            spread.counts[bisect_left(spread.edges, seconds)] += 1  # `observe`, two dozen times an exchange
            spread.total += seconds
            judged = True
        return timings.get("after_ms", 0.0), judged

    def _usage(self, route: str, upstream: str, model: str, usage: Usage, usd: float | None) -> None:
        tokens = usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens
        if min(tokens) < 0:
            return  # an upstream may say anything, and a counter cannot fall
        answered = bool(tokens[0] or tokens[1])  # a stage's own answer has none
        label = self._names.of(model) if answered else ""
        counts = self._tokens.get((route, upstream, label)) or self._tokens_of(route, upstream, label)
        for count, number in zip(counts, (*tokens, *tokens), strict=False):
            count.value += number
        if answered:
            cost, unpriced = counts[6:]
            cost.value += usd or 0.0
            unpriced.value += usd is None

    def _tokens_of(self, route: str, upstream: str, label: str) -> tuple[Count, ...]:
        """Tokens of a route and of a model, by kind, the model's cost, and its exchanges without one; without a model the first three."""
        made = [self._counts.count("groundwire_tokens", route, kind) for kind in _KINDS]
        if label:
            made += [self._counts.count("groundwire_model_tokens", upstream, label, kind) for kind in _KINDS]
            made += [self._counts.count(f"groundwire_{name}", upstream, label) for name in ("cost_usd", "unpriced_exchanges")]
        found = self._tokens[route, upstream, label] = tuple(made)
        return found

    def _judge(self, use: JudgeUse) -> None:
        count = self._counts.count
        answered = use.asked - use.cached - use.unanswered
        for result, number in (("answered", answered), ("cached", use.cached), ("unanswered", use.unanswered)):
            count("groundwire_judge_questions", use.by, result).value += number
        for kind, tokens in (("prompt", use.input_tokens), ("completion", use.output_tokens)):
            count("groundwire_judge_tokens", use.by, kind).value += max(0, tokens)
        if use.usd:
            count("groundwire_judge_cost_usd", use.by).value += max(0.0, use.usd)
        if use.calls:
            self._counts.spread("groundwire_judge_seconds", use.by).observe(use.ms / 1000)

    def _verdicts(self, route: str, verdicts: Sequence[Verdict]) -> None:
        seen: set[tuple[str, str]] = set()
        passed: tuple[str, ...] = ()
        count = self._counts.count
        for verdict in verdicts:
            if verdict.outcome in QUIET:
                continue
            passed = max(passed, _THRESHOLDS.get(verdict.code, ()), key=len)
            code = (self._upstream_codes if verdict.stage == _UPSTREAM else self._codes).of(verdict.code or "none")
            if (key := (code, verdict.outcome)) not in seen:
                seen.add(key)
                count("groundwire_warnings", *key).value += 1
            if verdict.outcome == "error":
                count("groundwire_check_errors", verdict.stage).value += 1
            if verdict.code == "DISTRACTION":
                severity, action = (str(verdict.detail.get(name)) for name in ("severity", "recommended_action"))
                labels = severity if severity in _SEVERITIES else OTHER, action if action in _ACTIONS else OTHER
                count("groundwire_distraction_alerts", *labels).value += 1
        for threshold in passed:
            count("groundwire_context_thresholds", route, threshold).value += 1

    def _facts(self, route: str, facts: Facts) -> None:
        """What the stages have measured."""
        spread = self._counts.spread
        for prompt, use in (("received", facts.context_before), ("sent", facts.context)):
            if use is not None and use.window_tokens:
                spread("groundwire_context_window_ratio", route, prompt).observe(use.used_tokens / use.window_tokens)
        if facts.compression is not None and facts.compression.strategies:
            ratio = facts.compression.before_tokens / max(facts.compression.after_tokens, 1)
            spread("groundwire_compression_ratio", route).observe(ratio)
        for name in _SCORES:
            if (score := getattr(facts, name)) is not None:
                spread(f"groundwire_{name}_ratio", route).observe(score)
        if facts.citations is not None and facts.citations[1]:
            spread("groundwire_citation_precision_ratio", route).observe(facts.citations[0] / facts.citations[1])
        if facts.retries:
            self._counts.count("groundwire_answer_retries", route).value += facts.retries


class UpstreamCounts:
    """The calls of one upstream: implements `proxy.ports.UpstreamFigures`."""

    __slots__ = ("_calls", "_errors", "_fallbacks", "_first", "_retries", "_whole")

    def __init__(self, counts: Counts, name: str) -> None:
        self._calls, self._retries, self._fallbacks = (
            counts.count(f"groundwire_upstream_{what}", name) for what in ("calls", "retries", "fallbacks")
        )
        self._errors = {reason: counts.count("groundwire_upstream_errors", name, reason) for reason in UPSTREAM_REASONS}
        self._first = counts.spread("groundwire_upstream_first_byte_seconds", name)
        self._whole = counts.spread("groundwire_upstream_seconds", name)

    def answered(self, status: int, seconds: float) -> None:
        """Headers with `status` came after `seconds`."""
        self._calls.value += 1
        if status < 400:
            self._first.observe(seconds)
        else:
            self._errors["429" if status == 429 else "5xx" if status >= 500 else "4xx"].value += 1

    def ended(self, seconds: float) -> None:
        """An answer's last byte came after `seconds`."""
        self._whole.observe(seconds)

    def failed(self, code: str) -> None:
        """A call ended without an answer, with this error's code."""
        self._calls.value += 1
        self._errors[_BY_CODE.get(code, "unreachable")].value += 1

    def broke(self, code: str) -> None:
        """An answer had begun and did not end."""
        self._errors["timeout" if code == "upstream_timeout" else "broken"].value += 1

    def retried(self) -> None:
        """A call is tried again."""
        self._retries.value += 1

    def fell_back(self) -> None:
        """A call goes on to the next upstream."""
        self._fallbacks.value += 1


MAX_KEYS, MAX_TEAMS = 500, 100


class KeyCounts:
    """Of one key."""

    __slots__ = ("_completion", "_cost", "_counts", "_exchanges", "_labels", "_prompt")

    def __init__(self, counts: Counts, team: str, key: str) -> None:
        self._counts, self._labels = counts, (team, key)
        self._exchanges, self._cost = (counts.count(f"groundwire_key_{what}", team, key) for what in ("exchanges", "cost_usd"))
        self._prompt, self._completion = (counts.count("groundwire_key_tokens", team, key, kind) for kind in ("prompt", "completion"))

    def took(self, usage: Usage, usd: float, *, refused: bool) -> None:
        """A request is over."""
        self._exchanges.value += not refused
        self._prompt.value += max(0, usage.prompt_tokens)
        self._completion.value += max(0, usage.completion_tokens)
        self._cost.value += max(0.0, usd)

    def refused(self, limit: str) -> None:
        """A limit refused one."""
        self._counts.count("groundwire_limit_refusals", *self._labels, limit).value += 1


class Keys:
    """Those of one process."""

    def __init__(self, counts: Counts) -> None:
        self._counts, self._teams, self._keys = counts, Names(MAX_TEAMS), Names(MAX_KEYS)
        self._known: dict[tuple[str, str], KeyCounts] = {}

    def of(self, team: str, key: str) -> KeyCounts:
        """Of this key; those past the bound share one."""
        labels = self._teams.of(team) if team else "", self._keys.of(key)
        found = self._known.get(labels)
        if found is None:
            found = self._known[labels] = KeyCounts(self._counts, *labels)
        return found
