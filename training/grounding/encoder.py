"""A BERT encoder with a three-way head, in plain torch: small enough to read, fast enough to train on two cores.

The architecture is that of Devlin et al. 2019 (post-norm, GELU, learned positions), as the starts (`training.grounding.starts`) have it;
with ``buckets``, MPNet's (Song et al. 2020): a bias for each distance between two tokens, the same in every layer.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LABELS = ("supported", "unsupported", "contradicted")
_FARTHEST = 128
"""Distance in tokens from which on all fall into one bucket."""


class Layer(nn.Module):
    """Self-attention and feed-forward, each followed by a residual and a norm."""

    def __init__(self, hidden: int, heads: int, inner: int, eps: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = 0.0
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, hidden)
        self.norm1 = nn.LayerNorm(hidden, eps)
        self.up = nn.Linear(hidden, inner)
        self.down = nn.Linear(inner, hidden)
        self.norm2 = nn.LayerNorm(hidden, eps)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """`x` ``(batch, length, hidden)``; `mask` as `F.scaled_dot_product_attention` takes it, or None."""
        batch, length, hidden = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, hidden // self.heads).permute(2, 0, 3, 1, 4)
        attended = _attended(q, k, v, mask)
        x = self.norm1(x + self._dropped(self.out(attended.transpose(1, 2).reshape(batch, length, hidden))))
        return self.norm2(x + self._dropped(self.down(F.gelu(self.up(x)))))

    def _dropped(self, x: Tensor) -> Tensor:
        """With a share of its numbers left out, in training; by random bytes, as torch's own takes 2.5 times as long on one thread."""
        left_out = round(256 * self.dropout)
        if not (left_out and self.training):
            return x
        kept = torch.empty(x.shape, dtype=torch.uint8, device=x.device).random_() >= left_out
        return x * kept.to(x.dtype).mul_(256 / (256 - left_out))


def _attended(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Attention; in 16 bits on a CPU in plain products, which takes 0.6 of the time of torch's own there, forth and back."""
    if q.device.type != "cpu" or q.dtype != torch.bfloat16 or mask is None:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    bias = torch.zeros_like(mask, dtype=q.dtype).masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else mask
    scores = torch.matmul(q * q.shape[-1] ** -0.5, k.transpose(-1, -2)) + bias
    return torch.matmul(torch.softmax(scores, -1).to(v.dtype), v)


class Encoder(nn.Module):
    """Token ids in, three logits out (`LABELS`), read from the first token."""

    def __init__(
        self,
        vocabulary: int,
        layers: int,
        *,
        hidden: int = 384,
        heads: int = 12,
        inner: int = 1536,
        positions: int = 512,
        types: int = 2,
        eps: float = 1e-12,
        first_position: int = 0,
        buckets: int = 0,
    ) -> None:
        super().__init__()
        self.config: dict[str, Any] = {
            "vocabulary": vocabulary,
            "layers": layers,
            "hidden": hidden,
            "heads": heads,
            "inner": inner,
            "positions": positions,
            "types": types,
            "eps": eps,
            "first_position": first_position,
            "buckets": buckets,
        }
        self.first_position = first_position
        self.relative = nn.Embedding(buckets, heads) if buckets else None
        self.word = nn.Embedding(vocabulary, hidden)
        self.position = nn.Embedding(positions, hidden)
        self.segment = nn.Embedding(types, hidden)
        self.norm = nn.LayerNorm(hidden, eps)
        self.layers = nn.ModuleList(Layer(hidden, heads, inner, eps) for _ in range(layers))
        self.pooler = nn.Linear(hidden, hidden)
        self.head = nn.Linear(hidden, len(LABELS))

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor) -> Tensor:
        """``(batch, 3)`` logits; `ids`, `mask` (1 where there is a token) and `types` are ``(batch, length)`` integers."""
        logits: Tensor = self.head(torch.tanh(self.pooler(self.hidden(ids, mask, types)[:, 0])))
        return logits

    def hidden(self, ids: Tensor, mask: Tensor, types: Tensor) -> Tensor:
        """The last layer, ``(batch, length, hidden)``."""
        positions = torch.arange(ids.shape[1], device=ids.device) + self.first_position
        x = self.norm(self.word(ids) + self.position(positions)[None] + self.segment(types))
        seen = mask.bool()[:, None, None, :]
        if self.relative is not None:
            bias = self.relative(distance_buckets(ids.shape[1], self.relative.num_embeddings).to(ids.device)).permute(2, 0, 1)
            kind = torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else x.dtype
            seen = bias[None].masked_fill(~seen, -math.inf).to(kind)
        for layer in self.layers:
            x = layer(x, seen)
        return x

    def freeze(self, layers: int, dropout: float = 0.0) -> None:
        """Keep the embeddings and the first `layers` layers as they are; train the others with so much of what they add left out."""
        for number, layer in enumerate(self.layers):
            layer.dropout = dropout if number >= layers else 0.0
        for part in (self.word, self.position, self.segment, self.norm, self.relative, *self.layers[:layers]):
            if part is not None:
                part.requires_grad_(requires_grad=False)


def distance_buckets(length: int, buckets: int) -> Tensor:
    """``(length, length)``: the bucket of the distance from a token (row) to another; half are for those before it, half for those behind.

    A bucket for each small distance, then logarithmic ones up to `_FARTHEST` (Raffel et al. 2020).
    """
    places = torch.arange(length)
    away = places[None] - places[:, None]
    half = buckets // 2
    exact = half // 2
    far = exact + (torch.log(away.abs().clamp(min=1) / exact) / math.log(_FARTHEST / exact) * (half - exact)).long()
    return torch.where(away > 0, half, 0) + torch.where(away.abs() < exact, away.abs(), far.clamp(max=half - 1))
