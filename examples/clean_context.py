"""Four ways in which a context goes bad, and what becomes of each: poisoning, distraction, confusion, clash.

Run it with ``python examples/clean_context.py``. The policy is policies/clean.yaml in this folder, its facts are those of knowledge/.
"""

from __future__ import annotations

import asyncio

from scripted import HERE, Body, Proxy, proxy

THINGS = ["flight", "hotel", "train", "car", "taxi", "museum", "restaurant", "concert", "visa", "currency", "weather", "map", "parcel"]
THINGS += ["invoice", "letter"]
WORK = {"search": "Search for {}s", "book": "Book a {}", "cancel": "Cancel a booked {}"}


def conversation(*texts: str) -> list[Body]:
    """The user and the model in turn."""
    return [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]


def tool(verb: str, thing: str) -> Body:
    """One of 45."""
    parameters = {"type": "object", "properties": {"place": {"type": "string", "description": f"where the {thing} is"}}}
    name, what = f"{verb}_{thing}" + "s" * (verb == "search"), WORK[verb].format(thing)
    return {"type": "function", "function": {"name": name, "description": f"{what}.", "parameters": parameters}}


async def poisoning(groundwire: Proxy) -> None:
    """What the assistant once made up is fed back as history."""
    talk = conversation("Where is the Eiffel Tower?", "The Eiffel Tower is located in London.", "What else is near it?")
    answer = await groundwire.ask(talk)
    (item, *_) = (await groundwire.operator("quarantine"))["data"]
    fact = item["detail"]["statements"][0]["correct_fact"]
    print(f"poisoning\n  sent: {talk[1]['content']}\n  the model got: {groundwire.calls[-1]['messages'][1]['content']}")
    print(f"  {answer.told('verdict', 'warnings')}; {item['id'][:7]}… is {item['status']}, {item['type']}; known is: {fact}")


async def distraction(groundwire: Proxy) -> None:
    """A history of 25 messages, where more than 20 distract."""
    answer = await groundwire.ask(conversation(*(f"Remark {i} on the trip." for i in range(25))))
    record = await groundwire.operator(f"records/{answer.header('id')}")
    told = next(verdict["detail"] for verdict in record["detail"]["verdicts"] if verdict["stage"] == "history")
    print(f"distraction\n  {answer.told('warnings')}: {told['messages']} > {told['max_messages']} messages, {told['severity']}")
    print(f"  recommended: {told['recommended_action']}")


async def confusion(groundwire: Proxy) -> None:
    """45 tools for one task."""
    tools = [tool(verb, thing) for thing in THINGS for verb in WORK]
    print("confusion")
    for task in ("search for flights", "Book hotel in Paris"):
        answer = await groundwire.ask(conversation(task), tools=tools)
        while "indexing" in answer.header("tools"):  # of a new catalogue all tools go until it has been read
            answer = await groundwire.ask(conversation(task), tools=tools)
        got = [sent["function"]["name"] for sent in groundwire.calls[-1]["tools"]]
        print(f"  {task!r}: {answer.told('tools')}\n  the model got: {', '.join(got)}")


async def clash(groundwire: Proxy) -> None:
    """A user who changed their mind."""
    answer = await groundwire.ask(conversation("I prefer budget hotels.", "Noted.", "I prefer luxury hotels. What is there in Paris?"))
    (found, *_) = (await groundwire.operator("clashes"))["data"]
    print(f"clash\n  {found['type']}: {found['older']['text']} / {found['newer']['text']}\n  {found['status']}: {found['reason']}")
    print(f"  {answer.told('warnings', 'clashes')}; the model got: {groundwire.calls[-1]['messages'][-1]['content']!r}")


async def main() -> None:
    """One after the other."""
    async with proxy(HERE / "policies" / "clean.yaml") as groundwire:
        for failure in (poisoning, distraction, confusion, clash):
            await failure(groundwire)


if __name__ == "__main__":
    asyncio.run(main())
