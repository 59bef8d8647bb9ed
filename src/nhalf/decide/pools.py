"""Pools: prompts prefilled on some devices and decoded on others, against doing both on all of them.

Decode steps are then free of prompts, at the price of devices that only prefill and of handing over every cache.
A split is balanced when the prefill pool finishes as many prompts a second as the decode pool finishes answers.

References
----------
Y. Zhong et al., "DistServe", arXiv:2401.09670; P. Patel et al., "Splitwise", arXiv:2311.18677.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from nhalf.decide.candidates import first_token_doubt
from nhalf.predict.prefill import prefill
from nhalf.predict.transfer import kv_bytes, kv_transfer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nhalf.decide.candidates import Candidate, Wish
    from nhalf.link import Link

ABREAST: Final = 8
"""Prompts of each attention rank that a prefill pool takes one after the other; its rate is theirs."""
_PAIRS: Final = 40
"""Pairs of layouts, the best by continuous shares, of which whole replicas are tried."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Side:
    """One pool: a layout, how many replicas of it, and (for decode) the batch of each, 0 for a prefill pool."""

    candidate: Candidate
    replicas: int
    batch: int = 0

    @property
    def devices(self) -> int:
        """Return the devices of the pool."""
        return self.candidate.layout.devices * self.replicas


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pools:
    """A split of the devices: times in [s], rates over all devices of both pools, idle ones included.

    `transfer_s` is what a prompt's cache takes to the decode pool, `transfer_share` [1] how much of the time its links
    are busy with that. `first_s` is the first token of one prompt alone, its transfer and a step included.
    """

    prefill: Side
    decode: Side
    tpot_s: float
    first_s: float
    transfer_s: float
    transfer_share: float
    per_gpu: float

    @property
    def per_user(self) -> float:
        """Return tokens/s of each sequence."""
        return 1.0 / self.tpot_s


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Maker:
    """A layout as a prefill pool: prompts/s of a replica, one prompt alone [s], and the hand-over of its cache."""

    candidate: Candidate
    rate: float
    alone_s: float
    transfer_s: float
    sent_s: float


def best(candidates: Sequence[Candidate], gpus: int, wish: Wish) -> Pools | None:
    """Return the split that gives most tokens/s per device within the limits; None where none does, or no prompts come.

    Links between pools are NICs where the devices fill more than a node, else those inside it.
    """
    some = candidates[0].scenario if candidates else None
    if some is None or not np.any(np.greater(some.workload.output_tokens, 0)):
        return None
    fabric = some.system.fabric
    link = fabric.inter_node if gpus > fabric.devices_per_node else fabric.intra_node
    output = float(np.mean(some.workload.output_tokens))
    makers = [made for each in candidates if each.layout.devices < gpus and (made := _maker(each, link)) is not None]
    limit_s = None if wish.ttft_s is None else wish.ttft_s / first_token_doubt(wish.odds)
    makers = [made for made in makers if limit_s is None or made.alone_s + made.transfer_s <= limit_s]
    found: list[Pools] = []
    for _, maker, candidate, place in _pairs(candidates, makers, wish, output):
        found += _splits(maker, candidate, place, gpus, output)
    within = [each for each in found if limit_s is None or each.first_s <= limit_s]
    return max(within, key=lambda each: each.per_gpu, default=None)


def _maker(candidate: Candidate, link: Link) -> _Maker | None:
    """Return a layout as a prefill pool."""
    scenario = candidate.scenario
    batches = np.array([1.0, float(ABREAST * scenario.layout.attention_dp)])
    workload = replace(scenario.workload, batch=batches, output_tokens=0.0)
    alone_s, many_s = np.broadcast_to(prefill(replace(scenario, workload=workload)).value, (2,)).tolist()
    one = replace(scenario, workload=replace(workload, batch=1.0, context_tokens=scenario.workload.prompt_tokens))
    transfer_s = float(np.mean(kv_transfer(one, link).value))
    sent_s = float(np.mean(kv_bytes(one).value)) / float(np.mean(link.bandwidth_bytes_per_s))
    return _Maker(candidate=candidate, rate=batches[1] / many_s, alone_s=alone_s, transfer_s=transfer_s, sent_s=sent_s)


def _pairs(
    candidates: Sequence[Candidate], makers: Sequence[_Maker], wish: Wish, output: float
) -> list[tuple[float, _Maker, Candidate, int]]:
    """Return the best pairs of a prefill and a decode layout by tokens/s per device in continuous shares."""
    sides: list[tuple[Candidate, int, float]] = []
    for candidate in candidates:
        rates = candidate.batches / candidate.decode_s / candidate.layout.devices
        if wish.tpot_s is not None:
            rates = np.where(candidate.decode_at(wish.odds) <= wish.tpot_s, rates, 0.0)
        place = int(np.argmax(rates))
        if rates[place] > 0:
            sides.append((candidate, place, float(rates[place])))
    if not sides or not makers:
        return []
    decoded = np.array([rate for _, _, rate in sides])[:, np.newaxis]
    prompts = np.array([maker.rate * output / maker.candidate.layout.devices for maker in makers])
    rate = 1 / (1 / decoded + 1 / prompts)
    best = np.argsort(-rate, axis=None, kind="stable")[:_PAIRS]
    pairs = zip(*np.unravel_index(best, rate.shape), strict=True)
    return [
        (float(rate[side, maker]), makers[maker], sides[side][0], sides[side][1])
        for side, maker in ((int(side), int(maker)) for side, maker in pairs)
    ]


def _splits(maker: _Maker, candidate: Candidate, place: int, gpus: int, output: float) -> Iterator[Pools]:
    """Yield every split of the devices between replicas of two layouts; the slower side, or the links, set the pace."""
    size, other = maker.candidate.layout.devices, candidate.layout.devices
    tpot_s, batch = float(candidate.decode_s[place]), int(candidate.batches[place])
    for count in range(1, (gpus - other) // size + 1):
        decoders = (gpus - count * size) // other
        prompts = count * maker.rate
        answers = decoders * batch / tpot_s / output
        served = min(prompts, answers, count / maker.sent_s)
        yield Pools(
            prefill=Side(candidate=maker.candidate, replicas=count),
            decode=Side(candidate=candidate, replicas=decoders, batch=batch),
            tpot_s=tpot_s,
            first_s=maker.alone_s + maker.transfer_s + tpot_s,
            transfer_s=maker.transfer_s,
            transfer_share=served / count * maker.sent_s,
            per_gpu=served * output / gpus,
        )
