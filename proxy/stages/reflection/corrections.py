"""Does a person correct the agent? A user's message in, the correction it makes out, or None. English, German, Spanish, French.

Two kinds. ``override``: an instruction on how the agent is to work, with a value: a tool it may not call any more or is to call instead, a
highest number of results. ``rejected``: what the agent said is wrong, outright ("no, that is wrong"); the many other ways to say
so are for a judge to understand (`is_short`). Where a message does both, it is an override, the more useful of the two.

Not corrections: questions, quotations, code, material handed over to be worked on. Precision comes first: what counts is a clause near the
beginning of the message that begins with a cue. Cues are matched against folded text: lower case, no accents (``hochstens``), ``'`` for
every apostrophe, the name of a tool replaced by as many `TOOL_MARK`s. In a cue ``<no>`` is a tool that is forbidden, ``<yes>`` one that is
wanted, ``<cap>`` a number.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from proxy.context.tool_results.turns import AgentTurn
from proxy.language.json.fingerprint import fingerprint, identifier
from proxy.language.number_words import MAIN_LANGUAGES, word_value
from proxy.language.patterns import LazyPattern
from proxy.ports.failures import Failure
from proxy.stages.reflection.failures import make_failure

TOOL_MARK = "\ue000"

# ---- words that say nothing, or for whom it is said ----

_POLITE = (
    r"(?:please )?(?:can|could|would|will) you(?: please| kindly| just)?|(?:kannst|konntest|koenntest|wurdest) du|(?:konnen|konnten|"
    r"koennten|wurden) sie|puedes|podrias|puede|podria|(?:peux|pourrais)-tu|(?:pouvez|pourriez)-vous"
)
OPENER = LazyPattern(
    rf"(?:(?:{_POLITE}|no+|nope|nah|nein+|nee?|non+|nan|wrong|incorrecto?|falsch|falso|faux|stopp?|quatsch|not at all|pas du tout|oh|ah|"
    rf"ach|"
    r"uh|hm+|well|ok(?:ay)?|so|and|but|then|now|also|sorry|please|pls|hey|wait|hold on|again|actually|look|thanks|yes|yeah|as i said|"
    r"i mean|let'?s|(?:from now|from here) on|going forward|this time|und|aber|dann|jetzt|also|nun|na|doch|bitte|danke|moment|warte|"
    r"sondern|leider|genau|ab (?:jetzt|sofort)|von (?:nun|jetzt) an|in zukunft|diesmal|entschuldigung|y|pero|entonces|ahora|por favor|"
    r"bueno|vale|perdona?|gracias|oye|espera|a partir de ahora|de ahora en adelante|esta vez|sino|que|si|et|mais|alors|donc|maintenant|"
    r"s'il (?:te|vous) plait|stp|svp|bon|pardon|merci|en fait|desormais|a partir de maintenant|cette fois|oui)\b)[\s.!¡¿…-]{0,4}"
)
POLITELY = LazyPattern(rf"¿?(?:(?:and|but|so|und|aber|y|pero|et|mais) )?(?:{_POLITE})\b(?! tell| explain| check| mir| decirme| me dire)")
"""How an instruction in the form of a question begins."""
TASK = LazyPattern(
    r"(?:please |can you |could you |bitte |kannst du |por favor,? |puedes |peux-tu )?(?:translate|rewrite|proofread|review|summari[sz]e|"
    r"rephrase|paraphrase|correct (?:this|the)|fix (?:this|the)|grade|classify|explain|write|draft|compose|reply to|answer this|analy[sz]e|"
    r"ubersetz|korrigier|uberarbeit|pruf|fass|formulier|schreib|verfass|beantworte|bewerte|erklar|traduc|traduis|reescribe|corrige|revisa|"
    r"resum|escribe|redact|responde a|reecris|relis|ecris|ecrivez|redig|reponds a|analiza|evalua|expli[cq])\w{0,5}\b"
)
"""How a message begins whose rest is material to work on."""

# ---- cues: <no> is a tool that is forbidden, <yes> one that is wanted, <cap> a number ----

CALL = (
    r"(?:use|using|call(?:ing)?|run(?:ning)?|invok(?:e|ing)|search(?:ing)?|query(?:ing)?|re?try(?:ing)?|repeat(?:ing)?|fetch(?:ing)?|"
    r"check(?:ing)?|rely on|switch to|go (?:with|for)|take|pick|do it with|look(?:ing)? (?:up|in|at)|(?:benutz|nutz|verwend|such|frag|"
    r"versuch|probier|start|wiederhol|nimm|nehm|ruf|greif|wechs[el])\w{0,3}(?: sie| es)?(?: mit| zu| auf)?|us(?:a|as|es?|ar)|"
    r"utili[zc]\w{1,3}|llam\w{1,4}|bus[cq]\w{1,4}|consult\w{1,3}|pr[uo]+[eb]+\w{1,3}|ejecut\w{1,3}|repit\w{1,3}|intent\w{1,3}|"
    r"(?:re)?utilis\w{1,3}|emplo[iy]\w{1,3}|prends|prenez|r?appel\w{1,4}|essa[iy]\w{1,3}|re?lanc\w{1,3}|re?cherch\w{1,3}|interrog\w{1,3})"
)
_STOP = (
    r"(?:do not|don'?t|never|stop|quit|no more|enough (?:of|with)|without|forget(?: about)?|drop|skip|avoid|leave out|ignore|not|"
    r"no need to|no hace falta que|pas besoin d(?:e|')|you keep|you (?:can'?t|cannot|may not|must not|should not|shouldn'?t|"
    r"are not allowed to|don'?t need to)|nicht(?: mehr| wieder)?|nie (?:wieder|mehr)|keinen?|kein|ohne|vergiss|schluss mit|genug von|"
    r"lass|finger weg von|verzichten?(?: sie)? auf|hor auf(?:,| mit)?|(?:ya )?no(?: vuelvas a)?|(?:deja|deje|para)(?: ya)? de|nada de|"
    r"basta de|sin|olvida(?:te de)?|evita|saltate|n'|ne|arret\w{1,2} d(?:e|')|cess\w{1,2} d(?:e|')|plus de|assez de|sans|oublie|evite|"
    r"pas|laisse tomber)"
)
_INSTEAD = r"(?:instead of|rather than|statt|anstelle von|anstatt|en (?:lugar|vez) de|au lieu de|a la place de|plutot que)"
_MUST = (
    r"(?:you (?:have to|must|should|need to)|(?:du|sie) (?:sollst|musst|solltest|sollen|mussen)|tienes que|debes|hay que|"
    r"i(?:'d)? (?:want|prefer) you to|(?:prefiero|quiero) que|je (?:prefere|veux) que (?:tu|vous)|tu dois|vous devez|il faut)"
)
_FILL = (
    r"(?:(?:ever|even|please|just|only|now|any more|again|bitte|jetzt|hier|dafur|lieber|stattdessen|mal|noch|mehr|mit|auf|con|mas|otra vez|"
    r"nunca|de nuevo|mejor|ahora|plus|pas|jamais|avec|plutot|maintenant|to|in|en|a)\s){0,3}"
)
_RESULTS = (
    r"(?:results?|rows?|hits?|entries|lines|items?|documents?|docs|pages?|records?|match(?:es)?|passages?|files?|chunks?|articles?|"
    r"suggestions?|options?|ideas?|opciones|sugerencias|treffern?|ergebnissen?|resultaten?|zeilen|eintrage?n?|eintraege?n?|datensatzen?|"
    r"dokumenten?|seiten?|dateien|vorschlage?n?|resultados?|filas?|entradas?|lineas?|documentos?|paginas?|registros?|coincidencias|"
    r"archivos?|articulos?|elementos?|resultats?|lignes?|entrees?|enregistrements?|fichiers?|elements?)\b"
)
_AT_MOST = (
    r"(?:at (?:the )?most|no(?:t)? more than|(?:a )?max(?:imum|imal|imo|\.)?(?: of)?|up to|(?:only|just)(?: the)?(?: first| top)?|"
    r"the (?:first|top)|(?:do not|don'?t|never) (?:\w{1,20} ){1,2}more than|ho?e?chstens|nicht mehr als|bis zu|"
    r"nur(?: noch)?(?: die)?(?: ersten)?|die ersten|como (?:maximo|mucho)|a lo sumo|no mas de|hasta|solo(?: l[oa]s)?(?: primer[oa]s)?|"
    r"l[oa]s primer[oa]s|(?:un )?maxim(?:o|um) de|au (?:maximum|plus|max)|pas plus de|jusqu'a|(?:seulement|"
    r"uniquement)(?: les)?(?: premi[eè]re?s)?)"
)
_SHOW = (
    r"(?:(?:only|just|nur|solo|seulement)\s)?(?:(?:show|give|list|return|fetch|get|display|send|retrieve|use|take|do|ask for|zeig\w{0,2}|"
    r"gib|liste|nenn\w{0,2}|hol\w{0,2}|nimm|(?:be)?nutz\w{0,2}|verwend\w{0,2}|muestra(?:me)?|dame|lista|devuelve|us[ae]|utili[cz][ae]|"
    r"montre\w{0,2}|donne\w{0,2}|affiche\w{0,2}|renvoie|utilise[rz]?|prends|run|call|query|que)(?:-moi)?\s)?(?:(?:me|us|mir|uns|bitte|"
    r"only|just|nur|solo|seulement|\ue000{1,128}|with|mit|con|avec|returns?|devuelva|renvoie)\s){0,4}"
)
_LIMIT = (
    r"(?:limit|restrict|cap|keep|beschrank\w{0,2}|begrenz\w{0,2}|limit[ae]\w{0,2}|restring\w{1,2}|restrei\w{1,5})(?:-toi|"
    r"-vous)?(?: \w{1,12}){0,2} (?:to|at|below|auf|a)(?: maximal| a max(?:imum)? of| un maximo de| un maximum de)?"
)
_TOOL = (
    r"(?:(?:the|that|den|die|das|dem|el|la|le|l') ?)?(?:tool |function |werkzeug |herramienta |funcion |outil |fonction )?"
    r"[\"'`]?(?P<{}>\ue000{{1,128}})"
)
_CLOSE = r"(?=\s{0,4}(?:$|please|pls|thanks|bitte|danke|por favor|gracias|merci|stp|svp|s'il|now|next|here|per |pro |por |par |at a time))"


def _compile(*patterns: str) -> LazyPattern:
    """One alternation; ``<no>``, ``<yes>`` and ``<cap>`` become groups, each with a number of its own."""
    count = 0

    def group(match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        cap = r"(?P<{}>\d{{1,5}}(?![\d.,:/]?\d)|[a-z]{{2,16}})"
        return (cap if match[1] == "cap" else _TOOL).format(f"{match[1]}{count}")

    return LazyPattern(rf"(?:{re.sub(r'<(no|yes|cap)>', group, '|'.join(patterns))})")


INSTRUCTION = _compile(
    rf"(?:{CALL}\s)?{_FILL}{_INSTEAD} <no>(?: tool)?(?:,?\s(?:\w{{1,12}}\s){{0,3}}?<yes>)?",
    rf"(?:(?:do|try|answer) (?:it|this|that) |{CALL}\s{_FILL})?{_STOP}\s?{_FILL}(?:{CALL}\s)?{_FILL}<no>",
    rf"(?:(?:{CALL}|(?:du|sie) \w{{4,9}})\s)?{_FILL}<no> {_FILL}(?:nicht|nie|keinesfalls)\b",
    r"replace <no> (?:with|by) <yes>",
    rf"(?:{_MUST} )?{CALL}\s{_FILL}<yes>(?: tool| function| auf)?(?:,? (?:{_INSTEAD}|not|nicht|y no|no|et pas|pas) <no>)?",
    rf"{_MUST} <yes>",
    r"(?:only|just|lieber|nur(?: noch)?|mejor|solo|seulement|uniquement|plutot) <yes>",
    r"(?:look|check|verify|do|try) (?:it|this|that) (?:up )?(?:with|in|using|via) <yes>",
)
CAPPING = _compile(
    rf"{_SHOW}{_AT_MOST} <cap>(?: premi\w{{1,5}}| primer\w{{1,2}})? ?{_RESULTS}",
    rf"{_LIMIT} <cap>(?: ?{_RESULTS}|{_CLOSE})",
    rf"{_SHOW}<cap> {_RESULTS} (?:at (?:the )?most|tops|max\w{{0,4}}|hochstens|como (?:maximo|mucho)|a lo sumo|au (?:max|"
    rf"plus))\b",
    rf"(?:con )?<cap> {_RESULTS} (?:me )?(?:are |is |will )?(?:enough|plenty|do|reichen|genugen|basta|bastan|suffisent)\b",
    rf"mehr als <cap> {_RESULTS} [\w ]{{0,20}}nicht\b",
    rf"{_SHOW}{_AT_MOST} <cap> (?:per|at a time|each|pro|je|auf einmal|por|cada|a la vez|par|chaque|a la fois)\b",
)
REJECTION = LazyPattern(
    r"(?:(?:that|this|it|these|those|(?:your|the)(?: last| first| whole)? (?:answer|results?|output|response|calculation|summary))(?:'?s|"
    r" is| are|'re| was| were)(?: (?:still|just|completely|totally|all|simply|clearly|also|plain|quite|very|again)){0,3} (?:wrong|"
    r"incorrect|false|inaccurate|untrue|nonsense|a mistake|an error|mistaken|made up)\b(?! to\b| with\b| that\b| of\b| on\b)|(?:das|"
    r"dies(?:es)?|es|(?:die|deine|ihre) (?:antwort|angabe|zahl|summe)|das ergebnis) (?:ist|war|sind|waren)(?: (?:so|aber|ja|leider|"
    r"immer noch|komplett|total|ganz|auch|schon|wirklich)){0,3} (?:falsch|verkehrt|inkorrekt|unsinn|quatsch|erfunden|"
    r"ein fehler)\b(?!,? (?:zu|dass|wenn)\b)|(?:es[oa]|est[oa]|(?:la|tu|su) (?:respuesta|cifra|suma)|(?:el|tu|su) (?:resultado|"
    r"calculo)) (?:es|esta|era|estaba)(?: (?:todo|muy|completamente|totalmente|otra vez|todavia)){0,2} (?:mal|incorrect[oa]|fals[oa]|"
    r"errone[oa]|equivocad[oa]|un error)\b(?! que| de)|(?:c'est|c'etait|(?:ca|cela|(?:la|ta|votre) reponse|(?:le|ton|votre) (?:resultat|"
    r"calcul)) (?:est|etait))(?: (?:toujours|encore|completement|totalement|tout|vraiment|bien)){0,2} (?:faux|fausse|incorrect|inexact|"
    r"errone|une erreur)\b(?! de| que))"
)

# ---- reading ----

HEAD_CHARS = 400
"""Of a message that are looked at: a person who corrects begins with it."""
LONG_CHARS = 2000
"""A longer message is a document; only its first line may be the person's own."""
MAX_FIRST_LINE_CHARS = 200
MAX_TOOLS = 512
CACHE_SIZE = 4096
"""Messages whose reading is kept."""
MAX_WORDS = 40
"""Of a message that may be words to the agent and nothing else."""
MAX_OPENERS = 8
"""That are taken off one clause: "oh no, sorry, but"."""
MAX_CAP = 10_000
_EDGES = " \t\"'¡¿([*_-"
"""May stand before a clause's first word."""

