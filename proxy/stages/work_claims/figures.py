"""Whether the figures of a statement are those of the run: a sentence and what the run shows in, the figure that differs out. Pure.

A figure counts as shown where it stands in a message, a result or the arguments of a call, in any writing, and where it follows from what
the results have: a sum, a difference, a product, a share, a mean, rounded or not. Small whole numbers, dates beside other dates, rules
("within 30 days") and guesses ("about 40") are left alone. Numbers, dates and times are read by `proxy.language.quantities`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import combinations, groupby, permutations

from msgspec import Struct

from proxy.context.tool_results.names import changes
from proxy.context.tool_results.turns import CalledTool
from proxy.language.dates import Date, date_agrees, read_dates, read_times
from proxy.language.lru import by_text
from proxy.language.quantities import MONEY, Quantity, read_quantities
from proxy.language.text import fold
from proxy.stages.work_claims.calls import command_of
from proxy.stages.work_claims.statements import AccountSentence, expression, file_names, split_clauses

MAX_TEXT_CHARS = 60_000
"""Of one message or one call's arguments, where figures are looked for."""
SMALLEST = 10
"""Of whole numbers without a unit: smaller ones are counted from what is there."""
MAX_COMBINED = 60
"""Numbers of one result that are combined, the last; and of all results that have one unit."""
MAX_FRAGMENT_WORDS = 4
"""Of a clause without a verb of its own."""
MAX_SHARED = 6
MOST_OF_A_KIND = 12
_COUNTS = [*range(2, MOST_OF_A_KIND + 1), *(1 / count for count in range(2, MOST_OF_A_KIND + 1))]
"""Things that an amount is multiplied with."""
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*|(?<=[A-Za-z_-])\d+(?:[.,]\d+)*")
_SPAN = re.compile(r"`[^`\n]{1,200}`|https?://\S+")
_CODE = re.compile(r"\b[A-Z]{1,6}-?\d{2,}[A-Z0-9-]*\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b")
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_UNIT = re.compile(r"[^\w%€$£]{0,2}([^\W\d_]+|[%€$£])(?:\W([^\W\d_]{3,}))?")
_KEY = re.compile(r"([\w-]+)[\"']?\s*[:=]\s*[\"']?$")
_ZONE = re.compile(r"T\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d)")
_RANGE = re.compile(r"(?<!\w)\d{1,2}\.?\s*(?:to|until|through|bis|au|al|hasta|ate|a|and|und|et|y|e|–|-)\s*(?:the |el |le |zum )?$")
_SPACED = re.compile(r"(?<=\d)T(?=\d)")
_SUM = re.compile(
    r"amount|total|price|sum|fee|charge|refund|cost|paid|betrag|preis|summe|gebuhr|montant|prix|frais|importe|precio|importo|prezzo|valor|preco|€|\$|eur|usd|gbp"
)


class RunFigures(Struct, frozen=True, dict=True):
    """What a run shows of figures."""

    texts: Sequence[str]
    """Everything: messages, arguments, results."""
    calls: Sequence[CalledTool]

    @cached_property
    def has_commands(self) -> bool:
        """Whether commands were run."""
        return any(command_of(call) for call in self.calls)

    @cached_property
    def results(self) -> list[str]:
        """What the calls returned."""
        return [call.result_text[:MAX_TEXT_CHARS] for call in self.calls]

    @cached_property
    def outcomes(self) -> list[str]:
        """Of the results, those of calls that did something."""
        return [text for text, call in zip(self.results, self.calls, strict=True) if command_of(call) or changes(call.tool)]

    @cached_property
    def numbers(self) -> frozenset[float]:
        """All that stand somewhere, and how many lines and objects results have."""
        lines = (float(sum(bool(line.strip()) for line in text.splitlines())) for text in self.results)
        items = (float(text.count("{")) for text in self.results)
        return frozenset((*(value for text in self.texts for value in _numbers(text)), *lines, *items, float(len(self.results))))

    @cached_property
    def compact(self) -> str:
        """Letters and digits of all texts, so that "21 99811-2233" is found in "21998112233"."""
        return "\n".join(_compact(text) for text in self.texts)

    @cached_property
    def dates(self) -> list[Date]:
        """All dates."""
        return [date for text in self.texts for date in read_dates(text)]

    @cached_property
    def combined(self) -> frozenset[float]:
        """What follows from the numbers of one result each."""
        return frozenset(value for text in self.results for value in _combined(_numbers(text)[-MAX_COMBINED:]))

    @cached_property
    def means(self) -> frozenset[float]:
        """The means that follow from the numbers of successive results which have the same number of them, place by place."""
        rows = [numbers for text in self.results if 0 < len(numbers := _numbers(text)) <= MAX_COMBINED]
        groups = [[*group] for _, group in groupby(rows, key=len)]
        return frozenset(mean for group in groups if len(group) > 1 for column in zip(*group, strict=True) for mean in _means(column))

    @cached_property
    def shares(self) -> frozenset[float]:
        """The shares that follow from short results."""
        return frozenset(share for text in self.results if len(_numbers(text)) <= MAX_SHARED for share in _shares(_numbers(text)))

    @cached_property
    def by_unit(self) -> dict[str, list[float]]:
        """The outcomes' numbers by the beginning of the word they stand with."""
        found: dict[str, list[float]] = {}
        for text in self.outcomes:
            for unit, value in _with_units(text):
                found.setdefault(unit, []).append(value)
        return found


