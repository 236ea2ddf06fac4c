"""One call of a run: what it ran, wrote and read, which work it did, how that went, and what it may hide. Pure.

How a call went is read from the client's own flag, an exit code, a report of tests, an error envelope, a status field; what none of these
tells is ``unknown``, and nothing follows from it.
"""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from proxy.context.archive import reference_ids
from proxy.context.tool_results.names import reads, words_of_name
from proxy.context.tool_results.result_text import exit_code
from proxy.context.tool_results.results import exit_code_of, read_result, states_of
from proxy.context.tool_results.turns import CalledTool
from proxy.language.lru import by_text
from proxy.language.text import fold
from proxy.stages.work_claims.statements import Work, expression, is_cleared, mentions, plain_german, works

Result = Literal["done", "failed", "unknown"]
MAX_ARGUMENT_CHARS = 20_000
REPORT_CHARS = 4_000
"""Of output, at its end."""
_COMMAND = ("command", "cmd", "script", "commands")
_PATH = ("filepath", "path", "filename", "file", "targetfile", "notebookpath", "absolutepath", "relativeworkspacepath")
"""Names of arguments, in lower case and without underscores, as in `_CONTENT`."""
# fmt: off
_CONTENT = (
    "content", "contents", "newstring", "newstr", "newtext", "newsource", "diff", "patch", "edits", "codeedit", "filetext", "replacement",
    "inserttext", "instructions", "replace", "updated",
)
_FAILED = frozenset((
    "failed", "failure", "fail", "declined", "rejected", "denied", "refused", "error", "errored", "unsuccessful", "aborted", "invalid",
    "abgelehnt", "fehlgeschlagen", "fehler", "gescheitert", "verweigert", "refuse", "refusee", "rejete", "rejetee", "echoue", "echec",
    "erreur", "rechazado", "rechazada", "fallido", "fallida", "fallo", "denegado", "denegada", "rifiutato", "rifiutata", "respinto",
    "respinta", "fallito", "fallita", "errore", "recusado", "recusada", "negado", "negada", "falhou", "falha", "rejeitado", "rejeitada",
    "erro",
))
# fmt: on
_PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (.+)$|^\*\*\* Move to: (.+)$", re.M)
_SEGMENTS = re.compile(r"&&|\|\||;|\n")
_HEREDOC = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?.*?(?:^[ \t]*\1[ \t]*$|\Z)", re.S | re.M)
WRITES = re.compile(
    r"(?<![0-9&>])>{1,2}(?!&|\s*/dev/null)|\b(?:sed -i|tee|mv|cp|rm|touch|mkdir|patch|git (?:apply|mv|rm|checkout|restore|stash))\b|<<"
)
_WORD = re.compile(r"[^\W\d_]+")
_OBJECT = re.compile(r"\{[^{}]{1,4000}\}")
_NUMBERS = re.compile(r"\b(\d{1,6}) (?:\w{1,12} )?(failed|failures?|failing|errors?|passed|passing|passes|pass)\b", re.I)
_JVM = re.compile(r"Tests run: (\d+), Failures: (\d+), Errors: (\d+)|(?:Failed|failed):\s+(\d+), (?:Passed|passed):\s+(\d+)")
_BAD = re.compile(r"^(?:FAIL\b|--- FAIL|FAILED\b|FAILURES!|not ok \d)|test result: FAILED|tests? failed\b|^[ \t]*BUILD FAILED", re.M)
_NO_TESTS = re.compile(r"no tests? (?:ran|found|to run|files)|collected 0 items|0 tests\b|deselected", re.I)
_GOOD = re.compile(r"^(?:ok\s+\S+\s+[\d.(]|OK\b)|test result: ok|All tests passed|BUILD SUCCESSFUL|\b0 failures\b", re.M)


class Attempt(Struct, frozen=True):
    """A call that does work of a kind."""

    call: CalledTool
    order: int
    """Among the run's calls."""
    result: Result
    target: str
    """What it was done to, as far as the command or the tool says: the same again replaces the earlier result."""
    terms: str
    """Its arguments, folded."""
    report: tuple[int, int | None] | None = None
    """How many tests failed and passed, where it reports that."""


def is_gone(result: str) -> bool:
    """Whether a result was taken out of the conversation."""
    return bool(reference_ids(result)) or is_cleared(result)