# ---- the pieces of a message ----

_QUOTED_OR_CODE = re.compile(
    r"```.{0,400}?(?:```|$)|`([^`\n]{1,200})`|\"([^\"\n]{1,400})\"|“([^”\n]{1,400})”|„([^“”\n]{1,400})[“”]"
    r"|«([^»\n]{1,400})»|(?m:^[ \t]{0,8}>.{0,400}$)"
    r"|https?://\S{1,400}",
    re.S,
)
"""Code and what others said: groups hold what may be a tool's name instead."""
_HIDING = ("`", '"', "“", "„", "«", ">", "://")
"""Whatever `_QUOTED_OR_CODE` finds has one of them."""
_SENTENCE = re.compile(r"(?<!max)(?<!nr)[.!?…]{1,8}(?=[\s\"')\]]|$)|\n|;\s")
_CLAUSE = re.compile(
    r"(?:[,:;]|\s[-–—]{1,2})\s{1,8}(?!(?:was|dass|not|nicht|pas)\s)|,(?=[a-z])"
    r"|\s{1,8}(?=(?:but|and|aber|und|sondern|pero|sino|mais|et)\s)|\s{1,8}y\s(?=(?!no\b|a\b)[a-z])"
)
_SEPARATORS = re.compile(r"[_\-.\s]")
_CALL_OF = re.compile(
    rf"(?:{CALL}|sollst|musst|with|the|that|tool|function|instead of|to|via|of|den|die|das|statt|mit|la|el|de|con|le|l'|avec)\s{{0,2}}$"
)
"""Before a tool's name that is an ordinary word."""


