"""Marked blocks of passages in a prompt's text: the one that this project writes, and those of common RAG templates -> `PassageBlock`.

Found are the blocks of `proxy.context.passages.context_block`, XML-like tags (``<context>``, ``<documents><document index="1">``, as in
Anthropic's and Open WebUI's prompts), headed passages (``### Passage 2``, ``[Document 3]``, ``Source 1:`` as in LlamaIndex, ``[Source:
…]``), fenced ones (``Context:`` before three backticks, quotes or dashes), ``Context: … Question: …`` as in LangChain, and in a system
message what stands below a line such as ``**Documents:**``. Where none of these is there, what follows a paragraph that has the model
answer from "the following pieces of context" (`blocks_below_instruction`), as LangChain's and LlamaIndex's prompts do. Pure; the time is
linear in the text's length: every pattern is bounded, and each step covers with `_COVER` what it has found, so that no later step reads it
again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from proxy.context.passages.context_block import PassageBlock, number_in, passages_start, read_written
from proxy.language.lru import LRU
from proxy.language.patterns import LazyPattern

_COVER = "\0"
MAX_KNOWN_CHARS = 4_000_000
"""Of passages that are remembered, with what it takes to name their texts."""
_INSTRUCTING = ("system", "developer")


def find_blocks(text: str, role: str = "user") -> list[PassageBlock]:
    """The passages that are marked as such in `text`, in order. A mark that is never closed reaches to the end.

    Only where `role` is the system's or developer's does a line such as ``**Documents:**`` open one: a template writes it there, while
    in a user's message it may be anything.
    """
    return [block for block in marked_blocks(text, role) if block.content.strip()]


def marked_blocks(text: str, role: str = "user") -> list[PassageBlock]:
    """The same with the places for passages that have none in them."""
    key = hash(text), len(text), role
    found = _known.get(key)
    if found is None:
        found = tuple(_find_marked(text, role))
        _known.put(key, found)
    return [*found]


_known: LRU[tuple[PassageBlock, ...]] = LRU(MAX_KNOWN_CHARS, lambda found: 128 + sum(128 + len(block.content) for block in found))
"""By text, with its role: a conversation comes again with every turn."""


def _find_marked(text: str, role: str) -> list[PassageBlock]:
    found = _explicit(text.replace(_COVER, " "), role)
    return sorted(found or blocks_below_instruction(text, role), key=lambda block: block.start)


def _explicit(text: str, role: str) -> list[PassageBlock]:
    """Those with a mark of their own."""
    found: list[PassageBlock] = []
    steps = (read_written, _find_tagged, _find_fenced, _find_headed, _find_introduced)
    for step in (*steps, _find_labelled) if role in _INSTRUCTING else steps:
        blocks, spans = step(text)
        found += blocks
        text = _cover(text, spans)
    return found


# ---- tags ----

# fmt: off
_CONTAINERS = frozenset((
    "context", "contexts", "documents", "docs", "passages", "chunks", "sources", "search_results", "retrieved_context",
    "retrieved_documents", "snippets", "knowledge", "knowledge_base",
))
_ITEMS = frozenset(("document", "doc", "passage", "chunk", "snippet", "search_result", "result", "source", "item"))
# fmt: on
_LONE_ITEMS = frozenset(("document", "passage", "chunk", "search_result"))
"""Those that need no container around them."""
_TAG = LazyPattern(rf"<(/?)({'|'.join(sorted(_CONTAINERS | _ITEMS, key=len, reverse=True))})\b([^<>]{{0,1000}})>", re.I)
_ATTRIBUTE = LazyPattern(r"([a-z_]{1,30})\s{0,3}=\s{0,3}(?:\"([^\"]{0,800})\"|'([^']{0,800})'|([^\s\"'>]{1,800}))", re.I)
_INNER = LazyPattern(r"<(document_contents?|contents?|text|page_content|body)>", re.I)
_META = LazyPattern(r"<(source|url|title|path|file|filename|link|score|relevance|date)>([^<]{0,1000})</\1>\s{0,20}", re.I)
_SOURCE_NAMES = ("source", "url", "href", "link", "path", "file", "filename", "name", "title")
_SCORE_NAMES = ("score", "relevance", "similarity")
_NUMBER_NAMES = ("index", "number", "id", "n")


def _find_tagged(text: str) -> tuple[list[PassageBlock], list[tuple[int, int]]]:
    blocks: list[PassageBlock] = []
    spans: list[tuple[int, int]] = []
    for name, opening, start, end in _regions(text):
        inside = list(_items(text, start, end)) if name in _CONTAINERS else [(opening, start, end)]
        blocks += [_item(text, tag[3], a, b) for tag, a, b in inside]
        if not inside:
            blocks += _plain_inside(text, start, end)
        spans.append((opening.start(), end))
    return blocks, spans


def _regions(text: str) -> Iterator[tuple[str, re.Match[str], int, int]]:
    """Containers and lone items at the top: name, opening tag, where the inside starts and ends."""
    tags = list(_TAG.finditer(text))
    closed = {tag[2].lower() for tag in tags if tag[1]}
    opening: re.Match[str] | None = None
    for tag in tags:
        name = tag[2].lower()
        if opening is None or (name in _CONTAINERS and not tag[1] and opening[2].lower() in closed and name == opening[2].lower()):
            # A second opening tag of the same name: the first was a mention, as in "use what stands in <context>".
            opens = not tag[1] and (name in _CONTAINERS or name in _LONE_ITEMS)
            opening = tag if opens and (name in closed or _alone(text, tag)) else opening
        elif name == opening[2].lower() and (tag[1] or (name in _CONTAINERS and name not in closed)):
            yield name, opening, opening.end(), tag.start()
            opening = None
        elif name == opening[2].lower() and not tag[1]:
            yield name, opening, opening.end(), tag.start()
            opening = tag
    if opening is not None and _alone(text, opening):
        yield opening[2].lower(), opening, opening.end(), len(text)


def _alone(text: str, tag: re.Match[str]) -> bool:
    """Whether a tag begins its line: without that, an unclosed one is a word in a sentence."""
    before = text[max(0, tag.start() - 80) : tag.start()]
    return not before.rpartition("\n")[2].strip() and ("\n" in before or len(before) < 80)


def _items(text: str, start: int, end: int) -> Iterator[tuple[re.Match[str], int, int]]:
    """The items of a container: opening tag, where the inside starts and ends (at its own end, or at the next item)."""
    opening: re.Match[str] | None = None
    for tag in _TAG.finditer(text, start, end):
        name = tag[2].lower()
        if opening is None:
            opening = tag if name in _ITEMS and not tag[1] else None
        elif name == opening[2].lower():
            yield opening, opening.end(), tag.start()
            opening = None if tag[1] else tag
    if opening is not None:
        yield opening, opening.end(), end


def _item(text: str, attributes: str, start: int, end: int) -> PassageBlock:
    """An item's inside as a passage: its content's own tag if it has one, without the tags that describe it."""
    about = {m[1].lower(): next(filter(None, m.groups()[1:]), "") for m in _ATTRIBUTE.finditer(attributes)}
    inner = _INNER.search(text, start, end)
    for meta in _META.finditer(text, start, inner.start() if inner else end):
        about.setdefault(meta[1].lower(), meta[2].strip())
    if inner is not None:
        start = inner.end()
        close = text.find(f"</{inner[1]}>", start, end)
        end = close if close >= 0 else end
    else:
        while (meta_at := _META.match(text, _skip(text, start, end), end)) is not None:
            start = meta_at.end()
    source = next((about[name] for name in _SOURCE_NAMES if about.get(name)), "")
    score = next((number for name in _SCORE_NAMES if (number := number_in(about.get(name))) is not None), None)
    bears = next((int(about[name][:9]) for name in _NUMBER_NAMES if about.get(name, "").isdecimal()), None)
    return _strip_block(text, start, end, source, score, bears)


def _plain_inside(text: str, start: int, end: int) -> list[PassageBlock]:
    """A container without items: its headed passages, or all of it as one."""
    blocks = _between_heads(text, start, end)
    return blocks or [_strip_block(text, start, end)]


# ---- heads ----

_NOUN = (
    r"(?:(?:retrieved |context |search )?(?:passage|document|doc|source|chunk|excerpt|snippet)|search result|context"
    r"|dokument|quelle|auszug|pasaje|documento|fuente|fragmento|extrait)"
)
_HEAD = LazyPattern(
    rf"^[ \t]{{0,8}}(?P<mark>#{{1,6}}[ \t]{{0,4}}|\*\*[ \t]{{0,2}})?(?P<bracket>\[)?{_NOUN}"
    r"(?:[ \t]{0,3}(?:no\.?:?|nr\.?|#)?[ \t]{0,3}\[?(?P<number>\d{1,4})(?P<closed>\])?)?(?P<rest>[^\n\0]{0,2000})",
    re.I | re.M,
)
_PAIR = LazyPattern(
    r"^[ \t]{0,8}(?:source|title|url|quelle|titel|fuente|título)[ \t]{0,3}:(?P<source>[^\n\0]{0,1000})\n"
    r"[ \t]{0,8}(?:page_)?(?:content|text|snippet|inhalt|contenido)[ \t]{0,3}:",
    re.I | re.M,
)
_METADATA_SOURCE = LazyPattern(r"['\"](?:source|url|file_path|title)['\"]\s{0,3}:\s{0,3}['\"]([^'\"]{1,500})")
_NAMED_SOURCE = LazyPattern(r"[ \t]{0,4}:[ \t]{0,4}(?P<source>[^\]\n]{1,500})\]:?", re.I)
_SEPARATOR = LazyPattern(r"[ \t]{0,4}(?::|\.[ \t]|[-–—][ \t]|$)")
_NOTE = LazyPattern(r"[ \t]{0,4}[\[(](source|title|url|file|quelle|fuente|relevance|score|similarity|relevanz|relevancia)[ \t]?[:=]", re.I)
_NUMERIC = frozenset(("relevance", "score", "similarity", "relevanz", "relevancia"))
_STOP = LazyPattern(
    r"^[ \t]{0,8}(?:#{1,6}[ \t]{0,4}|\*\*[ \t]{0,2})?(?:(?P<question>(?:(?:user(?:'s)?|my|the)[ \t])?(?:question|query)|frage|pregunta)"
    r"|(?:helpful |your |final )?answer|instructions?|antwort|anweisung(?:en)?|respuesta|instrucciones|réponse)"
    r"[ \t]{0,4}(?:\*\*)?(?::|$)|(?P<hard>^## (?:End of|Ende:|Fin de|Fin :) |\0+)",
    re.I | re.M,
)
_RULE_AT_END = LazyPattern(r"\s{0,40}^[ \t]{0,8}(?:-{3,200}|={3,200}|\*{3,200}|_{3,200})[ \t]{0,8}$\s{0,40}\Z", re.M)
MAX_QUESTION_CHARS = 400

_Head = tuple[int, int, str, float | None, int | None]
"""Where the head starts, where its passage's content starts, source, score, number."""


