"""openai-python in a plain chat of many turns with the model that the proxy carries; then the whole chat at once, uncompressed."""

import os

from cases import case, main, status_error
from openai import APIStatusError, DefaultHttpxClient, OpenAI

TURNS = int(os.environ["TURNS"])
headers = []
client = OpenAI(
    max_retries=0, timeout=60, http_client=DefaultHttpxClient(event_hooks={"response": [lambda got: headers.append(dict(got.headers))]})
)
uncompressed = OpenAI(max_retries=0, timeout=60, base_url=os.environ["UNCOMPRESSED_BASE_URL"])
GIVEN = {"model": "smollm2", "temperature": 0, "max_tokens": 8}


def question(turn):
    """About 130 tokens."""
    return (
        f"Day {turn} of the journey. In the morning the party left village {turn * 7 % 31} and walked {turn % 9 + 4} miles along the river "
        f"until the bridge, where the guide bought {turn % 5 + 2} loaves of bread and some cheese for the evening. The weather was mild, "
        f"the path was dry, and by noon they had passed {turn * 3 % 17} farms with orchards and low stone walls. In the afternoon two of "
        "the mules went lame, so the baggage was divided among the others, and the doctor wrote a letter to his sister in the capital. "
        f"They slept in a barn near mile stone {turn * 11 % 97}. What should they do on the next day?"
    )


def ask(messages, streamed):
    """Text, prompt tokens and finish reason."""
    if not streamed:
        got = client.chat.completions.create(messages=messages, **GIVEN)
        return got.choices[0].message.content, got.usage.prompt_tokens, got.choices[0].finish_reason
    chunks = list(client.chat.completions.create(messages=messages, **GIVEN, stream=True, stream_options={"include_usage": True}))
    choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
    text = "".join(choice.delta.content or "" for choice in choices)
    return text, chunks[-1].usage.prompt_tokens, choices[-1].finish_reason


@case
def chat():
    messages = [{"role": "system", "content": "You keep the diary of a journey and answer briefly."}]
    turns = []
    for turn in range(TURNS):
        messages.append({"role": "user", "content": question(turn)})
        text, prompt_tokens, finish = ask(messages, streamed=turn % 2 == 1)
        turns.append({"text": text, "tokens": prompt_tokens, "finish": finish, "compression": headers[-1]["x-groundwire-compression"]})
        messages.append({"role": "assistant", "content": text})
    try:
        uncompressed.chat.completions.create(messages=messages[:-1], **GIVEN)
    except APIStatusError as error:
        return {"turns": turns, "uncompressed": status_error(error)}
    return {"turns": turns, "uncompressed": None}


main()