class Correction(Struct, frozen=True, kw_only=True):
    """What a person corrected."""

    kind: Literal["rejected", "override"]
    forbidden_tool: str = ""
    wanted_tool: str = ""
    """Both as they are spelt in `tools`."""
    cap: int | None = None
    """Most results."""
    span: tuple[int, int]
    """Of the cue in the message."""


class _Clause(NamedTuple):
    """A piece of a sentence."""

    start: int
    text: str
    question: bool


class _Cue(NamedTuple):
    start: int
    end: int
    groups: Mapping[str, tuple[int, int]]
    """Named groups that matched, with their places in the message."""


def read_correction(text: str, tools: Sequence[str] = ()) -> Correction | None:
    """The correction in a user's message `text` that follows a turn of the assistant's; `tools` are the request's."""
    head = _head(text)
    return _read(head, tuple(tool for tool in tools[:MAX_TOOLS] if len(tool) <= HEAD_CHARS)) if head.strip() else None


def is_short(text: str) -> bool:
    """Whether a message may be words to the agent about what it did, and nothing else."""
    return len(text) <= HEAD_CHARS and len(text.split()) <= MAX_WORDS and any(c.isalpha() for c in text)


@lru_cache(maxsize=CACHE_SIZE)
def _read(head: str, tools: tuple[str, ...]) -> Correction | None:
    """Every request brings its whole conversation: a message is read again and again."""
    marked, names = _mark_tools(_fold_accents(_own_words(head, tools)), tools)
    if TASK.match(marked.lstrip()):
        return None
    clauses = list(_clauses(marked))
    return _override(head, clauses, names) or _rejection(clauses)