def command_of(call: CalledTool) -> str:
    """The shell command that a call runs; "" where it runs none."""
    given = call.parsed or {}
    if (
        "command" in given
        and any(name in given for name in ("path", "file_path"))
        and any(name in given for name in ("old_str", "file_text", "insert_text", "new_str", "content"))
    ):
        return ""  # an editor whose sub-command is named so
    for name in _COMMAND:
        value = given.get(name)
        if isinstance(value, list):
            value = " ".join(part for part in value if isinstance(part, str) and part not in ("bash", "sh", "-lc", "-c"))
        if isinstance(value, str) and value:
            return value[:MAX_ARGUMENT_CHARS]
    return ""


def values_of(call: CalledTool) -> list[str]:
    """The texts and numbers among a call's arguments, folded."""
    return [
        fold(str(value)) for value in (call.parsed or {}).values() if isinstance(value, str | int | float) and not isinstance(value, bool)
    ]


def linked(result: str, one: str, other: str) -> bool:
    """Whether a result tells of two things as of one: they stand in one object of it, or in text that is no JSON."""
    if one not in result or other not in result:
        return False
    return not any(one in part and other not in part for part in _OBJECT.findall(result))


def paths_of(call: CalledTool) -> list[str]:
    """The files that a call writes, where its arguments say so."""
    given = call.parsed
    texts = [call.arguments] if given is None else [value for value in given.values() if isinstance(value, str)]
    if patched := [path.strip() for text in texts if "*** " in text for pair in _PATCHED.findall(text) for path in pair if path]:
        return patched
    if given is None or reads(call.tool):
        return []
    plain = {name.lower().replace("_", ""): value for name, value in given.items()}
    return [value for name in _PATH if isinstance(value := plain.get(name), str)] if any(name in plain for name in _CONTENT) else []


def result_of(call: CalledTool) -> Result:
    """How a call went, as far as its result states it."""
    return "unknown" if call.result is None else "failed" if call.result.failed else _result(call.result.text)


@by_text(8192)
def _result(text: str) -> Result:
    if is_gone(text):
        return "unknown"
    code = exit_code_of(text)
    code = exit_code(text) if code is None else code
    failed = code or read_result(text) is not None or any(not _FAILED.isdisjoint(fold(state).split()) for state in states_of(text, depth=1))
    return "failed" if failed else "done"


def attempt_at(work: Work, call: CalledTool, order: int) -> Attempt | None:
    """What a call did of that work; None where nothing."""
    command = command_of(call)
    if command:
        return _by_command(work, call, command, order)
    if not is_tool_of(work, call.tool) or is_note(call.tool) or reads(call.tool) or paths_of(call):
        return None
    result, report = _of_tests(call) if work.name == "tests" else (result_of(call), None)
    return Attempt(call, order, result, call.tool, fold(call.arguments[:MAX_ARGUMENT_CHARS]), report)


def _by_command(work: Work, call: CalledTool, command: str, order: int) -> Attempt | None:
    if work.commands is None:
        return None
    joined = _HEREDOC.sub(" ", command)
    parts = _SEGMENTS.split(joined)
    at = next((i for i in range(len(parts) - 1, -1, -1) if work.commands.search(parts[i]) and not _reads(parts[i])), None)
    if at is None:
        return None
    last, piped = at == len(parts) - 1, "|" in parts[at] or "||" in joined
    result, report = _of_tests(call) if work.name == "tests" else (result_of(call), None)
    if _is_background(call) or (report is None and ((result == "failed" and not last) or (result == "done" and piped))):
        result = "unknown"
    return Attempt(call, order, result, parts[at].strip(), fold(command), report)


def _of_tests(call: CalledTool) -> tuple[Result, tuple[int, int | None] | None]:
    """By their report before anything else; a run that found no tests says nothing."""
    result, report = result_of(call), report_of(call.result_text)
    if report is None or result == "unknown":
        return "unknown" if _NO_TESTS.search(call.result_text[-REPORT_CHARS:]) else result, None
    return "failed" if report[0] else "done", report


def report_of(output: str) -> tuple[int, int | None] | None:
    """How many tests failed and passed, by the last lines of a report; None where there is none."""
    tail = output[-REPORT_CHARS:]
    jvm = _JVM.findall(tail)
    if jvm:
        run, failures, errors, failed, passed = jvm[-1]
        bad = int(failed or 0) if passed else int(failures) + int(errors)
        return bad, int(passed) if passed else int(run) - bad
    for line in reversed(tail.splitlines()):
        counts: dict[str, int] = {}
        for number, kind in _NUMBERS.findall(line):
            counts["passed" if kind.lower().startswith("pass") else "failed"] = int(number)
        if counts and ("passed" in counts or not _GOOD.search(tail)):
            return counts.get("failed", 0), counts.get("passed")
    if _BAD.search(tail):
        return 1, None
    return (0, None) if _GOOD.search(tail) else None


