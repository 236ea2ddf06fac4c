"""The built-in verifier's runtime: a small cross-encoder as ONNX with its tokenizer and its calibration. No torch, nothing downloaded.

A model is a folder of three files:

    model.onnx       inputs ``input_ids``, ``attention_mask`` and, with segments, ``token_type_ids``, each ``(batch, length)`` int64 or
                     int32; first output ``(batch, labels)`` logits
    tokenizer.json   of the package `tokenizers`; its template for pairs puts the claim first and the evidence second
    verifier.json    `Card`:
                     {"name": "groundwire-verifier", "version": "1",
                      "sha256": {"model.onnx": "…", "tokenizer.json": "…"},
                      "labels": ["supported", "unsupported", "contradicted"],      order of the logits; "contradicted" may be missing
                      "max_tokens": 256, "claim_share": 0.6, "segments": true,
                      "languages": {"en": {"temperature": 1.3, "bias": [0.0, 0.0, 0.0],
                                           "combination": {"inputs": […], "weights": [[…], […], […]], "bias": [0.0, 0.0, 0.0]}},
                                    "de": {"temperature": 1.5}}}
                     ``"decides": false``: its word alone contradicts nothing, even where a policy names it.
                     Further keys ("trained_on", "metrics", …) are for people and ignored.

``probabilities = softmax(logits / temperature + bias)``, in the order of the labels. Where a language has a ``combination``, that is
instead a multinomial logistic regression over ``inputs``: two log odds against "unsupported" after temperature and bias, named
``logit_supported`` and ``logit_contradicted`` (``z[supported] - z[unsupported]``, ``z[contradicted] - z[unsupported]``), and then
`proxy.grounding.values.consistency.FEATURES`: ``softmax(weights @ inputs + bias)``, a row of weights for each label. With rows
``[1, 0, 0…]``, ``[0, 0, 0…]`` and ``[0, 1, 0…]`` it changes nothing. A language that is not listed cannot be judged.

Pairs that are too long lose the end of their evidence; a claim keeps at most `claim_share` of the tokens while there is evidence to
fill the rest.

One pair a run. An int8 model scales its activations by the whole batch, so a claim's logits would change with the claims beside it: by
up to 0.5 with an MS MARCO reranker of 12 layers, and the same request could then get another verdict. Nor would batches be faster. Several
pairs run side by side instead (`lanes`), each in one thread, and who is done takes the next: on two cores that takes half of one thread's
time, and, unlike threads that share a run and wait for each other, no longer when other processes have the cores.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from proxy.errors import ModelUnavailable
from proxy.exchange.judgements import ClaimPair, Support
from proxy.language.detection import language_if_sure

FOLDER = Path(__file__).with_name("grounding_model")
"""The verifier that this package carries."""
FILES = ("model.onnx", "tokenizer.json")
"""What verifier.json has checksums of."""
LOGITS = ("logit_supported", "logit_contradicted")
_CHARS_PER_TOKEN = 24
"""More is not given to the tokenizer; German compounds are cut into pieces of five."""

_CHARS_READ = 8
"""Of evidence, which mostly fill a pair."""

Label = Literal["supported", "unsupported", "contradicted"]
Floats = NDArray[np.float64]


class Combination(Struct, frozen=True):
    """``languages.*.combination``"""

    inputs: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]
    bias: tuple[float, ...]


class Calibration(Struct, frozen=True):
    """``languages.*``"""

    temperature: Annotated[float, Meta(gt=0)] = 1.0
    bias: tuple[float, ...] = ()
    combination: Combination | None = None


class Card(Struct, frozen=True):
    """verifier.json; see the module's docstring."""

    name: str
    version: str
    sha256: dict[str, str]
    languages: dict[str, Calibration]
    labels: tuple[Label, ...] = ("supported", "unsupported", "contradicted")
    max_tokens: Annotated[int, Meta(ge=16)] = 256
    claim_share: Annotated[float, Meta(gt=0, lt=1)] = 0.6
    segments: bool = True
    decides: bool = True

    def __post_init__(self) -> None:
        if len(set(self.labels)) != len(self.labels) or not {"supported", "unsupported"} <= set(self.labels):
            raise ValueError("labels must be supported, unsupported and perhaps contradicted, each once")
        if not set(FILES) <= set(self.sha256):
            raise ValueError("sha256 must name model.onnx and tokenizer.json")
        for language, given in self.languages.items():
            if given.bias and len(given.bias) != len(self.labels):
                raise ValueError(f"languages.{language}.bias must have one number for each label")
            if given.combination is not None:
                self._check(language, given.combination)

    def _check(self, language: str, given: Combination) -> None:
        shapes = [len(row) == len(given.inputs) for row in given.weights]
        if len(shapes) != len(self.labels) or not all(shapes) or len(given.bias) != len(self.labels):
            raise ValueError(f"languages.{language}.combination must have a row of weights and a bias for each label")
        if len(self.labels) != len(LOGITS) + 1 or given.inputs[: len(LOGITS)] != LOGITS:
            raise ValueError(f"languages.{language}.combination.inputs must begin with {', '.join(LOGITS)}, of three labels")


