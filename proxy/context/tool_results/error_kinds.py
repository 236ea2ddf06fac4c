"""What kind of failure an error tells of: by its status, the name of its exception, its code, and a few English words.

In: the message, and what stands beside it. Out: a `ToolFailure`. Nothing of the message's wording is in it: names of exceptions and of
arguments are identifiers, and everything else is a number.
"""

from __future__ import annotations

import re

from msgspec import Struct

from proxy.language.patterns import LazyPattern

MAX_MESSAGE_CHARS = 600
"""Of a message; what it complains of stands at its beginning."""
MAX_RETRY_S = 86_400.0


class ToolFailure(Struct, frozen=True):
    """A failure that a tool's result reports."""

    code: str
    """One of ``CODES["tool_error"]`` of `proxy.ports.failures`, or of a search ``empty_result`` or ``low_relevance``."""
    status: int | None = None
    """HTTP status or a process's exit code, where the result reports one."""
    exception: str = ""
    """Class of the exception, or the error code where it is a name."""
    retry_after_s: float | None = None
    """How long to wait, where the result says so."""
    argument: str = ""
    """Name of the argument that is blamed."""
    score: float | None = None
    """Of a search: its best score, below `min_score`."""
    min_score: float | None = None


_HANDLE = (
    r"(?:cursor|(?:page|pagination|continuation|next|resume|sync)[ _-]?token|session|snapshot|transaction|archive|scratchpad|scroll|"
    r"handle|lease|job|upload[ _-]?id|sandbox)"
)
_MISSING = (
    r"(?:expired|no longer (?:valid|exists?|available)|not valid|unknown|invalid|stale|not[ _]found|does(?:n't| not) exist|closed|gone|"
    r"no such)"
)
_BEFORE_STATUS = (
    ("rate_limited", r"rate[ _-]?limit|too[ _-]many[ _-]requests|quota[ _]exceeded|throttl|resource[ _]?exhausted|\bslow down\b"),
    (
        "permission_denied",  # only a person can sign in again
        r"\b(?:session|login)[ _](?:has )?(?:expired|timed out)|\b(?:sign|log)[ -]?in again\b|\bre-?authenticate\b",
    ),
    ("missing_pointer", rf"\b{_HANDLE}s?\b[^.\n]{{0,60}}?\b{_MISSING}|{_MISSING}[ _](?:\w{{1,20}}[ _]){{0,2}}{_HANDLE}\b|stale[ _]element"),
    (
        "output_too_large",
        r"\b(?:output|result|response|file|content|page|document|body|payload|message)s?\b[^.\n]{0,60}?(?:\btoo[ _]?(?:large|long|big|many)"
        r"\b|\bexceed)|output[ _]truncated|(?:result|response|output|file|content)[ _]?too[ _]?(?:large|long|big)|exceeds? the maximum",
    ),
)
_AFTER_STATUS = (
    ("timeout", r"\btim(?:ed?|ing)[ _-]?out\b|timeout|deadline[ _]?exceeded|etimedout"),
    (
        "permission_denied",
        r"permission[ _]?(?:is )?denied|access[ _](?:is[ _])?denied|\bforbidden\b|unauthori[sz]ed|not[ _]authori[sz]ed|eacces|eperm|"
        r"not permitted|not have (?:the |any )?(?:permission|access|rights)|insufficient[ _](?:permission|scope|privilege|rights)|"
        r"(?:invalid|incorrect|missing|expired)[ _](?:api|access|auth)[ _]?(?:key|token)|authenticat\w* (?:failed|required|error)|"
        r"unauthenticated|not[ _](?:logged in|authed)|permission error",
    ),
    (
        "unavailable",
        r"econn(?:refused|reset|aborted)|\bepipe\b|\benotfound\b|\beai_again\b|connect(?:ion)?[ _](?:was )?(?:refused|reset|aborted|closed|"
        r"error)|(?:service|server|api|backend|endpoint|host|network|database)\b[^.\n]{0,30}\b(?:unavailable|unreachable|down)\b|"
        r"^unavailable\b|overloaded|bad gateway|could not connect|failed to connect|socket hang up|name resolution",
    ),
    (
        "invalid_arguments",
        r"missing[ _](?:\d{1,3} )?(?:required|positional|parameter|argument|field|value)|(?:field|parameter|argument|property|value|option|"
        r"key)s?\b[^.\n]{0,60}?\b(?:required|missing)\b|required (?:parameter|argument|field|property|option)|invalid[ _](?:value|argument|"
        r"param|input|date|time|format|json|type|enum|option|request|id|field)|unexpected keyword argument|validation[ _](?:error|failed)|"
        r"must (?:not )?be\b|must (?:have|contain|match)\b|unknown[ _](?:parameter|argument|field|option)|unrecognized (?:argument|option)|"
        r"out of range|not (?:a )?valid\b|not of type|takes (?:from )?\d{1,3} (?:to \d{1,3} )?positional",
    ),
    (
        "not_found",
        r"not[ _]?found|(?:does(?:n't| not)|do not|no longer) exists?|\bno[ _]?such\b|nosuch|\benoent\b|unknown (?!error|reason|exception|"
        r"issue)\w|(?:cannot|can't|could not|couldn't|unable to) (?:find|locate|resolve)|not recognized as",
    ),
)
_FIRST, _THEN = ([(code, LazyPattern(words, re.I)) for code, words in pairs] for pairs in (_BEFORE_STATUS, _AFTER_STATUS))
_BY_STATUS = {
    **dict.fromkeys((400, 413, 422), "invalid_arguments"),
    **dict.fromkeys((401, 403, 407), "permission_denied"),
    **dict.fromkeys((404, 410), "not_found"),
    **dict.fromkeys((408, 504), "timeout"),
    **dict.fromkeys((502, 503, 529), "unavailable"),
    429: "rate_limited",
}
_STATUS = LazyPattern(
    r"(?:\bhttp(?:/[\d.]{1,3})?(?: error| status)?(?: code)?|\bstatus(?: code)?|\berror(?: code)?|"
    r"\bcode)\s{0,3}[:=]?\s{0,3}\(?([45]\d\d)\b|^\W{0,4}([45]\d\d)\b[ :-]{1,3}[A-Z]|error '([45]\d\d) ",
    re.I,
)
EXCEPTION = LazyPattern(
    r"(?<![\w.])((?:[A-Za-z_]\w{0,60}(?:\.|::|\\)){0,8}[A-Z]\w{0,60}?(?:Error|Exception|Timeout|Failure|Fault|Interrupt|Exit|"
    r"ECONN[A-Z]{1,9}))(?![\w.]*\w)"
)
"""A class name as languages write it; bounded, so that a long word costs no more than a short one."""
ERRNO = r"E(?:CONN[A-Z]{3,8}|TIMEDOUT|NOENT|ACCES|PERM|EXIST|ISDIR|NOTDIR|NOSPC|NOTFOUND|PIPE|HOSTUNREACH|NOTEMPTY|MFILE|BUSY|AI_AGAIN)"
_ERRNO = LazyPattern(rf"(?<!\w)({ERRNO}|ORA-\d{{5}})(?!\w)")
_CODE_NAME = LazyPattern(
    r"[A-Za-z][A-Za-z]{0,40}(?:[_\-][A-Za-z]{1,40}){1,8}|(?:[A-Z][a-z]{1,30}){2,6}|[a-z]{2,30}(?:[A-Z][a-z]{1,30}){1,6}|[A-Z]{3,30}|"
    r"[A-Z]{1,8}-?\d{2,6}"
)
_QUOTED_NAME = r"[`'\"]\s?([A-Za-z_][\w.\-]{0,63})\s?[`'\"]"
_ARGUMENT = LazyPattern(
    rf"(?i:\b(?:parameters?|arguments?|fields?|property|option|value for)\s{{0,2}}:?\s{{0,2}}){_QUOTED_NAME}|"
    rf"{_QUOTED_NAME}(?i: (?:is (?:a )?(?:required|missing|invalid|not)|must |field |parameter |argument |property ))|"
    r"validation errors? for \w{1,60}\s{0,2}\n([A-Za-z_][\w.\-]{0,63})\s*\n|\bargument -{0,2}([\w\-]{1,40})[:/]"
)
_RETRY = LazyPattern(
    r"(?:retry[ _-]?after|\b(?:try|retry) (?:again )?(?:in|after)|\bwait)[\"']?\s{0,2}[:=]?\s{0,2}[\"']?(\d{1,6}(?:\.\d{1,3})?)\s{0,2}"
    r"(milliseconds?|ms|seconds?|secs?|s|minut\w{1,3}|min|m|hours?|h)?\b",
    re.I,
)
_UNITS_S = {"mil": 0.001, "ms": 0.001, "m": 60.0, "h": 3600.0, "s": 1.0}


