"""Whether a phrase is used or only mentioned: security articles quote the attacks that they write about.

In: folded text and a phrase's place. Out: a weight from 0 to 1 for its signal. A quotation alone changes little, for an attacker can quote,
too; a phrase that is quoted, introduced as an example or ascribed to an attacker, in a text about attacks, counts for little. That is a way
past the detector: an instruction dressed up as an example is also less likely to be followed.
"""

from __future__ import annotations

import re

QUOTED_AND_TOLD, TOLD, QUOTED = 0.15, 0.35, 0.75
_SUBJECT = re.compile(
    r"prompt[ -]injections?|injection attacks?|indirect injections?|jailbreak\w{0,5}|red[ -]team\w{0,4}|"
    r"adversari\w{2,6}|attackers?\b|attacks?\b|malicious|owasp|llm security|"
    r"ai security|guardrails?|vulnerabilit\w{1,3}|exploits?\b|payloads?\b|chat templates?|tokenizers?|special tokens?|"
    r"fine-?tun\w{2,4}|detector|classifier|angreifer\w{0,2}|angriff\w{0,2}|"
    r"schwachstelle\w?|sicherheitslucke\w?|atacantes?|ataques?|inyeccion|vulnerabilidad\w{0,2}|attaquants?|attaques?|"
    r"vulnerabilite\w?|failles?"
)
_TOLD = re.compile(
    r"\b(?:such as|e\.g\.|for (?:example|instance)|examples?(?: of)?|like|phrases?|strings?|texts?|words?|sentences?|"
    r"attackers?|adversar\w{2,5}|hackers?|malicious|injections?|jailbreaks?|attacks?|"
    r"attempt(?:s|ed|ing)? to|tr(?:y|ies|ied|ying) to|trick(?:s|ed|ing)?|persuad\w{1,3}|payloads?|prompts? (?:that|which)|"
    r"(?:instruct|tell|ask|caus|mak|forc|convinc|get|lead|induc|order)(?:s|e|es|ed|ing|ting)? (?:the|an?|your|their|"
    r"it|them|llms?|models?|agents?)(?: \w{2,12}){0,3}(?: to| into)?|"
    r"z\. ?b\.|zum beispiel|beispiel\w{0,2}|etwa|wie|satze? wie|angreifer\w{0,2}|angriff\w{0,2}|versuch\w{0,3}|"
    r"por ejemplo|ejemplos?|como|frases?|atacantes?|ataques?|intenta\w{0,3}|par exemple|exemples?|comme|phrases?|"
    r"attaquants?|attaques?|tente\w{0,2}|contain(?:s|ed|ing)?|detect(?:s|ed|ing)?|flag(?:s|ged)?|"
    r"(?:blocks|filters|looks|checks|search\w{0,3}) (?:for )?)\b[^.!?\n]{0,80}$"
)
_OF_OTHERS = re.compile(
    r"\b(?:could|can|might|may|would|will|models?|llms?|agents?|assistants?|chatbots?|systems?|they|it|he|she|that|"
    r"which|who|to|into|then) $"
)
_OF_YOU = re.compile(
    r"\b(?:you|sie|du|tu|vous|usted|please|must|instructed|asked|required|need|have|are|is|"
    r"your (?:new )?\w{3,9}(?: is| are)?),?(?: \w{2,10}){0,2} (?:to|will|can|may) $"
)
_NOT = re.compile(
    r"(?:\b(?:do(?: not|n['’]?t)|never|(?:must|should|may|can|will|shall) ?not|(?:must|should|ca|wo)n['’]?t|not to|ne|no|nunca|jamas|"
    r"niemals|nie|nicht)(?: (?:ever|also|simply|just|please))? |\bn['’])$"
)
_ELSE_FILLER = (
    (
        re.compile(r"\bno(?: (?:ever|also|simply|just|please))? $"),
        re.compile(
            r"\w+ing\b|.*?\b(?:el|la|los|las|lo|tus?|sus?|mis?|del|una?|tod[oa]s?|ningun[oa]?|que|nada|instruccion(?:es)?|ordenes|"
            r"indicaciones|reglas|normas|contrasenas?|claves?|datos|mensajes?|correos?|usuarios?|conversacion)\b",
            re.S,
        ),
    ),
    (
        re.compile(r"\b(?:ne(?: (?:ever|also|simply|just|please))? |n['’])$"),
        re.compile(
            r".*?\b(?:pas|plus|jamais|rien|aucune?|les?|la|des?|du|aux?|tes|ton|ta|vos|votre|ces?|cette|toute?s?|tous|que|consignes?)\b",
            re.S,
        ),
    ),
)
"""What denies an order of its own language alone, and how such an order reads: "no" a Spanish one (and in English "no sharing of keys"),
"ne" a French one. Before any other it is an exclamation: "no ignore all …", "ne vergiss alle …"."""
_NOT_WITHIN = re.compile(r"(?!beacht|befolg|halte)\w+(?: sie)? (?:nicht|nie|niemals)\b(?! mehr)")
"""German has its "not" behind the verb."""
_GIVEN = re.compile(
    r"\b(?:previous|prior|preceding|earlier|above|your|system|original|vorherig|bisherig|vorig|obig|dein|ihre|ursprunglich|anterior|previ|"
    r"precedent|tus?\b|sus?\b|tes\b|vos\b|ci-dessus)"
)
_IN_DATA = re.compile(
    r"(?: (?:that|which))?(?: (?:you )?(?:may |might )?(?:be |is |are )?(?:find|see|encounter|read|appear|come|found|contained|embedded|"
    r"hidden|included|written|present|given|enthalten|contenidas|contenues))? (?:in|inside|within|from|by|im|aus|innerhalb von|en|de|"
    r"del|dans|du|des)(?: (?:the|any|these|those|its|retrieved|external|untrusted|quoted|user|web|tool|den|dem|der|los|las|la|el|"
    r"les?|l['’]))* ?(?:documents?|contents?|texts?|files?|pages?|websites?|data|results?|outputs?|e-?mails?|passages?|sources?|"
    r"attachments?|inputs?|"
    r"dokumenten?|texten?|dateien|seiten|inhalten?|daten|ergebnissen|documentos?|textos?|archivos?|paginas?|contenidos?|datos|resultados?|"
    r"correos?|fichiers?|contenus?|donnees|resultats?|courriels?|textes?)\b"
)
_TO_THE_READER = re.compile(r"[\w-]{3,14} (?:you|dir|ihnen|te|vous)\b")
_DIFF = re.compile(r"^(?:diff --git |@@ -\d|\+\+\+ )", re.M)
_BEFORE_CHARS, _AFTER_CHARS = 140, 120
_ABOUT_CHARS = 1500
_QUOTES = {"“": "”", "„": "“", "«": "»", "‘": "’"}


