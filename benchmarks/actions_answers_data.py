"""Claims with their contexts for `benchmarks.actions_answers`: development rows, and supported ones with one thing planted wrong.

In: the development split of ``../shared/data/grounding`` (without the sources of single captions and sentence pairs) and of
``../shared/data/judge``. A planted row is a supported claim in which one number, date, name or place that its context has word by word
was exchanged for one that stands nowhere in the context. What is planted is found by patterns of its own, none of the product's.
"""
# ruff: noqa: E501 - a pattern is read alternative by alternative

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from proxy.language.text import split_sentences
from training.grounding.data import in_calibration_half

SHARED = Path(__file__).parents[2] / "shared" / "data"
LEFT_OUT = ("snli", "cad_nli", "breaking_nli", "mnli_dev", "taxinli", "semiauto_wiki", "conjnli")
"""Captions, and pairs of single sentences: nothing that an answer is checked by."""
THREE_WAY = ("rte3_french", "rte3_german", "factcheck_gpt", "dialfact_sample", "written")
"""Sources that tell "contradicted" from "not mentioned"; in the others what is not supported may be either."""
PLANTED = ("number", "date", "name", "place")
_NUMBER = re.compile(r"(?<![\w.,/:-])\d{1,3}(?:[.,]\d{1,3})?(?![\w/:-]|[.,]\d)")
_YEAR = re.compile(r"(?<![\w.,/:-])(?:1[5-9]\d\d|20[012]\d)(?![\w/:-]|[.,]\d)")
_MONTHS = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
}
_DAY = re.compile(
    rf"[ .]{{0,3}}(?:of |de |del )?(?:{'|'.join(name for names in _MONTHS.values() for name in names.split())}|Uhr|[ap]\.?m\b)", re.I
)
"""Behind a number that is a day or an hour."""
_GIVEN = (
    "Anna Maria Marie John James Robert Michael William David Richard Joseph Thomas Charles Daniel Matthew Mark Paul Steven Andrew Kenneth "
    "George Edward Brian Kevin Jason Jeffrey Ryan Jacob Gary Eric Peter Frank Henry Jennifer Elizabeth Susan Jessica Sarah Karen Lisa Nancy "
    "Betty Sandra Margaret Ashley Kimberly Emily Donna Michelle Laura Amy Angela Helen Katherine Nicole Emma Kate Alice Julia Jack Sam Adam "
    "Hans Klaus Wolfgang Jürgen Stefan Andreas Martin Markus Sabine Petra Monika Claudia José Carlos Juan Luis Antonio Manuel Carmen Isabel "
    "Jean Pierre Jacques Michel Philippe Alain Françoise Nathalie Sophie Camille Louis Victor Albert Max Leo Tom Tim Ben Chris Alex"
)
_CAPITAL = r"[A-ZÄÖÜÉÀÁÍÓÚÑ][a-zäöüßéèàáíóúñç'’-]{2,}"
_PERSON = re.compile(rf"\b((?:{'|'.join(_GIVEN.split())})(?: {_CAPITAL}){{1,2}})(?!\w)")
OTHERS = (
    "Nora Whitfield",
    "Oskar Lindqvist",
    "Priya Raman",
    "Helga Brandt",
    "Tomás Iglesias",
    "Yvonne Delacroix",
    "Kenji Watanabe",
    "Ruth Adeyemi",
    "Gustav Petersen",
    "Ines Carvalho",
    "Viktor Novak",
    "Lena Hartmann",
    "Diego Fuentes",
    "Amélie Rousseau",
    "Fiona Gallagher",
)
"""Persons that stand in no context."""
_PLACES = {
    "en": "Paris London Berlin Rome Madrid Vienna Chicago Boston Texas California Florida Canada Mexico Brazil China Japan India Russia France "
    "Germany Italy Spain England Scotland Ireland Australia Egypt Turkey Israel Africa Europe Asia America Kentucky Ohio Virginia Houston",
    "de": "Paris London Berlin Rom Madrid Wien Hamburg München Köln Bayern Kanada Mexiko Brasilien China Japan Indien Russland Frankreich "
    "Deutschland Italien Spanien England Schottland Irland Australien Ägypten Israel Afrika Europa Asien Amerika Kentucky Ohio Uganda Rumänien",
    "es": "París Londres Berlín Roma Madrid Viena Chicago Boston Texas California Florida Canadá México Brasil China Japón India Rusia Francia "
    "Alemania Italia España Inglaterra Escocia Irlanda Australia Egipto Turquía Israel África Europa Asia América Kentucky Ohio Rumania",
    "fr": "Paris Londres Berlin Rome Madrid Vienne Chicago Boston Lyon Marseille Québec Canada Mexique Brésil Chine Japon Inde Russie France "
    "Allemagne Italie Espagne Angleterre Écosse Irlande Australie Égypte Turquie Israël Afrique Europe Asie Amérique Kentucky Roumanie",
}
_PLACE = {language: re.compile(rf"(?<= )(?:{'|'.join(names.split())})(?![\w-])(?! {_CAPITAL})") for language, names in _PLACES.items()}