def _override(head: str, clauses: Sequence[_Clause], names: Mapping[int, str]) -> Correction | None:
    """All instructions of the message as one; None where they name no tool and no number."""
    plain = [clause for clause in clauses if not clause.question or POLITELY.match(clause.text)]
    cues = [cue for clause in plain if (cue := _at_start(clause, (CAPPING, INSTRUCTION)))]
    groups = [(name, place) for cue in cues for name, place in cue.groups.items()]
    forbidden = next((names.get(start, "") for name, (start, _) in groups if name.startswith("no")), "")
    wanted = next((names.get(start, "") for name, (start, _) in groups if name.startswith("yes")), "")
    place = next((place for name, place in groups if name.startswith("cap")), None)
    cap = None if place is None else _number(head[slice(*place)])
    if not (forbidden or wanted or cap is not None):
        return None
    return Correction(
        kind="override",
        forbidden_tool=forbidden,
        wanted_tool=wanted if wanted != forbidden else "",
        cap=cap,
        span=(cues[0].start, cues[0].end),
    )


def _rejection(clauses: Sequence[_Clause]) -> Correction | None:
    cues = (_at_start(clause, (REJECTION,)) for clause in clauses if not clause.question)
    return next((Correction(kind="rejected", span=(cue.start, cue.end)) for cue in cues if cue), None)


