"""The five metrics of a piece of context, the score that they make together, and whether it passes; and two of them, which follow from
the content alone: how old it is, and whether it has the fields that it must have. Pure.

The overall score is the mean of the metrics that could be measured. It rises with each of them, and lies between the lowest and the
highest. One that could not be measured (no question, no timestamp, nothing
that can be verified) leaves it as it is, instead of counting as good. A piece passes when no metric is below its threshold, the score is
not below its own, and no check has failed to run.

    freshness = 1                   up to `max_age_s`
                max_age_s / age     beyond: 0.5 at twice the age, 0.1 at ten times

What a timestamp may look like says `proxy.language.dates`. One that lies in the future counts as now where clocks may differ; further ahead
it is no timestamp of this content.

A required field is a name or a path: ``price``, ``customer.address.city``, ``items[0].price``. A path that comes to a list without a number
asks it of every item (``items.price``). A field counts as missing when it is not there, null, or has nothing in it (blank text, an empty
list or object); 0 and false are values. It is looked for in the fields that were given with the content, then in the content itself: an
object in JSON, or lines ``name: value``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, ClassVar, Literal, get_args

from msgspec import Meta, Struct, field

from proxy.context.pieces import PieceKind
from proxy.language import dates
from proxy.ports.stage import Share, StageOptions

MetricName = Literal["relevance", "freshness", "accuracy", "completeness", "consistency"]
METRICS: tuple[MetricName, ...] = get_args(MetricName)
_REASONS: Mapping[str, str] = {
    "relevance": "low relevance",
    "freshness": "stale content",
    "accuracy": "factual inaccuracy",
    "completeness": "incomplete content",
    "consistency": "contradictory content",
}
"""What is wrong with a piece that fails a metric."""
_DEFAULT_PASSES = ("freshness", "accuracy", "completeness", "consistency")
"""Metrics that count as 1.0 in `Quality.metrics` where there is nothing to measure them by: what comes without a time is of now, what
needs no fields has them all, and what stands alone contradicts nothing. Of relevance nothing is known without a question.
"""
MAX_AGE_S = 3600.0
FUTURE_S = 300.0
"""Clocks of two machines, and what a service rounds, may differ by so much."""
TIME_FIELDS = (
    *("timestamp", "as_of", "asOf", "fetched_at", "fetchedAt", "retrieved_at", "retrievedAt", "observed_at", "observedAt"),
    *("generated_at", "generatedAt", "updated_at", "updatedAt", "last_updated", "lastUpdated", "last_modified", "lastModified"),
)
"""Fields of a result that say when it was so. Not ``created_at`` or ``date``: an order of last year is no stale result."""
_EARLIEST = 1e8
"""Numbers below, as seconds before March 1973, are something else: a year, a duration, a counter."""
_STEP = re.compile(r"\[(\d{1,9})\]|([^.\[\]]+)")
MAX_LISTED = 20
"""Missing fields in one detail."""


class QualityThresholds(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Below which a metric fails."""

    relevance: Annotated[Share, Meta(description="calibrated probability that it helps with the question")] = 0.7
    freshness: Annotated[
        Share, Meta(description="max_age_s / age: 1.0 fails whatever is older than max_age_s, 0.5 what is older than twice that")
    ] = 1.0
    accuracy: Annotated[Share, Meta(description="share of its verifiable claims that the knowledge base finds valid")] = 0.9
    completeness: Annotated[Share, Meta(description="share of the required fields that it has")] = 0.8
    consistency: Annotated[Share, Meta(description="0.0 where it contradicts what the context says already, else 1.0")] = 1.0
    score: Annotated[Share, Meta(description="overall score, the mean of the metrics that could be measured")] = 0.0


