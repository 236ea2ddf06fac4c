"""Any NLI cross-encoder or hallucination-tagging token classifier as a verifier, by its name on the Hugging Face hub or from a folder.

Needs the extra ``groundwire[sentence-transformers]``, which brings torch and transformers. A name is downloaded by the library when the
model is first loaded, a folder never is. Code that a model brings along is not run (``trust_remote_code`` stays off).

Which kind a model is, its ``config.json`` says:

- a sequence classifier (``…ForSequenceClassification``, what `sentence_transformers.CrossEncoder` saves) reads (evidence, claim) as
  premise and hypothesis. Three labels are entailment, neutral and contradiction, two are entailment and its opposite, in any order,
  case or of the usual synonyms (`id2label`); one label is a score whose logistic function is the support. Names that cannot be read
  (``LABEL_0``) are refused: a guess would turn verdicts around.
- a token classifier (``…ForTokenClassification``) of two labels marks the tokens of an answer that the context does not carry, as
  LettuceDetect does (https://arxiv.org/abs/2502.17125), whose prompt for a text without a question is used. Its labels may be unnamed:
  1 is then "hallucinated". The support of a claim is 1 - the highest probability of a token of it. The highest and not the mean:
  one wrong number of twenty words makes a claim wrong, and the mean would call it 95% supported.

Their probabilities are the model's own, not calibrated for this use; any language is taken.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proxy.errors import ModelUnavailable
from proxy.exchange.judgements import ClaimPair, Support
from proxy.models.embedding.sentence_transformers import INSTALL, folder_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_TOKENS = 4096
"""Of a model that says no limit of its own, or a longer one: attention over more takes seconds on a CPU."""
CLAIM_SHARE = 0.6
"""The most of the tokens that a claim keeps; the rest is the evidence's."""
TAGGER_PROMPT = "Summarize the following text:\n{}\noutput:"
SUPPORTED = frozenset(("entailment", "entailed", "entails", "supported", "supports", "support", "consistent", "faithful", "grounded"))
CONTRADICTED = frozenset(("contradiction", "contradicted", "contradicts", "refuted", "refutes"))
UNSUPPORTED = frozenset(
    """
    neutral unsupported notentailment notentailed nonentailment notsupported notenoughinfo hallucination hallucinated inconsistent
    unfaithful ungrounded notfaithful nei unverifiable notmentioned baseless
    """.split()  # noqa: SIM905 - a list of words reads better as words
)


