"""A finished exchange -> its figures, all in one place: verdict, time, tokens and their cost, scores, thresholds, warnings.

The path of a request only notes what there is to count; many exchanges are then counted together, with warm caches, which costs a fraction
of counting each between two requests (``python -m benchmarks.metrics``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from proxy.exchange import QUIET, ContextUse, Facts, JudgeUse, Usage, Verdict
from proxy.observe.finished import Finished
from proxy.observe.metrics.tally import OTHER, CounterTally, HistogramTally, Names, Tallies
from proxy.ports import ModelInfo

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


class _Route:
    """A route's figures."""

    __slots__ = ("_spreads", "_tallies", "_uses", "cached", "completion", "label", "overhead", "prompt", "verdicts")

    def __init__(self, tallies: Tallies, route: str) -> None:
        self._tallies, self.label = tallies, route or "/"
        self.verdicts: dict[tuple[str, int], CounterTally] = {}
        self._spreads: dict[str, HistogramTally] = {}
        self._uses: dict[str, HistogramTally] = {}
        self.overhead = tallies.spread("groundwire_overhead_seconds", self.label)
        self.prompt, self.completion, self.cached = (
            tallies.count("groundwire_tokens", self.label, kind) for kind in ("prompt", "completion", "cached")
        )

    def verdict(self, verdict: str, hundreds: int) -> CounterTally:
        """The counter of exchanges that ended so."""
        return self._tallies.count("groundwire_exchanges", self.label, verdict, f"{hundreds}xx")

    def observe(self, family: str, value: float) -> None:
        """Count `value` in a histogram of this route."""
        spread = self._spreads.get(family)
        if spread is None:
            spread = self._spreads[family] = self._tallies.spread(family, self.label)
        spread.observe(value)

    def use(self, prompt: str, use: ContextUse | None) -> None:
        """Count how much of its window a prompt takes, where that is known."""
        if use is None or not use.window_tokens:
            return
        spread = self._uses.get(prompt)
        if spread is None:
            spread = self._uses[prompt] = self._tallies.spread("groundwire_context_window_ratio", self.label, prompt)
        spread.observe(use.used_tokens / use.window_tokens)

    def count(self, family: str, *labels: str) -> CounterTally:
        """A counter of this route."""
        return self._tallies.count(family, self.label, *labels)


class _Model:
    """The figures of a model at an upstream."""

    __slots__ = ("_info", "cached", "completion", "cost", "prompt", "unpriced")

    def __init__(self, tallies: Tallies, upstream: str, label: str, info: ModelInfo | None) -> None:
        self._info = info
        self.prompt, self.completion, self.cached = (
            tallies.count("groundwire_model_tokens", upstream, label, kind) for kind in ("prompt", "completion", "cached")
        )
        self.cost = tallies.count("groundwire_cost_usd", upstream, label)
        self.unpriced = tallies.count("groundwire_unpriced_exchanges", upstream, label)

    def add(self, usage: Usage) -> None:
        """One exchange."""
        self.prompt.value += usage.prompt_tokens
        self.completion.value += usage.completion_tokens
        self.cached.value += usage.cached_tokens
        info = self._info
        usd = info.cost_usd(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens) if info is not None else None
        if usd is None:
            self.unpriced.value += 1
        else:
            self.cost.value += usd


_Noted = tuple[str, str, int, float | None, str, str, Usage | None, dict[str, float], Facts | None, Sequence[Verdict]]
"""Of a finished exchange, what there is to count, and not its messages or its answer, which may be long: route, verdict, status, added
seconds, upstream, model, usage, timings, facts, verdicts. A bare tuple, as any class would cost more than the rest of the note."""


