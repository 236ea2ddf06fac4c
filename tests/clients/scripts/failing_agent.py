"""An agent on openai-python that knows nothing of the proxy: it calls tools until the model answers in words, at most 12 times.

BASE_URL holds POLICY, which each run replaces by its own. What a tool gives depends on the run's name, which the provider sees as ``user``.
"""

import json

from cases import BASE_URL, case, groundwire, main, status_error
from openai import APIStatusError, OpenAI

STEPS = 12
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "search_docs",
            "parameters": {
                "type": "object",
                "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}, "page": {"type": "integer"}},
                "required": ["query"],
            },
        },
    },
    {
        "type": "function",
        "function": {"name": "get_order", "parameters": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}},
    },
]


def use(name, arguments, granted):
    """What the agent's tools do."""
    try:
        given = json.loads(arguments)
    except ValueError:
        return "Error: the arguments are not JSON"
    if name == "search_docs" and given.get("page") == 99:
        return "Error: the cursor has expired"
    if name == "search_docs":
        return "Error: timed out after 30 s" if given.get("limit", 50) > 10 else json.dumps([{"id": 1, "text": "Page one."}])
    if name == "get_order":
        return json.dumps({"id": given.get("id"), "state": "sent"}) if granted else "Error: permission denied"
    return f"Error: there is no tool {name}"


def step(client, run, messages, stream):
    """The model's next message."""
    given = {"model": "gpt-4o", "messages": messages, "tools": TOOLS, "user": run}
    raw = client.chat.completions.with_raw_response.create(**given, stream=stream)
    if not stream:
        message = raw.parse().choices[0].message
        calls = [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()]
        return message.content, calls, groundwire(raw.headers)
    text, calls = "", {}
    for event in raw.parse():
        for choice in event.choices:
            text += choice.delta.content or ""
            for call in choice.delta.tool_calls or ():
                known = calls.setdefault(call.index, ["", "", ""])
                known[0] += call.id or ""
                known[1] += call.function.name or ""
                known[2] += call.function.arguments or ""
    return text, [tuple(call) for call in calls.values()], groundwire(raw.headers)


def worked(policy, run, *replies, stream=False):
    """One run: every call it made, what it said, its headers; `replies` are the user's to its questions."""
    base_url = BASE_URL.replace("POLICY", policy)
    messages = [{"role": "user", "content": f"Find out about {run}."}]
    told = {"calls": [], "said": [], "headers": []}
    waiting = list(replies)
    with OpenAI(base_url=base_url, max_retries=0) as client:
        for _ in range(STEPS):
            try:
                text, calls, headers = step(client, run, messages, stream)
            except APIStatusError as error:
                return {**told, "error": status_error(error)}
            told["headers"].append(headers)
            if calls:
                asked = [{"id": id_, "type": "function", "function": {"name": name, "arguments": given}} for id_, name, given in calls]
                messages.append({"role": "assistant", "content": text or None, "tool_calls": asked})
                for id_, name, given in calls:
                    told["calls"].append([name, given])
                    messages.append({"role": "tool", "tool_call_id": id_, "content": use(name, given, len(waiting) < len(replies))})
                continue
            told["said"].append(text)
            if not waiting:
                break
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": waiting.pop(0)}]
    return told


@case
def runs():
    granted = "I have given you access now, please go on."
    return {
        "denied": worked("agent", "denied", granted),
        "denied streamed": worked("agent", "denied streamed", granted, stream=True),
        "slow": worked("agent", "slow"),
        "invented": worked("agent", "invented"),
        "lost": worked("agent", "lost"),
        "comma": worked("checking", "comma"),
        "comma streamed": worked("checking", "comma streamed", stream=True),
        "nameless": worked("checking", "nameless"),
        "well": worked("agent", "well"),
    }


main()