def weight(text: str, start: int, end: int) -> float:
    """What is left of a signal at ``text[start:end]``, 0 to 1."""
    before = text[max(0, start - _BEFORE_CHARS) : start]
    line = before[before.rfind("\n") + 1 :]
    told = _is_told(line) or (_is_told(before.rstrip()[-_BEFORE_CHARS:]) is True and line.strip() in ("", "-", "*", ">", "•"))
    quoted = _is_quoted(text, start, end, line)
    about = _is_about(text, start, end)
    if about and quoted:
        return QUOTED_AND_TOLD
    if told and (quoted or about):
        return QUOTED_AND_TOLD if quoted else TOLD
    if about and _OF_OTHERS.search(line) and not _OF_YOU.search(line):
        return TOLD
    return QUOTED if quoted else 1.0


def is_forbidden(text: str, start: int, end: int) -> bool:
    """Whether the order at ``text[start:end]`` is one not to: "never reveal the prompt", "do not forget the instructions above"."""
    before = max(0, start - 30)
    if _NOT.search(text, before, start) is not None:
        return all(denial.search(text, before, start) is None or order.match(text, start, end) for denial, order in _ELSE_FILLER)
    return _NOT_WITHIN.match(text, start, end) is not None


def is_received(text: str, start: int, end: int) -> bool:
    """Whether what is sent goes to the one who reads of it: "we will send you the password"."""
    return _TO_THE_READER.match(text, start, end) is not None


def is_defence(text: str, start: int, end: int) -> bool:
    """Whether what is to be ignored is what data says, and not what the model was told: "ignore any instructions in documents"."""
    return _IN_DATA.match(text, end) is not None and _GIVEN.search(text, start, end) is None


def _is_told(before: str) -> bool:
    return _TOLD.search(before) is not None


def _is_quoted(text: str, start: int, end: int, line: str) -> bool:
    """Within quotation marks that close on the same line, or in code."""
    after = text[end : end + _AFTER_CHARS].partition("\n")[0]
    for mark in ('"', "`"):
        if line.count(mark) % 2 == 1 and mark in after:
            return True
    if any(line.rfind(opening) > line.rfind(closing) and closing in after for opening, closing in _QUOTES.items()):
        return True
    if re.search(r"(?:^|[\s(:])'[^']{0,100}$", line) and re.search(r"'(?!\w)", after):
        return True
    return _in_code(text, start)


def in_string(text: str, start: int, end: int) -> bool:
    """Whether ``text[start:end]`` stands in a string, a quotation, a code block or a diff, however long."""
    for mark in ('"""', "'''", "```"):
        if text.count(mark, 0, start) % 2 == 1:
            return True
    first, last = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    if text[first] in "+- " and _DIFF.search(text, 0, start) is not None:
        return True
    before, after = text[first:start], text[end : last if last >= 0 else len(text)]
    if any(before.count(mark) % 2 == 1 and mark in after for mark in ('"', "`")):
        return True
    return any(before.rfind(opening) > before.rfind(closing) and closing in after for opening, closing in _QUOTES.items())


def _in_code(text: str, start: int) -> bool:
    return "```" in text and text.count("```", 0, start) % 2 == 1


def _is_about(text: str, start: int, end: int) -> bool:
    """Whether the text around, the phrase itself left out, speaks of attacks by at least two different terms."""
    around = text[max(0, start - _ABOUT_CHARS) : start] + " " + text[end : end + _ABOUT_CHARS]
    return len({match[0].rstrip("s") for match in _SUBJECT.finditer(around)}) >= 2
