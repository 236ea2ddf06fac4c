"""What an answer can cite, and which piece of evidence a citation means.

A number counts as in the prompt that the model saw: the number that a passage bears there (``### Passage 3``, ``<document index="3">``),
or else its place among the passages. The passages of the question at hand come first, an earlier turn's where only that has the number.
A source is compared leniently: with or without scheme, folder, ending or page, as a title, as the first line of a passage; a part behind
"#" must be the one that is cited. A part of the context is a source, or words that stand in it. Pure; nothing is cited that is not there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import unquote

from msgspec import Struct

from proxy.context.passages import find_passages
from proxy.context.passages.blocks import find_blocks
from proxy.exchange import Evidence, Message
from proxy.grounding.citations.written_forms import Citation
from proxy.grounding.evidence.retrieval import terms
from proxy.language.text import text_of

MIN_NAME_CHARS = 4
"""A shorter name must be the whole source, not a part of it."""
MIN_SHARED_TERMS = 0.75
"""Of the words of a cited part of the context, those that the passage must have when they do not stand there as they are cited."""
_PART_WORDS = 2
_NUMBERED_PART = re.compile(
    r"(?:(?:context |retrieved )?(?:passage|passagen?|pasaje|document|dokument|documento|source|quelle|fuente)\s?)?#?(\d{1,4})", re.I
)
_LOCATION = re.compile(r"(?:L|l|page=?|p|S|Z|line-?)?\d{1,6}(?:[-–:]L?\d{1,6})?|top|main|content|:~:text=.{0,300}")
"""Lines and pages of a source: a place in it, not a part with a name."""
_WORD = re.compile(r"\w+")
_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]{1,20}://(?:www\.)?", re.I)
_LOCATOR = frozenset(
    """
    p pp page pages section sec chapter ch part paragraph para line lines row table figure fig article art no version v accessed retrieved
    s seite seiten abschnitt kapitel teil absatz zeile tabelle artikel nr
    página páginas pág sección capítulo parte párrafo línea tabla artículo núm
    """.split()  # noqa: SIM905 - a list of words reads better as words
)
"""What a citation names of a source behind its name."""
_GENERIC = frozenset(
    """
    context provided given retrieved above below passage passages document documents source sources the text information conversation
    knowledge base kontext bereitgestellter gegebener passagen dokument dokumente quelle quellen contexto proporcionado recuperado
    documento documentos fuente fuentes pasaje pasajes contexte fourni
    """.split()  # noqa: SIM905
)
"""Words that mean the context as a whole."""
_FORMS = frozenset("http https www com org net pdf html htm md txt docx json file files page website web".split())  # noqa: SIM905
"""Words of addresses and file names that name nothing."""
_ROLES: Mapping[str, str] = {
    "user": "user",
    "user message": "user",
    "user input": "user",
    "user question": "user",
    "benutzer": "user",
    "usuario": "user",
    "system": "system",
    "system prompt": "system",
    "system message": "system",
    "instructions": "system",
}


class _ShownPassage(Struct, frozen=True):
    """A passage as it stands in the prompt."""

    evidence: Evidence
    number: int | None
    message: int


class Citable:
    """What the answer to one prompt can cite."""

    def __init__(
        self,
        messages: Sequence[Message],
        evidence: Sequence[Evidence],
        passages: Sequence[Evidence] = (),
        retrieval_tools: Sequence[str] = (),
    ) -> None:
        """`messages` as they went upstream; `evidence` is all there is, `passages` those that came with the request."""
        shown = list(_shown_passages(messages, retrieval_tools))
        self.passages = [s.evidence for s in shown] or [p for p in passages if p.content.strip()]
        """What the model saw of passages, in order."""
        self.can_be_cited = bool(self.passages) or any(e.kind in ("tool_result", "knowledge") for e in evidence)
        """Whether there is anything to cite but what user and system said."""
        self._groups = _groups(messages, shown) or [dict(enumerate(([p] for p in self.passages), 1))]
        self._sources = list(dict.fromkeys(_key(e) for e in (*self.passages, *evidence) if e.content.strip()))
        self._texts: dict[tuple[str, str], tuple[str, frozenset[str]]] = {}
        self._by_key = {_key(e): e for e in (*evidence, *self.passages)}

    def knows(self, citation: Citation) -> bool:
        """Whether it means anything that is there."""
        return bool(self.find(citation))

    def find(self, citation: Citation) -> list[Evidence]:
        """The evidence that `citation` means, several where a source has several passages; none for an invented one."""
        if citation.number is not None:
            return self._by_number(citation.number)
        name = citation.name.strip(" \t\"'“”„«»`*_<>()")
        if citation.kind == "link":
            return self._by_name(name) if len(name) >= MIN_NAME_CHARS else []
        if (number := _NUMBERED_PART.fullmatch(name)) is not None and (found := self._by_number(int(number[1]))):
            return found
        return self._by_name(name) or (self._part(name) if citation.kind == "context" else self._by_heading(name))

    def _by_number(self, number: int) -> list[Evidence]:
        return next((group[number] for group in self._groups if number in group), [])

    def _all(self) -> Iterator[Evidence]:
        return (self._by_key[key] for key in self._sources)

    def _by_name(self, name: str) -> list[Evidence]:
        """By source or title, the closest way of matching that finds any."""
        asked = _words(name)
        if not asked or set(asked) <= _FORMS:
            return []
        if set(asked) <= _GENERIC:
            return [evidence for evidence in self._all() if evidence.kind not in ("user", "system", "assistant")]
        if (role := _ROLES.get(" ".join(asked))) is not None:
            return [evidence for evidence in self._all() if evidence.kind == role]
        for fits in (_same, _part_of_path, _with_locator, _within):
            if found := [e for e in self._all() if any(fits(name, source) for source in _names(e))]:
                return [e for e in found if _has_fragment(name, e)]
        return []

    def _by_heading(self, name: str) -> list[Evidence]:
        """By a passage's first line."""
        return [
            e
            for e in self._all()
            if _contains(_words(e.content.strip().split("\n", 1)[0][:300]), _words(name)) and len(name) >= MIN_NAME_CHARS
        ]

    def _part(self, name: str) -> list[Evidence]:
        """By words that stand in the evidence, together or, if enough of them do, apart."""
        asked, wanted = f" {' '.join(_words(name))} ", set(terms(name))
        if len(name) >= MIN_NAME_CHARS and (found := [e for e in self._all() if asked in self._read(e)[0]]):
            return found
        if len(wanted) < _PART_WORDS:
            return []
        shares = [(len(wanted & self._read(e)[1]) / len(wanted), e) for e in self._all()]
        best = max((share for share, _ in shares), default=0.0)
        return [e for share, e in shares if share == best] if best >= MIN_SHARED_TERMS else []

    def _read(self, evidence: Evidence) -> tuple[str, frozenset[str]]:
        """The words of an evidence in a row, and its terms; read once."""
        key = _key(evidence)
        if key not in self._texts:
            self._texts[key] = f" {' '.join(_words(evidence.content))} ", frozenset(terms(evidence.content))
        return self._texts[key]