def _find_headed(text: str) -> tuple[list[PassageBlock], list[tuple[int, int]]]:
    blocks = _between_heads(text, 0, len(text))
    if blocks:
        blocks[-1] = _without_question(blocks[-1])
    return blocks, [(block.start, block.start + len(block.content)) for block in blocks]


def _between_heads(text: str, start: int, end: int) -> list[PassageBlock]:
    heads: list[_Head] = [head for match in _HEAD.finditer(text, start, end) if (head := _head(match)) is not None]
    heads = sorted([*heads, *map(_pair, _PAIR.finditer(text, start, end))], key=lambda head: head[:2])
    hard = iter([*(match.start() for match in _STOP.finditer(text, start, end) if match["hard"]), end])
    stop, blocks = next(hard), []
    for i, (_, at, source, score, number) in enumerate(heads):
        while stop < at and stop < end:
            stop = next(hard)
        until = min(stop, heads[i + 1][0]) if i + 1 < len(heads) else _content_end(text, at, stop)
        blocks.append(_strip_block(text, at, until, source, score, number))
    return [block for block in blocks if block.content]


def _content_end(text: str, start: int, end: int) -> int:
    """Where a passage without an end mark ends: at the last line such as ``Question:`` (it may hold questions of its own), or else at
    the first such as ``Answer:``."""
    stops = list(_STOP.finditer(text, start, end))
    hard = next((i for i, stop in enumerate(stops) if stop["hard"]), len(stops))
    questions = [stop.start() for stop in stops[:hard] if stop["question"]]
    return questions[-1] if questions else stops[0].start() if stops else end


