"""Whether a result in plain text reports that the tool failed, by its form. Part of `proxy.context.tool_results.results`.

An error is a failure where it is the result: a first line that is labelled as one with little after it, a stack trace that ends the text,
an exit status on its first or last line, an HTTP status. Anywhere else it is content: a page, a log, a ticket, code that raises. Logs,
diffs, tables and reports of tests or linters are content too, however many errors they list: a tool that reports on its subject has worked.
A sentence that says in its own words that something went wrong is for a judge to understand (`is_sentence`).
"""

from __future__ import annotations

import re

from proxy.context.tool_results.error_kinds import ERRNO, EXCEPTION, ToolFailure, classify
from proxy.language.patterns import LazyPattern

HEAD_CHARS, TAIL_CHARS = 4_000, 2_000
"""What is looked at of a text."""
MAX_SENTENCE_CHARS, MAX_SENTENCE_LINES = 400, 4
MAX_MESSAGE_LINE_CHARS = 1_200
MAX_PROSE_CHARS = 400
"""After the first line of a message, apart from stack frames and indented lines; a text with more is a document."""
MAX_OUTPUT_LINES = 15
"""That a program printed before it failed."""
_BULLET = r"(?:[^\w\s<\[({'\"/\-#>|*`.]{1,4}\s{0,2})?"
_LABEL = LazyPattern(
    _BULLET + r"(?:\[(?:error|fatal|fehler|erreur)\]:?\s{1,3}(?=\S)|<(?:\w{1,12}_){0,2}error>\s{0,3}(?=\S)|"
    r"(?:(?:fatal|internal|runtime|tool|api|server|unexpected|unhandled|uncaught|http|mcp|rpc|sql|execution|validation|input validation|"
    r"input|syntax|network|database|connection|authentication|request|permission|fetch|parse|parsing|type|value|interner|"
    r"error)\s)?(?:error code|error|fehler|erreur|fatal|failure|exception|fatal error)\b(?:\s\[[^\]\n]{1,40}\]|\s?\([^)\n]{1,60}\)|"
    r"\[\w{1,12}\]|\s-?\d{1,5}(?:\s\(\w{1,8}\))?)?"
    rf"\s{{0,2}}(?::|-{{1,2}}\s|–|—)\s{{0,4}}(?=\S)|(?-i:[A-Z]{{1,8}}-\d{{3,6}}|{ERRNO}): (?=\S)|SQLSTATE\[\w{{5}}\]:?\s)",
    re.I,
)
_NOTHING = LazyPattern(
    r"(?![45]\d\d\W{0,3}$)\W{0,3}(?:none|no|null|nil|false|n/a|ok|keine?r?|aucune?|[±+\-]?\d[\d.,]{0,15}\s?(?:%|m?s|[a-z°]{1,3})?)\W{0,3}",
    re.I,
)
"""What a label may say and be no error: a number, or that there is none."""
_DEFINITION = LazyPattern(
    r"\s{0,3}(?:\w{1,20}\s)?(?:(?:is |are |be |wird |es |est )?(?:raised|thrown|returned|ausgelöst)\b|means\b|indicates\b|"
    r"signals\b|occurs\b|if (?:the|an?|any|no|there)\b|happens\b|(?:a|an|the) (?:guide|story|history|introduction|overview)\b|what to do|"
    r"how to|explained)",
    re.I,
)
_EXCEPTION_LINE = LazyPattern(
    r"(?i:uncaught |unhandled |fatal: )?(?i:exception(?: in thread \"[^\"\n]{0,80}\")?[.:]?\s)?(?i:uncaught )?(?P<name>"
    + EXCEPTION.pattern
    + r")(?:\s?\[[^\]\n]{0,60}\])?\s?(?::\s|(?P<call>\([\"'][^\n]{0,1000}\)$)|(?P<bare>$))",
)
_LAST_EXCEPTION = LazyPattern(r"((?:[A-Za-z_]\w{0,60}\.){0,8}[A-Za-z_]\w{1,80})(?::\s|$)")
_TRACEBACK = "Traceback (most recent call last):"
_SYNTAX_FRAME = LazyPattern(r"\s{0,4}File \"[^\"\n]{1,200}\", line \d{1,7}$")
_FRAME = LazyPattern(
    r"\s{1,16}(?:at|from|in)\s\S|\tat\s|\s{0,8}File \"|Caused by:|\s{0,8}\.{3} \d|#\d{1,4}\s|goroutine \d|main\.|\s{0,16}\^|note: |"
    r"Stack trace|Call log|\s{0,4}thrown in |Node\.js v|Require stack:|- /|exit status \d|from \S{1,200}:in |\[signal |created by |"
    r"LINE \d|HINT:|DETAIL:|For further information|For more information|stack backtrace"
)
_PANIC = LazyPattern(
    r"panic: |thread '[^'\n]{0,80}' (?:\(\d{1,12}\) )?panicked at |PHP Fatal error: |fatal runtime error: |Segmentation fault|"
    r"\S{1,200}:\d{1,7}:in [`'][^\n]{0,400}\([A-Z]\w{0,80}\)$|Unhandled exception[.:]"
)
_CODE_FRAME = LazyPattern(r"(?:/|file:|node:|[A-Za-z]:\\|\[eval\])[^\s:]{0,300}:\d{1,7}$|[^\s:]{1,200}\.[cm]?[jt]sx?:\d{1,7}$")
_EXIT_LINE = LazyPattern(
    r"\W{0,3}(?:(?:the )?(?:process|command|program|script|shell|tool|task|child|job|subprocess)\b[^\n:]{0,120}\s)?(?:exited|failed|"
    r"finished|returned|terminated|completed|exit)\b[^\n\d\-]{0,24}\b(?:code|status)\s{0,2}[:=]?\s{0,2}(-?\d{1,5})\W{0,3}",
    re.I,
)
_HTTP_LINE = LazyPattern(r"HTTP/\d(?:\.\d)? (\d{3})\b")
_REASON = (
    r"(?:bad request|unauthori[sz]ed|payment required|forbidden|not found|method not allowed|not acceptable|request time-?out|conflict|"
    r"gone|payload too large|unsupported media type|unprocessable (?:entity|content)|locked|too many requests|internal server error|"
    r"not implemented|bad gateway|service (?:temporarily )?unavailable|gateway time-?out)"
)
_HTTP_ERROR = LazyPattern(
    _BULLET + rf"(?:(?:http(?: error)?|error|status(?: code)?|response|"
    rf"fetch error)[ :]{{0,2}}\s?)?[45]\d\d\s?[:\-–]?\s?{_REASON}(?:\s?\([^()\n]{{0,80}}\))?(?:[.!]?$|\s?[:\-–]\s)|"
    r"(?:http(?: error| status)?|error|status(?: code)?):? [45]\d\d[.:]?(?:$|\s?[:\-–]\s)|[45]\d\d (?:client|server) error: |(?:client|"
    r"server) error '[45]\d\d |(?:request|fetch|call|download|upload|api|server|the \w{1,20})\b[^\n]{0,60}\b(?:failed|returned|"
    r"responded)\b[^\n]{0,40}\b(?:status(?: code)?|code|http|error)\W{0,3}[45]\d\d\b|"
    r"(?:unauthorized|forbidden|not found|too many requests|internal server error|bad gateway|service unavailable|gateway time-?out)[.!]?$",
    re.I,
)
_ERRNO = (
    r"(?:no such file or directory|permission denied|command not found|not found|is a directory|not a directory|file exists|"
    r"operation not permitted|no space left on device|connection refused|read-only file system|text file busy|connection timed out|"
    r"no route to host|could not resolve host[^\n]{0,80}|cannot open[^\n]{0,80}|argument list too long|device or resource busy)"
)
_SHELL = LazyPattern(
    rf"[\w.+/\-]{{1,80}}(?:: line \d{{1,6}}|: \d{{1,6}})?: (?:[^\n]{{0,300}}: )?(?:\(os error \d+\) )?{_ERRNO}\s?\.?$|"
    r"zsh: command not found: |curl: \(\d{1,3}\) |E: Unable to |'[^'\n]{1,80}' is not recognized as an internal or external command|"
    r"[\w.\-/]{1,80}: error: (?!in )[^\n]{1,300}$",
    re.I,
)
"""What programs write to stderr where the system refuses something: their name, and an error of the operating system."""
_BUILD = LazyPattern(
    r"(?:g?make(?:\[\d{1,3}\])?: \*\*\* [^\n]|error: could not compile |(?:npm|pnpm|yarn) (?:ERR!|error) |BUILD FAILED|\[(?:INFO|"
    r"ERROR)\]\s{1,3}BUILD FAILURE|FAILURE: Build failed|ninja: build stopped|collect2: error|compilation terminated\.|"
    r"\d{1,5} errors? generated\.|CMake Error at |error: linker |\S{1,200}\.(?:c|cc|cpp|cxx|h|hpp|swift|"
    r"cu):\d{1,7}:(?:\d{1,5}:)? (?:fatal )?error: )"
)
_REPORT = LazyPattern(
    r"(?:\b\d{1,6} (?:failed|passed|passing|failing|tests? (?:failed|passed))\b|^Tests:\s|^Tests run:|^FAILED \(|^--- FAIL:|^FAIL\b|"
    r"test result: |^Found \d{1,6} (?:errors?|issues?|problems?|warnings?)|\d{1,6} problems? \(|"
    r"^\s{0,4}\d{1,6} errors?, \d{1,6} warnings?|^not ok \d|All checks passed)",
    re.M,
)
_LOG_LINE = LazyPattern(
    r"[\[({<]?(?:\d{4}-\d\d-\d\d|\d{4}/\d\d/\d\d|\d\d:\d\d:\d\d|[A-Z][a-z]{2}\s{1,2}\d{1,2}\s\d\d:\d\d|\[?\d\d/[A-Z][a-z]{2}/\d{4})|"
    r"\[?(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|FATAL|FEHLER|CRITICAL)\]?[\s:\[\-]|\d{1,3}(?:\.\d{1,3}){3} - "
)


