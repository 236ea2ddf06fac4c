"""What a run's results say to a statement of work done: a statement and a `Run` in, a `Finding` or None out. Pure.

Very few statements are doubted. *Contradicted*: every call that did such work failed, the last time it was made, and nothing after it may
have mended that. *Unsupported*: no such call was made, although there is a tool for it; the conversation is whole, nothing in it may have
done the work unseen, and neither a result nor a user says that it is done.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from proxy.context.tool_results.turns import CalledTool
from proxy.language.number_words import NUMBER_LANGUAGES, word_value
from proxy.language.text import fold
from proxy.stages.work_claims.calls import REPORT_CHARS, Attempt, attempt_at, command_of, linked, values_of
from proxy.stages.work_claims.figures import differing_figure
from proxy.stages.work_claims.run import Run
from proxy.stages.work_claims.statements import Work, WorkStatement, expression, is_object, tells_of, was_done_before, works

_BY_RESULT = ("tests", "build", "lint")
_BY_COMMAND = ("commit", "push", "pull_request", "tag", "merge", "lint")
_ANYTHING = ("change", "create", "delete")
"""Work whose tools may do other work, too: an order is cancelled by changing it."""
_LONG_ID = re.compile(r"(?=[\w-]*\d)[\w][\w-]{3,40}")
_ALL_OF = re.compile(
    r"\b(?:all|alle|tod[oa]s|tous les|toutes les|tutt[ie] e|tutt[ie]) (?:of )?(?:the |your |les |los |las |os |as |i |gli |le )?(\w+)"
)
_NONE = re.compile(r"\b(?:no|zero|0|without(?: any)?|ohne|keine|sans|aucune?|sin|senza|sem)\b")
_KINDS = re.compile(r"\b(?:warning|error|problem|offen[cs]e|issue)")
_COUNTED = re.compile(r"\b([1-9]\d{0,5}) (warning|error|problem|offen[cs]e|issue)")
LAST_FAILED = "the last result of this work is a failure"
NO_CALL = "no call of the run did this work"


FindingLabel = Literal["contradicted", "unsupported"]


class Finding(Struct, frozen=True):
    """A statement that the run does not bear out."""

    kind: str
    what: str
    """What it says, for a judge."""
    sentence: str
    label: FindingLabel
    reason: str
    """In words, for the operator."""
    call: CalledTool | None = None
    """Whose result says otherwise."""


def check_statement(statement: WorkStatement, run: Run) -> Finding | None:
    """What speaks against a statement; None where nothing does for certain."""
    if statement.work.name == "files":
        return _check_files(statement, run)
    if statement.files and statement.work.name in ("change", "create", "delete"):
        return None  # of a file, which is another matter
    if statement.work.name in _BY_RESULT and run.looks_elsewhere:
        return None
    every = run.attempts(statement.work)
    attempts = _attempts_meant(statement, every)
    if not attempts:
        return _check_no_call(statement, run)
    last, by_result = attempts[-1], statement.work.name in _BY_RESULT
    if (by_result and run.was_tried_by_user(last)) or run.hidden_after(statement.work, last.order):
        return None
    if any(attempt.order > last.order and attempt.result != "failed" for attempt in every):
        return None
    failed = _still_failed(statement, attempts) if by_result else _every_attempt_failed(statement.work, attempts, run)
    reason = LAST_FAILED if failed else _find_difference(statement, attempts, run)
    return _finding(statement, "contradicted", reason, last.call) if reason else None


def _finding(statement: WorkStatement, label: FindingLabel, reason: str, call: CalledTool | None = None) -> Finding:
    return Finding(statement.work.name, statement.work.what, statement.sentence, label, reason, call)


def _find_difference(statement: WorkStatement, attempts: Sequence[Attempt], run: Run) -> str | None:
    """How work that was done differs from what is said of it."""
    done, failed = ([attempt for attempt in attempts if (attempt.result == "failed") is bad] for bad in (False, True))
    evidence = [f"{attempt.call.arguments}\n{attempt.call.result_text}" for attempt in done]
    if statement.work.name in _BY_RESULT:
        return _check_report(statement, attempts, run)
    if not done or statement.act == "state" or command_of(done[-1].call):
        return None
    known = "\n".join(attempt.terms for attempt in done)
    if failed and expression("open", "each").search(statement.folded):
        left = next((a for a in failed if any(value not in known for value in values_of(a.call) if len(value) > 1)), None)
        if left is not None:
            return f"one call of it failed: {left.call.arguments[:80]}"
    several = _stated_count(statement.folded)
    targets = {attempt.terms for attempt in run.attempts(statement.work) if attempt.result != "failed"}
    if 1 < len(targets) < several and not any("[" in target or "," in target.partition(",")[2] for target in targets):
        return f"{len(targets)} calls did it, {several} are stated"
    calls = [attempt.call for attempt in done]
    figure = differing_figure(statement.sentence, [call.arguments for call in calls], [call.result_text for call in calls])
    if figure is not None:
        return f"the calls of it have other figures than {figure}"
    return _check_object(statement, evidence, run)


def _stated_count(folded: str) -> int:
    """How many things a sentence says were all worked on; 0 where it gives no number."""
    word = _ALL_OF.search(folded)
    values = (word_value(word[1], language) if not word[1].isdigit() else float(word[1]) for language in NUMBER_LANGUAGES) if word else ()
    return next((int(value) for value in values if value), 0)


def _check_object(statement: WorkStatement, evidence: Sequence[str], run: Run) -> str | None:
    """Whether it was done to something else: the run knows what the statement names apart from what the calls name."""
    changed = "\n".join(f"{call.arguments}\n{call.result_text}" for call in run.changes()).lower()
    others, some = {value for text in evidence for value in _LONG_ID.findall(text.lower())}, any(name in changed for name in statement.ids)
    for name in statement.ids:
        if _LONG_ID.fullmatch(name) is None or name in changed or re.sub(r"\W", "", name) in re.sub(r"\W", "", changed):
            continue
        if not any(name in text.lower() for text in run.texts) or (some and not _is_listed(name, statement)):
            continue
        if others and not any(linked(call.result_text.lower(), name, other) for call in run.calls for other in others):
            return f"no call of it names {name}"
    return None


def _is_listed(name: str, statement: WorkStatement) -> bool:
    """Whether a statement names one thing beside another: "7001 and 7002"."""
    beside = "|".join(re.escape(other) for other in statement.ids if other != name)
    joined = r"\W{1,3}(?:and|und|et|y|e|sowie)?\W{0,2}(?:\w{2,4} )?\W{0,2}"
    return (
        re.search(rf"(?:{beside}){joined}{re.escape(name)}|{re.escape(name)}{joined}(?:{beside})", statement.sentence.lower()) is not None
    )


def _check_report(statement: WorkStatement, attempts: Sequence[Attempt], run: Run) -> str | None:
    """Whether a linter, or a compiler, reports what the statement says that there is none of."""
    if statement.work.name == "tests" or not _NONE.search(statement.folded):
        return None
    output = attempts[-1].call.result_text[-REPORT_CHARS:]
    named = _KINDS.findall(statement.folded)
    counted = {kind[:5]: int(number) for number, kind in _COUNTED.findall(output.lower())}
    kind = next((kind for kind in named if counted.get(kind[:5], 0)), None)
    return f"the last report has {kind}s" if kind else None


def _every_attempt_failed(work: Work, attempts: Sequence[Attempt], run: Run) -> bool:
    """Of work that is done once: whether every call of it failed, none says that it was done before, and nothing else may have done it."""
    if any(attempt.result != "failed" for attempt in attempts) or run.proves(work):
        return False
    if any(was_done_before(work, attempt.call.result_text) for attempt in attempts):
        return False
    others = [works()[name] for name in _ANYTHING if name != work.name]
    values = {value for attempt in attempts for value in values_of(attempt.call) if len(value) > 2}
    later = [call for call in run.changes(attempts[-1].order) if not values or any(value in fold(call.arguments) for value in values)]
    return not any(attempt_at(other, call, 0) for call in later for other in others)


def _attempts_meant(statement: WorkStatement, attempts: Sequence[Attempt]) -> Sequence[Attempt]:
    """Those that a statement is about, where it names what it was done to."""
    named = [attempt for attempt in attempts if any(name in attempt.terms for name in statement.ids)]
    if statement.work.topic is not None:
        words = set(statement.work.topic.findall(statement.folded)) - {"test", "tests", "build", "types", "suite"}
        named = named or [attempt for attempt in attempts if any(word in fold(attempt.target) for word in words)]
    return named or attempts


def _still_failed(statement: WorkStatement, attempts: Sequence[Attempt]) -> bool:
    """Of work that is repeated until it succeeds: whether its last result is a failure, and no part of it has passed since."""
    last, numbers = attempts[-1], statement.ids | _numbers(statement)
    if last.result != "failed" or any(attempt.report and str(attempt.report[1]) in numbers for attempt in attempts):
        return False
    passing = {attempt.target for attempt in {attempt.target: attempt for attempt in attempts}.values() if attempt.result != "failed"}
    return not passing or (statement.everything and last.report is not None and all(_is_part(target, last.target) for target in passing))


def _is_part(target: str, whole: str) -> bool:
    """Whether one command runs a part of what another runs: it has all its words, and more."""
    return {word for word in whole.split() if not word.startswith("-")} <= set(target.split())


def _numbers(statement: WorkStatement) -> frozenset[str]:
    return frozenset(word for word in statement.folded.replace(",", " ").split() if word.isdigit())


def _check_no_call(statement: WorkStatement, run: Run) -> Finding | None:
    """Of work for which no call was made."""
    work = statement.work
    if (
        not (work.never and run.calls and run.whole and (run.declared or run.offers(work)))
        or run.hidden_after(work, -1)
        or run.proves(work)
    ):
        return None
    if work.name in _BY_COMMAND or work.name == "tests":
        if statement.act == "state" and run.asks_for(work):
            return None
        return _finding(statement, "unsupported", NO_CALL) if run.ran_commands else None
    given = any(name in run.user_text and not run.was_returned(name) for name in statement.ids)
    if statement.act == "state" or (not given and (statement.act != "own" or work.name == "change") and run.changes()):
        return None
    if work.name == "close" and run.edited_files and not given:  # an edit resolves a conflict, and may close a bug
        return None
    if not given and statement.act != "own" and not run.is_mentioned_by_users(work):
        return None
    return _finding(statement, "unsupported", NO_CALL)


def _check_files(statement: WorkStatement, run: Run) -> Finding | None:
    if not run.files:
        return None
    both = len(statement.files) > 1 and expression("open", "each").search(statement.folded) is not None
    for file in statement.files:
        mine = [(order, result) for path, order, result in run.files if _is_same_file(path, file)]
        if (
            mine
            and all(result == "failed" for _, result in mine)
            and not run.hidden_after(statement.work, mine[-1][0])
            and not _may_be_written_elsewhere(file, run)
        ):
            return _finding(statement, "contradicted", f"every edit of {file} failed", run.calls[mine[-1][0]])
        if not mine and run.whole and not run.writes_elsewhere and not run.mentions_file(file) and (is_object(statement, file) or both):
            return None if _is_named_by_users(file, run) else _finding(statement, "unsupported", f"no call wrote {file}")
    return _check_count(statement, run)


def _may_be_written_elsewhere(file: str, run: Run) -> bool:
    """Whether a command, or an edit of a file of that name, may have written it."""
    name = file.rpartition("/")[2]
    return run.mentions_file(file) or any(path.rpartition("/")[2] == name and result != "failed" for path, _, result in run.files)


def _is_named_by_users(file: str, run: Run) -> bool:
    """Whether users speak of the file as changed already."""
    return fold(file.rpartition("/")[2]) in run.user_text and any(tells_of(works()["files"], turn.text) for turn in run.user_turns)


def _check_count(statement: WorkStatement, run: Run) -> Finding | None:
    if statement.count is None or not run.whole or run.writes_elsewhere:
        return None
    written = {path for path, _, result in run.files if result != "failed"}
    if statement.count <= len(written):
        return None
    return _finding(statement, "contradicted", f"{len(written)} files were written, {statement.count} are stated")


def _is_same_file(path: str, file: str) -> bool:
    """Whether two paths may be one file's, one of them being written in short."""
    longer, shorter = sorted((path.removeprefix("./"), file.removeprefix("./")), key=len, reverse=True)
    return longer == shorter or longer.endswith(f"/{shorter}")
