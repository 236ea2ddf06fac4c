"""Are values told of the right row? Statements over tables, JSON, logs and forms, right and with one thing wrong, by exact rules.

    python -m benchmarks.records_values [--split dev,test,answers,said,templates,sentences] [--show] [--check]

Data: `data/records.jsonl`, 832 statements over 79 documents in six languages, written by hand for this project, same licence as it; those
of ``test``, and the first 306 of ``dev``, before the rules were. Each right statement stands beside the same one with another row's value,
another column's, a changed digit, state, code or date, or a wrong count, quantifier, superlative, sum, difference or order; ``words`` are
rounded, converted or put otherwise. ``answers`` has 48 more documents, each with a whole answer, right and with one thing wrong: sentences
with pronouns, lists, tables of the answer's own, by a writer who had not seen the rules. Rules are made with the documents of ``dev`` in
view, and narrowed by those of ``answers``; ``test`` is looked at in figures alone. ``said`` are 360 right statements alone, as many ways of
saying a thing as their writer, who had not seen the rules, could think of: 3 were contradicted at first sight, and are mended.
``templates`` are 1,500 documents with some 19,000 statements, made (`training.judge.templates`) of tables whose writers knew no rule, among
them what is not so, comparisons, other words; rules were narrowed with 114 tables in view, and the documents are of the 129 others.
``sentences``, which is only measured where it is named, are the sentences of answers in ``training/data/judge_answers.jsonl.gz`` of writers
who knew no rule (`w` begins their documents' names): as people write, over documents of every kind.

No model is asked: `proxy.grounding.records.deciding` on one statement and its document. *caught* is the share of wrong statements that are
contradicted, *harmed* of right ones that are, *supported* of right ones called so, *passed* of wrong ones called supported; *precision* is
that of contradicted. Intervals are 95% (Wilson). Writes ``results/records_values.json``. With ``--check`` it ends with 1 beyond `LIMITS`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.load.report import print_table
from benchmarks.load.statistics import wilson
from proxy.grounding.claims.claims import claims_of
from proxy.grounding.records.clause import Records
from proxy.grounding.records.deciding import decide
from training.grounding.data import SUPPORTED, UNSUPPORTED
from training.judge import answers
from training.judge.templates import reading, tables

DATA = Path(__file__).parent / "data" / "records.jsonl"
RESULTS = Path(__file__).parent / "results" / "records_values.json"
LIMITS = {
    "test": {"precision": 0.98, "caught": 0.55, "passed": 0.0},
    "templates": {"precision": 0.98, "caught": 0.22, "passed": 0.002},
    "said": {"harmed": 0.0},
    "sentences": {"harmed": 0.0005},
}
"""The least precision and share caught, and the largest shares of wrong statements called supported and of right ones contradicted."""
TEMPLATES, SEED = 1500, 36


@dataclass(slots=True, frozen=True)
class Judged:
    """A statement, and what the cells say to it."""

    document: str
    split: str
    language: str
    format: str
    kind: str
    text: str
    right: bool
    label: str
    """``supported``, ``contradicted``, or "" where they decide nothing."""


def judged(rows: Sequence[Mapping[str, Any]]) -> list[Judged]:
    """Every statement of the documents in `rows`."""
    found = []
    for row in rows:
        records = Records([row["context"]])
        for one in row["statements"]:
            label = _label(one["text"], records, row)
            named = (row["id"], row["split"], row["language"], row["format"], one["kind"], one["text"])
            found.append(Judged(*named, one["right"], label))
    return found


def made(documents: int = TEMPLATES, seed: int = SEED) -> list[dict[str, Any]]:
    """So many documents of the tables that were in nobody's view, with their right and wrong statements."""
    rng = random.Random(seed)
    unseen = [table for table in reading.read()[0] if not table.seen]
    found = []
    for number in range(documents):
        one = tables.filled(rng.choice(unseen), rng)
        told = [(s.text, s.target == SUPPORTED, s.contrast.split(" ")[0]) for s in one.statements if s.target != UNSUPPORTED]
        statements = [{"text": text, "right": right, "kind": kind} for text, right, kind in told]
        named = {"id": f"{one.name} {number}", "split": "templates", "language": one.language, "format": one.form}
        found.append({**named, "context": one.text, "statements": statements})
    return found