class Metric(Struct, frozen=True):
    """One figure."""

    value: float | None
    """0 to 1; None where there is nothing to measure it by, or it could not be measured."""
    measured: bool = True
    """Whether `value` was found by looking. False with a value: what counts by default (accuracy 1.0 of what cannot be verified)."""
    note: str = ""
    """Why it was not measured: ``no query``, ``no timestamp``, ``nothing verifiable``, …"""
    error: str = ""
    """Why the check could not run: ``timeout``, ``model_unavailable``, …. Such a metric is neither good nor bad."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """For the record: ages, missing fields, claims that failed; bounded."""


def unmeasured(note: str, value: float | None = None) -> Metric:
    """A metric that there is nothing to measure by."""
    return Metric(value, measured=False, note=note)


def failed(error: str) -> Metric:
    """A metric whose check could not run."""
    return Metric(None, measured=False, error=error)


class Quality(Struct, frozen=True):
    """What was found of one piece of context."""

    findings: Mapping[MetricName, Metric]
    """All five, each with what it was found by."""
    score: float | None
    """0 to 1, see above; None where nothing could be measured."""
    failing: tuple[str, ...] = ()
    """The metrics below their thresholds, the one that is furthest below first; then ``score``, if that is below its own."""
    reasons: tuple[str, ...] = ()
    """A sentence for each of `failing`, then one for each check that could not run."""

    @property
    def errors(self) -> tuple[MetricName, ...]:
        """The metrics whose check could not run."""
        return tuple(name for name in METRICS if self.findings[name].error)

    @property
    def measured(self) -> tuple[MetricName, ...]:
        """The metrics that were found by looking."""
        return tuple(name for name in METRICS if self.findings[name].measured and self.findings[name].value is not None)

    @property
    def passed(self) -> bool:
        """Whether nothing speaks against it and every check that applies has run."""
        return not self.failing and not self.errors

    @property
    def is_valid(self) -> bool:
        """`passed`."""
        return self.passed

    @property
    def quality_score(self) -> float:
        """`score`; where nothing could be measured (`measured` says so) 1.0, or 0.0 where a check could not run."""
        return self.score if self.score is not None else 0.0 if self.errors else 1.0

    @property
    def reason(self) -> str:
        """The first of `reasons`, or ""."""
        return next(iter(self.reasons), "")

    @property
    def metrics(self) -> dict[str, float]:
        """``relevance_score``, ``freshness_score``, ``accuracy_score``, ``completeness`` and ``consistency``, 0 to 1.

        Without ``relevance_score`` where nothing was asked, and without each that could not be checked.
        """
        found = {}
        for name, metric in self.findings.items():
            value = 1.0 if metric.value is None and not metric.error and name in _DEFAULT_PASSES else metric.value
            if value is not None:
                found[name if name in ("completeness", "consistency") else f"{name}_score"] = value
        return found


def overall(metrics: Mapping[MetricName, Metric]) -> float | None:
    """The mean of the measured metrics; None where there is none."""
    found = [metric.value for metric in metrics.values() if metric.measured and metric.value is not None]
    return sum(found) / len(found) if found else None


def quality_of(metrics: Mapping[MetricName, Metric], thresholds: QualityThresholds | None = None) -> Quality:
    """All that follows from the five figures."""
    thresholds = thresholds or QualityThresholds()
    ordered = {name: metrics[name] for name in METRICS}
    values = {name: metric.value for name, metric in ordered.items() if metric.measured and metric.value is not None}
    short = {name: getattr(thresholds, name) - value for name, value in values.items()}
    below = sorted((name for name, by in short.items() if by > 0), key=lambda name: -short[name])
    failing: list[str] = list(below)
    score = overall(ordered)
    reasons = [_reason(name, ordered[name], getattr(thresholds, name)) for name in below]
    if score is not None and score < thresholds.score:
        failing.append("score")
        reasons.append(f"overall score {score:.2f} is below {thresholds.score:.2f}")
    reasons += [f"{name} could not be checked: {metric.error}" for name, metric in ordered.items() if metric.error]
    return Quality(ordered, score, tuple(failing), tuple(reasons))


def _reason(name: str, metric: Metric, threshold: float) -> str:
    about = str(metric.detail.get("reason", ""))
    return f"{_REASONS[name]}: {name} {metric.value:.2f} is below {threshold:.2f}" + (f" ({about})" if about else "")


# ---- what follows from the content alone ----


def seconds_of(value: object) -> float | None:
    """Seconds since the epoch; None for what is no time of any content."""
    return dates.seconds_of(value, earliest=_EARLIEST)


def time_in(fields: object) -> float | None:
    """The first timestamp among an object's own fields; None for anything else."""
    if not isinstance(fields, Mapping):
        return None
    return next((time for name in TIME_FIELDS if (time := seconds_of(fields.get(name))) is not None), None)


