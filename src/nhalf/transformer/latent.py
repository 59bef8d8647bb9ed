"""Latent attention: keys and values cached as one latent, which an indexer may read in part."""

from __future__ import annotations

from dataclasses import dataclass

from nhalf.transformer.attention import IndexedAttention, Indexer
from nhalf.transformer.weights import UNQUANTISED, Matrix, vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention(IndexedAttention):
    """Multi-head latent attention (MLA): keys and values are kept as one latent, and a rotary key that heads share.

    `query_rank` is None where queries are not compressed. Decode multiplies with the latent itself ("absorbed"). An
    output gate (`gated`) is a projection as wide as the values.

    References
    ----------
    DeepSeek-V2, arXiv:2405.04434, section 2.1; sparse reading (DSA): DeepSeek-V3.2-Exp, 2025.
    """

    heads: int
    query_rank: int | None
    latent: int
    rope_dim: int
    nope_dim: int
    value_dim: int
    biased: bool = False
    gated: bool = False
    indexer: Indexer | None = None

    @property
    def kind(self) -> str:
        """Return what the kind is called in answers."""
        if self.indexer is None:
            return "latent attention"
        return "sparse latent attention" if self.indexer.own else "sparse latent attention, index shared"

    def matrices(self, hidden_size: int) -> tuple[Matrix, ...]:
        """Return the projections down (on every rank), up (by heads) and out, the norms, and the indexer's.

        Quantisers to 4 bits leave all but the output projection alone (nvidia/DeepSeek-V3.1-NVFP4,
        hf_quant_config.json).
        """
        down, up = "latent down-projections", "latent up-projections"
        key_dim = self.nope_dim + self.rope_dim
        stored = self.latent + self.rope_dim
        if self.query_rank is None:
            size = self.heads * key_dim * hidden_size
            query: tuple[Matrix, ...] = (
                Matrix(module="self_attn.q_proj", group=up, parameters=size, narrowest_bits=8, inputs=1),
            )
        else:
            size, wide = hidden_size * self.query_rank, self.query_rank * self.heads * key_dim
            query = (
                Matrix(
                    module="self_attn.q_a_proj", group=down, parameters=size, split="none", narrowest_bits=8, inputs=1
                ),
                Matrix(module="self_attn.q_b_proj", group=up, parameters=wide, narrowest_bits=8, inputs=1),
            )
        size, wide = hidden_size * stored, self.latent * self.heads * (self.nope_dim + self.value_dim)
        biases = (self.query_rank or 0) + stored + hidden_size if self.biased else 0
        return (
            *query,
            Matrix(module="self_attn.kv_a_proj_with_mqa", group=down, parameters=size, split="none", narrowest_bits=8),
            Matrix(module="self_attn.kv_b_proj", group=up, parameters=wide, narrowest_bits=8),
            Matrix(
                module="self_attn.o_proj",
                group="attention",
                parameters=self.heads * self.value_dim * hidden_size,
                inputs=1,
            ),
            vectors((self.query_rank or 0) + self.latent + biases),
            *self._extras(hidden_size),
        )

    def _extras(self, hidden_size: int) -> tuple[Matrix, ...]:
        """Return the gate of the output, and the indexer's projections."""
        found: tuple[Matrix, ...] = ()
        if self.gated:
            size = self.heads * self.value_dim * hidden_size
            found += (Matrix(module="self_attn.g_proj", group="attention", parameters=size),)
        if self.indexer is None:
            return found
        heads, head_dim = self.indexer.heads, self.indexer.head_dim
        return found + self.indexer.matrices(
            {
                "wq_b": ((self.query_rank or hidden_size) * heads * head_dim, 8),
                "wk": (hidden_size * head_dim, 8),
                "weights_proj": (hidden_size * heads, UNQUANTISED),
            }
        )

    def refusal(self, ranks: int) -> str:
        """Return why TP cannot split the heads over so many ranks, or an empty string."""
        return f"it does not divide {self.heads} attention heads" if self.heads % ranks else ""

    def kv_elements(self, ranks: int) -> float:  # noqa: ARG002  every rank holds the whole latent
        """Return the cached elements per token: the latent and the rotary key, whole on every rank."""
        return float(self.latent + self.rope_dim)

    def copies(self, ranks: int) -> float:
        """Return the number of ranks: each holds the whole latent."""
        return float(ranks)

    @property
    def read_limit(self) -> int | None:
        """Return how many tokens the indexer chooses; memory keeps them all."""
        return None if self.indexer is None else self.indexer.tokens

    def score_flop(self, ranks: int) -> float:
        """Return 2 h (latent + rope + latent) / ranks: scores on latent and rotary key, and the sum of latents."""
        return 2.0 * self.heads / ranks * (2 * self.latent + self.rope_dim)

    def prompt_score_flop(self, ranks: int) -> float:
        """Return 2 h (nope + rope + value) / ranks with keys and values unpacked; sparse reading stays absorbed."""
        if self.indexer is not None:
            return self.score_flop(ranks)
        return 2.0 * self.heads / ranks * (self.nope_dim + self.rope_dim + self.value_dim)