def read_text(text: str) -> ToolFailure | None:
    """The failure that plain text reports; None where it is content."""
    start, whole = text[:HEAD_CHARS], len(text) <= HEAD_CHARS
    head, tail = start.strip(), text[-TAIL_CHARS:].strip()
    lines = [line for line in head.splitlines() if line.strip()]
    if not lines:
        return None
    ends, first = [line for line in tail.splitlines() if line.strip()] or lines, lines[0].strip()
    # what a machine adds to output comes first: a status line, an exit status
    if found := _HTTP_LINE.match(first):
        return classify(head, status=int(found[1])) if int(found[1]) >= 400 else None
    left = _exit_code(lines, ends)
    if left == 0 or _REPORT.search(tail) or (whole and _REPORT.search(head)):
        return None
    if any(_BUILD.match(line) for line in ends[-12:]) and not any(line.startswith("```") for line in ends[-12:]):
        return ToolFailure("error_code", left)  # what did not come to its end made nothing
    traced = _read_traceback(lines, ends) or _thrown(lines)
    if traced is not None or left:
        return traced or classify(ends[-1], exit_code=left)
    excerpt = len(lines) > 1 and start.lstrip("\r\n")[:3].isspace()  # it begins indented and goes on: a piece of something
    return (_shell(lines) or _message(first, lines)) if whole and not excerpt else None


