"""The transports that ship are what their tool derives, and a family left out of its class is met as it says."""

from __future__ import annotations

import tomllib
from typing import TypeAlias

import numpy as np
import pytest
from tools import derive_fabrics as derive

from nhalf.catalog import stated, store

Derived: TypeAlias = tuple[dict[tuple[str, str], derive.Variant], list[derive.Fitted], np.ndarray]
GOALS = {"1 KiB-1 MiB": (0.20, 0.38), "8-256 KiB": (0.20, 0.40), "1 MiB-1 GiB": (0.26, 0.45)}
"""Median and p90 of a machine of which the class alone is known: medians over families."""
RANGES = {"1 KiB-1 MiB": (2**10, 2**20), "8-256 KiB": (2**13, 2**18), "1 MiB-1 GiB": (2**20, 2**30)}


@pytest.fixture(scope="module")
def derived() -> Derived:
    variants = derive.read()
    return variants, *derive.fitted(variants)


def test_the_shipped_constants_are_what_the_tool_derives(
    derived: Derived,
) -> None:
    again = tomllib.loads(derive.document(derive.entries(*derived)))["transports"]
    shipped = tomllib.loads(derive.FABRICS.read_text(encoding="utf-8"))["transports"]
    assert set(again) == set(shipped)
    for name, entry in again.items():
        assert entry["rests_on"] == shipped[name]["rests_on"]
        for key, table in entry.items():
            if isinstance(table, dict):
                mine, theirs = (float(each[key]["value"].split()[0]) for each in (entry, shipped[name]))
                assert mine == pytest.approx(theirs, rel=0.05), f"{name}.{key}"


def test_a_family_left_out_is_met_by_its_class(
    derived: Derived,
) -> None:
    variants, fits, within = derived
    pools = derive.left_out(fits, within)
    errors: dict[str, dict[str, list[np.ndarray]]] = {name: {} for name in RANGES}
    for (family, label), variant in variants.items():
        if family in derive.DOUBTFUL or any(word in label for word in ("matching", "without", "cross-nic")):
            continue
        for series in (each for each in variant.series if each.op == "all-reduce"):
            off = np.abs(series.predicted(pools[family].centres[variant.kind][None])[0] / series.seconds - 1)
            for name, (low, high) in RANGES.items():
                inside = (series.sizes >= low) & (series.sizes <= high)
                if inside.any():
                    errors[name].setdefault(family, []).append(off[inside])
    for name, (middle, ninth) in GOALS.items():
        by = [[np.quantile(np.concatenate(each), level) for level in (0.5, 0.9)] for each in errors[name].values()]
        assert len(by) >= 16, name
        assert np.median(by, axis=0)[0] <= middle, name
        assert np.median(by, axis=0)[1] <= ninth, name


def test_every_transport_says_what_it_rests_on_and_has_intervals() -> None:
    for name, entry in stated.transports().items():
        assert entry.rests_on
        for path, datum in store.transport(name)[1].items():
            assert datum.low is not None, f"{name}.{path}"
            assert datum.high is not None, f"{name}.{path}"
            assert datum.low < datum.value < datum.high, f"{name}.{path}"


def test_a_machine_is_known_more_closely_than_its_class_and_an_unmeasured_class_less() -> None:
    def spread(name: str) -> float:
        datum = store.transport(name)[1]["hop_s"]
        return (datum.high or 0.0) / (datum.low or 1.0)

    assert spread("efa-v2-p5") < spread("efa-v2") < spread("efa-v3")
    assert spread("proprietary") > spread("ib")
