"""A verifier of one's own in place of the built-in model: here one that counts words; yours may ask a service or a model that you trained.

Run it with ``python examples/custom_verifier.py``. The policy is the shipped one, policies/rag.yaml.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from scripted import POLICIES, proxy

from groundwire.verifier import ClaimPair, Support, Verifier

QUESTION = "How long does the ferry to Skopelos take?"
PASSAGES = [{"content": "The ferry to Skopelos leaves from pier 3 and takes four hours.", "source": "ferries.md"}]
ANSWERS = {
    "in the passage's words": "The ferry to Skopelos takes four hours.",
    "of something else": "Passengers sleep in cabins with two beds.",
}


class ByWords:
    """A claim is supported as far as its words stand in the evidence. It never says that one is contradicted."""

    name = "by-words-1"

    async def verify(self, pairs: Sequence[ClaimPair]) -> list[Support | None]:
        """An answer for each pair; None would say that it cannot judge, and the claim would be an error."""
        return [Support(supported=self._share(pair)) for pair in pairs]

    @staticmethod
    def _share(pair: ClaimPair) -> float:
        claim, evidence = (set(re.findall(r"\w+", text.lower())) for text in (pair.claim, pair.evidence))
        return len(claim & evidence) / max(1, len(claim))


class Mine:
    """What `App` takes: a verifier by its name in the policy; "" is what the policy calls ``builtin``."""

    def get(self, model: str = "") -> Verifier:
        """One for all names."""
        return ByWords()


async def main() -> None:
    """Two answers, judged by it."""
    async with proxy(POLICIES / "rag.yaml", Mine()) as groundwire:
        for kind, said in ANSWERS.items():
            groundwire.will_say(said)
            answer = await groundwire.ask([{"role": "user", "content": QUESTION}], extra_body={"groundwire": {"context": PASSAGES}})
            record = await groundwire.operator(f"records/{answer.header('id')}")
            claims = next(verdict for verdict in record["detail"]["verdicts"] if verdict["stage"] == "claims")["detail"]["claims"]
            print(f"\n{kind}\n  {answer.told('verdict', 'faithfulness')}")
            for claim in claims:
                print(f"  {claim['label']} by {claim.get('verifier')}: {claim['text']}")


if __name__ == "__main__":
    asyncio.run(main())