def _without_question(block: PassageBlock) -> PassageBlock:
    """The last passage of a message without the question that follows it unmarked."""
    passage, gap, question = block.content.rpartition("\n\n")
    asked = gap and passage.strip() and len(question) <= MAX_QUESTION_CHARS and question.rstrip().endswith(("?", "？"))
    return replace(block, content=passage.rstrip()) if asked else block


def _pair(match: re.Match[str]) -> _Head:
    """``Source: …`` and ``Content: …`` on two lines; the first may be metadata in Python's notation."""
    named = _METADATA_SOURCE.search(match["source"])
    return match.start(), match.end(), (named[1] if named else match["source"]).strip(), None, None


def _head(match: re.Match[str]) -> _Head | None:
    """A numbered or named passage's head; None for a line that only looks like one ("Document 3 says …")."""
    rest, source, offset = match["rest"], "", 0
    if match["bracket"] and not match["closed"]:
        if (named := _NAMED_SOURCE.match(rest)) is not None:
            source, offset = named["source"].strip(), named.end()
        elif match["number"] and (close := rest.find("]", 0, 500)) >= 0:
            source, offset = rest[:close].strip(" \t:,-–—"), close + 1
        else:
            return None
    elif match["number"] is None:
        return None
    notes, score, offset = _notes(rest, offset)
    source = notes or source
    title, number = "", int(match["number"]) if match["number"] else None
    if match["mark"]:  # what else stands in a heading is the passage's title
        close = rest.find("**", offset) if "*" in match["mark"] else len(rest)
        title, offset = (rest[offset:close], min(close + 2, len(rest))) if close >= 0 else ("", offset)
        behind, noted, offset = _notes(rest, offset)
        source, score = source or behind, noted if score is None else score
    elif not (match["closed"] or match["bracket"] or notes or _SEPARATOR.match(rest)):
        return None
    offset += len(rest[offset:]) - len(rest[offset:].lstrip(" \t:*"))
    return match.start(), match.start("rest") + offset, source or title.strip(" \t:*-–—[]"), score, number


