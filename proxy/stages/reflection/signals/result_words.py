"""What kind of failure the words of an error message tell of. Used by `proxy.stages.reflection.signals.results` once it knows that there is
one.

In: the message, and what stands beside it (a status, the name of an exception). Out: a `ToolFailure`. Nothing of the message's wording is
kept: names of exceptions and of arguments are identifiers, and everything else is a number.
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
    """One of ``kinds.CODES["tool_error"]``, or of a search ``empty_result`` or ``low_relevance``."""
    status: int | None = None
    """HTTP status or a process's exit code, where the result reports one."""
    exception: str = ""
    """Class of the exception, or the error code where it is a name."""
    retry_after_s: float | None = None
    """How long to wait, where the result says so."""
    pointer: str = ""
    """JSON pointer to the error; "" in plain text."""
    argument: str = ""
    """Name of the argument that is blamed."""
    score: float | None = None
    """Of a search: its best score, below `min_score`."""
    min_score: float | None = None


_HANDLE = (
    r"(?:cursor|(?:page|pagination|continuation|next|resume|sync)[ _-]?token|session|snapshot|transaction|archive|scratchpad|scroll|"
    r"handle|lease|job|upload[ _-]?id|sandbox|sitzung|transaktion|archiv|schnappschuss|sesión|transacción|instantánea|"
    r"archivo de contexto|jeton de page|curseur|instantané)"
)
_GONE = (
    r"(?:expired|no longer (?:valid|exists?|available)|not valid|unknown|invalid|stale|not[ _]found|does(?:n't| not) exist|closed|gone|"
    r"no such|abgelaufen|ungültig|unbekannt|nicht mehr gültig|nicht gefunden|ha (?:caducado|expirado)|ya no (?:es válid|existe)|"
    r"no es válid|inválid|desconocid|expiré|plus valide|plus valable|invalide|inconnu)"
)
_STRONG: tuple[tuple[str, LazyPattern], ...] = (
    (
        "rate_limited",
        LazyPattern(
            r"rate[ _-]?limit|too[ _-]many[ _-]requests|quota[ _]exceeded|exceeded your [\w ]{0,40}quota|throttl|zu viele anfragen|"
            r"demasiadas (?:solicitudes|peticiones)|trop de requêtes|resource[ _]?exhausted|\bslow down\b|request limit (?:reached|"
            r"exceeded)",
            re.I,
        ),
    ),
    (
        "permission_denied",  # only a person can sign in again
        LazyPattern(
            r"\b(?:session|sitzung|sesión|login|anmeldung)[ _]?(?:\w{1,12} ){0,4}(?:has |ist |ha )?(?:expired|timed out|abgelaufen|"
            r"caducado|expirado|expiré)|\b(?:sign|log)[ -]?in again\b|\bre-?authenticate\b|melden sie sich (?:bitte )?(?:erneut|neu) an|"
            r"(?:vuelva|vuelve) a iniciar sesión|reconnecte[zr]",
            re.I,
        ),
    ),
    (
        "missing_pointer",
        LazyPattern(
            rf"\b{_HANDLE}s?\b[^.\n]{{0,60}}?\b{_GONE}|{_GONE}\w{{0,3}}[ _](?:\w{{1,20}}[ _]){{0,2}}{_HANDLE}\b|stale[ _]element|"
            r"\bjeton de page\b[^.\n]{0,30}expiré",
            re.I,
        ),
    ),
    (
        "output_too_large",
        LazyPattern(
            r"\b(?:output|result|response|file|content|page|document|body|payload|message)s?\b[^.\n]{0,60}?(?:\btoo[ _]?(?:large|long|"
            r"big|many)\b|\bexceed)|output[ _]truncated|(?:result|response|output|file|content)[ _]?too[ _]?(?:large|long|big)|"
            r"exceeds? (?:the )?maximum allowed tokens|(?:ausgabe|ergebnis|antwort|datei) (?:ist )?zu (?:groß|lang)|(?:resultado|"
            r"respuesta|archivo)[^.\n]{0,20}demasiado (?:grande|larg)|(?:résultat|réponse|fichier)[^.\n]{0,20}trop (?:grand|long|"
            r"volumineu)",
            re.I,
        ),
    ),
)
_WEAK: tuple[tuple[str, LazyPattern], ...] = (
    (
        "timeout",
        LazyPattern(
            r"\btim(?:ed?|ing)[ _-]?out\b|timeout|deadline[ _]?exceeded|etimedout|esockettimedout|zeitüberschreitung|zeitlimit|"
            r"tiempo de espera|délai[^.\n]{0,40}(?:dépassé|expiré)|tiempo (?:límite )?(?:agotado|excedido)",
            re.I,
        ),
    ),
    (
        "permission_denied",
        LazyPattern(
            r"permission[ _]?(?:is )?denied|access[ _](?:is[ _])?denied|access[ _]forbidden|\bforbidden\b|unauthori[sz]ed|"
            r"not[ _]authori[sz]ed|\beacces\b|\beperm\b|not permitted|not have (?:the |any )?(?:permission|access|rights)|"
            r"insufficient[ _](?:permission|scope|privilege|rights)|(?:invalid|incorrect|missing|expired)[ _](?:api|access|"
            r"auth)[ _]?(?:key|token)|authenticat\w* (?:failed|required|error)|unauthenticated|api[ _]?key (?:is )?(?:invalid|missing|"
            r"required|not valid)|credentials were not|not[ _](?:logged in|authed)|may not (?:read|see|access|view)|permission error|"
            r"zugriff verweigert|keine (?:berechtigung|rechte)|nicht berechtigt|(?:acceso|permiso) denegado|no tiene permiso|"
            r"no autorizado|(?:accès|permission) (?:refusée?|interdit)|non autorisé",
            re.I,
        ),
    ),
    (
        "unavailable",
        LazyPattern(
            r"econn(?:refused|reset|aborted)|\bepipe\b|\benotfound\b|\beai_again\b|connection[ _](?:was )?(?:refused|reset|aborted|"
            r"closed|error)|connect(?:ion)?[ _](?:refused |reset )?error|(?:service|server|api|backend|endpoint|host|upstream|database|"
            r"system)\b[^.\n]{0,30}\b(?:unavailable|unreachable|down)\b|^unavailable\b|overloaded|bad gateway|could not connect|"
            r"failed to connect|getaddrinfo|socket hang up|name or service not known|(?:network|host) (?:is )?unreachable|"
            r"connection attempts failed|name resolution|nicht (?:verfügbar|erreichbar)|verbindung (?:abgelehnt|verweigert)|"
            r"servicio no disponible|(?:conexión) rechazada|service (?:temporairement )?indisponible|connexion refusée",
            re.I,
        ),
    ),
    (
        "invalid_arguments",
        LazyPattern(
            r"missing[ _](?:\d{1,3} )?(?:required|positional|mandatory|parameter|argument|field|value)|(?:field|parameter|argument|"
            r"property|value|option|key)s?\b[^.\n]{0,60}?\b(?:is |are )?(?:required|missing)\b|required (?:parameter|argument|field|"
            r"property|option)|invalid[ _](?:value|argument|parameter|param|input|date|time|format|json|type|enum|option|request|id|"
            r"field|arguments)|unexpected keyword argument|validation[ _](?:error|failed)|must (?:not )?be\b|must (?:have|contain|"
            r"match)\b|unknown[ _](?:parameter|argument|field|option)|unrecognized (?:arguments|option|parameter)|out of range|"
            r"not (?:a )?valid\b|not of type|takes (?:from )?\d{1,3} (?:to \d{1,3} )?positional|argument error|pflicht(?:feld|parameter|"
            r"angabe)|(?:parameter|feld|argument|angabe)\b[^.\n]{0,40}\bfehlt|ungültige[rsn]? (?:\w{1,30})|muss (?:zwischen|ein|größer|"
            r"kleiner|mindestens|höchstens)|\bfaltan?\b|(?:valor|parámetro|campo|argumento|formato)[^.\n]{0,30}(?:no (?:es )?válid|"
            r"inválid|obligatorio|requerido)|debe ser|(?:paramètre|champ|argument)[^.\n]{0,40}(?:manquant|obligatoire|requis|invalide)|"
            r"(?:valeur|format|date) (?:\w{1,20} )?(?:non )?(?:invalide|valide)|doit être",
            re.I,
        ),
    ),
    (
        "not_found",
        LazyPattern(
            r"not[ _]?found|not be (?:found|resolved|located)|(?:does(?:n't| not)|do not|no longer) exists?|\bno[ _]?such\b|nosuch|"
            r"\benoent\b|unknown (?!error|reason|exception|issue|problem)\w|cannot find|can't find|(?:could not|couldn't|"
            r"unable to) (?:find|locate|resolve)|not recognized as|not in the (?:list|database|system)|no (?:user|customer|order|record|"
            r"file|item|document|reservation|flight)s? (?:found|with|matches)|nicht gefunden|nicht auffindbar|existiert nicht|"
            r"unbekannte[rsn]? \w|no (?:fue )?encontrad|no existe|no se (?:encontró|ha encontrado|encuentra)|introuvable|(?:non|pas|"
            r"pu être) trouvée?|n'existe pas|inconnue?\b",
            re.I,
        ),
    ),
    ("invalid_arguments", LazyPattern(r"bad request|unprocessable", re.I)),
)
_BY_STATUS = {
    400: "invalid_arguments",
    401: "permission_denied",
    403: "permission_denied",
    404: "not_found",
    407: "permission_denied",
    408: "timeout",
    410: "not_found",
    413: "invalid_arguments",
    422: "invalid_arguments",
    429: "rate_limited",
    502: "unavailable",
    503: "unavailable",
    504: "timeout",
    529: "unavailable",
}
_VAGUE_STATUSES = frozenset({400, 422})
"""Servers send them for much else, so that clear words go before them."""
_STATUS = LazyPattern(
    r"(?:\bhttp(?:/[\d.]{1,3})?(?: error| status)?(?: code)?|\bstatus(?: code)?|\berror(?: code)?|"
    r"\bcode)\s{0,3}[:=]?\s{0,3}\(?([45]\d\d)\b|^\W{0,4}([45]\d\d)\b[ :-]{1,3}[A-Z]|error '([45]\d\d) ",
    re.I,
)
_EXIT = LazyPattern(r"\bexit(?:ed with)?\s(?:code|status)\s?[:=]?\s{0,2}(-?\d{1,5})", re.I)
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
_QUOTE = r"[`'\"«“‘]\s?"
_ENDQUOTE = r"\s?[`'\"»”’]"
_NAME = r"([A-Za-z_][\w.\-]{0,63})"
_ARGUMENTS = (
    LazyPattern(r"(?:positional|keyword-only|keyword) arguments?:? " + _QUOTE + _NAME + _ENDQUOTE),
    LazyPattern(
        r"\b(?:parameters?|arguments?|fields?|property|option|value for|wert für|valor para|valeur pour|pflichtfeld|feld|angabe|"
        r"parámetro(?: \w{1,20})?|campo(?: \w{1,20})?|argumento|paramètre(?: \w{1,20})?|champ(?: \w{1,20})?)\s{0,2}:?\s{0,2}"
        + _QUOTE
        + _NAME
        + _ENDQUOTE,
        re.I,
    ),
    LazyPattern(
        _QUOTE
        + _NAME
        + _ENDQUOTE
        + r" (?:is (?:a )?(?:required|missing|invalid|not)|must |field |parameter |argument |property |fehlt|muss |debe |doit )",
        re.I,
    ),
    LazyPattern(r"validation errors? for \w{1,60}\s{0,2}\n" + _NAME + r"\s*\n"),
    LazyPattern(r"\bargument (--?[\w\-]{1,40})[:/]"),
)
_RETRY = LazyPattern(
    r"(?:retry[ _-]?after|\b(?:try|retry) (?:again )?(?:in|after)|\bwait|warten(?: sie)?|espere|attendez|"
    r"réessayez dans)[\"']?\s{0,2}[:=]?\s{0,2}[\"']?(\d{1,6}(?:\.\d{1,3})?)\s{0,2}(milliseconds?|ms|seconds?|secs?|sekunden|segundos|"
    r"secondes|s|minut\w{1,3}|min|m|hours?|h)?\b",
    re.I,
)
_UNITS = {"ms": 0.001, "mi": 60.0, "m": 60.0, "h": 3600.0}


