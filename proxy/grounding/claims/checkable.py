"""What a sentence says without its marks, whether it says it by itself, and whether it is anything that evidence could support.

Pure functions on one sentence of an answer, for `proxy.grounding.claims.claims`, which knows what stands around it. English, German,
Spanish and French at once: an answer's language is not asked for. Every pattern is bounded; time is linear in the sentence's length.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from proxy.context.faithful import admits_ignorance, extract_citations, extract_confidence
from proxy.context.faithful_texts import RATINGS
from proxy.language.patterns import LazyPattern, phrases
from proxy.language.text import remembered

_TEXTS = phrases(Path(__file__).parent)
_FINITE_VERBS = frozenset(_TEXTS.FINITE_VERBS)
MAX_RATING_CHARS = 60
"""A sentence no longer than this that holds a rating is the rating line."""
MAX_FRAGMENT_WORDS = 8
"""A fragment answer is shorter; a longer text without a known verb is more likely a sentence whose verb is not known here."""
_BARE_CITATION = re.compile(
    r"[ \t]{0,3}(?:\[\^?\d{1,3}(?:[ ]?[,;–-][ ]?\d{1,3}){0,9}\](?!\()|【[^【】\n]{0,80}】"
    r"|\((?:see |vgl\. |siehe |cf\. )?(?:context )?(?:passages?|passagen?|pasajes?|sources?|quellen?|fuentes?)[ :#]{1,3}[^()\n]{1,80}\)"
    r"|(?<=[.!?”»\")])[¹²³⁰-⁹]{1,4})",
    re.I,
)
_LINE_MARKS = re.compile(
    r"(?:[ \t]{0,8}>){0,5}[ \t]{0,40}(?:#{1,6}[ \t]+|(?:[-*+•–‣◦][ \t]+|\(?(?:\d{1,3}|[a-zA-Z])[.)][ \t]+)(?:\[[ xX]\][ \t]+)?)?"
)
_GERMAN_DATE = re.compile(
    r"\d{1,2}\. (?:januar|jänner|februar|märz|april|mai|juni|juli|august|september|oktober|november|dezember|jahrhundert)", re.I
)
_IMAGE = re.compile(r"!\[[^\[\]\n]{0,200}\]\([^()\s]{0,500}\)")
_LINK = re.compile(r"\[([^\[\]\n]{1,200})\]\([^()\s]{1,500}(?: \"[^\"\n]{0,100}\")?\)")
_TAG = re.compile(r"</?[a-zA-Z][^<>\n]{0,80}>")
_EMPHASIS = re.compile(r"\*{1,3}|~~|`{1,3}|(?<!\w)_{1,3}(?=\S)|(?<=\S)_{1,3}(?!\w)")
_TIMES = re.compile(r"(?<=[\w)] )\*(?= [\w(])|(?<=\d)\*(?=\d)")
_SPACES = re.compile(r"\s+")
_URL = re.compile(r"(?:https?://|www\.)\S{1,2000}")
_URL_LABEL = re.compile(r"(?:sources?|links?|url|see|quellen?|fuentes?|siehe|voir|ver|references?)\b[:.]?|[\W\d_]+", re.I)
_INLINE_CODE = re.compile(r"\W{0,8}(`{1,3})[^`\n]{1,2000}\1[\s.:,;]{0,4}$")
_ENDS = " \t.!…。！,;"
_CLOSERS = "\"'”’»)*_`]“ "
_WORD = re.compile(r"[\w'’-]+")


def _any(patterns: Iterable[str], flags: int = 0) -> LazyPattern:
    return LazyPattern(f"(?:{'|'.join(f'(?:{pattern})' for pattern in patterns)})", flags)


_GREETING, _SMALL_TALK = _any(_TEXTS.GREETINGS), _any(_TEXTS.SMALL_TALK)
_HEDGE, _LEAD_IN, _ADVICE = _any(_TEXTS.HEDGES), _any(_TEXTS.LEAD_INS), _any(_TEXTS.ADVICE)
_PLAN, _OPINION, _IMPERATIVE = _any(_TEXTS.PLANS), _any(_TEXTS.OPINIONS), _any(_TEXTS.IMPERATIVES)
_MAIN_CLAUSE = re.compile(
    r"[,;:()]| (?:if|when|that|which|who|what|how|where|whether|so|until|because|before|after|and|but|or"
    r"|wenn|dass|ob|und|si|que|y|et|quand) "
)
"""What ends the main clause of a request."""
_BARE_RATING = LazyPattern(rf"\W{{0,8}}{_TEXTS.OWN_WORDS[0]}\W{{0,8}}", re.I)
_ACKNOWLEDGEMENT = _any(_TEXTS.ACKNOWLEDGEMENTS)
_UNFINISHED_END = LazyPattern(rf"(?:^|\W){_TEXTS.UNFINISHED}:$")
_PREFIX = _any(_TEXTS.PREFIXES, re.I)
_GERMAN_PREFIX = LazyPattern(_TEXTS.GERMAN_PREFIX, re.I)
_RATING_LINE = re.compile(
    r"\W{0,6}(?:(?:overall|my) )?(?:confidence|vertrauen|konfidenz|confianza|confiance)(?:[ -]?(?:level|rating|score))?\W{0,4}[:=]", re.I
)
_RATING_WORD = "|".join(sorted((word for words in RATINGS.values() for word in words), key=len, reverse=True))
_GOES_ON = LazyPattern(
    rf"(?:confidence|vertrauen|konfidenz|confianza|confiance)\b[^\n]{{0,30}}?\b(?:{_RATING_WORD})\b[*_\"'”»)]{{0,4}}[ \t]{{1,3}}"
    r"(?!because|since|as\b|given|due|based|for\b|confidence|level|weil|da\b|denn|aufgrund"
    r"|porque|ya que|pues|dado|car\b|parce|puisque|perché|poiché|pois|and|but|und|aber|y\b|pero|et\b|mais)\w",
    re.I,
)
"""A rating that is but the subject or object of a longer statement ("HIGH means that two sources agree")."""
_ANOTHERS = LazyPattern(
    r"\b(?!my|our|overall|the|a|with|and|have|has|answer|own|in|this|model|mein|unser|insgesamt|das|die|der|mi|nuestra|la|el|ma|notre|mia|il|minha|de)"
    r"[^\W\d_]+[ \t](?:confidence|vertrauen|konfidenz|confianza|confiance)\b",
    re.I,
)
"""Somebody else's: "consumer confidence is high"."""
_YES_OR_NO = LazyPattern(rf"(?:{_TEXTS.YES_OR_NO})", re.I)
_NO_EVIDENCE = re.compile(r"\b(?:no|insufficient|not enough) (?:\w+ )?evidence (?=that|of|for|to|linking|supporting)", re.I)
_NOT_PROVIDED = re.compile(r"\bnot provided (?=by|for|with|to|at)", re.I)
_OTHER_SOURCE = re.compile(r"\b(?:energy|power|food|water|income|light|heat|fuel|protein) sources?\b", re.I)
_CONTEXT = re.compile(r"\b(?:context|passages?|documents?|sources?|provided|given)\b", re.I)
_CONCESSION = re.compile(r"(?:although|though|while|even though|obwohl|aunque|bien que|si bien|quoique)\b[^,\n]{1,300}, ", re.I)


