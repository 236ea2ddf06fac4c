"""openai-python asking the questions of data/grounding_pairs.json, streamed: what arrived, and when."""

import json
import os
import time
from pathlib import Path

from cases import case, main
from openai import OpenAI

PAIRS = json.loads(Path(os.environ["PAIRS_FILE"]).read_text(encoding="utf-8"))
client = OpenAI(max_retries=0)


def request(pair):
    """A question with its passage."""
    context = {"groundwire": {"context": [{"content": pair["passage"], "source": "passage.txt"}]}}
    return {"model": "gpt-4o", "messages": [{"role": "user", "content": pair["question"]}], "extra_body": context}


def streamed(pair):
    """Pieces of text with the milliseconds since the request at which they came."""
    started = time.perf_counter()
    pieces = []
    raw = client.chat.completions.with_raw_response.create(**request(pair), stream=True)
    for event in raw.parse():
        if event.choices and event.choices[0].delta.content:
            pieces.append([(time.perf_counter() - started) * 1000, event.choices[0].delta.content])
    return {"pieces": pieces, "ms": (time.perf_counter() - started) * 1000, "id": raw.headers.get("x-groundwire-id")}


@case
def answers():
    streamed(PAIRS[0])  # loads what is loaded at first use
    return [streamed(pair) for pair in PAIRS]


@case
def whole():
    return [client.chat.completions.create(**request(pair)).choices[0].message.content for pair in PAIRS]


main()