def classify(message: str, *, status: int | None = None, exit_code: int | None = None, exception: str = "") -> ToolFailure:
    """The failure that `message` tells of. Statuses and clear words go before vague ones; without either it is an exception or an error."""
    text = message[:MAX_MESSAGE_CHARS]
    if status is None and exit_code is None and (found := _STATUS.search(text)):
        status = int(found[1] or found[2] or found[3])
    exception = identifier(exception) or exception_in(text)
    code = _code(f"{_split_words(exception)}\n{text}", status)
    if code is None and exception and EXCEPTION.fullmatch(exception):
        code = "exception"
    elif code is None:
        code = "error_code" if exception or status is not None or exit_code is not None else "error"
    return ToolFailure(code, status if status is not None else exit_code, exception, retry_after(text), argument_in(text))


def names_kind(message: str) -> bool:
    """Whether the words alone name a kind of failure."""
    return _code(message[:MAX_MESSAGE_CHARS], None) is not None


def identifier(name: str) -> str:
    """`name` if it is one, else ""."""
    return name if re.fullmatch(r"[A-Za-z_][\w.:\\\-]{0,95}", name, re.ASCII) else ""


def code_name(text: str) -> str:
    """`text` if it is the name of an error (``not_in_channel``, ``ResultTooLarge``), not a word of a sentence."""
    return text if len(text) <= 96 and _CODE_NAME.fullmatch(text) else ""


def exception_in(text: str) -> str:
    """The first class of an exception, or code of the operating system."""
    found = EXCEPTION.search(text) or _ERRNO.search(text)
    return identifier(found[1]) if found else ""


def argument_in(text: str) -> str:
    """The argument that the message blames."""
    found = _ARGUMENT.search(text)
    return identifier(next(filter(None, found.groups()))) if found else ""


def retry_after(text: str) -> float | None:
    """Seconds to wait, if the message says so."""
    found = _RETRY.search(text)
    if found is None or (found[2] is None and not found[0].lower().startswith("retry")):
        return None
    unit = (found[2] or "s").lower()
    wait_s = float(found[1]) * next(scale for name, scale in _UNITS_S.items() if unit.startswith(name))
    return wait_s if wait_s <= MAX_RETRY_S else None


def _code(text: str, status: int | None) -> str | None:
    for code, pattern in _FIRST:
        if pattern.search(text):
            return code
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return next((code for code, pattern in _THEN if pattern.search(text)), None)


def _split_words(name: str) -> str:
    """``FileNotFoundError`` as words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[_.]", " ", name.rpartition(".")[2])
