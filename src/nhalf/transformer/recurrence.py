"""Recurrences: layers that keep a state of fixed size per sequence instead of keys and values per token."""

from __future__ import annotations

from dataclasses import dataclass

from nhalf.transformer.attention import Attention
from nhalf.transformer.weights import UNQUANTISED, Matrix, vectors

STATE_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0}
"""Bytes per element of a recurrent state [bytes]."""
_CONVOLUTION_BYTES = 2.0
"""Bytes per element of the last inputs that the convolution keeps [bytes]: they are activations, 16 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearAttention(Attention):
    """A gated delta rule: each value head keeps a matrix of key dimension x value dimension.

    `heads` are the value heads, shared out to `key_heads` key heads; `kernel` is the width of the convolution before.
    Each head has one rate of decay, or each of its channels one of their own, by a projection of `decay_rank` (KDA).

    References
    ----------
    S. Yang, J. Kautz and A. Hatamizadeh, "Gated Delta Networks", arXiv:2412.06464; the Qwen3-Next and Qwen3.5 code of
    Hugging Face transformers; Kimi Linear, arXiv:2510.26692.
    """

    heads: int
    key_heads: int
    key_dim: int
    value_dim: int
    kernel: int
    state_dtype: str = "fp32"
    decay_rank: int | None = None

    @property
    def kind(self) -> str:
        """Return what the kind is called in answers."""
        return "linear attention"

    @property
    def _channels(self) -> int:
        """Return what the convolution runs over: queries, keys and values."""
        return 2 * self.key_heads * self.key_dim + self.heads * self.value_dim

    def matrices(self, hidden_size: int) -> tuple[Matrix, ...]:
        """Return the projections in (queries, keys, values, gate, decay and rate) and out, and the convolution."""
        name, inner = "linear attention", self.heads * self.value_dim
        rates, convolved = self._rates(hidden_size), self._channels * self.kernel
        return (
            Matrix(module="linear_attn.in_proj_qkv", group=name, parameters=self._channels * hidden_size, inputs=1),
            Matrix(module="linear_attn.in_proj_z", group=name, parameters=inner * hidden_size),
            Matrix(module="linear_attn.in_proj_ba", group=name, parameters=rates, narrowest_bits=UNQUANTISED),
            Matrix(module="linear_attn.conv1d", group=name, parameters=convolved, narrowest_bits=UNQUANTISED),
            Matrix(module="linear_attn.out_proj", group=name, parameters=inner * hidden_size, inputs=1),
            vectors(2 * self.heads + self.value_dim),
        )

    def _rates(self, hidden_size: int) -> int:
        """Return the weights of the rates of update and of decay."""
        if self.decay_rank is None:
            return 2 * self.heads * hidden_size
        return self.heads * hidden_size + self.decay_rank * (hidden_size + self.heads * self.key_dim)

    def refusal(self, ranks: int) -> str:
        """Return why TP cannot split the heads over so many ranks, or an empty string."""
        for heads, what in ((self.key_heads, "key"), (self.heads, "value")):
            if heads % ranks:
                return f"it does not divide {heads} {what} heads of the linear attention"
        return ""

    def state_elements(self, ranks: int) -> float:
        """Return the elements of the matrices and of the convolution's last inputs."""
        return (self._matrix_elements + self._window_elements) / ranks

    def state_bytes(self, ranks: int) -> float:
        """Return the bytes of both [bytes]."""
        whole = self._matrix_elements * STATE_BYTES[self.state_dtype] + self._window_elements * _CONVOLUTION_BYTES
        return whole / ranks

    @property
    def _matrix_elements(self) -> int:
        return self.heads * self.key_dim * self.value_dim

    @property
    def _window_elements(self) -> int:
        return self._channels * (self.kernel - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSpace(Attention):
    """A Mamba-2 mixer: each head keeps a matrix of head dimension x state size.

    `groups` of heads share the input and output vectors of the state (B and C).

    References
    ----------
    T. Dao and A. Gu, "Transformers are SSMs", arXiv:2405.21060; the Nemotron-H code published with its weights.
    """

    heads: int
    head_dim: int
    groups: int
    state: int
    kernel: int
    biased: bool = False
    convolution_biased: bool = True
    state_dtype: str = "bf16"

    @property
    def kind(self) -> str:
        """Return what the kind is called in answers."""
        return "state space"

    @property
    def _inner(self) -> int:
        return self.heads * self.head_dim

    @property
    def _shared(self) -> int:
        """Return the width of B and C together."""
        return 2 * self.groups * self.state

    def matrices(self, hidden_size: int) -> tuple[Matrix, ...]:
        """Return the projections in (gate, input, step; B and C by groups) and out, and the convolution."""
        name, grouped = "state space", "state space groups"
        taps = self.kernel + (1 if self.convolution_biased else 0)
        biases = 2 * self._inner + self._shared + self.heads + hidden_size if self.biased else 0
        wide = (2 * self._inner + self.heads) * hidden_size
        shared, convolved = self._shared * hidden_size, (self._inner + self._shared) * taps
        return (
            Matrix(module="mamba.in_proj", group=name, parameters=wide, inputs=1),
            Matrix(module="mamba.in_proj", group=grouped, parameters=shared, pieces=self.groups),
            Matrix(module="mamba.conv1d", group=name, parameters=convolved, narrowest_bits=UNQUANTISED),
            Matrix(module="mamba.out_proj", group=name, parameters=self._inner * hidden_size, inputs=1),
            vectors(3 * self.heads + self._inner + biases),
        )

    def refusal(self, ranks: int) -> str:
        """Return why TP cannot split the heads over so many ranks, or an empty string."""
        if self.heads % ranks:
            return f"it does not divide {self.heads} state-space heads"
        if self.groups % ranks and ranks % self.groups:
            return f"it neither divides nor is a multiple of {self.groups} state-space groups"
        return ""

    def state_elements(self, ranks: int) -> float:
        """Return the elements of the matrices and of the convolution's last inputs."""
        return self._inner * self.state / ranks + self._window_elements(ranks)

    def state_bytes(self, ranks: int) -> float:
        """Return the bytes of both [bytes]."""
        matrices = self._inner * self.state / ranks * STATE_BYTES[self.state_dtype]
        return matrices + self._window_elements(ranks) * _CONVOLUTION_BYTES

    def _window_elements(self, ranks: int) -> float:
        """Return the convolution's last inputs; a group is not split but copied."""
        shared = self._shared / min(ranks, self.groups)
        return (self._inner / ranks + shared) * (self.kernel - 1)
