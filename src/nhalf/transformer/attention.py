"""Attention: what each kind of it weighs, caches and computes in one layer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

from nhalf.transformer.weights import Matrix, vectors


class Attention(ABC):
    """One layer's way of mixing tokens. What a kind does not have is 0 or None here.

    Counts that name `ranks` are those of one of so many TP ranks.
    """

    __slots__ = ()

    heads: int

    @property
    @abstractmethod
    def kind(self) -> str:
        """Return what the kind is called in answers."""

    @abstractmethod
    def matrices(self, hidden_size: int) -> tuple[Matrix, ...]:
        """Return the weights of one layer."""

    @abstractmethod
    def refusal(self, ranks: int) -> str:
        """Return why TP cannot split this attention over so many ranks, or an empty string."""

    def parameters(self, hidden_size: int) -> int:
        """Return the number of weights of one layer."""
        return sum(matrix.parameters for matrix in self.matrices(hidden_size))

    def kv_elements(self, ranks: int) -> float:  # noqa: ARG002  the kinds that cache keys use it
        """Return the cached elements per token of one layer."""
        return 0.0

    @property
    def read_limit(self) -> int | None:
        """Return the most cached tokens that one new token reads, None where it reads them all."""
        return None

    @property
    def kept_limit(self) -> int | None:
        """Return the most tokens that an engine needs to keep for one sequence, None where it keeps them all."""
        return None

    def copies(self, ranks: int) -> float:  # noqa: ARG002  the kinds that cache keys use it
        """Return on how many of the ranks each cached element lies."""
        return 1.0

    def score_flop(self, ranks: int) -> float:  # noqa: ARG002  the kinds that cache keys use it
        """Return the arithmetic [FLOP] per new token and cached token: its score, and its part of the sum."""
        return 0.0

    def prompt_score_flop(self, ranks: int) -> float:
        """Return the same [FLOP] per pair of prompt tokens; a causal prompt has half of all pairs."""
        return self.score_flop(ranks)

    @property
    def index_elements(self) -> int:
        """Return the elements per token of the keys that choose what is read; every rank holds and reads them all."""
        return 0

    @property
    def index_bytes(self) -> float:
        """Return the bytes of these keys per token [bytes]; their format does not follow the cache's."""
        return 0.0

    @property
    def index_flop(self) -> float:
        """Return the arithmetic [FLOP] per new token and cached token of that choice; every rank does it."""
        return 0.0

    def state_elements(self, ranks: int) -> float:  # noqa: ARG002  the kinds that keep a state use it
        """Return the elements of a sequence's state: read and written each step, whatever the context."""
        return 0.0

    def state_bytes(self, ranks: int) -> float:  # noqa: ARG002  the kinds that keep a state use it
        """Return the bytes of a sequence's state [bytes]."""
        return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedQueryAttention(Attention):
    """Attention in which groups of query heads share key-value heads (Ainslie et al., arXiv:2305.13245).

    `window` is the most tokens a query looks back on, `chunked` says that windows are fixed chunks, of which a token
    reads half on average and at most all. `biased` names the projections that have biases: the inputs (query, key and
    value), the output too, or none. `norm_elements` are those of the norms of queries and keys. An output gate
    (`gated`) doubles the query projection; `keys_as_values` leaves out the value projection, not the cached values.
    """

    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    chunked: bool = False
    biased: Literal["none", "inputs", "all"] = "none"
    norm_elements: int = 0
    gated: bool = False
    keys_as_values: bool = False
    sinks: bool = False

    @property
    def kind(self) -> str:
        """Return what the kind is called in answers."""
        if self.window is None:
            return "full attention"
        return "chunked attention" if self.chunked else "sliding-window attention"

    def matrices(self, hidden_size: int) -> tuple[Matrix, ...]:
        """Return the four projections, and the biases, norms and sinks."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        values = 0 if self.keys_as_values else keys
        out = queries
        queries *= 2 if self.gated else 1
        biases = queries + keys + values if self.biased != "none" else 0
        biases += hidden_size if self.biased == "all" else 0
        rest = vectors(biases + self.norm_elements + (self.heads if self.sinks else 0))
        name, cached = "attention", "attention keys and values"
        return (
            Matrix(module="self_attn.q_proj", group=name, parameters=queries * hidden_size, inputs=1),
            Matrix(module="self_attn.k_proj", group=cached, parameters=keys * hidden_size, pieces=self.kv_heads),
            Matrix(module="self_attn.v_proj", group=cached, parameters=values * hidden_size, pieces=self.kv_heads),
            Matrix(module="self_attn.o_proj", group=name, parameters=out * hidden_size, inputs=1),
            rest,
        )

    def refusal(self, ranks: int) -> str:
        """Return why TP cannot split the heads over so many ranks, or an empty string."""
        if self.heads % ranks:
            return f"it does not divide {self.heads} attention heads"
        if self.kv_heads % ranks and ranks % self.kv_heads:
            return f"it neither divides nor is a multiple of {self.kv_heads} key-value heads"
        return ""

    def kv_elements(self, ranks: int) -> float:
        """Return the cached elements per token; a head is not split but copied."""
        return 2.0 * max(1.0, self.kv_heads / ranks) * self.head_dim

    def copies(self, ranks: int) -> float:
        """Return on how many of the ranks each key-value head lies."""
        return max(1.0, ranks / self.kv_heads)

    @property
    def read_limit(self) -> int | None:
        """Return the window."""
        return self.window

    @property
    def kept_limit(self) -> int | None:
        """Return the window: engines with a cache manager per kind of layer drop what is older."""
        return self.window

    def score_flop(self, ranks: int) -> float:
        """Return 4 h d / ranks: a multiplication and an addition, for the scores and for the values."""
        return 4.0 * self.heads / ranks * self.head_dim
