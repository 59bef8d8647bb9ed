"""Attention: what each kind of it weighs, caches and computes in one layer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, NamedTuple

from nhalf.transformer.weights import UNQUANTISED, Matrix, vectors

INDEX_SCALE_BYTES = 4.0
"""Bytes of the scale of one cached index key [bytes]: an index key is 8 bits per element and one fp32 scale for 128
elements (DeepSeek-V3.2-Exp, its released inference code)."""


class Indexer(NamedTuple):
    """A small attention that chooses the `tokens` cached tokens which the large one reads (DeepSeek-V3.2-Exp).

    A layer without an indexer of its `own` reads what the one before it chose. `plain` keys are kept in 16 bits.
    """

    heads: int
    head_dim: int
    tokens: int
    own: bool = True
    plain: bool = False

    @property
    def key_bytes(self) -> float:
        """Return the bytes of one index key [bytes]: 8 bits per element and a scale, or 16 bits."""
        if not self.own:
            return 0.0
        return 2.0 * self.head_dim if self.plain else self.head_dim + INDEX_SCALE_BYTES

    @property
    def flop(self) -> float:
        """Return 2 h d [FLOP]: one score for each of its heads."""
        return 2.0 * self.heads * self.head_dim if self.own else 0.0

    def matrices(self, sizes: dict[str, tuple[int, int]]) -> tuple[Matrix, ...]:
        """Return its projections (parameters and narrowest bits by name) and norms; every rank holds them."""
        if not self.own:
            return ()
        projections = tuple(
            Matrix(
                module=f"self_attn.indexer.{name}", group="indexer", parameters=size, split="none", narrowest_bits=bits
            )
            for name, (size, bits) in sizes.items()
        )
        return (*projections, vectors(2 * self.head_dim))


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

    @property
    def recent_elements(self) -> int:
        """Return the elements of the last tokens that are kept in full beside compressed ones, and read each step."""
        return 0

    def recent_flop(self, ranks: int) -> float:  # noqa: ARG002  the kinds that compress their cache use it
        """Return the arithmetic [FLOP] per new token on the last tokens that are kept in full."""
        return 0.0

    def state_elements(self, ranks: int) -> float:  # noqa: ARG002  the kinds that keep a state use it
        """Return the elements of a sequence's state: read and written each step, whatever the context."""
        return 0.0

    def state_bytes(self, ranks: int) -> float:  # noqa: ARG002  the kinds that keep a state use it
        """Return the bytes of a sequence's state [bytes]."""
        return 0.0


class IndexedAttention(Attention):
    """Attention that reads what an indexer chose, where it has one."""

    __slots__ = ()

    indexer: Indexer | None

    @property
    def pooled(self) -> int:
        """Return how many cached tokens share one index key."""
        return 1

    @property
    def index_elements(self) -> int:
        """Return the elements of one index key."""
        return 0 if self.indexer is None else self.indexer.head_dim

    @property
    def index_bytes(self) -> float:
        """Return the bytes of index keys per cached token [bytes]."""
        return 0.0 if self.indexer is None else self.indexer.key_bytes / self.pooled

    @property
    def index_flop(self) -> float:
        """Return the arithmetic of the indexer [FLOP] per new token and cached token."""
        return 0.0 if self.indexer is None else self.indexer.flop / self.pooled


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedQueryAttention(IndexedAttention):
    """Attention in which groups of query heads share key-value heads (Ainslie et al., arXiv:2305.13245).

    `window` is the most tokens a query looks back on, `chunked` says that windows are fixed chunks, of which a token
    reads half on average and at most all. `biased` names the projections that have biases: the inputs (query, key and
    value), the output too, or none. `norm_elements` are those of the norms of queries and keys. An output gate
    (`gated`) doubles the query projection, one number a head (`head_gated`) adds a row for each; `keys_as_values`
    leaves out the value projection, not the cached values. Values have the dimension of keys, or `value_dim`. An
    `indexer` chooses what is read, in blocks (MiniMax-M3).
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
    value_dim: int | None = None
    head_gated: bool = False
    indexer: Indexer | None = None

    @property
    def kind(self) -> str:
        """Return what the kind is called in answers."""
        if self.indexer is not None:
            return "block-sparse attention"
        if self.window is None:
            return "full attention"
        return "chunked attention" if self.chunked else "sliding-window attention"

    def matrices(self, hidden_size: int) -> tuple[Matrix, ...]:
        """Return the four projections, and the biases, norms and sinks."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        values = 0 if self.keys_as_values else self.kv_heads * self._value_dim
        out = self.heads * self._value_dim
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
            *self._extras(hidden_size),
        )

    @property
    def _value_dim(self) -> int:
        return self.head_dim if self.value_dim is None else self.value_dim

    def _extras(self, hidden_size: int) -> tuple[Matrix, ...]:
        """Return the gate of the heads and the indexer's projections, whose keys all its heads share."""
        found: tuple[Matrix, ...] = ()
        if self.head_gated:
            size = self.heads * hidden_size
            found += (
                Matrix(module="self_attn.g_proj", group="attention", parameters=size, narrowest_bits=UNQUANTISED),
            )
        if self.indexer is not None:
            heads, head_dim = self.indexer.heads, self.indexer.head_dim
            found += self.indexer.matrices(
                {"q_proj": (hidden_size * heads * head_dim, 8), "k_proj": (hidden_size * head_dim, 8)}
            )
        return found

    def refusal(self, ranks: int) -> str:
        """Return why TP cannot split the heads over so many ranks, or an empty string."""
        if self.heads % ranks:
            return f"it does not divide {self.heads} attention heads"
        if self.kv_heads % ranks and ranks % self.kv_heads:
            return f"it neither divides nor is a multiple of {self.kv_heads} key-value heads"
        return ""

    def kv_elements(self, ranks: int) -> float:
        """Return the cached elements per token; a head is not split but copied."""
        return max(1.0, self.kv_heads / ranks) * (self.head_dim + self._value_dim)

    def copies(self, ranks: int) -> float:
        """Return on how many of the ranks each key-value head lies."""
        return max(1.0, ranks / self.kv_heads)

    @property
    def read_limit(self) -> int | None:
        """Return the window, or how many tokens the indexer chooses."""
        return self.window if self.indexer is None else self.indexer.tokens

    @property
    def kept_limit(self) -> int | None:
        """Return the window: engines with a cache manager per kind of layer drop what is older."""
        return self.window

    def score_flop(self, ranks: int) -> float:
        """Return 2 h (d + d of values) / ranks: a multiplication and an addition, for the scores and for the values."""
        return 2.0 * self.heads / ranks * (self.head_dim + self._value_dim)