def _key(evidence: Evidence) -> tuple[str, str]:
    return (evidence.content, evidence.source)


def _shown_passages(messages: Sequence[Message], retrieval_tools: Sequence[str]) -> Iterator[_ShownPassage]:
    """The passages in `messages`, in order, each with the number that it bears."""
    results: dict[int, list[Evidence]] = {}
    for found in find_passages(messages, retrieval_tools):
        if found.kind == "tool_result" and found.message_index is not None:
            results.setdefault(found.message_index, []).append(found)
    for i, message in enumerate(messages):
        role, text = message.get("role"), text_of(message.get("content"))
        if i in results:
            numbers = {block.content: block.number for block in find_blocks(text)}
            yield from (_ShownPassage(e, numbers.get(e.content), i) for e in results[i])
        elif role in ("system", "developer", "user"):
            yield from (_ShownPassage(Evidence(b.content, b.source, score=b.score), b.number, i) for b in find_blocks(text, role))


def _groups(messages: Sequence[Message], shown: Sequence[_ShownPassage]) -> list[dict[int, list[Evidence]]]:
    """Number -> passages: those in force at the last question, then message by message of the turns before, the newest first."""
    asked = max((i for i, message in enumerate(messages) if message.get("role") == "user"), default=0)
    rules = {i for i, message in enumerate(messages) if message.get("role") in ("system", "developer")}
    older = sorted({s.message for s in shown if s.message < asked and s.message not in rules}, reverse=True)
    of_message: dict[int, list[_ShownPassage]] = {}
    for one in shown:
        of_message.setdefault(one.message, []).append(one)
    groups = [[s for s in shown if s.message >= asked or s.message in rules], *(of_message[i] for i in older)]
    return [numbered for group in groups if (numbered := _numbers(group))]


