"""``groundwire judge try`` and ``calibrate``: what a policy's judge says of pairs, and how far its probabilities can be trusted.

In: a policy, and pairs of a statement and its evidence: the shipped ones (`ROWS`: 306 statements over 34 invented documents in six
languages, held out from everything that was trained here), one's own, or what people said of findings (``groundwire feedback export``).
The judge is asked as the proxy would ask it, through config.yaml's upstreams; without one the built-in models are, with the exact rules
before them.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from proxy.admin.verdicts import ListedClaim
from proxy.app import App
from proxy.cli.terminal import Terminal
from proxy.config.settings import Settings
from proxy.errors import ConfigError
from proxy.exchange import Evidence, Exchange, Prompt, Request
from proxy.exchange.judgements import Claim, support
from proxy.grounding.evidence.gathering import EvidenceBase
from proxy.grounding.judging.grounder import Grounder
from proxy.grounding.judging.judges import apply_temperature, make_judge
from proxy.grounding.judging.questions import SUPPORT, JudgeOptions, support_question
from proxy.policy.loading import Policy
from proxy.policy.precision import FLOORS
from proxy.ports.judge import JudgeAnswer
from proxy.ports.panels import interval
from proxy.store.feedback import Feedback
from proxy.store.records import RecordVerdict
from proxy.store.tables import key_of

ROWS = "judge_rows.jsonl"
EXACT = "exact rules"
"""Who judged a pair that needed no model."""
TOGETHER = 32
"""Pairs asked about at a time."""
_TEMPERATURES = [0.25 * 1.05**i for i in range(58)]
"""Up to 4."""
_THRESHOLDS = [i / 100 for i in range(34, 100)]
_LEAST = 1e-4
"""A probability is no less, where its logarithm counts."""
MIN_CALLED = 10
"""Statements below which a share says nothing of a threshold."""
MIN_LABELLED = 4 * MIN_CALLED
"""Statements of one's own below which nothing is fitted on one half and measured on the other."""
_CHOICES = {"supported": "supported", "contradicted": "contradicted", "unsupported": "neither"}
"""What a judge would have to choose, by the label of a sentence."""
_FOLLOWS = (
    ("contradicted", "warn", FLOORS["warn"]),
    ("contradicted", "edit, block", FLOORS["block"]),
    ("supported", "pass", FLOORS["warn"]),
)
"""What a choice leads to, and how often that has to be right."""


class JudgedPair(Struct, frozen=True):
    """A row of the file: what is stated, by what it is judged, and what is right, where that is known."""

    statement: Annotated[str, Meta(min_length=1)]
    evidence: str | tuple[str, ...]
    label: str = ""
    document: int = 0

    @property
    def pieces(self) -> tuple[str, ...]:
        """Of evidence."""
        return (self.evidence,) if isinstance(self.evidence, str) else self.evidence


def read_pairs(file: Path) -> list[JudgedPair]:
    """Of a file of pairs, or of what ``groundwire feedback export`` printed. Raises `ConfigError`, with the line."""
    found: list[JudgedPair] = []
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(file), "", f"cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                read = msgspec.json.decode(line)
                is_export = isinstance(read, dict) and "said" in read
                found += _of_feedback(msgspec.convert(read, Feedback)) if is_export else [msgspec.convert(read, JudgedPair)]
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise ConfigError(str(file), "", f"line {number}: {error}; expected {{statement, evidence}}") from error
    if not found:
        problem = "no pairs: a line is {statement: …, evidence: …}, or one of groundwire feedback export with a sentence and its evidence"
        raise ConfigError(str(file), "", problem)
    return found


def _of_feedback(entry: Feedback) -> list[JudgedPair]:
    """What a person said of a sentence, with the evidence that it was held against; nothing where that does not say what is right."""
    sentence = RecordVerdict(detail=dict(entry.content)).noted(ListedClaim)
    label = _CHOICES.get(entry.label if entry.said == "right" else entry.expected, "")
    if not sentence.text or sentence.evidence is None or not sentence.evidence.text or not label:
        return []
    return [JudgedPair(sentence.text, sentence.evidence.text, label, int(key_of(entry.record_id), 16))]


def shipped_pairs() -> list[JudgedPair]:
    """The development rows."""
    rows = [json.loads(line) for line in files("proxy.cli").joinpath(ROWS).read_text("utf-8").splitlines()]
    return [
        JudgedPair(one["statement"], row["evidence"], one["label"], number) for number, row in enumerate(rows) for one in row["statements"]
    ]


