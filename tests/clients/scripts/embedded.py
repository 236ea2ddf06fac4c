"""openai-python with the model that the proxy carries: the first thing a new user does."""

from cases import TOO_LONG, case, groundwire, main, raised, status_error
from openai import OpenAI

client = OpenAI(max_retries=0, timeout=60)
chat = client.chat.completions
ASK = {
    "model": "smollm2",
    "temperature": 0,
    "max_tokens": 24,
    "messages": [{"role": "user", "content": "What is the capital of France?"}],
}


def tokens(usage):
    """Prompt and completion."""
    return [usage.prompt_tokens, usage.completion_tokens]


@case
def whole():
    raw = chat.with_raw_response.create(**ASK)
    completion = raw.parse()
    message = completion.choices[0].message
    return {"text": message.content, "role": message.role, "tokens": tokens(completion.usage), "headers": groundwire(raw.headers)}


@case
def stream():
    chunks = list(chat.create(**ASK, stream=True, stream_options={"include_usage": True}))
    pieces = [c.choices[0].delta.content for c in chunks if c.choices and c.choices[0].delta.content]
    return {"text": "".join(pieces), "pieces": len(pieces), "tokens": tokens(chunks[-1].usage)}


@case
def models():
    return [model.id for model in client.models.list()]


@case
def errors():
    long = {**ASK, "messages": [{"role": "user", "content": TOO_LONG}]}
    return {"too_long": status_error(raised(chat.create, **long))}


main()
