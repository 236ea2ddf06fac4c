"""Answers from retrieved passages: the model is told to keep to them, and what it answers is checked against them.

Run it with ``python examples/faithful_answers.py``. The policy is the shipped one, policies/rag.yaml.
"""

from __future__ import annotations

import asyncio

from scripted import POLICIES, Proxy, proxy

QUESTION = "What model does Timmy use?"
PASSAGES = [{"content": "Timmy runs on xiaomi/mimo-v2-pro.", "source": "01-hardware.md"}]
ANSWERS = {
    "faithful": "Timmy runs on mimo-v2-pro [Passage 1]. Confidence: HIGH",
    "made up, with a source that nobody gave": "Timmy runs on a quantum computer of 2019 [Passage 4]. Confidence: HIGH",
    "from training, past the context": "The capital of France is Paris. This is because France is a country in Europe, and Paris has been "
    "its capital for centuries.",
    "does not know": "I don't have enough information in the provided context to answer that completely.",
}


async def ask(groundwire: Proxy, kind: str, said: str) -> None:
    """One answer of the model, and what its headers say of it."""
    groundwire.will_say(said)
    answer = await groundwire.ask([{"role": "user", "content": QUESTION}], extra_body={"groundwire": {"context": PASSAGES}})
    print(f"\n{kind}\n  the model said: {said}\n  the client got: {answer.text}")
    print(f"  {answer.told('verdict', 'warnings')}\n  {answer.told('faithfulness', 'citations', 'confidence', 'quality')}")


async def main() -> None:
    """Four answers to one question."""
    async with proxy(POLICIES / "rag.yaml") as groundwire:
        for kind, said in ANSWERS.items():
            await ask(groundwire, kind, said)
        print(f"\nthe client sent: {QUESTION}\nthe model got:")
        for message in groundwire.calls[0]["messages"]:
            print(f"  {message['role']}:")
            for line in message["content"].splitlines():
                print(f"    {line}")


if __name__ == "__main__":
    asyncio.run(main())
