"""Assembly: a transformer from its layers, in order, and the formats that its checkpoint stores them in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from nhalf.transformer.model import Layer, Transformer
from nhalf.transformer.weights import UNQUANTISED, Format, Matrix, WeightGroup, gathered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    FormatOf = Callable[[int, str], Format | None]


class Naming(NamedTuple):
    """How a family calls its modules: exclusion lists are matched against these names.

    `renames` are applied in order to the names inside a layer.
    """

    layers: str = "model.layers"
    renames: tuple[tuple[str, str], ...] = ()

    def full(self, index: int, module: str) -> str:
        """Return the full name of a module of a layer."""
        for old, new in self.renames:
            module = module.replace(old, new)
        return f"{self.layers}.{index}.{module}"


class Shape(NamedTuple):
    """What a model has besides its layers."""

    name: str
    hidden_size: int
    vocabulary_size: int
    tied_embeddings: bool
    left_out: tuple[str, ...] = ()


def stacked(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Return the layers with equal ones put together, in the order they first come."""
    places: dict[Layer, list[int]] = {}
    for index, layer in enumerate(layers):
        places.setdefault(replace(layer, count=1, indices=()), []).append(index)
    return tuple(replace(layer, count=len(indices), indices=tuple(indices)) for layer, indices in places.items())


def assemble(
    shape: Shape, layers: tuple[Layer, ...], *, base: str, kv: str, dtype: str, formats: FormatOf
) -> Transformer:
    """Return the transformer.

    `formats` gives the format of a module of a layer, by its index and name; None for `base`. `dtype` is what most of
    the quantised matrices are stored in.
    """
    plain = Format(dtype=base)
    every = (*_blocks(shape, layers, plain, formats), *((matrix, plain) for matrix in _ends(shape, layers)))
    groups: tuple[WeightGroup, ...] = gathered(every)
    return Transformer(
        name=shape.name,
        hidden_size=shape.hidden_size,
        vocabulary_size=shape.vocabulary_size,
        layers=layers,
        tied_embeddings=shape.tied_embeddings,
        weight_dtype=dtype,
        kv_dtype=kv,
        base_dtype=base,
        groups=groups,
        left_out=shape.left_out,
    )


def _blocks(
    shape: Shape, layers: tuple[Layer, ...], plain: Format, formats: FormatOf
) -> Iterator[tuple[Matrix, Format]]:
    """Yield the matrices of every layer with their formats."""
    for layer in layers:
        for matrix in layer.matrices(shape.hidden_size):
            if matrix.narrowest_bits == UNQUANTISED:
                yield matrix._replace(parameters=matrix.parameters * layer.count), plain
                continue
            for index in layer.indices:
                yield matrix, formats(index, matrix.module) or plain


def _ends(shape: Shape, layers: tuple[Layer, ...]) -> Iterator[Matrix]:
    """Yield what is no block: norms, output head, embeddings."""
    size = shape.vocabulary_size * shape.hidden_size
    norms = (sum(layer.count * layer.norms for layer in layers) + 1) * shape.hidden_size
    yield Matrix(module="", group="norms", parameters=norms, split="none", narrowest_bits=UNQUANTISED)
    yield Matrix(module="lm_head", group="output head", parameters=size, narrowest_bits=UNQUANTISED)
    if not shape.tied_embeddings:
        yield Matrix(module="", group="embeddings", parameters=size, read="never", narrowest_bits=UNQUANTISED)
