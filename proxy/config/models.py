"""The sections of config.yaml that say which models of the proxy's own run in this process, and how: ``embeddings:``, ``grounding:``."""

from __future__ import annotations

import importlib.util
from typing import Annotated, Literal

from msgspec import Meta, Struct

from proxy.errors import ConfigError

Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(gt=0)]
Positive = Annotated[int, Meta(gt=0)]


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Any mapping of config.yaml."""


class EmbeddingSettings(Section, frozen=True, kw_only=True):
    """``embeddings:``, the model that compares texts; loaded only if a policy has a stage that does."""

    kind: Literal["builtin", "sentence-transformers"] = "builtin"
    """``builtin`` needs no download and no torch."""
    model: str = ""
    """For ``sentence-transformers``: a name on the Hugging Face hub, or a folder (a relative one starts at config.yaml)."""
    max_chars: Positive = 4000
    """Longer texts are cut there."""
    cache_mb: Positive = 64
    """For vectors of texts seen before: about 27,000 with the built-in model."""
    disk_mb: Count = 128
    """The same for vectors of tools and passages, kept over a restart in the cache folder: about 50,000. 0 keeps nothing on the disk."""
    threads: Count = 0
    """Texts that are embedded at a time, a thread for each; 0 for two, or one on a machine with a single core. For
    ``sentence-transformers``: threads of one matrix product, 0 for one."""


class GroundingSettings(Section, frozen=True, kw_only=True):
    """``grounding:``, the verifiers that run in this process; loaded only if a policy has a stage that verifies claims."""

    model: str = ""
    """A folder in the built-in verifier's format (`proxy.models.verifier.onnx`) in its place; a relative one starts at config.yaml."""
    large: str = ""
    """A folder in the same format with a larger model, which is asked about what the built-in one is unsure of, while there is time."""
    threads: Count = 0
    """Claims that each verifier judges at a time, a thread for each (sentence-transformers: threads of one); 0 for two, or one on a
    machine with a single core."""
    cache_size: Count = 20_000
    """Judgements of each verifier that are remembered, 200 to 300 bytes each."""
    max_waiting: Positive = 512
    """Claims that may wait for each verifier; past it a check fails at once: about 8 s of work for the built-in one on two cores."""


def check_models(embeddings: EmbeddingSettings, file: str) -> None:
    """What no single field shows. Raises `ConfigError`."""
    library = embeddings.kind == "sentence-transformers"
    if library and not importlib.util.find_spec("sentence_transformers"):
        raise ConfigError(file, "embeddings.kind", "is not installed: pip install 'groundwire[sentence-transformers]'")
    if library != bool(embeddings.model):
        raise ConfigError(file, "embeddings.model", "name or folder needed" if library else "is for kind: sentence-transformers")
