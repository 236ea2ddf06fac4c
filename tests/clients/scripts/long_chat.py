"""openai-python in a chat of sixty turns with tools, every other one streamed: the whole history goes out on every turn."""

import hashlib
import json

from cases import case, main, status_error
from openai import APIStatusError, DefaultHttpxClient, OpenAI

TURNS = 60
CUSTOMER, BUDGET = "KD-48213-77", "12,845.60 EUR"
SYSTEM = "You are the assistant of a warehouse. Look orders up before you speak of them, and never guess a number."
ASKED_BACK = {
    37: "Which release code did order 1000 have?",
    43: "What is my customer number, exactly?",
    46: "Which release code did order 1003 have? Please read it page by page.",
    52: "What was the budget that I told you of, exactly?",
    58: "Which release code did order 1006 have?",
}
GOODS = ("pallet truck", "shelf upright", "strapping tape", "label printer", "loading ramp", "safety barrier")
GET_ORDER = {
    "name": "get_order",
    "description": "An order with its positions, amounts and release code.",
    "parameters": {
        "type": "object",
        "properties": {"order": {"type": "string", "description": "Its number."}},
        "required": ["order"],
        "additionalProperties": False,
    },
}
TOOLS = [{"type": "function", "function": GET_ORDER}]

headers = []
client = OpenAI(
    max_retries=0, timeout=60, http_client=DefaultHttpxClient(event_hooks={"response": [lambda got: headers.append(dict(got.headers))]})
)


def release_code(order):
    """What nobody could guess."""
    return "RC-" + hashlib.sha256(f"release {order}".encode()).hexdigest()[:10]


def get_order(order):
    """The application's tool: a few hundred tokens of JSON."""
    seed = int(order)
    positions = [
        {"sku": f"{seed}-{i:02}", "what": GOODS[(seed + i) % 6], "count": seed % 7 + i, "price": f"{(seed * (i + 3)) % 991}.50 EUR"}
        for i in range(14)
    ]
    return json.dumps({"order": order, "release_code": release_code(order), "status": "packed", "positions": positions})


def question(turn):
    """What the user says."""
    if turn in ASKED_BACK:
        return ASKED_BACK[turn]
    if turn == 1:
        return f"Before we go on: my customer number is {CUSTOMER}, please keep it for the return labels. I prefer mail to the phone."
    if turn == 4:
        return f"The budget for this quarter is {BUDGET}, and it must not be exceeded. Say so when an order would pass it."
    if turn % 9 == 6:
        return f"Please compare order {1000 + turn} with order {1001 + turn}."
    if turn % 3 == 0:
        return f"Please look up order {1000 + turn}."
    return (
        f"Note {turn}: the carrier for gate {turn % 5} comes at {7 + turn % 9}:{turn % 6}0 and wants the papers for {turn * 37} kg ready. "
        "Tell the night shift that the ramp is being repaired, that the dangerous goods stay in hall two until the inspector has been "
        f"there, and that the stocktaking of aisle {turn} begins on Monday. Nobody should move pallets in that aisle before."
    )


def ask(messages, streamed):
    """One request: the message as the client will send it back, its usage, and the names of all tools that were seen called."""
    given = {"model": "gpt-4o", "messages": messages, "tools": TOOLS}
    names = []
    if streamed:
        with client.chat.completions.stream(**given, stream_options={"include_usage": True}) as stream:
            for event in stream:
                if event.type == "chunk" and event.chunk.choices:
                    names += [c.function.name for c in event.chunk.choices[0].delta.tool_calls or () if c.function.name]
            completion = stream.get_final_completion()
    else:
        completion = client.chat.completions.create(**given)
    message = completion.choices[0].message
    calls = [
        {"id": c.id, "type": "function", "function": {"name": c.function.name, "arguments": c.function.arguments}}
        for c in message.tool_calls or ()
    ]
    names += [call["function"]["name"] for call in calls]
    said = {"role": "assistant", "content": message.content} | ({"tool_calls": calls} if calls else {})
    usage = completion.usage
    return said, [usage.prompt_tokens, usage.completion_tokens, usage.total_tokens], names


@case
def chat():
    """Turns until the last, or until one fails."""
    messages, requests, answers = [{"role": "system", "content": SYSTEM}], [], []
    result = {"requests": requests, "answers": answers, "failed": None}
    for turn in range(TURNS):
        messages.append({"role": "user", "content": question(turn)})
        while True:
            streamed = turn % 2 == 1
            try:
                said, usage, names = ask(messages, streamed)
            except APIStatusError as error:
                return result | {"failed": status_error(error)}
            compression = headers[-1].get("x-groundwire-compression")
            requests.append({"turn": turn, "streamed": streamed, "usage": usage, "names": names, "compression": compression})
            messages.append(said)
            if "tool_calls" not in said:
                break
            for call in said["tool_calls"]:
                content = get_order(**json.loads(call["function"]["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
        answers.append(said["content"])
    return result


@case
def facts():
    """What the answers to the questions in `ASKED_BACK` must hold."""
    return {"37": release_code("1000"), "43": CUSTOMER, "46": release_code("1003"), "52": BUDGET, "58": release_code("1006")}


main()