def freshness(timestamp: float | None, now: float, max_age_s: float | None = MAX_AGE_S) -> Metric:
    """Of content that was so at `timestamp`, seen at `now`, both in seconds since the epoch; None lets it be of any age."""
    if timestamp is None:
        return unmeasured("no timestamp")
    age = now - timestamp
    if age < -FUTURE_S:
        return Metric(None, measured=False, note="timestamp in the future", detail={"age_s": round(age, 1)})
    age = max(0.0, age)
    if max_age_s is None:
        return Metric(None, measured=False, note="any age will do", detail={"age_s": round(age, 1)})
    value = 1.0 if age <= max_age_s else max_age_s / age
    detail: dict[str, Any] = {"age_s": round(age, 1), "max_age_s": max_age_s}
    if value < 1:
        detail["reason"] = f"{spoken(age)} old, at most {spoken(max_age_s)}"
    return Metric(value, detail=detail)


def spoken(seconds: float) -> str:
    """``45 s``, ``20 min``, ``2 h``, ``3 days``: rounded down."""
    for size, name in ((86_400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size or (name != "days" and seconds >= size):
            return f"{int(seconds // size)} {name}"
    return f"{int(seconds)} s"


def completeness(required: Sequence[str], *layers: object, text: str = "") -> Metric:
    """The share of the fields `required` that one of `layers`, or a line of `text`, has."""
    wanted = list(dict.fromkeys(required))
    if not wanted:
        return unmeasured("no required fields")
    missing = [path for path in wanted if not any(has(layer, path) for layer in layers) and not _has_label(text, path)]
    detail: dict[str, object] = {"required": len(wanted), "present": len(wanted) - len(missing)}
    if missing:
        detail["missing"] = missing[:MAX_LISTED]
        detail["reason"] = f"{len(wanted) - len(missing)} of {len(wanted)} required fields, without {', '.join(missing[:MAX_LISTED])}"
    return Metric((len(wanted) - len(missing)) / len(wanted), detail=detail)


def has(value: object, path: str) -> bool:
    """Whether `value` has something at `path`."""
    if isinstance(value, Mapping) and path in value:  # a name with dots in it
        return not empty(value[path])
    return _has(value, [int(index) if index else name for index, name in _STEP.findall(path)])


def _has(value: object, steps: Sequence[int | str]) -> bool:
    if not steps:
        return not empty(value)
    step, rest = steps[0], steps[1:]
    if isinstance(value, Mapping):
        return str(step) in value and _has(value[str(step)], rest)
    if not isinstance(value, list | tuple):
        return False
    if isinstance(step, int) or step.isdecimal():
        at = int(step)
        return at < len(value) and _has(value[at], rest)
    return bool(value) and all(_has(item, steps) for item in value)


def empty(value: object) -> bool:
    """Whether a field says nothing."""
    if value is None:
        return True
    if isinstance(value, str):
        return not value.strip()
    return isinstance(value, Mapping | list | tuple | set | frozenset) and not value


def _has_label(text: str, path: str) -> bool:
    """Whether a line of `text` begins with the field's name, a colon, and something: ``Release date: 2024-05-01``."""
    if not text or text.lstrip()[:1] in ("{", "["):
        return False
    name = r"[ _-]?".join(map(re.escape, re.split(r"[ _-]", path)))
    return re.search(rf"^[ \t>*#-]{{0,10}}{name}\**[ \t]*[:=]\**[ \t]*[^\s*]", text, re.I | re.M) is not None


MIN_CONTRADICTION = 0.65
"""Calibrated probability from which a statement counts as contradicted: of supported statements 2.6% come that far on public development
rows and 5.3% on written ones, of contradicted ones 55% and 12%. ``python -m benchmarks.validation`` says what it finds, and how often it
finds a contradiction between texts that agree."""
Action = Literal["note", "annotate", "down_rank", "drop", "reject"]
ACTIONS: tuple[Action, ...] = get_args(Action)
"""From the mildest on."""
Failing = Literal["relevance", "freshness", "accuracy", "completeness", "consistency", "score"]
Seconds = Annotated[float, Meta(gt=0)]


class ValidationOptions(StageOptions, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``validation:``"""

    removed: ClassVar[Mapping[str, str]] = {
        "timestamp_fields": "the usual names (timestamp, as_of, fetched_at, updated_at, …) are looked for, and groundwire.timestamp",
        "max_ages_s": "max_age_s holds for every tool and source",
        "max_claims": "four statements of a piece are looked up in the knowledge base; the stage poisoning looks up all",
        "max_pieces": "256 pieces of a turn are looked at; those beyond it are an error",
        "weights": "the score is the mean of what was measured; thresholds: {…} and action: {…} go by metric",
        "cache_size": "a worker remembers the quality of the last 4,096 pieces",
    }
    action: Annotated[
        Action | Mapping[Failing, Action],
        Meta(
            description="what becomes of content below a threshold: note (record and metrics), annotate (warnings, too), down_rank (a "
            "passage goes behind the others, any other content gets a mark), drop (a note takes its place), reject (400 policy_blocked); "
            "or by metric"
        ),
    ] = "note"
    thresholds: Annotated[QualityThresholds, Meta(description="by metric: below it content fails; score is for their mean")] = (
        QualityThresholds()
    )
    kinds: Annotated[
        tuple[PieceKind, ...], Meta(min_length=1, description="what is validated: tool_result, passage, system, user, assistant")
    ] = ("tool_result", "passage")
    memory: Annotated[
        tuple[str, ...], Meta(description="messages whose name or groundwire.source matches one of these are validated whatever their role")
    ] = ("memory*", "*_memory", "*memories*")
    max_age_s: Annotated[
        Seconds | None, Meta(description="age up to which content is fresh, as it was when it first came; null: any age will do")
    ] = None
    required_fields: Annotated[
        Mapping[str, tuple[str, ...]],
        Meta(description="fields that content must have, by name pattern of tool or source; paths as a.b[0].c"),
    ] = {}
    min_contradiction: Annotated[Share, Meta(description="probability from which a statement contradicts the existing context")] = (
        MIN_CONTRADICTION
    )

    def __post_init__(self) -> None:
        if not isinstance(self.action, str) and not self.action:
            raise ValueError(f"action: expected one of {', '.join(ACTIONS)}, or some of {', '.join((*METRICS, 'score'))} with theirs")

    def action_for(self, failing: str) -> Action:
        """What to do about content that fails this metric; one that the policy does not name is noted."""
        if isinstance(self.action, str):
            return self.action
        return self.action.get(failing, "note")  # type: ignore[call-overload, no-any-return]  # any name may be asked for

    @property
    def changes_context(self) -> bool:
        """Whether what was decided on earlier turns must be repeated."""
        return not {"drop", "down_rank"}.isdisjoint(self._actions)

    @property
    def rejects(self) -> bool:
        """Whether it may refuse the request."""
        return "reject" in self._actions

    @property
    def _actions(self) -> set[str]:
        return {self.action} if isinstance(self.action, str) else set(self.action.values())

    def required_of(self, *names: str) -> tuple[str, ...]:
        """The fields that content of the tool or source that `names` name must have."""
        return next((fields for pattern, fields in self.required_fields.items() if matches(names, (pattern,))), ())


def matches(names: tuple[str, ...], patterns: tuple[str, ...]) -> bool:
    """Whether one of `names` matches one of `patterns` (as of `fnmatch`, whatever the case)."""
    return any(fnmatchcase(name.lower(), pattern.lower()) for name in names if name for pattern in patterns)