class Exchanges:
    """Takes finished exchanges."""

    def __init__(self, tallies: Tallies, model: Callable[[str], ModelInfo] | None) -> None:
        """`model` knows the prices; without it none is known."""
        self._tallies, self._model = tallies, model
        self._noted: list[_Noted] = []
        self._routes: dict[str, _Route] = {}
        self._models: dict[tuple[str, str], _Model] = {}
        self._names = Names(MAX_MODELS)
        self._stages: dict[str, HistogramTally | None] = {}
        self._codes, self._upstream_codes = Names(MAX_CODES), Names(MAX_UPSTREAM_CODES)

    def expect(self, stages: Sequence[str]) -> None:
        """Have the counters of these stages' errors at 0, so that the first error is a rise."""
        for stage in stages:
            self._tallies.count("groundwire_check_errors", stage)

    def add(self, finished: Finished) -> None:
        """Note one."""
        noted, exchange = self._noted, finished.exchange
        route, verdict, status = finished.route, finished.verdict, finished.status
        if exchange is None:
            noted.append((route, verdict, status, None, finished.upstream, finished.model, finished.usage, _NO_TIMINGS, None, ()))
        else:
            answer = exchange.answer if exchange.answer is not None else exchange.upstream_answer
            usage = answer.usage if answer is not None else None
            timings, facts, verdicts = exchange.timings, exchange.facts, exchange.verdicts
            overhead_s = finished.overhead_ms / 1000
            noted.append((route, verdict, status, overhead_s, exchange.upstream, exchange.model, usage, timings, facts, verdicts))
        if len(noted) >= BATCH:
            self.settle()

    def settle(self) -> None:
        """Count what was noted."""
        noted, self._noted = self._noted, []
        for one in noted:
            self._count(one)

    def _count(self, noted: _Noted) -> None:
        route, verdict, status, overhead_s, upstream, model, usage, timings, facts, verdicts = noted
        found = self._routes.get(route)
        if found is None:
            found = self._routes[route] = _Route(self._tallies, route)
        key = verdict, status // 100
        ended = found.verdicts.get(key)
        if ended is None:
            ended = found.verdicts[key] = found.verdict(*key)
        ended.value += 1
        after_ms, judged = self._timings(timings)
        if overhead_s is not None:
            found.overhead.observe(overhead_s + after_ms / 1000)
        if usage is not None:
            self._usage(found, upstream, model, usage)
        if judged and facts is not None:
            _facts(found, facts)
            if facts.judge is not None:
                self._judge(facts.judge)
        if verdicts:
            self._verdicts(found, verdicts)

    def _timings(self, timings: dict[str, float]) -> tuple[float, bool]:
        """Milliseconds after the upstream's last byte, and whether any stage ran."""
        judged, known = False, self._stages
        for key, ms in timings.items():
            spread = known.get(key)
            if spread is None:
                if key not in known:
                    stage, dot, hook = key.partition(".")
                    known[key] = self._tallies.spread("groundwire_stage_seconds", stage, hook) if dot else None
                spread = known[key]
                if spread is None:
                    continue
            spread.observe(ms / 1000)
            judged = True
        return timings.get("after_ms", 0.0), judged

    def _judge(self, use: JudgeUse) -> None:
        count = self._tallies.count
        answered = use.asked - use.cached - use.unanswered
        for result, number in (("answered", answered), ("cached", use.cached), ("unanswered", use.unanswered)):
            count("groundwire_judge_questions", use.by, result).value += number
        for kind, tokens in (("prompt", use.input_tokens), ("completion", use.output_tokens)):
            count("groundwire_judge_tokens", use.by, kind).value += max(0, tokens)
        if use.usd:
            count("groundwire_judge_cost_usd", use.by).value += max(0.0, use.usd)
        if use.calls:
            self._tallies.spread("groundwire_judge_seconds", use.by).observe(use.ms / 1000)

    def _usage(self, route: _Route, upstream: str, model: str, usage: Usage) -> None:
        if usage.prompt_tokens < 0 or usage.completion_tokens < 0 or usage.cached_tokens < 0:
            return  # an upstream may say anything, and a counter cannot fall
        route.prompt.value += usage.prompt_tokens
        route.completion.value += usage.completion_tokens
        if usage.cached_tokens:
            route.cached.value += usage.cached_tokens
        if usage.prompt_tokens or usage.completion_tokens:  # a stage's own answer has none
            key = upstream, model
            (self._models.get(key) or self._priced(*key)).add(usage)

    def _priced(self, upstream: str, model: str) -> _Model:
        label = self._names.of(model)
        found = _Model(self._tallies, upstream, label, self._model(model) if self._model is not None else None)
        if label != OTHER:  # of the others, each brings its own price and none is remembered
            self._models[upstream, model] = found
        return found

    def _verdicts(self, route: _Route, verdicts: Sequence[Verdict]) -> None:
        seen: set[tuple[str, str]] = set()
        passed: tuple[str, ...] = ()
        for verdict in verdicts:
            if verdict.outcome in QUIET:
                continue
            passed = max(passed, _THRESHOLDS.get(verdict.code, ()), key=len)
            code = (self._upstream_codes if verdict.stage == _UPSTREAM else self._codes).of(verdict.code or "none")
            if (key := (code, verdict.outcome)) not in seen:
                seen.add(key)
                self._tallies.count("groundwire_warnings", *key).value += 1
            if verdict.outcome == "error":
                self._tallies.count("groundwire_check_errors", verdict.stage).value += 1
            if verdict.code == "DISTRACTION":
                severity, action = (str(verdict.detail.get(name)) for name in ("severity", "recommended_action"))
                labels = severity if severity in _SEVERITIES else OTHER, action if action in _ACTIONS else OTHER
                self._tallies.count("groundwire_distraction_alerts", *labels).value += 1
        for threshold in passed:
            route.count("groundwire_context_thresholds", threshold).value += 1


def _facts(route: _Route, facts: Facts) -> None:
    """What the stages have measured."""
    route.use("received", facts.context_before)
    route.use("sent", facts.context)
    if facts.compression is not None and facts.compression.strategies:
        route.observe("groundwire_compression_ratio", facts.compression.before_tokens / max(facts.compression.after_tokens, 1))
    if facts.quality is not None:
        route.observe("groundwire_quality_ratio", facts.quality)
    if facts.faithfulness is not None:
        route.observe("groundwire_faithfulness_ratio", facts.faithfulness)
    if facts.relevance is not None:
        route.observe("groundwire_relevance_ratio", facts.relevance)
    if facts.citations is not None and facts.citations[1]:
        route.observe("groundwire_citation_precision_ratio", facts.citations[0] / facts.citations[1])
    if facts.retries:
        route.count("groundwire_answer_retries").value += facts.retries