def classify(
    message: str,
    *,
    status: int | None = None,
    exit_code: int | None = None,
    exception: str = "",
    retry_after_s: float | None = None,
    pointer: str = "",
    argument: str = "",
) -> ToolFailure:
    """The failure that `message` tells of. Statuses and clear words go before vague ones; without either it is an exception or an error."""
    text = message[:MAX_MESSAGE_CHARS]
    if status is None and exit_code is None:
        status = _status(text)
    if exit_code is None and status is None and (found := _EXIT.search(text)):
        exit_code = int(found[1]) or None
    exception = identifier(exception) or exception_in(text)
    code = _code(f"{_spaced(exception)}\n{text}", status) or _vaguest(exception, status, exit_code)
    return ToolFailure(
        code,
        status if status is not None else exit_code,
        exception,
        retry_after_s if retry_after_s is not None else retry_after(text),
        pointer,
        identifier(argument) or argument_in(text),
    )


def is_specific(message: str) -> bool:
    """Whether the words alone name a kind of failure."""
    return _code(message[:MAX_MESSAGE_CHARS], _status(message[:MAX_MESSAGE_CHARS])) is not None


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
    for pattern in _ARGUMENTS:
        if found := pattern.search(text):
            return identifier(found[1].lstrip("-"))
    return ""