def missing_figure(sentence: AccountSentence, shown: RunFigures) -> str | None:
    """The figure of a sentence that neither stands in the run nor follows from it; None where there is none."""
    for clause in split_clauses(_SPAN.sub(" ", sentence.text)):
        folded, fragment = fold(clause), len(clause.split()) <= MAX_FRAGMENT_WORDS and not set("()") & set(clause)
        done = sentence.done and (fragment or expression("open", "done").search(clause.lower().strip()) is not None)
        if expression("open", "clause").search(folded):
            continue
        measured = done or (shown.has_commands and expression("open", "measured").search(folded) is not None)
        for name in file_names(clause):
            clause = clause.replace(name, " ")
        quantities = read_quantities(clause, any_language=True)
        for number in quantities.numbers if not expression("open", "loose").search(folded) else ():
            if not (number.spelled or number.relation or _CODE.search(number.text)) and _differs(number, clause, shown, done=measured):
                return number.text.strip()
        if done:
            missing = [code for code in (*_CODE.findall(clause), *_MAIL.findall(clause)) if _compact(code) not in shown.compact]
            if missing:
                return str(missing[0])
            days = [date for date in quantities.dates if date.readings[0][2] is not None]
            if (
                len(days) == 1
                and shown.dates
                and not any(date_agrees(days[0], other) for other in shown.dates)
                and not _RANGE.search(fold(clause[: days[0].start]))
            ):
                return days[0].text
    return None


def _differs(number: Quantity, clause: str, shown: RunFigures, *, done: bool) -> bool:
    small = all(value < SMALLEST and value.is_integer() for value in number.values) and number.dimension not in (*MONEY, "ratio")
    if small or _is_near(number, shown.numbers):
        return False
    digits = re.sub(r"\D", "", number.text)
    if (len(digits) > 3 and digits in shown.compact) or (
        number.text.isalnum() and not number.text.isdigit() and number.text in shown.compact
    ):
        return False  # "30k" may be a distance
    bound = [value for unit in _units(clause, number) for value in shown.by_unit.get(unit, ())]
    if not done and (not bound or number.dimension in MONEY):
        return False
    of_unit = [*dict.fromkeys(bound)][-MAX_COMBINED:]
    if any(_is_near(number, values, exact=True) for values in (_combined(of_unit), [sum(bound)], shown.combined)):
        return False
    if (number.dimension in MONEY or number.step < 1) and _is_near(
        number, [count * value for value in shown.numbers for count in _COUNTS], exact=True
    ):
        return False
    if number.step < 1 and _is_near(number, _means(of_unit) | shown.means):
        return False
    return number.dimension != "ratio" or not _is_near(number, _shares(of_unit) | shown.shares)


