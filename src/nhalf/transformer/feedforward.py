"""Feed-forward blocks: dense ones, and mixtures of experts."""

from __future__ import annotations

from dataclasses import dataclass

from nhalf.transformer.weights import UNQUANTISED, Matrix, vectors


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedFeedForward:
    """A feed-forward block of gate, up and down projections (Shazeer, arXiv:2002.05202); without a gate, of two."""

    intermediate_size: int
    biased: bool = False
    gated: bool = True

    def matrices(self, hidden_size: int, *, module: str = "mlp", group: str = "feed-forward") -> tuple[Matrix, ...]:
        """Return the projections and their biases."""
        names = ("gate_proj", "up_proj", "down_proj") if self.gated else ("up_proj", "down_proj")
        size = hidden_size * self.intermediate_size
        biases = (len(names) - 1) * self.intermediate_size + hidden_size if self.biased else 0
        projections = tuple(
            Matrix(module=f"{module}.{name}", group=group, parameters=size, inputs=int(name in (names[0], names[-1])))
            for name in names
        )
        return (*projections, vectors(biases)) if biases else projections

    def parameters(self, hidden_size: int) -> int:
        """Return the weights of the projections and their biases."""
        return sum(matrix.parameters for matrix in self.matrices(hidden_size))


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertFeedForward:
    """A mixture of experts: a router sends each token to `chosen` of `experts`, and every token to the shared expert.

    `intermediate_size` is that of one expert. `latent_size` is the width that experts work in where the token is
    projected down before them and up after them. `corrected` says that the router has a bias per expert for balance.

    References
    ----------
    N. Shazeer et al., arXiv:1701.06538; D. Dai et al., "DeepSeekMoE", arXiv:2401.06066.
    """

    experts: int
    chosen: int
    intermediate_size: int
    gated: bool = True
    biased: bool = False
    shared: GatedFeedForward | None = None
    shared_gate: bool = False
    corrected: bool = False
    router_biased: bool = False
    latent_size: int | None = None
    latent_bits: int = 4

    def expert_parameters(self, hidden_size: int) -> int:
        """Return the weights of one expert: 3 d m with a gate, and its biases."""
        width = self.latent_size or hidden_size
        return (3 if self.gated else 2) * width * self.intermediate_size + self._expert_biases(width)

    def _expert_biases(self, width: int) -> int:
        return (2 if self.gated else 1) * self.intermediate_size + width if self.biased else 0

    def matrices(self, hidden_size: int) -> tuple[Matrix, ...]:
        """Return the router, the experts (by the first one's modules), the shared one and the latent's projections."""
        width = self.latent_size or hidden_size
        size = self.experts * width * self.intermediate_size
        names = ("gate_proj", "up_proj", "down_proj") if self.gated else ("up_proj", "down_proj")
        found = [
            Matrix(
                module="mlp.gate",
                group="router",
                parameters=self.experts * hidden_size,
                split="none",
                narrowest_bits=UNQUANTISED,
            )
        ]
        found += [
            Matrix(module=f"mlp.experts.0.{name}", group="experts", parameters=size, split="expert", read="routed")
            for name in names
        ]
        if self.biased:
            count = self.experts * self._expert_biases(width)
            found.append(
                Matrix(
                    module="",
                    group="expert biases",
                    parameters=count,
                    split="expert",
                    read="routed",
                    narrowest_bits=UNQUANTISED,
                )
            )
        if self.shared:
            found += self.shared.matrices(hidden_size, module="mlp.shared_experts", group="shared expert")
        if self.latent_size:
            found += [
                Matrix(
                    module=f"mlp.{name}",
                    group="latent projections",
                    parameters=hidden_size * width,
                    split="none",
                    narrowest_bits=self.latent_bits,
                    inputs=1,
                )
                for name in ("fc1_latent_proj", "fc2_latent_proj")
            ]
        rest = self.experts * (int(self.corrected) + int(self.router_biased)) + (hidden_size if self.shared_gate else 0)
        return (*found, vectors(rest)) if rest else tuple(found)

    def parameters(self, hidden_size: int) -> int:
        """Return the weights of the block, every expert counted."""
        return sum(matrix.parameters for matrix in self.matrices(hidden_size))


FeedForward = GatedFeedForward | ExpertFeedForward
