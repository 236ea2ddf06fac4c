"""A streamed answer is shown as it comes; a moment later each of its sentences gets its mark, as a chat page would do it.

Run it with ``python examples/streamed_verdict.py``. The policy is the shipped one, policies/default.yaml: a stream leaves untouched.
"""

from __future__ import annotations

import asyncio

from scripted import POLICIES, proxy

from proxy.testing import stream, streamed

QUESTION = "What do I have to know about my lease?"
PASSAGES = [{"content": "The lease ends on 31 May 2027. The rent is 900 euros a month. Notice is three months.", "source": "lease.md"}]
ANSWER = "Your lease ends on 31 May 2027. The rent is 950 euros a month. Pets are welcome."
MARKS = {"supported": "✓", "contradicted": "✕", "unsupported": "?", "unsure": "~", "error": "!", "not_checkable": " "}


async def main() -> None:
    """One answer, with one figure that the lease contradicts and one sentence that it does not bear out."""
    async with proxy(POLICIES / "default.yaml") as groundwire:
        groundwire.will_say(stream(streamed([f"{word} " for word in ANSWER.split()])))
        answer = await groundwire.client.chat.completions.create(
            model="gpt-4o",
            messages=[{"role": "user", "content": QUESTION}],
            extra_body={"groundwire": {"context": PASSAGES}},
            stream=True,
        )
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in answer if chunk.choices])
        headers = answer.response.headers
        print(f"as it came, verdict: {headers['x-groundwire-verdict']}\n  {text}")
        found = await groundwire.verdict(headers["x-groundwire-id"])
        print(f"a moment later, verdict: {found['verdict']}, faithfulness: {found['scores']['faithfulness']:.2f}")
        for claim in found["claims"]:
            instead = f" (the lease says {claim['instead']})" if claim["instead"] else ""
            print(f"  {MARKS[claim['label']]} {text[slice(*claim['span'])]}{instead}")


if __name__ == "__main__":
    asyncio.run(main())
