"""Takes secrets and personal data out of what is about to be stored or logged, never out of what goes to a model or a client.

Secrets are keys, tokens, passwords and private key blocks. Personal are e-mail addresses, international phone numbers, and numbers of bank
accounts, payment cards and persons whose checksum holds: other figures stay as they are.

Called by `proxy.store.writer` on every body and on every detail that might hold one, so that nobody can forget it. Linear in the
text's length: each pattern starts at a fixed literal or at a boundary that a run of characters has only once, and open-ended
pieces are bounded or consume what they reject. Over-masking a token-like word costs little, a stored key costs much.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import msgspec

MASK = "[masked]"
_MAX_DEPTH = 200
_MIN_RANDOM_CHARS = 24
"""A token without a digit or inner capital is taken for one from this length on; words are shorter."""

_HINTS = (
    *("sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "bearer", "eyj", "akia", "asia", "aroa", "aida", "private key", "://"),
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "aiza", "hf_", "xai-", "gsk_", "npm_", "pypi-"),
    *("gw-", "pplx-", "tvly-", "nvapi-", "lsv2_", "shpat_", "dop_v1_", "gocspx-"),
    *("pi_key", "pi-key", "pikey", "passw", "passphrase", "secret", "authorization", "credential", "token"),
    *("ess_key", "esskey", "ess-key", "ate_key", "atekey", "ate-key"),
)
"""In lower case, one in every text that `mask_text` changes."""
_TOKEN_BYTES = bytes(ord("x") if chr(byte) in "_-" or (byte < 128 and chr(byte).isalnum()) else ord(" ") for byte in range(256))
_LONG_TOKEN = b"x" * 19
"""The shortest match of the patterns that are one word: ``sk-`` or ``hf_`` and 16 characters. A float has 18 digits in a row at most."""
_TAIL = b"x" * 16
"""What stands behind the hint in each of them: names as ``work_claims`` have a hint in them, too."""
_LONG_HINTS = tuple(
    hint.encode() for hint in _HINTS[: _HINTS.index("private key")] + _HINTS[_HINTS.index("://") + 1 : _HINTS.index("pi_key")]
)
_SHORT_HINTS = (b"bearer", b"eyj", b"key", b"://", b"passw", b"passphrase", b"pwd", b"secret", b"authorization", b"credential", b"cookie")
"""In every JSON text of ours that another pattern would change, but for "token": each record counts tokens."""
_NAMED_TOKEN = re.compile(rb"token[_-]{0,40}[\\\"' nrt]{0,40}[:=]")
"""A name that ends in it, in lower case, also within JSON in JSON; numbers of tokens are named ``tokens``."""

_KEY = re.compile(r"(?<![A-Za-z0-9])((?:sk|pk|rk)[-_])([A-Za-z0-9_-]{16,})", re.ASCII)
_PREFIXED = re.compile(
    r"(?<![A-Za-z0-9])(gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|AIza|hf_|xai-|gsk_|npm_|pypi-|pplx-|tvly-|nvapi-|lsv2_|shpat_|dop_v1_"
    r"|GOCSPX-|gw-(?=[A-Za-z0-9_-]{40}))([A-Za-z0-9_-]{16,})",  # of gw- only what is as long as this server's own keys: hosts begin so, too
    re.ASCII,
)
_AWS = re.compile(r"(?<![A-Za-z0-9])(AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}(?![A-Za-z0-9])", re.ASCII)
_JWT = re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*", re.ASCII)
_BEARER = re.compile(r"(?<![A-Za-z0-9])(bearer[ \t]{1,8})([A-Za-z0-9._~+/-]{8,}={0,2})", re.ASCII | re.IGNORECASE)
_SCHEME = re.compile(
    r"(authorization\\{0,4}[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,4}[\"']?"
    r"(?:basic|bearer|token|digest|apikey)[ \t]{1,4})([^\s\"'\\,;]{4,})",
    re.ASCII | re.IGNORECASE,
)
_URL = re.compile(r"(://[^\s/:@\"']{0,64}:)([^\s/@\"']{1,256})(?=@)", re.ASCII)
_BLOCK_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----")
_BLOCK_END = re.compile(r"-----END [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----")
_NAME = r"api[_-]?key|passwo?r?d|passphrase|secret|authorization|credentials?|(?:access|private)[_-]?key|token"
_QUOTED = re.compile(
    rf"(?P<name>(?:{_NAME})[A-Za-z0-9_-]{{0,40}})\\{{0,8}}[\"']?[ \t\r\n]{{0,4}}[:=][ \t\r\n]{{0,4}}(?P<open>\\{{0,8}}[\"'])",
    re.ASCII | re.IGNORECASE,
)
"""A secret's name up to its value's opening quote, which in JSON inside JSON has backslashes before it."""
_ASSIGNED = re.compile(
    rf"(?P<name>(?:{_NAME})[A-Za-z0-9_-]{{0,40}})(?P<gap>[ \t]{{0,4}}[:=][ \t]{{0,4}})"
    r"(?P<value>[^\s\"'\\,;&{}()\[\]<>]{4,})",
    re.ASCII | re.IGNORECASE,
)

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+", re.ASCII)
_SECRET_WORDS = frozenset(
    word
    for words in ("password passwords passwd passphrase pwd secret secrets", "authorization credential credentials apikey cookie")
    for word in words.split()
)
_KEY_KINDS = frozenset(("api", "access", "private", "secret", "auth", "encryption", "signing", "account", "master", "admin"))
_COUNTING_WORDS = frozenset(
    word
    for words in ("max min num total count per prompt completion", "stop eos bos pad unk mask next page continuation")
    for word in words.split()
)

_NUMBER_BYTES = bytes(ord("x") if chr(byte) in "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -" else ord(" ") for byte in range(256))
_LONG_NUMBER = b"x" * 9
"""The shortest number of a person's: eight figures and a letter."""
_FRACTION = re.compile(rb"(?<=[:,\[][0-9])\.[0-9]+")
"""Of a small number of JSON, as each score has: no number of a person's begins behind a figure and a point."""
_MAYBE_PERSONAL = re.compile(rb"[A-Z]{2}[0-9]{2}|[0-9](?:[ -]?[0-9]){12}|[0-9XYZ][0-9]{7}[A-Z]")
"""In all that `_ACCOUNT`, `_CARD` and `_PERSON` find, also as JSON has it."""
_DOMAIN = re.compile(r"@(?:[^\W_](?:[\w-]{0,62})\.){1,8}[^\W\d_]{2,24}(?![\w@])")
_LOCAL_CHARS = frozenset("._%+-'!#$&*/=?^`{|}~")
_MAX_LOCAL_CHARS = 64
_PHONE = re.compile(
    r"(?<![\w+.)])\+[1-9](?:[ ./()\u2011-]{0,2}[0-9])++(?![\w+])(?! ?(?:%|€|\$|£|EUR|USD|GBP|CHF))",
    re.ASCII,
)
_GROUPED = re.compile(r"\+[0-9]{1,3}(?:(?:[.][0-9]{3})+|(?: [0-9]{3})+)")
"""Thousands of a large number; with spaces only where some are zeros, as a phone number has such groups, too."""
_PHONE_DIGITS = range(9, 16)
_CARD = re.compile(
    r"(?<![\w+-])(?<![0-9]\.)(?:[2-6][0-9]{13,18}|[2-6][0-9]{3}([ -])[0-9]{4}\1[0-9]{4}\1[0-9]{4}(?:\1[0-9]{3})?"
    r"|3[0-9]{3}([ -])[0-9]{6}\2[0-9]{4,5})(?![\w-])(?!\.[0-9])",
    re.ASCII,
)
_ISSUERS = re.compile(
    r"4(?:[0-9]{15}|[0-9]{18})|5[1-5][0-9]{14}|2(?:22[1-9]|2[3-9][0-9]|[3-6][0-9]{2}|7[01][0-9]|720)[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|35(?:2[89]|[3-8][0-9])[0-9]{12}|6(?:011|5[0-9]{2}|4[4-9][0-9])[0-9]{12}"
)
"""How long the numbers are that begin so: Visa, Mastercard, American Express, Diners, JCB, Discover."""
_ACCOUNT = re.compile(r"(?<![A-Za-z0-9])(?=([A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){11,30}))", re.ASCII)
_ACCOUNT_CHARS = {
    length: names.split()
    for length, names in {
        15: "NO",
        16: "BE",
        18: "DK FI FO GL NL SD",
        19: "MK SI",
        20: "AT BA EE KZ LT LU XK",
        21: "CH HR LI LV",
        22: "BG BH CR DE GB GE IE ME RS VA",
        23: "AE GI IL IQ OM TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG",
        25: "LY PT ST",
        26: "IS TR",
        27: "BI DJ FR GR IT MC MR SM",
        28: "AL AZ BY CY DO GT HU LB NI PL SV",
        29: "BR EG PS QA UA",
        30: "JO KW MU",
        31: "MT SC",
        32: "LC",
        33: "RU",
    }.items()
}
_ACCOUNT_LENGTHS = {country: length for length, countries in _ACCOUNT_CHARS.items() for country in countries}
"""Of an IBAN, by its country."""
_PERSON = re.compile(r"(?<![\w.-])(?:[12][0-9]{2}(?:0[1-9]|1[0-2])[0-9]{8}[0-9]{2}|[0-9XYZ][0-9]{7}[A-Z])(?![\w-])", re.ASCII)
"""A French number of social security, and a Spanish DNI or NIE."""


