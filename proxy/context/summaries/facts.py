"""What texts hold that a summary must not lose: identifiers, numbers, dates, names, negations, calls without a result; and the words and
cues by which sentences are picked. Pure functions.

Words are those of English, German, Spanish and French; any other language goes by numbers, names and rarity. Cues are matched against
folded text (lower case, without accents). The lists are this project's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from proxy.context.conversation import named_calls
from proxy.context.summaries.lines import SpokenLine, label_of
from proxy.exchange import Message
from proxy.language.patterns import LazyPattern
from proxy.language.text import fold
from proxy.language.words import SUMMARY_FUNCTION_WORDS

NEGATION = LazyPattern(
    r"\b(?:not|no|never|none|nothing|neither|nor|without|cannot|cant|dont|\w{2,8}n['’]t|nicht|kein\w{0,3}|nie|niemals|ohne|weder|nichts"
    r"|nunca|jamas|sin|nada|ningun\w{0,3}|tampoco|ne|pas|jamais|sans|aucune?|rien)\b|\bn['’]"
)
DECISION = LazyPattern(
    r"\b(?:(?:we|i|they|you)(?: have|['’]ve)? (?:all )?(?:agreed|decided|settled|chose|picked|concluded)|agreed (?:on|to|that)"
    r"|decided (?:on|to|that|against)|decision (?:is|was)|let['’]?s (?:go|use|do|take|book|stick|keep|make)"
    r"|(?:i|we)(?:['’]ll| will|['’]d like to| would like to) (?:take|go|choose|use|book|proceed|stick|keep|pay|cancel|change)"
    r"|go ahead|please (?:proceed|book|cancel|change|use|keep|remove|add)|settled on|(?:is|are|was|been|i) confirm(?:ed)?|opt(?:ed)? for"
    r"|entschieden|beschlossen|vereinbart|geeinigt|einigen wir uns|abgemacht|festgelegt|(?:wir|ich) nehmen?|machen wir|bleiben wir"
    r"|(?:hemos|he) (?:acordado|decidido|elegido)|acordamos|decidimos|quedamos en|vamos (?:a usar|con)|me quedo con|elijo|elegimos"
    r"|(?:nous avons|on a|j['’]ai) (?:decide|convenu|choisi)|on (?:part sur|prend|garde)|je (?:choisis|prends)|c['’]est decide)\b"
)
PREFERENCE = LazyPattern(
    r"\b(?:i(?:['’]d| would)? (?:really |much |also )?(?:prefer|like|love|hate|dislike|enjoy|rather|avoid)"
    r"|i (?:do ?n['’]?t|do not|can ?n?['’]?o?t|won['’]t|will not|never|always|only|want|need)"
    r"|prefer(?:s|red|ably|ence)?|favou?rite|allergic|vegan|vegetarian|rather not|always|never"
    r"|bevorzug\w{0,3}|lieber|am liebsten|(?:mag|moch?te|will) (?:ich )?(?:kein\w{0,3}|nicht|nur|lieber)|immer|niemals|nie|allergisch|hasse"
    r"|prefiero|preferimos|me (?:gusta|encanta)\w?|no quiero|odio|nunca|siempre|alergic[oa]"
    r"|(?:je )?prefere|j['’](?:aime|adore)|je n['’]aime|je ne veux|je deteste|jamais|toujours|allergique|plutot)\b"
)
CONSTRAINT = LazyPattern(
    r"\b(?:must(?:n['’]?t)?|ha(?:s|ve|d) to|should(?:n['’]t)?|(?:may|can|is|are)(?: not|n['’]t| only)|cannot|do(?:n['’]t"
    r"| not)|never|only|always|no|at (?:most|least)|(?:no|not) (?:more|less|later|fewer|earlier)|max(?:imum)?|min(?:imum)?"
    r"|limit\w{0,3}|threshold|below|above|beyond|within|until|before|keep|stays?|remains?|leave|alone|except\w{0,6}|allowed"
    r"|forbidden|requires?|required|budget|capped?|ensure|make sure|without|important|rather than|muss\w{0,3}|darf\w{0,2}"
    r"|durfen|soll\w{0,3}|nie|niemals|niemand|nur|hochstens|mindestens|maxim\w{1,4}|minim\w{1,4}|grenze|obergrenze"
    r"|spatestens|fruhestens|auf keinen fall|keinesfalls|bleib\w{0,2}|gilt|gelten|unbedingt|wichtig|achte\w?|kein\w{0,2}"
    r"|nicht|ohne|mehr als|weniger als|verlang\w{1,3}|verbot\w{0,2}|erlaubt|statt|sondern|deb(?:e|en|emos)|ten(?:emos|go"
    r"|eis) que|tiene\w? que|hay que|nunca|solo|solamente|como (?:maximo|minimo)|al menos|a lo sumo|maxim[oa]|minim[oa]"
    r"|limite|antes de\w?|a mas tardar|prohib\w{1,5}|no (?:se )?puede\w?|sin|nada de|en vez del?|en lugar del?"
    r"|excepcion\w{0,2}|doi(?:t|s|vent)|devons|il faut|jamais|seulement|uniquement|au (?:plus|moins)|avant le"
    r"|interdit\w{0,2}|pas|sans|au lieu de|deve|devono|soltanto|almeno|al massimo|entro|vietat[oai]|apenas|pelo menos"
    r"|no maximo)\b"
)
"""What the user lays down: bounds, prohibitions, what stays as it is. Read in the user's own sentences only."""
TROUBLE = LazyPattern(
    r"(?:\b|_)(?:error|fail(?:ed|ure|s|ing)?|fatal|critical|warn(?:ing)?|exception|traceback|denied|refused|rejected|timeout"
    r"|timed out|root cause|missing|skipped|fehler\w{0,4}|fehlgeschlagen|abgelehnt|fehlt|warnung|fallo|rechazad[oa]|falta"
    r"|erreur|echec|refusee?|errore)\b"
)
"""Something went wrong, in a tool's result."""
OUTCOME = LazyPattern(
    r"\b(?:booked|cancell?ed|completed|done|fixed|resolved|fail(?:ed|s|ure)|succe(?:eded|ssfully)|refund(?:ed)?|updated|created|deployed"
    r"|merged|sent|paid|error|result(?:s|ed)?|turned out|worked|gebucht|storniert|erledigt|fertig|behoben|fehlgeschlagen|gesendet"
    r"|bezahlt|erstellt|reservad[oa]|cancelad[oa]|completad[oa]|resuelt[oa]|fallo|enviad[oa]|pagad[oa]|reservee?|annulee?|terminee?"
    r"|resolue?|echoue|envoyee?|payee?)\b"
)
CHANGE = LazyPattern(
    r"\b(?:(?:has|have|was|were) changed|changed to|no longer|instead|correction|corrected|updated|replaced|moved to|switched to"
    r"|from now on|geandert|stattdessen|korrektur|korrigiert|nicht mehr|ab jetzt|ab sofort|umgestellt|verschoben|ersetzt"
    r"|ha cambiado|cambiad[oa]|en lugar del?|en vez del?|correccion|corregid[oa]|ya no|a partir de ahora|actualizad[oa]"
    r"|a change|changee?s?|au lieu de|a la place|corrigee?|desormais|n['’]est plus|remplacee?|mise? a jour)\b"
)
"""Something is no longer as it was said before."""
TASK = LazyPattern(
    r"\b(?:to-?do|next steps?|remind\w{0,3}|need(?:s|ed)? to|have to|must|follow[ -]up|pending|still (?:need|open|to|have)|do(?:n['’]t|"
    r" not) forget|deadline|due (?:on|by)|i(?:['’]ll| will) (?:send|check|call|look)|muss|mussen|noch offen|erinner\w{0,3}|nicht"
    r" vergessen|als nachstes|frist|pendientes?|recuerd\w{0,3}|recordar\w{0,3}|hay que|ten(?:go|emos) que|falta|proximo paso|il faut"
    r"|a faire|rappel\w{0,3}|n['’]oubli\w{0,3}|reste a|prochaine etape|(?:je|on) doi[st]|en attente)\b"
)
_WORD = LazyPattern(r"[^\W_]+")
_WIDE = LazyPattern(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_SUFFIXES = ("ations", "ation", "ings", "ing", "ied", "ies", "ers", "er", "ed", "es", "en", "s", "e")
_MAX_STEM_CHARS = 8


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """A folded word without its ending, so that ``prefers`` and ``preferred`` meet; crude, and the same for every language."""
    if len(word) > 4:
        for suffix in _SUFFIXES:
            if word.endswith(suffix) and len(word) - len(suffix) >= 3:
                word = word[: -len(suffix)]
                break
    return word[:_MAX_STEM_CHARS]


def content_stems(folded: str) -> list[str]:
    """Stems of the words that carry meaning, in order; pairs of characters where no spaces part words."""
    found: list[str] = []
    for word in _WORD.findall(folded):
        if not word.isascii() and _WIDE.search(word):
            found += [word[i : i + 2] for i in range(max(1, len(word) - 1))]
        elif word not in SUMMARY_FUNCTION_WORDS and (len(word) > 1 or word.isdigit()):
            found.append(stem(word) if not word.isdigit() else word)
    return found


FactKind = Literal["identifier", "date", "time", "number"]
_FACT = re.compile(
    r"(?P<url>https?://[^\s<>\"'`\])}]{1,2000})"
    r"|(?P<email>[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8})"
    r"|(?P<path>(?<![\w/.])(?:~|\.{1,2})?/(?:[\w.@-]{1,255}/){0,40}[\w.@-]{2,255}|(?<![\w/])(?:[\w.@-]{1,255}/){1,40}[\w@-]{1,255}\.[a-z]\w{0,5}\b"
    r"|\b[A-Za-z]:\\[\w.\\-]{2,255}|\b[\w-]{1,100}\.(?:py|js|ts|tsx|json|ya?ml|md|txt|csv|sql|log|toml|html|css|pdf|docx?|xlsx?|png|jpe?g|sh"
    r"|go|rs|java|cpp|h|zip|gz|ipynb|cfg|ini|env)\b)"
    r"|(?P<date>(?<![\w-])(?:\d{4}-\d{2}-\d{2}|\d{1,2}/\d{1,2}/\d{2,4}|\d{1,2}\.\d{1,2}\.\d{4})(?!\d))"
    r"|(?P<time>(?<![\w:])\d{1,2}:\d{2}(?::\d{2})?(?!\d))"
    r"|(?P<code>(?<![\w-])\#?(?=[A-Za-z_\-]{0,64}\d)(?=[\d_\-]{0,64}[A-Za-z])[A-Za-z\d]{1,128}(?:[_-][A-Za-z\d]{1,128}){0,16})"
    r"|(?P<number>(?:[$€£¥]\s?)?\d+(?:[.,'’\u00a0\u202f]\d+)*(?:\s?[%€$£¥])?)"
)
_MAYBE = re.compile(r"[\d/@\\]|\.\w")
"""Without any of these a text has no fact; most lines of a chat have none."""
_QUANTITY = re.compile(r"\d+(?:-?[a-z]{1,3}|-[a-z]+|[A-Z]{2}|[KMB])", re.ASCII)
"""Letters after a number that make it an ordinal, a time or a quantity: ``20th``, ``3pm``, ``5GB``, ``30-day``."""
_UPPER = "A-ZÀ-ÖØ-Þ"
_NAMES = re.compile(rf"(?<![\w'’])[{_UPPER}][\w’'&-]*(?: (?:(?:of|the|de|la|von|van|der|du|del) )?[{_UPPER}][\w’'&-]*){{0,7}}")
_START = re.compile(r"(?:^|[.!?:;•\n\"“„«(\]*|>-])\s*$")


class KeptFact(Struct, frozen=True):
    """An identifier, a date, a time or a number as it stands in a text."""

    kind: FactKind
    text: str


def literals(text: str) -> list[KeptFact]:
    """Identifiers, dates, times and numbers of a text, in order."""
    if _MAYBE.search(text) is None:
        return []
    found = []
    for match in _FACT.finditer(text):
        group, value = match.lastgroup, match[0]
        if group == "code" and _QUANTITY.fullmatch(value):
            group = "number"
        if group in ("date", "time", "number"):
            found.append(KeptFact(group, value.strip()))  # type: ignore[arg-type]
        else:
            found.append(KeptFact("identifier", value.rstrip(".,;:!?")))
    return found


def names(text: str, *, german: bool) -> list[str]:
    """Named entities: sequences of capitalised words, not counting the first word of a sentence.

    In `german`, where every noun has a capital, only sequences of two and more and words with further capitals.
    """
    return [name for name, _ in capitalised(text) if not german or is_name_in_german(name)]


def is_name_in_german(name: str) -> bool:
    """Whether a capitalised sequence is more than a noun."""
    return " " in name or not name[1:].islower()


def capitalised(text: str) -> Iterator[tuple[str, bool]]:
    """Capitalised words and sequences that are no function words; True where the sequence starts its sentence."""
    for match in _NAMES.finditer(text):
        words = match[0].split(" ")
        at_start = _START.search(text[max(0, match.start() - 4) : match.start()]) is not None
        while words and (_empty(words[0]) or words[0][0].islower()):
            words, at_start = words[1:], False
        while words and (_empty(words[-1]) or words[-1][0].islower()):
            words = words[:-1]
        if words and not (at_start and len(words) == 1 and (len(words[0]) == 1 or words[0][1:].islower())):
            yield " ".join(word.removesuffix("'s").removesuffix("’s") for word in words), at_start


def has_negation(text: str) -> bool:
    """Whether `text` denies something."""
    return NEGATION.search(fold(text)) is not None


def open_calls(messages: Sequence[Message]) -> tuple[str, ...]:
    """Ids of tool calls that no message answers."""
    answered = {str(message.get("tool_call_id")) for message in messages if message.get("role") == "tool"}
    return tuple(id_ for message in messages for id_, _, _ in named_calls(message) if id_ and id_ not in answered)


def open_call_lines(messages: Sequence[Message]) -> list[str]:
    """One line for each call without a result."""
    wanted = set(open_calls(messages))
    calls = [(label_of(m, {}), id_, name) for m in messages for id_, name, _ in named_calls(m) if id_ in wanted]
    return [f"{label} called: {name} (open call {id_})" for label, id_, name in calls]


def as_text(line: SpokenLine) -> str:
    """``User: I prefer the train.``"""
    return f"{line.label}: {line.text}" if line.label else line.text


def _empty(word: str) -> bool:
    bare = re.split(r"['’]", fold(word))[0]
    return bare in SUMMARY_FUNCTION_WORDS
