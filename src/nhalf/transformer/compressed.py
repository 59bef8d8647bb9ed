"""Compressed attention: DeepSeek-V4's, whose cache has an entry for several tokens and the last tokens in full."""

from __future__ import annotations

from dataclasses import dataclass

from nhalf.transformer.attention import IndexedAttention, Indexer
from nhalf.transformer.weights import UNQUANTISED, Matrix, vectors

OVERLAPPING = 4
"""The ratio at which neighbouring entries overlap, so that the compressor is twice as wide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressedAttention(IndexedAttention):
    """Attention of many heads on one shared key that is its value too, `ratio` tokens to a cached entry.

    With an `indexer`, whose `tokens` are cached tokens in all the entries that it chooses, it is compressed sparse
    attention (CSA); without, heavily compressed attention (HCA), which reads every entry. The last `window` tokens are
    kept and read in full beside them; a `ratio` of 0 has nothing else. Outputs go through `groups` projections of
    `output_rank` each.

    References
    ----------
    DeepSeek-V4, model card and released inference code (deepseek-ai/DeepSeek-V4-Pro, 2026-04).
    """

    heads: int
    head_dim: int
    query_rank: int
    groups: int
    output_rank: int
    window: int
    ratio: int
    indexer: Indexer | None = None

    @property
    def kind(self) -> str:
        """Return what the kind is called in answers."""
        if not self.ratio:
            return "sliding-window attention"
        return "heavily compressed attention" if self.indexer is None else "compressed sparse attention"

    @property
    def pooled(self) -> int:
        """Return how many cached tokens share one index key."""
        return self.ratio

    def matrices(self, hidden_size: int) -> tuple[Matrix, ...]:
        """Return the projections of queries, of the shared key, out, of the compressor and of the indexer."""
        down, up = "latent down-projections", "latent up-projections"
        wide, joined = self.heads * self.head_dim, self.groups * self.output_rank
        sizes = (
            ("wq_a", down, hidden_size * self.query_rank, 1),
            ("wq_b", up, self.query_rank * wide, 1),
            ("wkv", down, hidden_size * self.head_dim, 0),
            ("wo_a", "attention", wide * self.output_rank, 1),
            ("wo_b", "attention", joined * hidden_size, 1),
        )
        projections = tuple(
            Matrix(
                module=f"self_attn.{name}", group=group, parameters=size, split="none" if group == down else "tensor",
                narrowest_bits=8, inputs=inputs,
            )
            for name, group, size, inputs in sizes
        )  # fmt: skip
        norms = vectors(self.query_rank + self.head_dim + self.heads)
        return (*projections, norms, *self._compressor(hidden_size), *self._index(hidden_size))

    def _compressor(self, hidden_size: int) -> tuple[Matrix, ...]:
        """Return what makes one entry of several tokens: keys, their weights, and a vector for each place."""
        if not self.ratio:
            return ()
        width = self._overlap * self.head_dim
        size = 2 * hidden_size * width
        return (
            Matrix(module="", group="compressor", parameters=size, split="none", narrowest_bits=UNQUANTISED),
            vectors(self.ratio * width + self.head_dim),
        )

    @property
    def _overlap(self) -> int:
        return 2 if self.ratio == OVERLAPPING else 1

    def _index(self, hidden_size: int) -> tuple[Matrix, ...]:
        """Return the indexer's projections and its own compressor."""
        if self.indexer is None:
            return ()
        heads, head_dim = self.indexer.heads, self.indexer.head_dim
        return self.indexer.matrices(
            {
                "wq_b": (self.query_rank * heads * head_dim, 8),
                "weights_proj": (hidden_size * heads, UNQUANTISED),
                "compressor": (2 * hidden_size * self._overlap * head_dim, UNQUANTISED),
            }
        )

    def refusal(self, ranks: int) -> str:
        """Return why TP cannot split this attention over so many ranks, or an empty string."""
        for count, what in ((self.heads, "attention heads"), (self.groups, "groups of the output projection")):
            if count % ranks:
                return f"it does not divide {count} {what}"
        return ""

    def kv_elements(self, ranks: int) -> float:  # noqa: ARG002  every rank holds the shared key
        """Return the cached elements per token: its part of a compressed entry, whole on every rank."""
        return self.head_dim / (self.ratio or 1)

    def copies(self, ranks: int) -> float:
        """Return the number of ranks: each holds the shared key."""
        return float(ranks)

    @property
    def read_limit(self) -> int | None:
        """Return the cached tokens in the entries that the indexer chooses, or the window."""
        if not self.ratio:
            return self.window
        return None if self.indexer is None else self.indexer.tokens

    @property
    def kept_limit(self) -> int | None:
        """Return the window where nothing else is kept."""
        return None if self.ratio else self.window

    @property
    def recent_elements(self) -> int:
        """Return the elements of the window that is kept beside compressed entries."""
        return self.window * self.head_dim if self.ratio else 0

    def score_flop(self, ranks: int) -> float:
        """Return 4 h d / (ranks x ratio): scores and sums of the entries, per cached token."""
        return 4.0 * self.heads / ranks * self.head_dim / (self.ratio or 1)

    def recent_flop(self, ranks: int) -> float:
        """Return 4 h d w / ranks of the window that is kept beside compressed entries."""
        return 4.0 * self.heads / ranks * self.recent_elements