def _at_start(clause: _Clause, patterns: Sequence[LazyPattern]) -> _Cue | None:
    """The cue with which the clause begins, openers taken off one by one."""
    text = clause.text
    at = len(text) - len(text.lstrip(_EDGES))
    for _ in range(MAX_OPENERS):
        for pattern in patterns:
            if match := pattern.match(text, at):
                groups = {
                    name: (clause.start + match.start(name), clause.start + match.end(name)) for name, v in match.groupdict().items() if v
                }
                return _Cue(clause.start + at, clause.start + match.end(), groups)
        skipped = OPENER.match(text, at)
        if not skipped:
            break
        at = len(text) - len(text[skipped.end() :].lstrip(" ,"))
    return None


def _head(text: str) -> str:
    """The part of the message that may be the person's own words to the agent."""
    head = text[:HEAD_CHARS]
    if len(text) <= LONG_CHARS:
        return head
    line = head.lstrip().partition("\n")[0]
    return head[: head.index(line) + len(line)] if len(line) <= MAX_FIRST_LINE_CHARS else ""


def _own_words(head: str, tools: Sequence[str]) -> str:
    """The same with code and quotations blanked; each character keeps its place."""
    if not any(mark in head for mark in _HIDING):
        return head
    names = set(tools)

    def blank(match: re.Match[str]) -> str:
        inner = next((group for group in match.groups() if group), "")
        return match[0] if inner.strip() in names else "".join("\n" if c == "\n" else " " for c in match[0])

    return _QUOTED_OR_CODE.sub(blank, head)