class OnnxVerifier:
    """A `proxy.models.verifier.verifier.PairModel`. The same pair has the same answer, whatever else is judged."""

    def __init__(self, folder: Path = FOLDER, threads: int = 2, *, decides: bool = False) -> None:
        """`threads` pairs are judged at a time, each by one thread; `decides` is of its word (`Support.decides`), if its card agrees."""
        self.name = folder.name
        self.lanes, self.batch = threads, 1
        self._folder, self._decides = folder, decides
        self._beside = ThreadPoolExecutor(threads, thread_name_prefix="reading") if threads > 1 else None
        """As nice as the event loop: it holds the interpreter, and the loop would wait for it while others have the core."""
        self._card: Card
        self._session: Any = None
        self._tokenizer: Any = None

    def load(self) -> None:
        """Implements `proxy.models.verifier.verifier.PairModel`. Checks what it reads against the checksums."""
        try:
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError as error:
            raise ModelUnavailable(f"the built-in verifier cannot be run ({error}); reinstall groundwire") from error
        card = self._read_card()
        weights, tokenizer = (self._checked(name, card.sha256[name]) for name in FILES)
        try:
            self._tokenizer = Tokenizer.from_file(str(tokenizer))
            self._session = onnxruntime.InferenceSession(str(weights), session_options(onnxruntime), providers=["CPUExecutionProvider"])
        except Exception as error:
            raise ModelUnavailable(f"the verifier in {self._folder} cannot be loaded ({str(error)[:300]}); {self._advice}") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._types = {given.name: np.int32 if "int32" in given.type else np.int64 for given in self._session.get_inputs()}
        self._features = _features_of(card)
        self._card = card
        self.name = f"{card.name}@{card.version}"

    def knows(self, language: str) -> bool:
        """Implements `proxy.ports.KnowsLanguages`."""
        return language in self._card.languages

    def judge(self, pairs: list[ClaimPair]) -> list[Support | None]:
        """Implements `proxy.models.verifier.verifier.PairModel`."""
        return [self._judge(pair) if self._reads(pair) else None for pair in pairs]

    def _reads(self, pair: ClaimPair) -> bool:
        """Whether it knows the languages of both texts: of a translation, the evidence's is another one."""
        return self.knows(pair.language) and self.knows(language_if_sure(pair.evidence, pair.language))

    def _judge(self, pair: ClaimPair) -> Support:
        """What else is read of a pair is read beside the inference, which lets go of the interpreter."""
        if self._beside is None:
            return self._judged(pair, self.logits(pair), self._read(pair))
        features = self._beside.submit(self._read, pair)
        return self._judged(pair, self.logits(pair), features.result())

    def _read(self, pair: ClaimPair) -> Sequence[float]:
        """The features that the pair's language is combined with."""
        if self._card.languages[pair.language].combination is None:
            return ()
        found: Sequence[float] = self._features(pair.claim, pair.evidence, pair.language)
        return found

    def _judged(self, pair: ClaimPair, logits: Floats, features: Sequence[float]) -> Support:
        calibration = self._card.languages[pair.language]
        if not np.isfinite(logits).all():
            raise ValueError("the model's answer is not a number")
        z = logits / calibration.temperature + (np.array(calibration.bias) if calibration.bias else 0.0)
        if calibration.combination is not None:
            z = self._combined(z, features, calibration.combination)
        p = softmax(z)
        labels = self._card.labels
        against = float(p[labels.index("contradicted")]) if "contradicted" in labels else 0.0
        return Support(float(p[labels.index("supported")]), against, self._decides and self._card.decides, self.name)

    def logits(self, pair: ClaimPair) -> Floats:
        """``(labels,)``, as the model gives them: for fitting the calibration."""
        return self.run(self.feed(pair))

    def feed(self, pair: ClaimPair) -> dict[str, Any]:
        """The model's inputs for a pair."""
        encoded = self.encode(pair.claim, pair.evidence)
        rows = {"input_ids": encoded.ids, "attention_mask": [1] * len(encoded.ids)}
        rows["token_type_ids"] = encoded.type_ids if self._card.segments else [0] * len(encoded.ids)
        return {name: np.array([rows[name]], kind) for name, kind in self._types.items()}

    def run(self, feed: dict[str, Any]) -> Floats:
        """``(labels,)`` for the inputs of one pair."""
        found: Floats = self._session.run(None, feed)[0][0].astype(np.float64)
        return found

    def encode(self, claim: str, evidence: str) -> Any:
        """The `tokenizers.Encoding` of both, cut to `max_tokens`."""
        chars = self._card.max_tokens * _CHARS_PER_TOKEN
        first = self._tokenizer.encode(claim[:chars], add_special_tokens=False)
        second = self._evidence(evidence[:chars] or "-")
        room = self._card.max_tokens - self._tokenizer.num_special_tokens_to_add(is_pair=True)
        first.truncate(max(int(room * self._card.claim_share), room - len(second)))
        second.truncate(room - len(first))
        return self._tokenizer.post_process(first, second)

    def _evidence(self, evidence: str) -> Any:
        """As much of `evidence` as fills a pair, or more: words are cut each by itself, so that those behind it need not be."""
        begin = evidence.rfind(" ", 0, self._card.max_tokens * _CHARS_READ)
        if begin > 0:
            found = self._tokenizer.encode(evidence[:begin], add_special_tokens=False)
            if len(found) >= self._card.max_tokens:
                return found
        return self._tokenizer.encode(evidence, add_special_tokens=False)

    def _combined(self, z: Floats, features: Sequence[float], given: Combination) -> Floats:
        labels = self._card.labels
        supported, unsupported, contradicted = (z[labels.index(name)] for name in ("supported", "unsupported", "contradicted"))
        inputs = np.array([supported - unsupported, contradicted - unsupported, *features])
        combined: Floats = np.array(given.weights) @ inputs + np.array(given.bias)
        return combined

    @property
    def _advice(self) -> str:
        return "reinstall groundwire" if self._folder == FOLDER else "export it again, or set grounding.model to another folder"

    def _read_card(self) -> Card:
        try:
            return msgspec.json.decode((self._folder / "verifier.json").read_bytes(), type=Card)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ModelUnavailable(f"{self._folder / 'verifier.json'} cannot be read ({error}); {self._advice}") from error

    def _checked(self, name: str, sha256: str) -> Path:
        """The file's path."""
        path = self._folder / name
        try:
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise ModelUnavailable(f"{path} cannot be read ({error.strerror}); {self._advice}") from error
        if found != sha256.lower():
            raise ModelUnavailable(f"{path} is not the file that verifier.json names (its SHA-256 differs); {self._advice}")
        return path