def _notes(rest: str, offset: int) -> tuple[str, float | None, int]:
    """Source and score in brackets behind a head, and where they end."""
    source, score = "", None
    while (note := _NOTE.match(rest, offset)) is not None:
        close = rest.find(")" if "(" in note[0] else "]", note.end())
        close = close if close >= 0 else len(rest)
        value, offset = rest[note.end() : close].strip(), close + 1
        if note[1].lower() in _NUMERIC:
            score = number_in(value)
        else:
            source = source or value
    return source, score, min(offset, len(rest))


# ---- fences and introductions ----

_TOPIC = (
    r"(?:context|documents?|passages?|sources?|excerpts|search results|knowledge base|kontext|dokumente|quellen|contexto|documentos"
    r"|fuentes|contexte)"
)
_START = rf"^[ \t]{{0,8}}(?:#{{1,6}}[ \t]{{0,4}}|\*\*)?(?:(?:retrieved|relevant|provided|the) )?{_TOPIC}(?:\*\*)?[ \t]{{0,4}}:(?:\*\*)?"
INTRODUCTION = LazyPattern(_START, re.I | re.M)
_FENCE = LazyPattern(
    rf"^[^\n\0]{{0,300}}\b{_TOPIC}\b(?:[^\n\0]{{0,200}}?:|[^\n\0]{{0,60}}? (?:below|unten|abajo|ci-dessous)\b[^\n\0]{{0,60}}?\.)"
    r"[ \t]{0,8}\n{0,2}[ \t]{0,8}(?P<fence>`{3,10}|\"{3}|'{3}|-{3,80}|={3,80}|~{3,10})(?:(?<=`)\w{0,12}\n)?"
    rf"|{_START}\s{{0,8}}(?P<quote>\")",
    re.I | re.M,
)


def _find_fenced(text: str) -> tuple[list[PassageBlock], list[tuple[int, int]]]:
    blocks: list[PassageBlock] = []
    spans: list[tuple[int, int]] = []
    at = 0
    while (opening := _FENCE.search(text, at)) is not None:
        fence, start = opening["fence"] or opening["quote"], opening.end()
        rule = fence[0] in "-="
        close = text.find("\n" + fence, start - 1) if rule else text.find(fence, start)
        at = start
        if close >= 0 or opening["fence"]:
            end = max(start, close if close >= 0 else len(text))
            blocks += _plain_inside(text, start, end)
            spans.append((opening.start(), end))
            at = end + len(fence) + rule
    return blocks, spans