def is_report(text: str) -> bool:
    """Whether output ends as that of tests or of a linter does."""
    return _REPORT.search(text[-TAIL_CHARS:]) is not None


def is_sentence(text: str) -> bool:
    """Whether a result may be words about how the call went: short, of letters, and no JSON."""
    said = text.strip()
    return len(said) <= MAX_SENTENCE_CHARS and said.count("\n") < MAX_SENTENCE_LINES and said[:1] not in ("{", "[", "<") and " " in said


def exit_code(text: str) -> int | None:
    """Of a process, where one of the first or last lines of its output, which is what a machine adds, reports nothing else."""
    lines = [line for line in (text[:HEAD_CHARS] + "\n" + text[-TAIL_CHARS:]).splitlines() if line.strip()]
    found = (_EXIT_LINE.fullmatch(line.strip()) for line in (*lines[:5], *lines[-4:]) if len(line) <= 200)
    return next((int(match[1]) for match in found if match is not None), None)


def _exit_code(lines: list[str], ends: list[str]) -> int | None:
    """Of a process, where the first line or two or the last line report it."""
    for line in (*lines[:2], ends[-1]):
        if len(line) <= 200 and (found := _EXIT_LINE.fullmatch(line.strip())):
            return int(found[1])
    return None


def _read_traceback(lines: list[str], ends: list[str]) -> ToolFailure | None:
    """A Python traceback that ends the text, with no more before it than a program may have printed."""
    if _SYNTAX_FRAME.match(lines[0]) and len(lines) <= 5 and (found := _LAST_EXCEPTION.match(lines[-1])):
        return ToolFailure("exception", exception=found[1])
    at = next((i for i, line in enumerate(lines[: MAX_OUTPUT_LINES + 1]) if line.strip() == _TRACEBACK), None)
    if at is None or (at and not _is_output(lines[:at])):
        return None
    start = next((i for i in range(len(ends) - 1, -1, -1) if ends[i].strip() == _TRACEBACK), -1)
    for i in range(len(ends) - 1, start, -1):
        found = _LAST_EXCEPTION.match(ends[i])
        if found and not ends[i][0].isspace() and (i == 0 or ends[i - 1][0].isspace() or start == i - 1):
            return classify("\n".join(ends[i : i + 4]), exception=found[1])
        if found and EXCEPTION.fullmatch(found[1]):
            return classify(ends[i], exception=found[1])
    return ToolFailure("exception") if at == 0 else None


