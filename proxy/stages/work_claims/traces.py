"""What leaves a trace, whatever the work is: a look, a run, a text that was written, a step that failed. Pure.

"I ran the linter", "I checked it in the browser", "I added tests": a call that did so has the thing in its name, its command or its
result (``[trace]`` and ``[artefact]`` of ``phrases.toml``). Nothing is said where a script, another agent or an unknown tool may have
done it, or where the conversation is not whole. A change that failed, that nothing made good and that the account does not admit, speaks
against the sentence that tells of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from proxy.context.tool_results.names import reads, words_of_name
from proxy.context.tool_results.turns import CalledTool
from proxy.language.patterns import LazyPattern
from proxy.language.text import fold, is_negated
from proxy.language.words import content_words
from proxy.stages.work_claims.calls import (
    MAX_ARGUMENT_CHARS,
    REPORT_CHARS,
    attempt_at,
    command_of,
    hides,
    is_note,
    only_reads,
    paths_of,
    result_of,
    values_of,
)
from proxy.stages.work_claims.findings import Finding
from proxy.stages.work_claims.run import Run
from proxy.stages.work_claims.statements import AccountSentence, expression, file_names, pattern, phrases, split_clauses, works

NO_TRACE = "no call of the run shows it"
NOT_SINCE = "no call of it comes after the last change"
_SPAN = re.compile(r"`([^`\n]{2,60})`")
_PROGRAM = re.compile(r"[a-z][a-z0-9_.-]{1,20}")
_STEM = 4
"""Letters by which words are compared: "migrated", "migration"."""


def check_trace(sentence: AccountSentence, run: Run) -> Finding | None:
    """A look or a run that is told of, of which no call has a trace; or none since the last change, where it says so."""
    if not (run.whole and run.calls and run.declared) or run.unseen_end:
        return None
    clause = next((fold(one) for one in split_clauses(sentence.text) if expression("open", "looked").search(fold(one))), None)
    if (
        clause is None
        or expression("open", "clause").search(clause)
        or any(is_negated(clause, language) for language in works()["cancel"].words)
    ):
        return None
    again = expression("open", "again").search(clause) is not None
    for name, said, shown in _table("trace"):
        if said.search(clause):
            places = [i for i, call in enumerate(run.calls) if shown.search(_text_of(call))]
            late = again and places and _last_edit(run) > places[-1]
            if (places and not late) or any(hides(works()["tests"], call) for call in run.calls):
                return None
            if any(said.search(fold(turn.text)) for turn in run.user_turns[1:]):
                return None  # a user may have made it
            return Finding(name, clause, sentence.text, "unsupported", NOT_SINCE if late else NO_TRACE)
    if again and _last_edit(run) == len(run.calls) - 1:
        return Finding("check", clause, sentence.text, "unsupported", NOT_SINCE, run.calls[-1])
    return None


def check_command(sentence: AccountSentence, run: Run) -> Finding | None:
    """A command in backticks that is said to report something, and was never run."""
    if not run.whole or run.unseen_end:
        return None
    spans, folded = [span for span in _SPAN.findall(sentence.text) if span.strip()], sentence.folded
    for span in spans:
        around = fold(sentence.text.replace(f"`{span}`", "…", 1))
        program = span.split()[0]
        if not (run.ran_commands and " " in span and _PROGRAM.fullmatch(program) and expression("open", "reports").search(around)):
            continue
        ran = any(span in call.arguments or span in call.result_text or hides(works()["tests"], call) for call in run.calls)
        if not ran:
            return Finding("command", folded, sentence.text, "unsupported", f"`{span}` was not run")
    return None


def check_text(sentence: AccountSentence, run: Run) -> Finding | None:
    """A text that is said to be written, where the edits are all there and none has it."""
    if not run.whole or file_names(sentence.text):
        return None
    for clause in map(fold, split_clauses(sentence.text)):
        if expression("open", "clause").search(clause) or not expression("open", "made").search(clause):
            continue
        if run.writes_elsewhere or not run.files:
            return None
        for name, said, shown in _table("artefact"):
            edits = [call for call in run.calls if paths_of(call)]
            if said.search(clause) and not any(shown.search(_text_of(call)) for call in edits):
                return Finding(name, clause, sentence.text, "unsupported", NO_TRACE)
    return None


def check_files(sentence: AccountSentence, answer: str, run: Run) -> Finding | None:
    """That only one file was changed, where others were that the account does not name; that one was, whose change was taken back."""
    named = [name.rpartition("/")[2] for name in file_names(sentence.text)]
    if not named or not run.whole or not (sentence.done or works()["files"].any_words.search(sentence.folded)):
        return None
    alone = expression("open", "alone_changed").search(sentence.folded) is not None
    more = [name for name, _ in run.edited_files if alone and name not in answer]
    if more and any(name in named for name, _ in run.edited_files):
        return Finding("files", sentence.text, sentence.text, "contradicted", f"{more[0]} was changed, too")
    for name in named if not expression("open", "taken_back").search(sentence.folded) else ():
        last = max((i for written, i in run.edited_files if written == name), default=len(run.calls))
        undone = next((call for call in run.calls[last + 1 :] if _undoes(call, name)), None)
        if undone is not None and not any("stash pop" in call.arguments or "stash apply" in call.arguments for call in run.calls[last:]):
            return Finding("files", sentence.text, sentence.text, "contradicted", f"the change of {name} was taken back", undone)
    return None


def check_failed_step(sentences: Sequence[AccountSentence], run: Run) -> Finding | None:
    """Of an account that admits no trouble: the sentence that tells of a step whose last call failed, more than of any that did not."""
    if run.unseen_end or not run.whole:
        return None
    numbered = [*enumerate(run.calls)]
    failed = next(((i, call) for i, call in reversed(numbered) if result_of(call) == "failed" and not _only_looks(call)), None)
    if failed is None:
        return None
    steps = [(i, call) for i, call in numbered if not _only_looks(call)]
    later = [call for i, call in steps if i > failed[0]]
    if any(call.tool == failed[1].tool and not command_of(call) for call in later) or any(hides(works()["deploy"], call) for call in later):
        return None
    values = [value for value in values_of(failed[1]) if len(value) > 2]
    if any(value in fold(call.arguments) for call in later for value in values):
        return None
    if any(_program(call) == _program(failed[1]) for call in later if command_of(call)):
        return None
    if sum(bool(part.strip()) for part in command_of(failed[1]).split("&&")) > 1:
        return None  # which part failed is not known
    if any(attempt_at(works()[name], failed[1], 0) for name in ("tests", "build", "lint")):
        return None
    done = {stem for i, call in enumerate(run.calls) if i != failed[0] and result_of(call) != "failed" for stem in _stems(_text_of(call))}
    own = _stems(_text_of(failed[1])) - done
    best: tuple[int, AccountSentence] | None = None
    for sentence in sentences:
        finished = sentence.done or expression("open", "finished").search(sentence.folded)
        if (
            not finished
            or expression("open", "seen").search(sentence.folded)
            or any(is_negated(sentence.folded, language) for language in works()["cancel"].words)
        ):
            continue
        score = len(_stems(sentence.text) & own)
        if score <= 0 and command_of(failed[1]) and not later and expression("open", "ran").search(sentence.folded):
            score = 1 if not any(command_of(call) and not _only_looks(call) for _, call in steps if call is not failed[1]) else 0
        if score > 0 and (best is None or score > best[0]):
            best = score, sentence
    if best is None:
        return None
    return Finding("step", best[1].text, best[1].text, "contradicted", "the last call of this step failed", failed[1])


# ---- calls ----


@cache
def _table(name: str) -> tuple[tuple[str, LazyPattern, LazyPattern], ...]:
    return tuple((kind, pattern(table["said"]), pattern(table["shown"])) for kind, table in phrases()[name].items())


def _text_of(call: CalledTool) -> str:
    """The words of a call's name, its arguments and its result, folded."""
    return fold(f"{' '.join(words_of_name(call.tool))} {call.arguments[:MAX_ARGUMENT_CHARS]} {call.result_text[-REPORT_CHARS:]}")


def _stems(text: str) -> set[str]:
    return {word[:_STEM] for word in content_words(text) if len(word) >= _STEM and not word.isdigit()}


def _last_edit(run: Run) -> int:
    """The place of the last call that certainly changed something and looked at nothing: an edit, a changing tool."""
    return max(
        (i for i, call in enumerate(run.calls) if not command_of(call) and not _only_looks(call) and result_of(call) != "failed"),
        default=-1,
    )


def _only_looks(call: CalledTool) -> bool:
    return only_reads(call) if command_of(call) else reads(call.tool) or is_note(call.tool)


def _program(call: CalledTool) -> str:
    return " ".join(command_of(call).split()[:1])


def _undoes(call: CalledTool, name: str) -> bool:
    """Whether a command takes back the changes of a file."""
    command = command_of(call)
    if not command or result_of(call) == "failed" or expression("shell", "undoing").search(command) is None:
        return False
    return name in command or any(word in command.split() for word in (".", "--hard", "stash", "./"))