def _find_introduced(text: str) -> tuple[list[PassageBlock], list[tuple[int, int]]]:
    """``Context:`` up to the question. Only in a text that has a line such as ``Question:``, which a template writes."""
    openings = list(INTRODUCTION.finditer(text))
    if not openings or all(stop["hard"] for stop in _STOP.finditer(text)):
        return [], []
    ends = [opening.start() for opening in openings[1:]] + [len(text)]
    found = [(opening.end(), _content_end(text, opening.end(), end)) for opening, end in zip(openings, ends, strict=True)]
    return [_strip_block(text, start, end) for start, end in found], [
        (opening.start(), end) for opening, (_, end) in zip(openings, found, strict=True)
    ]


_RETRIEVAL_WORDS = (
    r"(?:(?:the|retrieved|relevant|provided|available|following|bereitgestellte|relevante|gefundene|abgerufene|folgende|vorliegende|los|las"
    r"|les) )?(?:documents?|passages?|sources|excerpts|search results|knowledge base|dokumente|passagen|quellen|auszüge|suchergebnisse"
    r"|wissensdatenbank|wissensbasis|documentos|pasajes|fuentes|fragmentos|resultados de (?:la )?búsqueda|base de conocimientos?|extraits"
    r"|résultats de (?:la )?recherche|base de connaissances)"
    r"(?: (?:recuperados|relevantes|encontrados|pertinents|fournis|récupérés|trouvés))?"
)
_GAP = r"[ \t]{0,4}"
_LABEL = LazyPattern(
    rf"^[ \t]{{0,8}}(?:\*\*(?:{_RETRIEVAL_WORDS}|(?:retrieved )?context|kontext|contexto|contexte){_GAP}(?:\*\*{_GAP}:|:{_GAP}\*\*)"
    rf"|(?:#{{1,6}}[ \t]{{1,4}})?{_RETRIEVAL_WORDS}{_GAP}:[ \t]{{0,8}}$)",
    re.I | re.M,
)


def _find_labelled(text: str) -> tuple[list[PassageBlock], list[tuple[int, int]]]:
    """What stands below a line that says ``**Documents:**``, up to the next such line, to one such as ``Question:``, or to the end."""
    openings = list(_LABEL.finditer(text))
    ends = [opening.start() for opening in openings[1:]] + [len(text)][: len(openings)]
    found = [(opening.end(), _content_end(text, opening.end(), end)) for opening, end in zip(openings, ends, strict=True)]
    return [block for start, end in found for block in _plain_inside(text, start, end)], []


def blocks_below_instruction(text: str, role: str = "user") -> list[PassageBlock]:
    """What follows a paragraph that has the model answer from what follows; in a user's message only up to a line like ``Question:``.

    It may be passages, or what an operator wrote to be known: nothing tells them apart.
    """
    start = passages_start(text)
    if start is None or not (role in _INSTRUCTING or any(stop["question"] for stop in _STOP.finditer(text, start))):
        return []
    found = _between_heads(text, start, len(text)) or [_strip_block(text, start, _content_end(text, start, len(text)))]
    return [block for block in found if block.content]


# ---- shared ----


def _cover(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """`text` with each of `spans` (in order) covered, its length unchanged."""
    if not spans:
        return text
    pieces, at = [], 0
    for start, end in spans:
        pieces += [text[at:start], _COVER * (end - start)]
        at = end
    return "".join([*pieces, text[at:]])


def _strip_block(text: str, start: int, end: int, source: str = "", score: float | None = None, number: int | None = None) -> PassageBlock:
    content = text[start:end].partition(_COVER)[0]
    content = content[: _rule_start(content)]
    lead = len(content) - len(content.lstrip())
    return PassageBlock(content.strip(), start + lead, source, score, number)


def _rule_start(content: str) -> int:
    """Where a line of dashes at the very end starts: it separates passages and belongs to none."""
    tail = max(0, len(content) - 400)
    rule = _RULE_AT_END.search(content, tail)
    return rule.start() if rule else len(content)


def _skip(text: str, start: int, end: int) -> int:
    while start < end and text[start].isspace():
        start += 1
    return start