def retry_after(text: str) -> float | None:
    """Seconds to wait, if the message says so."""
    found = _RETRY.search(text)
    if found is None or (found[2] is None and not found[0].lower().startswith("retry")):
        return None
    unit = (found[2] or "s").lower()
    scale = 0.001 if unit in ("ms",) or unit.startswith("milli") else _UNITS.get(unit[:2] if unit.startswith("mi") else unit[:1], 1.0)
    return seconds(float(found[1]) * scale)


def seconds(value: float) -> float | None:
    """`value` as a time to wait; None where it is none."""
    return value if 0 <= value <= MAX_RETRY_S else None


def _code(text: str, status: int | None) -> str | None:
    for code, pattern in _STRONG:
        if pattern.search(text):
            return code
    by_status = _BY_STATUS.get(status) if status is not None else None
    if by_status is not None and status not in _VAGUE_STATUSES:
        return by_status
    for code, pattern in _WEAK:
        if pattern.search(text):
            return code
    return by_status


def _vaguest(exception: str, status: int | None, exit_code: int | None) -> str:
    if exception and EXCEPTION.fullmatch(exception):
        return "exception"
    return "error_code" if exception or status is not None or exit_code is not None else "error"


def _status(text: str) -> int | None:
    found = _STATUS.search(text)
    return int(found[1] or found[2] or found[3]) if found else None


def _spaced(name: str) -> str:
    """``FileNotFoundError`` as words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[_.]", " ", name.rpartition(".")[2])