def differing_figure(sentence: str, arguments: Sequence[str], results: Sequence[str]) -> str | None:
    """The amount, the date or the time of a sentence where the calls that it tells of were given such, and have none of the sentence's."""
    text, evidence = _SPAN.sub(" ", sentence), [*arguments, *results]
    quantities = read_quantities(text, any_language=True)
    amounts = [number for number in quantities.numbers if number.dimension in MONEY and not number.relation]
    values = [value for text in evidence if _SUM.search(fold(text)) for value in _numbers(text)]
    if amounts and values and not any(_is_near(one, [*values, *_combined(values[-MAX_COMBINED:]), sum(values)]) for one in amounts):
        return amounts[0].text.strip()
    mails, given = _MAIL.findall(sentence.lower()), [mail for text in arguments for mail in _MAIL.findall(text.lower())]
    if mails and given and not set(mails) & set(given):
        return str(mails[0])
    days, called = (
        [date for date in quantities.dates if date.readings[0][2] is not None],
        [d for text in evidence for d in read_dates(text)],
    )
    called = called if any(read_dates(text) for text in arguments) else []
    if days and called and not any(date_agrees(day, other) for day in days for other in called):
        return days[0].text
    times, meant = quantities.times, [time for text in arguments for time in read_times(_SPACED.sub(" ", text))]
    meant += [time for text in evidence for time in read_times(_SPACED.sub(" ", text))] if meant else []
    zoned = any(_ZONE.search(text) for text in evidence)
    if times and meant and not zoned and not any(set(time.minutes) & set(other.minutes) for time in times for other in meant):
        return times[0].text
    return None


# ---- numbers ----


@by_text(8192)
def _numbers(text: str) -> list[float]:
    return list(dict.fromkeys(value for match in _NUMBER.finditer(text) for value in _values(match[0])))


def _values(written: str) -> Iterator[float]:
    """What digits may be worth: "1.234" is 1234 and 1.234."""
    parts = re.split(r"[.,]", written)
    if len(parts) == 1 or all(len(part) == 3 for part in parts[1:]):
        yield float("".join(parts))
    if len(parts) > 1:
        yield float("".join(parts[:-1]) + "." + parts[-1])


def _combined(numbers: Sequence[float]) -> frozenset[float]:
    """Sums, differences, products with a count."""
    pairs = [*combinations(numbers, 2)]
    products = (a * b for a, b in pairs if min(a, b) <= MOST_OF_A_KIND)
    return frozenset((sum(numbers), *(a + b for a, b in pairs), *(abs(a - b) for a, b in pairs), *products))


def _means(numbers: Sequence[float]) -> frozenset[float]:
    """Of each two to twelve numbers that follow each other."""
    ends = ((begin, begin + count) for count in range(2, MOST_OF_A_KIND + 1) for begin in range(len(numbers) - count + 1))
    return frozenset(sum(numbers[begin:end]) / (end - begin) for begin, end in ends)


def _shares(numbers: Sequence[float]) -> frozenset[float]:
    """What one is of another, and how much it is less or more, in per cent."""
    pairs = [(a, b) for a, b in permutations(numbers, 2) if b]
    return frozenset((*(100 * a / b for a, b in pairs), *(abs(100 * (a - b) / b) for a, b in pairs)))


def _is_near(number: Quantity, values: Iterable[float], *, exact: bool = False) -> bool:
    """Whether one of them is the number; as it is rounded, unless it is to be a whole number's exact value."""
    margin = 1e-6 if exact and number.step == 1 and number.dimension != "ratio" else max(1e-6, number.step / 2 * (1 + 1e-9))
    scales = (1.0, 100.0) if number.dimension in (*MONEY, "ratio") else (1.0,)
    if exact and number.dimension in MONEY:
        scales = (1.0,)
    written = (max(number.values),) if number.dimension in MONEY else number.values  # "1.250 €" are not 1.25
    return any(abs(value - one * scale) <= margin for value in values for one in written for scale in scales)


def _with_units(text: str) -> Iterator[tuple[str, float]]:
    folded = fold(text.replace("\\n", "\n"))
    for match in _NUMBER.finditer(folded):
        after, before = _UNIT.match(folded, match.end()), _KEY.search(folded[max(0, match.start() - 40) : match.start()])
        words = [word for word in (*(after.groups() if after else ()), *(re.split(r"[_-]", before[1]) if before else ())) if word]
        for word in words:
            for value in _values(match[0]):
                yield word[:4], value


def _units(clause: str, number: Quantity) -> list[str]:
    """The words that a number of a sentence stands with."""
    digits = re.search(r"[\d.,]*\d", clause[number.start : number.end])
    end = number.start + digits.end() if digits else number.end
    return [word[:4] for word in re.findall(r"[^\W\d_]+|[%€$£]", fold(clause[end : end + 40]))[:3]]


def _compact(text: str) -> str:
    return re.sub(r"[\W_]", "", fold(text))