def is_secret_name(name: str) -> bool:
    """Whether a field of this name holds a secret: ``api_key``, ``clientSecret``, ``refresh-token``, but not ``max_tokens``."""
    words = [word.lower() for word in _WORDS.findall(name[:200])]
    if not words:
        return False
    if any(word in _SECRET_WORDS for word in words):
        return True
    if words[-1] == "token":
        return not any(word in _COUNTING_WORDS for word in words)
    return any(a in _KEY_KINDS and b in ("key", "keys") for a, b in pairwise(words))


def mask(value: Any, depth: int = 0) -> Any:
    """A copy of JSON-like `value` without secrets. Keys, order and all else stay; deeper than 200 levels becomes the mask."""
    if isinstance(value, str):
        return mask_text(value)
    if depth >= _MAX_DEPTH:
        return value if value is None or isinstance(value, bool | int | float) else MASK
    if isinstance(value, Mapping):
        probabilities = "logprob" in value  # there "token" is a piece of the answer
        return {
            mask_text(key) if isinstance(key, str) else key: _hide(item, depth + 1)
            if isinstance(key, str) and is_secret_name(key) and not (probabilities and key == "token")
            else mask(item, depth + 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [mask(item, depth + 1) for item in value]
    return value


def _hide(value: Any, depth: int) -> Any:
    """What stands under a secret's name: every scalar hidden, except in a JSON schema that only describes such a field."""
    if value is None or isinstance(value, bool) or value == "":
        return value
    if depth >= _MAX_DEPTH:
        return MASK
    if isinstance(value, Mapping):
        if "type" in value or "$ref" in value or "anyOf" in value:
            return mask(value, depth)
        return {key: _hide(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_hide(item, depth + 1) for item in value]
    return MASK


def mask_text(text: str) -> str:
    """`text` without secrets and personal data; the same object when there is nothing to hide."""
    return _mask_personal(_mask_secrets(text))


def _mask_secrets(text: str) -> str:
    lower = text.lower()
    if not any(map(lower.__contains__, _HINTS)):
        return text
    text = _mask_blocks(text)
    text = _SCHEME.sub(rf"\1{MASK}", text)
    text = _KEY.sub(_masked_if_random, text)
    text = _PREFIXED.sub(_masked_if_random, text)
    text = _AWS.sub(MASK, text)
    text = _JWT.sub(MASK, text)
    text = _BEARER.sub(_masked_if_random, text)
    text = _URL.sub(rf"\1{MASK}", text)
    text = _mask_quoted(text)
    return _ASSIGNED.sub(_masked_if_assigned, text)


def mask_body(body: bytes) -> bytes:
    """A body without secrets: JSON keeps its structure, anything else is masked as text."""
    try:
        return msgspec.json.encode(mask(msgspec.json.decode(body)))
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return mask_text(body.decode("utf-8", "replace")).encode("utf-8", "replace")


def mask_json(encoded: bytes) -> bytes:
    """JSON of our own making, with other people's words only here and there: parsed only if it looks as if it held a secret."""
    return msgspec.json.encode(mask(msgspec.json.decode(encoded))) if may_hold_secrets(encoded) else encoded


def may_hold_secrets(encoded: bytes) -> bool:
    """Whether JSON of our own making, or some of it on lines of its own, looks as if it held something to hide.

    False: `mask_json` changes nothing. Every record comes by here; most leave after two searches for a long word and some for short hints.
    """
    if b"@" in encoded or b"+" in encoded or _may_hold_numbers(encoded):
        return True
    lower = encoded.lower()
    return _holds_long_token(lower) or any(map(lower.__contains__, _SHORT_HINTS)) or _NAMED_TOKEN.search(lower) is not None


def _holds_long_token(lower: bytes) -> bool:
    """Whether a long word has a hint with `_TAIL` behind it."""
    words, found, end = lower.translate(_TOKEN_BYTES), list[bytes](), 0
    while (start := words.find(_LONG_TOKEN, end)) >= 0:
        start = words.rfind(b" ", end, start) + 1 or end
        end = words.find(b" ", start)
        end = len(words) if end < 0 else end
        found.append(lower[start : end - len(_TAIL)])
    tokens = b" ".join(found)
    return any(map(tokens.__contains__, _LONG_HINTS))


def _may_hold_numbers(encoded: bytes) -> bool:
    """Whether there may be one of a person's: scores, and ids that have many figures in a row, are none."""
    if _LONG_NUMBER not in encoded.translate(_NUMBER_BYTES):
        return False
    whole = _FRACTION.sub(b"", encoded)
    return _LONG_NUMBER in whole.translate(_NUMBER_BYTES) and _MAYBE_PERSONAL.search(whole) is not None


def _mask_blocks(text: str) -> str:
    """Replace private key blocks; one that does not end hides the rest."""
    pieces: list[str] = []
    position = 0
    while begin := _BLOCK_BEGIN.search(text, position):
        pieces.append(text[position : begin.start()] + MASK)
        end = _BLOCK_END.search(text, begin.end())
        if end is None:
            return "".join(pieces)
        position = end.end()
    return "".join(pieces) + text[position:] if pieces else text


def _masked_if_random(match: re.Match[str]) -> str:
    return match[1] + MASK if _looks_random(match[2]) else match[0]


def _mask_quoted(text: str) -> str:
    """Replace quoted values that follow a secret's name; one whose quote never closes is hidden to the end of its line."""
    pieces: list[str] = []
    position, unclosed = 0, set()
    while match := _QUOTED.search(text, position):
        opened = match["open"]
        end = -1 if opened in unclosed else _closing(text, match.end(), opened)
        if end < 0:
            unclosed.add(opened)  # nor will a later one find its end: looking again would cost quadratic time
            end = text.find("\n", match.end())
            end = len(text) if end < 0 else end
        hide = end > match.end() and is_secret_name(_whole_name(match))
        pieces += (text[position : match.end()], MASK if hide else "")
        position = end if hide else match.end()
    return "".join(pieces) + text[position:] if pieces else text


def _closing(text: str, start: int, quote: str) -> int:
    """Where the string that opened with `quote` (backslashes and a quotation mark) ends; -1 if it does not."""
    end = text.find(quote, start)
    while end >= 0 and end > start and text[end - 1] == "\\":
        end = text.find(quote, end + 1)
    return end


def _masked_if_assigned(match: re.Match[str]) -> str:
    value = match["value"]
    if MASK.startswith(value[:1]) or not is_secret_name(_whole_name(match)) or not _looks_random(value):
        return match[0]
    return match["name"] + match["gap"] + MASK


def _whole_name(match: re.Match[str]) -> str:
    """The name with what stands before the part that the pattern found: ``max_`` of ``max_tokens``."""
    start, text = match.start(), match.string
    first = start
    while first > 0 and start - first < 40 and (text[first - 1].isalnum() or text[first - 1] in "_-"):
        first -= 1
    return text[first : match.end("name")]


def _looks_random(token: str) -> bool:
    """Whether a word is no word: it has a digit, a capital after a small letter, or a run without a hyphen that no word reaches."""
    if any(char.isdigit() for char in token):
        return True
    if any(a.islower() and b.isupper() for a, b in pairwise(token)):
        return True
    return max(map(len, re.split(r"[-_./~+]", token))) >= _MIN_RANDOM_CHARS


def _mask_personal(text: str) -> str:
    if "@" in text:
        text = _mask_addresses(text)
    if "+" in text:
        text = _PHONE.sub(_masked_phone, text)
    encoded = text.encode("utf-8", "replace")
    if _LONG_NUMBER not in encoded.translate(_NUMBER_BYTES):
        return text
    text = _mask_accounts(text)
    text = _CARD.sub(lambda match: MASK if _is_card(match[0]) else match[0], text)
    return _PERSON.sub(lambda match: MASK if _is_person(match[0]) else match[0], text)


def _mask_addresses(text: str) -> str:
    """From each domain back to where its name begins."""
    pieces: list[str] = []
    position = 0
    for match in _DOMAIN.finditer(text):
        start = first = match.start()
        while first > position and start - first < _MAX_LOCAL_CHARS and (text[first - 1].isalnum() or text[first - 1] in _LOCAL_CHARS):
            first -= 1
        if first < start:
            pieces += (text[position:first], MASK)
            position = match.end()
    return "".join(pieces) + text[position:] if pieces else text


def _masked_phone(match: re.Match[str]) -> str:
    """Masked as far as it may be one: other figures may follow it."""
    found, end, count = match[0], 0, 0
    if _GROUPED.fullmatch(found) and ("." in found or " 000" in found):
        return found
    for i, char in enumerate(found):
        if count in _PHONE_DIGITS and not char.isdigit():
            end = i
        count += char.isdigit()
        if count >= _PHONE_DIGITS.stop:
            break
    else:
        end = len(found) if count in _PHONE_DIGITS else end
    return MASK + found[end:] if end else found


def _is_card(found: str) -> bool:
    digits = [int(char) for char in found if char.isdigit()]
    if not _ISSUERS.fullmatch("".join(map(str, digits))):
        return False
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _mask_accounts(text: str) -> str:
    pieces: list[str] = []
    position = 0
    for match in _ACCOUNT.finditer(text):
        end = match.start() + _account_end(match[1])
        if end > match.start() >= position and not text[end : end + 1].isalnum():
            pieces += (text[position : match.start()], MASK)
            position = end
    return "".join(pieces) + text[position:] if pieces else text


def _account_end(found: str) -> int:
    """Where the IBAN ends that `found` begins with; 0 where it is none."""
    length, places = _ACCOUNT_LENGTHS.get(found[:2], 0), [i for i, char in enumerate(found) if char != " "]
    if not length or len(places) < length:
        return 0
    number = "".join(found[i] for i in places[:length])
    return places[length - 1] + 1 if int("".join(str(int(char, 36)) for char in number[4:] + number[:4])) % 97 == 1 else 0


def _is_person(found: str) -> bool:
    if found.isdigit():
        return int(found[13:]) == 97 - int(found[:13]) % 97
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(str("XYZ".find(found[0])) + found[1:8] if found[0] in "XYZ" else found[:8]) % 23] == found[8]
