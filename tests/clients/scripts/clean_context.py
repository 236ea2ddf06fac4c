"""openai-python holding the conversations of the file named by CONVERSATIONS: what each turn brought, and the history at its end.

A conversation is {name, policy, messages, says, stream, again, context}: after `messages` the user says each of `says`, and every answer joins
the history; then the last request is sent `again` times, each from a client of its own, over a connection of its own.
"""

import json
import os
from pathlib import Path

from cases import BASE_URL, case, groundwire, main, status_error
from openai import APIStatusError, OpenAI

CONVERSATIONS = json.loads(Path(os.environ["CONVERSATIONS"]).read_text(encoding="utf-8"))


def ask(client, conversation, messages):
    """One answer: its text, its headers."""
    extra = {"groundwire": {"context": conversation["context"]}} if conversation["context"] else None
    given = {"model": "gpt-4o", "messages": messages, "user": conversation["name"], "extra_body": extra}
    try:
        raw = client.chat.completions.with_raw_response.create(**given, stream=conversation["stream"])
        if not conversation["stream"]:
            return {"text": raw.parse().choices[0].message.content, "headers": groundwire(raw.headers)}
        pieces = [event.choices[0].delta.content or "" for event in raw.parse() if event.choices]
    except APIStatusError as error:
        return {"text": "", "headers": {}, "error": status_error(error)}
    return {"text": "".join(pieces), "headers": groundwire(raw.headers)}


def held(conversation):
    """All turns of one conversation."""
    base_url = BASE_URL.replace("POLICY", conversation["policy"])
    messages, turns = list(conversation["messages"]), []
    with OpenAI(base_url=base_url, max_retries=0) as client:
        for text in conversation["says"]:
            messages.append({"role": "user", "content": text})
            turns.append(ask(client, conversation, messages))
            messages.append({"role": "assistant", "content": turns[-1]["text"]})
    for _ in range(conversation["again"]):
        with OpenAI(base_url=base_url, max_retries=0) as client:
            ask(client, conversation, messages[:-1])
    return {"turns": turns, "messages": messages}


@case
def talks():
    return {conversation["name"]: held(conversation) for conversation in CONVERSATIONS}


main()
