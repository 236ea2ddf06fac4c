"""openai-python's decisions resource, against what is passed through and what the built-in judge answers."""

import openai
from cases import BASE_URL, KEY, case, groundwire, main, raised, status_error
from openai import AsyncOpenAI, OpenAI

client = OpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0)
STATE = "Order 4711 was delivered on 5 March. The customer was charged twice."
QUESTIONS = [
    {"type": "predicate", "name": "late", "instructions": "The order was delivered on 7 March."},
    {"type": "predicate", "name": "asked", "instructions": "Is it urgent?"},
    {
        "type": "choice",
        "name": "bears",
        "instructions": "The order was delivered on 5 March.",
        "choices": [{"value": "supported"}, {"value": "contradicted"}, {"value": "neither"}],
    },
    {
        "type": "choice",
        "instructions": "Which?",
        "choices": [{"value": True, "description": "The customer was charged twice."}, {"value": False, "description": "It never came."}],
    },
    {
        "type": "score",
        "name": "level",
        "instructions": "How far?",
        "levels": [
            {"label": "0", "description": "The order was never sent."},
            {"label": "1", "description": "The order was delivered on 5 March."},
        ],
    },
]
ASKED = {"model": "builtin", "input": STATE, "questions": QUESTIONS}


@case
def answers():
    raw = client.decisions.with_raw_response.create(**ASKED)
    found = raw.parse()
    return {
        "answers": [one.model_dump() for one in found.answers],
        "types": [type(one).__name__ for one in found.answers],
        "tokens": found.usage.input_tokens,
        "total": found.usage.total_tokens,
        "headers": groundwire(raw.headers),
    }


@case
async def asynchronous():
    async with AsyncOpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0) as other:
        found = await other.decisions.create(**ASKED)
    return [one.type for one in found.answers]


@case
def a_conversation():
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": STATE}, {"type": "input_json", "data": {"order": 4711}}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "I see."}]},
    ]
    found = client.decisions.create(**{**ASKED, "input": items, "questions": QUESTIONS[:1]})
    return found.answers[0].model_dump()


@case
def an_image():
    image = {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA=="}]}
    return status_error(raised(client.decisions.create, **{**ASKED, "input": [image]}))


@case
def a_bad_field():
    return status_error(raised(client.decisions.create, **{**ASKED, "questions": [{"type": "noul", "instructions": "x"}]}))


@case
def a_wrong_key():
    other = OpenAI(base_url=BASE_URL, api_key="wrong", max_retries=0)
    error = raised(other.decisions.create, **ASKED)
    return isinstance(error, openai.AuthenticationError)


if __name__ == "__main__":
    main()