@dataclass(slots=True, frozen=True)
class Row:
    """One claim with its context."""

    claim: str
    context: str
    language: str
    label: str
    """``supported``, ``unsupported`` or ``contradicted``."""
    source: str
    planted: str = ""
    """What was exchanged: `PLANTED`."""

    @property
    def contradicted(self) -> bool | None:
        """Whether the context says otherwise; None where the source does not tell."""
        if self.label == "unsupported" and self.source not in THREE_WAY:
            return None
        return self.label == "contradicted"


def available() -> bool:
    """Whether the data is there."""
    return (SHARED / "grounding").is_dir() and (SHARED / "judge").is_dir()


def rows(per_source: int, seed: int) -> list[Row]:
    """Development rows, at most `per_source` of each source; of the judge's pairs all."""
    found: list[Row] = []
    for path in sorted((SHARED / "grounding").glob("*.jsonl.gz")):
        source = path.name.removesuffix(".jsonl.gz")
        if source in LEFT_OUT:
            continue
        own = [row for row in _read(path, source) if not in_calibration_half(row.context)]
        found += own if len(own) <= per_source else random.Random(f"{seed} {source}").sample(own, per_source)
    return found + list(_read(SHARED / "judge" / "written.jsonl.gz", "written"))


def _read(path: Path, source: str) -> Iterator[Row]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for raw in map(json.loads, lines):
            if raw["split"] == "dev":
                yield Row(raw["claim"], raw["context"], raw["lang"], raw["label"], source)


def planted(known: Sequence[Row], seed: int) -> list[Row]:
    """Of each supported row of one sentence, one for each kind of thing that can be exchanged in it."""
    supported = [row for row in known if row.label == "supported" and len(split_sentences(row.claim)) == 1]
    rng = random.Random(f"planted {seed}")
    found = []
    for row in supported:
        for kind in PLANTED:
            claim = _exchanged(row, kind, rng)
            if claim:
                found.append(replace(row, claim=claim, label="contradicted", planted=kind))
    return found


def _exchanged(row: Row, kind: str, rng: random.Random) -> str:
    """The claim with one thing exchanged, "" where it has none that its context has too."""
    if kind == "number":
        found = [m for m in _NUMBER.finditer(row.claim) if not _DAY.match(row.claim, m.end())]
        return _with_another(row, [m.span() for m in found], lambda said: [_number(said, rng) for _ in range(20)], rng)
    if kind == "date":
        years = [m.span() for m in _YEAR.finditer(row.claim)]
        if years:
            return _with_another(
                row, years, lambda said: [str(int(said) + rng.choice((-1, 1)) * rng.randint(2, 40)) for _ in range(20)], rng
            )
        months = _MONTHS[row.language].split()
        spans = [m.span() for m in re.finditer(rf"\b(?:{'|'.join(months)})\b", row.claim)]
        return _with_another(row, spans, lambda said: rng.sample(months, 12), rng)
    pattern, others = (_PERSON, OTHERS) if kind == "name" else (_PLACE[row.language], _PLACES[row.language].split())
    return _with_another(row, [m.span() for m in pattern.finditer(row.claim)], lambda said: rng.sample(others, 12), rng)


def _number(said: str, rng: random.Random) -> str:
    """Another of about the size, with as many decimals."""
    whole, mark, decimals = re.match(r"(\d+)([.,]?)(\d*)", said).groups()  # type: ignore[union-attr]
    size = max(3, int(whole))
    return f"{rng.randint(size // 2, size * 3)}{mark}{''.join(str(rng.randint(0, 9)) for _ in decimals)}"


def _with_another(row: Row, spans: Sequence[tuple[int, int]], others_of: Callable[[str], Sequence[str]], rng: random.Random) -> str:
    spans = [(a, b) for a, b in spans if row.claim[a:b] in row.context]
    if not spans:
        return ""
    start, end = rng.choice(spans)
    there = row.context.casefold() + " " + row.claim.casefold()
    others = [other for other in others_of(row.claim[start:end]) if not any(word.casefold() in there for word in other.split())]
    return row.claim[:start] + others[0] + row.claim[end:] if others else ""
