"""The stage `poisoning`: false content and hidden instructions are kept out of the context, or held until a person decides."""

from __future__ import annotations

from proxy.stages.poisoning.rules import PoisoningOptions as PoisoningOptions
from proxy.stages.poisoning.stage import Poisoning as Poisoning