def try_pairs(policy: Policy, file: Path, settings: Settings) -> int:
    """Print what the judge says of each; returns 1 where it gave no answer to some, else 0. Raises `ConfigError`."""
    pairs = read_pairs(file)
    answers = asyncio.run(ask_judge(policy.judge, pairs, settings))
    terminal = Terminal()
    for pair, answer in zip(pairs, answers, strict=True):
        chances = " ".join(f"{choice} {answer.probabilities[choice]:.2f}" for choice in SUPPORT if choice in answer.probabilities)
        said = f"{answer.choice or 'unsure'} ({chances})" if chances else f"no answer: {answer.problem}"
        terminal.line(f"{said}  {' '.join(pair.statement.split())}" + (f"  | {answer.reason}" if answer.reason else ""))
    right = [pair.label == answer.choice for pair, answer in zip(pairs, answers, strict=True) if pair.label and answer.choice]
    known = f"; {sum(right)} of {len(right)} decided as labelled" if right else ""
    silent = sum(not answer.probabilities for answer in answers)
    terminal.line(f"{len(pairs)} pairs, judged by {_names(answers)}, {silent} without an answer{known}")
    return 1 if silent else 0


def calibrate(policy: Policy, settings: Settings, file: Path | None = None) -> int:
    """Print temperature, thresholds and the precision of what follows from them; returns 1 without enough answers. Raises `ConfigError`.

    On the labelled pairs of `file`, else on the shipped ones.
    """
    pairs, terminal = _labelled(file) if file is not None else shipped_pairs(), Terminal()
    if file is not None and (unlabelled := sum(bool(line.strip()) for line in file.read_text("utf-8").splitlines()) - len(pairs)):
        terminal.line(f"{unlabelled} of {unlabelled + len(pairs)} rows left out: no label, or no sentence with its evidence")
        terminal.line("(a finding that is called wrong is a label where its feedback says what it should be: expected)")
    plain = policy.judge and msgspec.structs.replace(policy.judge, temperature=1.0, max_usd_per_day=None)
    answers = asyncio.run(ask_judge(plain, pairs, settings))
    lines = fit(pairs, answers, acts=_acts(policy), fits=plain is not None and bool(plain.upstream))
    for line in lines:
        terminal.line(line)
    return 0 if len(lines) > 2 else 1


def _labelled(file: Path) -> list[JudgedPair]:
    pairs = [pair for pair in read_pairs(file) if pair.label in SUPPORT]
    if len(pairs) < MIN_LABELLED:
        problem = f"{len(pairs)} labelled statements with evidence: fewer than {MIN_LABELLED} say nothing of thresholds"
        raise ConfigError(str(file), "", problem)
    return pairs


def _acts(policy: Policy) -> bool:
    """Whether the policy does more than warn of what is contradicted."""
    found = [action.kind for spec in policy.stages if spec.stage.name == "claims" for action in policy.actions(spec)]
    return bool({"edit", "block"} & set(found))


def fit(pairs: Sequence[JudgedPair], answers: Sequence[JudgeAnswer], *, acts: bool, fits: bool) -> list[str]:
    """What is printed: a line a choice and what follows from it, fitted on every other document and measured on the rest, and the options
    that come of it; where nothing `fits`, how right each choice is.
    """
    both = [(pair, answer.probabilities) for pair, answer in zip(pairs, answers, strict=True) if answer.probabilities]
    said = [f"{len(both)} of {len(pairs)} statements answered by {_names(answers)}"]
    if not fits:
        return [*said, *_of_choices(pairs, answers)]
    fitted, other = _half(both, 0), _half(both, 1)
    if min(len(fitted), len(other)) < len(pairs) // 4:
        return [*said, "too few answers to fit anything: " + next((a.problem for a in answers if a.problem), "")]
    temperature = _temperature(fitted)
    fitted, other = _apply_temperature(fitted, temperature), _apply_temperature(other, temperature)
    said.append(f"{'choice':13} {'what follows':12} floor  threshold  precision [95%]    recall    n")
    chosen: dict[str, float] = {}
    for choice, follows, floor in _FOLLOWS:
        threshold = _threshold(fitted, choice, floor)
        hits, n = _hits(other, choice, threshold)
        recall = hits / max(1, sum(pair.label == choice for pair, _ in other))
        said.append(f"{choice:13} {follows:12} {floor:5.2f}  {threshold:9.2f}  {_figure(hits, n):18} {recall:5.2f} {n:4}")
        if acts or choice not in chosen:
            chosen[choice] = threshold
    least = f"min_support: {chosen['supported']:.2f}, min_contradiction: {chosen['contradicted']:.2f}"
    return [*said, f"judge: {{…, temperature: {temperature:.2f}, {least}}}"]