def write_card(folder: Path, fields: Mapping[str, Any]) -> Card:
    """Write verifier.json beside its two files: `fields` and their checksums. Raises `msgspec.ValidationError` for what makes no card."""
    sums = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in FILES}
    text = msgspec.json.format(msgspec.json.encode({**fields, "sha256": sums}))
    card = msgspec.json.decode(text, type=Card)
    (folder / "verifier.json").write_bytes(text + b"\n")
    return card


def session_options(onnxruntime: Any) -> Any:
    """For one pair a run, of any length, beside an event loop, in the thread that asks: several runs share the machine, not one run."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = 1, 1
    options.enable_cpu_mem_arena = False  # it would keep the largest run's memory; without it runs take as long
    options.enable_mem_pattern = False  # a plan for each length that ever came
    options.log_severity_level = 3
    return options


def softmax(z: Floats) -> Floats:
    """Of one row."""
    e = np.exp(z - z.max())
    found: Floats = e / e.sum()
    return found


def _features_of(card: Card) -> Any:
    """`proxy.grounding.values.consistency.features` where the card uses it. Raises `ModelUnavailable` where it was fitted on others."""
    combinations = [given.combination for given in card.languages.values() if given.combination is not None]
    if not combinations:
        return None
    from proxy.grounding.values import consistency

    for combination in combinations:
        if combination.inputs != (*LOGITS, *consistency.FEATURES):
            raise ModelUnavailable(
                f"the verifier {card.name}@{card.version} was fitted on other features than this Groundwire makes; export it anew"
            )
    return consistency.features