def _is_of(work: Work, word: str) -> bool:
    """Whether a word is one of such work's tools, or of what it is done to."""
    return any(words is not None and words.fullmatch(word) is not None for words in (work.tools, work.things))


def is_tool_of(work: Work, tool: str) -> bool:
    """Whether a word of a tool's name is of that work."""
    return work.tools is not None and any(
        work.tools.fullmatch(written) for word in words_of_name(tool) for written in (word, plain_german(word))
    )


def _reads(part: str) -> bool:
    return expression("shell", "reading").match(part.strip().lstrip("(")) is not None


def only_reads(call: CalledTool) -> bool:
    """Whether it runs a command that changes nothing."""
    command = command_of(call)
    return bool(command) and not WRITES.search(command) and all(_reads(part) for part in _SEGMENTS.split(command) if part.strip())


def looks_elsewhere(call: CalledTool) -> bool:
    """Whether it shows how work went on another machine."""
    command = command_of(call)
    if command:
        return any(expression("shell", "elsewhere").search(part) for part in _SEGMENTS.split(command))
    return reads(call.tool) and any(expression("shell", "pipelines").fullmatch(word) for word in words_of_name(call.tool))


def _is_background(call: CalledTool) -> bool:
    given = call.parsed or {}
    return any(given.get(name) is True for name in ("run_in_background", "is_background", "background"))


def hides(work: Work, call: CalledTool) -> bool:
    """Whether a call may have done work of a kind unseen: in a script, by another agent, or by a tool whose name says nothing of it."""
    command = command_of(call)
    if command:
        return _is_background(call) or any(_part_hides(work, part, call) for part in _parts(command) if part.strip())
    if is_note(call.tool) or result_of(call) == "failed":
        return False
    if paths_of(call):
        return work.name in ANY_CHANGE and work.name != "files"
    words = words_of_name(call.tool)
    plain = reads(call.tool) or any(is_tool_of(works()[name], call.tool) for name in ANY_CHANGE[:3])
    if not plain and any(expression("shell", "others").fullmatch(word) for word in words):
        return True
    if reads(call.tool) or is_tool_of(work, call.tool):
        return False
    shown = fold(f"{call.arguments[:MAX_ARGUMENT_CHARS]} {call.result_text[:REPORT_CHARS]}")
    if mentions(work, shown) or any(_is_of(work, word) for word in (*words, *_WORD.findall(shown))):
        return True
    anything = any(expression("shell", "anything").fullmatch(word) for word in words)
    return (anything and not work.aside and work.commands is None) or not (
        anything or any(is_tool_of(other, call.tool) for other in works().values())
    )


ANY_CHANGE = ("change", "create", "delete", "files")


def _parts(command: str) -> list[str]:
    return _SEGMENTS.split(_HEREDOC.sub(" ", command)) + (["<<"] if "<<" in command else [])


def _part_hides(work: Work, part: str, call: CalledTool) -> bool:
    if part == "<<":
        return work.commands is None or expression("shell", "publishing").search(call.arguments) is not None
    if _reads(part) or WRITES.search(part):
        return work.commands is None and work.name in ANY_CHANGE and not _reads(part)
    if any(other.commands.search(part) for other in works().values() if other.commands is not None):
        return False
    if work.commands is None:
        return True
    words = "checking" if work.name in ("tests", "build", "lint") else "publishing"
    script = expression("shell", "scripts").match(part.strip()) is not None
    return script or any(expression("shell", words).search(fold(text)) for text in (part, call.result_text[-REPORT_CHARS:]))


def is_note(tool: str) -> bool:
    """Whether an agent's tool only keeps notes, or speaks."""
    return expression("shell", "notes").fullmatch(tool.rpartition("__")[2].lower()) is not None


def changed_something(call: CalledTool) -> bool:
    """Whether it may have changed something, by its name or its command."""
    command = command_of(call)
    return not only_reads(call) if command else not is_note(call.tool) and not reads(call.tool)


def says_done(work: Work, call: CalledTool) -> bool:
    """Whether a result tells that such work is done."""
    text = call.result_text
    if work.proof is not None and work.proof.search(fold(text[:REPORT_CHARS])):
        return True
    if states := states_of(text):
        return any(work.any_words.search(fold(state)) for state in states)
    return text.lstrip()[:1] not in ("{", "[") and mentions(work, fold(text[:MAX_ARGUMENT_CHARS]))