def _of_choices(pairs: Sequence[JudgedPair], answers: Sequence[JudgeAnswer]) -> list[str]:
    """How right each choice of the built-in models is, whose thresholds are their own."""
    said = [f"{'choice':13} precision [95%]    recall    n"]
    for choice in SUPPORT:
        called = [pair.label == choice for pair, answer in zip(pairs, answers, strict=True) if answer.choice == choice]
        labelled = sum(pair.label == choice for pair in pairs)
        said.append(f"{choice:13} {_figure(sum(called), len(called)):18} {sum(called) / max(1, labelled):5.2f} {len(called):4}")
    return said


def _figure(hits: int, n: int) -> str:
    low, high = interval(hits, n)
    return f"{hits / n:.2f} [{low:.2f}, {high:.2f}]" if n else "-"


async def ask_judge(options: JudgeOptions | None, pairs: Sequence[JudgedPair], settings: Settings) -> list[JudgeAnswer]:
    """The judge's answers, in order. Raises `ConfigError`."""
    app = App(settings)
    try:
        if options is None or options.kind == "builtin":
            return await _by_builtin(app, options.model if options is not None else "", pairs)
        if options.upstream not in app.upstreams:
            raise ConfigError(
                f"{settings.folder}/config.yaml", "upstreams", f"no upstream {options.upstream!r}, which the policy's judge names"
            )
        await app.upstreams[options.upstream].upstream.start()
        session = make_judge(options, app.ports).session(_nobody(), "judge")
        assert session is not None
        answers: list[JudgeAnswer] = []
        for start in range(0, len(pairs), TOGETHER):
            questions = [support_question(pair.statement, pair.pieces) for pair in pairs[start : start + TOGETHER]]
            answers += await session.answers(questions)
        return answers
    finally:
        for upstream in app.upstreams.values():
            await upstream.upstream.stop()
        app.verifiers.stop()


async def _by_builtin(app: App, model: str, pairs: Sequence[JudgedPair]) -> list[JudgeAnswer]:
    """Exact rules first, then the models of this process."""
    grounder, answers = Grounder(app.ports.verifiers.get(model), only_certain=True), list[JudgeAnswer]()
    for pair in pairs:
        base = EvidenceBase([Evidence(piece) for piece in pair.pieces])
        (found,) = await grounder.judge([Claim(pair.statement, 0, len(pair.statement))], base)
        if found.label == "error":
            answers.append(JudgeAnswer(by=found.verifier, problem=found.reason))
            continue
        held = support(found)
        against = 1.0 - held if found.label == "contradicted" else min(found.contradiction or 0.0, 1.0 - held)
        choice = {"unsupported": "neither", "unsure": ""}.get(found.label, found.label)
        chances = {"supported": held, "contradicted": against, "neither": max(0.0, 1.0 - held - against)}
        answers.append(JudgeAnswer(chances, choice, found.verifier or EXACT, found.reason))
    return answers


def _names(answers: Sequence[JudgeAnswer]) -> str:
    """Who judged, the one of most pairs first; rules only where there was nobody else."""
    names = [name for name, _ in Counter(answer.by for answer in answers if answer.by).most_common()]
    return ", ".join(name for name in names if name != EXACT) or "".join(names) or "nobody"


def _nobody() -> Exchange:
    request = Request("", (), (), {}, stream=False)
    return Exchange("judge", "", "", "", "operator", original=request, model="", prompt=Prompt((), (), {}))


_Scored = Sequence[tuple[JudgedPair, Mapping[str, float]]]


def _half(rows: _Scored, which: int) -> _Scored:
    """Those of every other document."""
    return [row for row in rows if row[0].document % 2 == which]


def _apply_temperature(rows: _Scored, temperature: float) -> _Scored:
    return [(pair, apply_temperature(chances, temperature)) for pair, chances in rows]


def _temperature(rows: _Scored) -> float:
    """That of the least negative log likelihood."""

    def loss(temperature: float) -> float:
        return -sum(math.log(max(_LEAST, apply_temperature(chances, temperature)[pair.label])) for pair, chances in rows)

    return min(_TEMPERATURES, key=loss)


def _threshold(rows: _Scored, choice: str, floor: float) -> float:
    """The least from which what is called `choice` is right as often as `floor` asks; the strictest where none is."""
    for threshold in _THRESHOLDS:
        hits, n = _hits(rows, choice, threshold)
        if n >= MIN_CALLED and hits / n >= floor:
            return threshold
    return _THRESHOLDS[-1]


def _hits(rows: _Scored, choice: str, threshold: float) -> tuple[int, int]:
    """How many of those that are called `choice` are, and how many are called so."""
    called = [pair.label == choice for pair, chances in rows if chances[choice] >= threshold and chances[choice] == max(chances.values())]
    return sum(called), len(called)