def line_marks(line: str) -> int:
    """How many characters of block quote, bullet, numbering or heading marks a line starts with."""
    found = _LINE_MARKS.match(line)
    if found is None or _GERMAN_DATE.match(line):
        return 0
    return found.end()


@remembered
def plain(sentence: str) -> str:
    """The words of a sentence: without citations, emphasis, links' addresses and tags; line marks are the caller's."""
    text = _IMAGE.sub("", sentence)
    text = _EMPHASIS.sub("", _TIMES.sub("×", text))
    text = _without_attribution(text.strip())
    text = _without_citations(text)
    text = _TAG.sub(" ", _LINK.sub(r"\1", text))
    return _SPACES.sub(" ", text).strip()


def _without_attribution(text: str) -> str:
    """Without "According to Passage 2," and the like; the statement starts with a capital letter then."""
    for _ in range(2):  # "Yes, according to the context, …"
        if (german := _GERMAN_PREFIX.match(text)) is not None:
            return "Demnach " + text[german.end() :]
        found = _PREFIX.match(text.replace("’", "'"))
        if found is None or found.end() == len(text):
            return text
        text = text[found.end() :].lstrip()
        text = text[:1].upper() + text[1:]
    return text


def _without_citations(text: str) -> str:
    out, at = [], 0
    for start, end in sorted({tuple(citation["span"]) for citation in extract_citations(text)}):
        out.append(text[at:start].rstrip(" \t"))
        at = end
    return _BARE_CITATION.sub("", "".join([*out, text[at:]]))


def has_verb(text: str) -> bool:
    """Whether `text` has what is very likely a finite verb; cautious, so that a sentence is taken for a fragment rather than not."""
    words = _WORD.findall(text.lower().replace("’", "'"))
    if len(words) >= 3 and words[0] in _SUBJECTS:
        return True
    return any(word in _FINITE_VERBS or (i > 0 and len(word) > 4 and word.endswith("ed")) for i, word in enumerate(words))


_SUBJECTS = frozenset(("it", "he", "she", "they", "we", "you", "i", "there", "er", "sie", "es", "wir", "ich", "il", "elle", "ils", "elles"))


def is_fragment(text: str, max_words: int = MAX_FRAGMENT_WORDS) -> bool:
    """Whether `text` is a short answer such as "Paris." or "In 1889." that says nothing without its question."""
    words = text.split()
    return 0 < len(words) <= max_words and not has_verb(text)