def _numbers(shown: Sequence[_ShownPassage]) -> dict[int, list[Evidence]]:
    found: dict[int, list[Evidence]] = {}
    bear = any(s.number is not None for s in shown)
    for place, one in enumerate(shown, 1):
        number = one.number if bear else place
        if number is not None:
            found.setdefault(number, []).append(one.evidence)
    return found


# ---- names ----


def _names(evidence: Evidence) -> list[str]:
    titles = [value for key in ("title", "name", "file_name", "url") if isinstance(value := evidence.fields.get(key), str)]
    return [name for name in (evidence.source, *titles) if name.strip()]


def _words(text: str) -> list[str]:
    return [word for piece in _WORD.findall(unquote(text).casefold()) for word in piece.split("_") if word]


def _path(name: str) -> str:
    """Without scheme, query, fragment and the slash at the end."""
    plain = re.split(r"[?#]", _SCHEME.sub("", unquote(name).strip().casefold()), maxsplit=1)[0]
    return plain.removeprefix("www.").replace("\\", "/").rstrip("/").removeprefix("./")


def _same(name: str, source: str) -> bool:
    return _path(name) == _path(source) != "" or _words(name) == _words(source) != []


def _part_of_path(name: str, source: str) -> bool:
    """``guide.md`` and ``guide`` for ``docs/guide.md``, the other way round, and one address below the other."""
    cited, real = _path(name), _path(source)
    if not cited or not real:
        return False
    stem = re.sub(r"\.[a-z0-9]{1,5}$", "", real.rpartition("/")[2])
    ends = real.endswith("/" + cited) or cited.endswith("/" + real)
    return ends or _words(cited) == _words(stem) != []


def _with_locator(name: str, source: str) -> bool:
    """``guide.md, page 3``, ``guide.md (section 2)``."""
    asked = _words(name)
    for real in (_words(_path(source)), _words(_path(source).rpartition("/")[2])):
        rest = asked[len(real) :]
        if real and asked[: len(real)] == real and rest and (rest[0] in _LOCATOR or rest[0].isdigit()):
            return True
    return False


def _within(name: str, source: str) -> bool:
    """``Wikipedia`` for ``https://en.wikipedia.org/wiki/Paris``, ``Annual Report`` for ``annual_report_2023.pdf``; not the other way round,
    so that ``Annual Report 2024`` is another source.
    """
    return len(name) >= MIN_NAME_CHARS and _contains(_words(source), _words(name))


def _has_fragment(name: str, evidence: Evidence) -> bool:
    """Whether the part behind the ``#`` of a cited name is that of the source, or named in its text: "handbook#part-time" is not its
    neighbour "handbook#full-time".
    """
    base, mark, fragment = name.partition("#")
    cited = _words(fragment)
    if not mark or not cited or not base.strip() or _LOCATION.fullmatch(fragment.strip()):
        return True
    own = [source.partition("#")[2] for source in _names(evidence) if "#" in source]
    if own:
        return any(_words(one) == cited for one in own)
    return _contains(_words(evidence.content), cited)


def _contains(words: Sequence[str], part: Sequence[str]) -> bool:
    size = len(part)
    return bool(part) and any(words[i : i + size] == part for i in range(len(words) - size + 1))