def _fold_accents(text: str) -> str:
    """Lower case without accents, character by character."""
    return text.lower() if text.isascii() else "".join(map(_fold, text))


@lru_cache(maxsize=4096)
def _fold(char: str) -> str:
    if char in "’‘´ʼ":
        return "'"
    base = unicodedata.normalize("NFD", char)[0] if char.isalpha() else char
    lowered = base.lower()
    return " " if char == "\xa0" or char == TOOL_MARK else lowered if len(lowered) == 1 else base


def _mark_tools(folded: str, tools: Sequence[str]) -> tuple[str, dict[int, str]]:
    """Names of tools replaced by as many `TOOL_MARK`s, whatever separates their parts; which name stood where."""
    if not tools:
        return folded, {}
    plain = _SEPARATORS.sub(" ", folded)
    names: dict[int, str] = {}
    marked = folded
    for tool in sorted({t for t in tools if 2 <= len(t) <= 96}, key=lambda t: (-len(t), t)):
        name, start = _SEPARATORS.sub(" ", _fold_accents(tool)), -1
        while (start := plain.find(name, start + 1)) >= 0:
            end = start + len(name)
            if _is_name(marked, start, end, " " in name or not tool.isalpha() or not tool.islower()):
                marked = marked[:start] + TOOL_MARK * len(name) + marked[end:]
                names[start] = tool
    return marked, names


def _is_name(marked: str, start: int, end: int, telling: bool) -> bool:
    """Whether a tool is meant: a name of one ordinary word ("search") only behind a word that calls or points."""
    around = marked[start - 1 : start] + marked[end : end + 1]
    if TOOL_MARK in marked[start:end] or any(c.isalnum() or c == "_" for c in around):
        return False
    return telling or _CALL_OF.search(marked[max(0, start - 24) : start]) is not None


def _clauses(marked: str) -> Iterator[_Clause]:
    """Where a sentence asks, it is its last clause that does: "that's wrong, can you check?"."""
    at = 0
    for match in [*_SENTENCE.finditer(marked), None]:
        end = match.start() if match else len(marked)
        cuts = [(at, at), *((cut.start(), cut.end()) for cut in _CLAUSE.finditer(marked, at, end)), (end, end)]
        pieces = [(start, marked[start:stop].rstrip()) for (_, start), (stop, _) in itertools.pairwise(cuts)]
        asks = match is not None and "?" in match[0]
        yield from (_Clause(start, text, asks and i == len(pieces) - 1) for i, (start, text) in enumerate(pieces) if text)
        at = match.end() if match else end


def _number(word: str) -> int | None:
    values = [float(word)] if word.isdecimal() else [v for code in MAIN_LANGUAGES if (v := word_value(word.lower(), code)) is not None]
    return int(values[0]) if values and 0 < values[0] <= MAX_CAP else None


# ---- as failures ----


def corrections(turns: Sequence[AgentTurn], tools: Sequence[str]) -> list[Failure]:
    """Of what users said against the assistant's turn before."""
    pairs = [(turn, before) for before, turn in itertools.pairwise(turns) if turn.role == "user" and before.role == "assistant"]
    return [of_correction(read, turn, before) for turn, before in pairs if (read := read_correction(turn.text, tools)) is not None]


def of_correction(correction: Correction, turn: AgentTurn, before: AgentTurn) -> Failure:
    """Of what a user said in `turn` against the turn `before`."""
    given: dict[str, Any] = {"cap": correction.cap} if correction.cap is not None else {}
    for name in ("forbidden_tool", "wanted_tool"):
        if value := getattr(correction, name):
            given[name] = identifier(value)
    tool = identifier(correction.forbidden_tool) if correction.forbidden_tool else ""
    return make_failure(
        "human_correction",
        correction.kind,
        "request",
        tool,
        given,
        action={"kind": "answer", "message": before.message},
        outcome={},
        adjustment={"type": "follow_correction", "message": turn.message, **given},
        refs=({"kind": "message", "message": turn.message, "span": list(correction.span)},),
        cause=fingerprint("said", "", "", turn.text, detail=str(turn.message)),
        position=turn.message,
    )