def is_unfinished(text: str) -> bool:
    """Whether `text` is a lead-in that needs what follows: "The office is open on:"; a label: "Opening hours:"."""
    lower = text.lower()
    return text.endswith(":") and (_UNFINISHED_END.search(lower[-80:]) is not None or is_fragment(text, 12))


@remembered
def reason_of(raw: str, text: str) -> str:
    """Why a sentence cannot be checked, "" where it can; `raw` as it stands, `text` as `plain` leaves it."""
    if is_rating(raw):
        return "rating"
    if not any(c.isalnum() for c in text) or _is_address(text):
        return "empty"
    if _INLINE_CODE.match(raw):
        return "code"
    if _is_question(text):
        return "question"
    if admits(text):
        return "refusal"
    return _small(text)


def _small(text: str) -> str:
    """The kinds that are known by their phrases."""
    lower = text.lower().replace("’", "'").lstrip("¡¿*\"'“„«- ")
    whole = lower.rstrip(_ENDS + _CLOSERS)
    said = whole.rstrip(":")
    greets = _GREETING.fullmatch(said) is not None or all(map(_GREETING.fullmatch, said.split(", ")))
    if greets or _SMALL_TALK.match(lower) or _ACKNOWLEDGEMENT.fullmatch(said):
        return "greeting"
    if ":" not in whole[:-1] and (_LEAD_IN.match(whole) or _LEAD_IN.fullmatch(said)):
        return "lead_in"
    if _PREFIX.fullmatch(f"{said}, ") or _GERMAN_PREFIX.fullmatch(f"{said} "):  # "Based on the context." and nothing behind it
        return "lead_in"
    if _HEDGE.fullmatch(whole):
        return "hedge"
    if _ADVICE.match(whole):
        return "instruction"
    if not any(c.isdigit() for c in whole):  # one with a value in it can still be wrong about the value
        if (verb := _IMPERATIVE.match(whole)) is not None and not has_verb("x " + _MAIN_CLAUSE.split(whole[verb.end() :], maxsplit=1)[0]):
            return "instruction"
        if _PLAN.match(whole):
            return "plan"
        if _OPINION.match(whole):
            return "opinion"
    return "lead_in" if is_unfinished(lower.rstrip("*_ ")) else ""


def is_rating(raw: str) -> bool:
    """Whether a sentence is the answer's rating of itself."""
    if _GOES_ON.search(raw[: 2 * MAX_RATING_CHARS]):
        return False
    if _RATING_LINE.match(raw) or _BARE_RATING.fullmatch(raw.strip()):
        return True
    return len(raw) <= MAX_RATING_CHARS and extract_confidence(raw) is not None and not _ANOTHERS.search(raw)


def _is_address(text: str) -> bool:
    rest, found = _URL.subn("", text)
    return bool(found) and _URL_LABEL.fullmatch(rest.strip() or ".") is not None


def _is_question(text: str) -> bool:
    bare = text.rstrip(_CLOSERS)
    if not bare.endswith(("?", "？")):
        return False
    # He asked "Why?" is a statement; "Why?" is none.
    quoted = text[len(bare) :].strip("*_` ")
    return not quoted or text.lstrip("*_`")[:1] in "\"'“„«(‘"


def admits(text: str) -> bool:
    """Whether a sentence says that the answer is not known, or not in the context; "there is no evidence that …" is a statement."""
    text = _OTHER_SOURCE.sub("supply", text)
    if not _CONTEXT.search(text):
        text = _NO_EVIDENCE.sub("no proof ", text)
    return admits_ignorance(_NOT_PROVIDED.sub("absent ", text))


def conceded(text: str) -> str:
    """The main clause behind "Although the context does not say …," where only the first half admits; else `text`."""
    found = _CONCESSION.match(text)
    if found is None or not admits(found[0]):
        return text
    main = text[found.end() :]
    return main[:1].upper() + main[1:] if len(main.split()) >= 4 and not admits(main) else text


def is_yes_or_no(text: str) -> bool:
    """Whether `text` is "Yes." and nothing else."""
    return _YES_OR_NO.fullmatch(text.strip(_ENDS + _CLOSERS + "¡")) is not None


# ---- made up ----


MAX_CHARS, MAX_STORY_CHARS = 4000, 1200
_QUESTION_WORDS = LazyPattern(_TEXTS.ASKED, re.I)
_BY_THE_TEXT = LazyPattern(_TEXTS.BY_THE_TEXT, re.I)
_STORY = LazyPattern(_TEXTS.STORY, re.I)


def asks_to_make_up(question: str) -> bool:
    """Whether `question` asks for fiction, a translation or another wording, and not for what a text says."""
    asked = question[-MAX_CHARS:].replace("’", "'")
    return _QUESTION_WORDS.search(asked) is not None and _BY_THE_TEXT.search(asked) is None


def is_story(said: str) -> bool:
    """Whether instructions, or a user's message, make the talk a story or a game that goes on: what is said in it, its characters say. A
    longer text may only speak of one.
    """
    return len(said) <= MAX_STORY_CHARS and _STORY.search(said) is not None
