"""What one visit to a loop says: for each kind of step of a token its wait and its transfer, and who comes last.

A rank waits for the one that comes last in the mean over a token, not at each step: on a link whose latency is longer
than what ranks are apart, who comes late at one step finds the message there and is early at the next, and nobody
waits. What is left of a step is its transfer; so a slow rank is in the others' waits, and a slow link in all transfers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nhalf.collective import Op

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nhalf.breakdown import Array
    from nhalf.evidence.probe.cell import Program, Step


def played(program: Program, answers: Mapping[int, Any], ahead_ns: Mapping[int, int]) -> dict[str, Any]:
    """Return the medians over the tokens of a visit [ns].

    `token` is the longest rank's; `steps` the transfer and wait of each kind on the path of a token, `calls` what
    one call takes; `late` what each rank cost the others by coming last. Without marks of ranks' own clocks there
    is no wait, and without any marks (a graph) only the token.
    """
    tokens = np.max([answer["tokens"] for answer in answers.values()], axis=0)
    found: dict[str, Any] = {"token": float(np.median(tokens)), "steps": {}, "calls": {}, "late": {}, "waits": True}
    if any(not answer["marks"] for answer in answers.values()):
        return found
    found["waits"] = not any(answer["own"] for answer in answers.values())
    marks = {
        rank: np.reshape(np.asarray(answer["marks"], dtype=float), (len(tokens), -1, 2)) - ahead_ns.get(rank, 0)
        for rank, answer in answers.items()
    }
    place = dict.fromkeys(answers, 0)
    spent: dict[str, list[tuple[Step, Array]]] = {}
    begun: dict[tuple[int, ...], list[Array]] = {}
    for step in program.steps:
        times = np.stack([marks[rank][:, place[rank]] for rank in step.ranks])
        for rank in step.ranks:
            place[rank] += 1
        spent.setdefault(step.name, []).append((step, _spent(step, times, waits=found["waits"])))
        if found["waits"] and step.op is not Op.SEND_RECV and len(step.ranks) > 1:
            begun.setdefault(step.ranks, []).append(times[:, :, 0])
    apart = {ranks: np.mean([each - np.mean(each, axis=0) for each in group], axis=0) for ranks, group in begun.items()}
    waits = {ranks: np.max(each, axis=0) for ranks, each in apart.items()}  # the mean over ranks is 0
    for name, steps in spent.items():
        wait = [step.share * waits[step.ranks] for step, _ in steps if step.ranks in waits and step.op != Op.SEND_RECV]
        waited = float(np.median(np.sum(wait, axis=0))) if wait else 0.0
        whole = float(np.median(np.sum([step.share * times for step, times in steps], axis=0)))
        found["steps"][name] = [max(whole - waited, 0.0), waited]
        found["calls"][name] = float(np.median([times for _, times in steps]))
    found["late"] = dict.fromkeys(answers, 0.0)
    for ranks, each in apart.items():  # means over tokens: who is slow now and then costs as much as who always is
        *_, before, last = sorted((float(np.mean(late)), rank) for rank, late in zip(ranks, each, strict=True))
        shares = sum(step.share for step in program.steps if step.ranks == ranks)
        found["late"][last[1]] += (last[0] - before[0]) * shares
    return found


def _spent(step: Step, times: Array, *, waits: bool) -> Array:
    """Return the mean time [ns] of a rank in a step of each token; a message begins when both ends have come."""
    begun, ended = times[:, :, 0], times[:, :, 1]
    if step.op is Op.SEND_RECV and waits:
        arrived: Array = np.maximum(ended[1] - np.max(begun, axis=0), 0.0)
        return arrived
    mean: Array = np.mean(ended - begun, axis=0)
    return mean