def written() -> list[dict[str, Any]]:
    """The documents of ``sentences``."""
    documents: dict[str, dict[str, Any]] = {}
    with gzip.open(answers.OWN, "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if row["doc"].startswith("w"):
                named = {"id": row["doc"], "split": "sentences", "language": row["lang"], "format": row["shape"], "context": row["context"]}
                one = documents.setdefault(row["doc"], {**named, "statements": []})
                statement = {"text": row["claim"], "right": row["label"] == "supported", "kind": row["error"] or row["part"]}
                one["statements"].append(statement)
    return list(documents.values())


def _label(text: str, records: Records, row: Mapping[str, Any]) -> str:
    if row["split"] in ("answers", "templates", "sentences"):  # contradicted where one of its claims is, supported where all are
        claims = [claim for claim in claims_of(text) if claim.checkable]
        verdicts = [decide(claim.text, records, row["language"], claim.before) for claim in claims]
    else:
        verdicts = [decide(text, records, row["language"])]
    if any(verdict is not None and not verdict.supported for verdict in verdicts):
        return "contradicted"
    return "supported" if verdicts and all(verdicts) else ""


def figures(found: Sequence[Judged]) -> dict[str, Any]:
    """Counts, and their shares with an interval."""
    count = Counter((one.right, one.label) for one in found)
    wrong, right = sum(not one.right for one in found), sum(one.right for one in found)
    told = count[False, "contradicted"] + count[True, "contradicted"]
    shares = {
        "caught": (count[False, "contradicted"], wrong),
        "harmed": (count[True, "contradicted"], right),
        "precision": (count[False, "contradicted"], told),
        "supported": (count[True, "supported"], right),
        "passed": (count[False, "supported"], wrong),
    }
    return {
        "n": len(found),
        **{name: {"hits": a, "of": b, "share": a / b if b else None, "interval": wilson(a, b)} for name, (a, b) in shares.items()},
    }


def _row(name: str, found: Sequence[Judged]) -> list[str]:
    of = figures(found)
    cells = [
        f"{s['hits']}/{s['of']} [{s['interval'][0]:.2f}, {s['interval'][1]:.2f}]" for s in (of["caught"], of["harmed"], of["precision"])
    ]
    return [name, str(of["n"]), *cells, f"{of['supported']['hits']}/{of['supported']['of']}", str(of["passed"]["hits"])]


def main() -> None:
    """Print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", default="dev,test,answers,said,templates")
    parser.add_argument("--show", action="store_true", help="the statements of dev and answers that are missed or harmed")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    result: dict[str, Any] = {}
    for split in options.split.split(","):
        began = time.perf_counter()
        own = made() if split == "templates" else written() if split == "sentences" else [row for row in rows if row["split"] == split]
        found = judged(own)
        each_ms = 1000 * (time.perf_counter() - began) / max(1, len(found))
        table = [_row("all", found)]
        for of in ("kind", "format", "language"):
            values = sorted({getattr(one, of) for one in found})
            table += [_row(f"{of} {value}", [one for one in found if getattr(one, of) == value]) for value in values]
        title = f"{split}: {len({one.document for one in found})} documents, {each_ms:.2f} ms a statement"
        print_table(title, ["", "statements", "caught", "harmed", "precision", "supported", "passed"], table)
        result[split] = {**figures(found), "ms": each_ms}
        if options.show and split in ("dev", "answers"):
            for one in found:
                if one.label != ("supported" if one.right else "contradicted") and not (one.right and not one.label):
                    print(one.document, "right" if one.right else "wrong", one.label or "-", one.text, sep=" | ")
    RESULTS.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if options.check:
        beyond = [f"{split} {name}" for split, of in result.items() for name in _beyond(of, LIMITS.get(split, {}))]
        print("beyond the limit: " + ", ".join(beyond) if beyond else "within the limits")
        sys.exit(bool(beyond))


def _beyond(of: dict[str, Any], limits: dict[str, float]) -> list[str]:
    shares = {name: of[name]["share"] or 0.0 for name in limits}
    return [name for name, limit in limits.items() if (shares[name] > limit if name in ("passed", "harmed") else shares[name] < limit)]


if __name__ == "__main__":
    main()