class TransformersVerifier:
    """A `proxy.models.verifier.verifier.PairModel`. Pairs are padded to the longest beside them: a probability may differ by 1e-6 with
    them."""

    lanes, batch = 1, 8

    def __init__(self, model: str, threads: int = 2) -> None:
        """`model` is a name or a folder; `threads` are torch's."""
        self.name = folder_name(Path(model)) if Path(model).is_dir() else model
        self._source, self._threads = model, threads
        self._torch: Any = None
        self._model: Any = None
        self._tokenizer: Any = None
        self._read: Callable[[Any, Any], list[Support | None]]

    def load(self) -> None:
        """Implements `proxy.models.verifier.verifier.PairModel`."""
        try:
            import torch
            import transformers
        except ImportError as error:
            raise ModelUnavailable(f"sentence-transformers cannot be imported ({error}): {INSTALL}") from error
        torch.set_num_threads(self._threads)
        local = Path(self._source).is_dir()
        try:
            config = transformers.AutoConfig.from_pretrained(self._source, local_files_only=local)
            tagger = any(name.endswith("ForTokenClassification") for name in config.architectures or ())
            kind = transformers.AutoModelForTokenClassification if tagger else transformers.AutoModelForSequenceClassification
            tokenizer = transformers.AutoTokenizer.from_pretrained(self._source, local_files_only=local)
            model = kind.from_pretrained(self._source, local_files_only=local).eval()
        except Exception as error:
            advice = "give the policy a folder that holds it, or a name on the hub and a network"
            raise ModelUnavailable(f"the verifier {self._source!r} cannot be loaded ({str(error)[:300]}); {advice}") from error
        self._read = self._tagged(config.id2label) if tagger else self._classified(config.id2label)
        self._prompt = TAGGER_PROMPT if tagger else "{}"
        self._max_tokens = max_tokens(tokenizer, config)
        self._torch, self._tokenizer, self._model = torch, tokenizer, model

    def judge(self, pairs: list[ClaimPair]) -> list[Support | None]:
        """Implements `proxy.models.verifier.verifier.PairModel`."""
        rows = [self._encoded(pair) for pair in pairs]
        masks = [row.pop("claim_mask") for row in rows]
        encoded = self._tokenizer.pad(rows, padding_side="right", return_tensors="pt")
        length = encoded["input_ids"].shape[1]
        claim = self._torch.tensor([mask + [0] * (length - len(mask)) for mask in masks])
        with self._torch.inference_mode():
            logits = self._model(**encoded).logits.double()
        return self._read(logits, claim)

    def _encoded(self, pair: ClaimPair) -> dict[str, Any]:
        """Evidence and claim as one input, the evidence's end cut; ``claim_mask`` is 1 at the claim's tokens."""

        def ids(text: str) -> Any:
            return self._tokenizer(text, add_special_tokens=False, truncation=True, max_length=self._max_tokens)["input_ids"]

        before, _, after = self._prompt.partition("{}")
        room = self._max_tokens - self._tokenizer.num_special_tokens_to_add(pair=True) - len(ids(before)) - len(ids(after))
        claim, evidence = ids(pair.claim), ids(pair.evidence)
        claim = claim[: max(int(room * CLAIM_SHARE), room - len(evidence))]
        cut = self._tokenizer.decode(evidence[: room - len(claim)]) if len(evidence) > room - len(claim) else pair.evidence
        said = self._tokenizer.decode(claim) if len(claim) < len(ids(pair.claim)) else pair.claim
        both = self._tokenizer(before + cut + after, said, truncation="only_first", max_length=self._max_tokens)
        both["claim_mask"] = [int(sequence == 1) for sequence in both.sequence_ids(0)]
        return dict(both)

    def _classified(self, id2label: Mapping[int, str]) -> Callable[[Any, Any], list[Support | None]]:
        places = self._places(id2label)

        def read(logits: Any, claim: Any) -> list[Support | None]:
            if logits.shape[1] == 1:
                return [_support(p, 0.0) for p in self._torch.sigmoid(logits[:, 0]).tolist()]
            rows = self._torch.softmax(logits, -1).tolist()
            against = places["contradicted"]
            return [_support(row[places["supported"]], row[against] if against is not None else 0.0) for row in rows]

        return read

    def _tagged(self, id2label: Mapping[int, str]) -> Callable[[Any, Any], list[Support | None]]:
        unnamed = all(label.upper().startswith("LABEL_") for label in id2label.values())
        if len(id2label) != 2:
            raise self._unreadable(id2label, "a token classifier needs two, supported and hallucinated")
        bad = 1 if unnamed else 1 - self._places(id2label)["supported"]

        def read(logits: Any, claim: Any) -> list[Support | None]:
            wrong = self._torch.softmax(logits, -1)[:, :, bad].masked_fill(claim == 0, 0.0).amax(1).tolist()
            return [_support(1 - p, 0.0) for p in wrong]

        return read

    def _places(self, id2label: Mapping[int, str]) -> dict[str, Any]:
        """Positions of ``supported`` and ``contradicted`` (None without one)."""
        words = {int(i): "".join(c for c in label.casefold() if c.isalpha()) for i, label in id2label.items()}
        found = {
            name: [i for i, word in words.items() if word in known]
            for name, known in (("supported", SUPPORTED), ("contradicted", CONTRADICTED), ("unsupported", UNSUPPORTED))
        }
        if len(id2label) == 1:
            return {"supported": 0, "contradicted": None}
        sizes = tuple(len(places) for places in found.values())
        if sizes not in ((1, 1, 1), (1, 0, 1), (1, 1, 0)):
            raise self._unreadable(id2label, "expected entailment, neutral and contradiction, or two of them with entailment")
        return {"supported": found["supported"][0], "contradicted": found["contradicted"][0] if found["contradicted"] else None}

    def _unreadable(self, id2label: Mapping[int, str], expected: str) -> ModelUnavailable:
        said = ", ".join(map(str, id2label.values()))
        advice = "set id2label in the config.json of a copy in a folder"
        return ModelUnavailable(f"the labels of the verifier {self._source!r} cannot be read ({said}): {expected}; {advice}")


def max_tokens(tokenizer: Any, config: Any) -> int:
    """The longest input: what tokenizer and positions allow, at most `MAX_TOKENS`."""
    positions = getattr(config, "max_position_embeddings", None) or MAX_TOKENS
    if getattr(config, "model_type", "") in ("roberta", "xlm-roberta", "camembert"):
        positions -= 2  # their positions begin behind the padding's
    return int(min(MAX_TOKENS, tokenizer.model_max_length, positions if positions > 0 else MAX_TOKENS))


def _support(supported: float, contradicted: float) -> Support:
    if not math.isfinite(supported + contradicted):
        raise ValueError("the model's answer is not a number")
    return Support(supported, contradicted, decides=True)