def _thrown(lines: list[str]) -> ToolFailure | None:
    """An exception or a panic with its stack frames, as runtimes other than Python print them."""
    at = next((i for i, line in enumerate(lines[:MAX_OUTPUT_LINES]) if _PANIC.match(line)), None)
    if at is not None and (at == 0 or _is_output(lines[:at])):
        return ToolFailure("exception", None, classify("\n".join(lines[at : at + 2])).exception or "panic")
    at = 0
    if _CODE_FRAME.match(lines[0].strip()):
        at = next((i for i, line in enumerate(lines[1:10], 1) if _EXCEPTION_LINE.match(line) or line.startswith("Error: ")), 0)
    named = _EXCEPTION_LINE.match(lines[at].strip())
    found = named or (at and lines[at].startswith("Error: "))
    if not found or not any(_FRAME.match(line) for line in lines[at + 1 : at + 8]):
        return None
    cause = next((line for line in lines[at + 1 :] if line.startswith("Caused by:")), "")
    return classify(f"{lines[at].strip()}\n{cause}", exception=named["name"] if named else "Error")


def _shell(lines: list[str]) -> ToolFailure | None:
    """Few lines that are all errors of commands."""
    if len(lines) > 6 or not all(_SHELL.match(line.strip()) for line in lines):
        return None
    name, misused, reason = lines[0].partition(": error: ")
    return classify(f"invalid argument: {reason}" if misused and " " not in name else lines[0])


def _message(first: str, lines: list[str]) -> ToolFailure | None:
    """An error message that is the whole result."""
    rest = lines[1:]
    prose = [line for line in rest if not line[0].isspace() and not _FRAME.match(line)]
    article = sum(map(len, prose)) > MAX_PROSE_CHARS or sum(line.count(" ") > 9 for line in prose) > 1
    if len(first) > MAX_MESSAGE_LINE_CHARS or article or _several(lines):
        return None
    said = "\n".join(lines)
    if found := _LABEL.match(first):
        body = first[found.end() :]
        return None if _NOTHING.fullmatch(body) or _DEFINITION.match(body) else classify(said)
    if found := _EXCEPTION_LINE.match(first):
        code = bool(rest) and ":" not in found[0]
        return None if code or _DEFINITION.match(first[found.end() :]) else classify(said, exception=found["name"])
    if re.match(r"\d{1,4} validation errors? for \w", first):
        return classify(said)
    short = len(said) <= MAX_SENTENCE_CHARS and len(lines) <= MAX_SENTENCE_LINES
    if short and (found := _HTTP_ERROR.match(first)) and not _DEFINITION.match(first[found.end() :]):
        return classify(said)
    return None


def _several(lines: list[str]) -> bool:
    """Lines of one kind, each a message: a list of errors, which is content."""
    return len(lines) > 1 and sum(_LABEL.match(line) is not None or _EXCEPTION_LINE.match(line) is not None for line in lines[:20]) > 2


def _is_output(lines: list[str]) -> bool:
    """What a program may have printed before it failed: not a log, an article, or a quotation."""
    if len(lines) > MAX_OUTPUT_LINES:
        return False
    return not any(_LOG_LINE.match(line) or line.lstrip().startswith(("```", "#", ">", "|")) or line.count(" ") > 11 for line in lines)
