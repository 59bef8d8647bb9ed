"""Thresholds: what libraries' own sources say, row by row, and rules that refuse to be read wrongly."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from nhalf.catalog import libraries, store
from nhalf.catalog.schema import RuleEntry, SourceEntry
from nhalf.citation import Datum
from nhalf.collective import Mode, Op
from nhalf.device import generation
from nhalf.errors import InputError
from nhalf.laws.collective.table import LAWS
from nhalf.loading.kv_rule import assumed_kv

if TYPE_CHECKING:
    from nhalf.library import Rule

RULES = store.rules()
KIB, MIB = 1024.0, 1024.0**2
NO_LAWS = {"nccl", "nccl-symmetric", "custom", "quick-reduce"}
"""What rules name that is no algorithm with a law: hand-overs, and kernels of one kind of device."""


def rule(library: str, op: Op, ranks: int, architecture: str, mode: Mode | None = None, variant: str = "") -> Rule:
    found = [
        each
        for each in RULES
        if (each.library, each.op, each.variant) == (library, op, variant) and each.holds(ranks, architecture, mode)
    ]
    assert found, (library, op, ranks, architecture)
    return found[0]


AR, AG, A2A, BC = Op.ALL_REDUCE, Op.ALL_GATHER, Op.ALL_TO_ALL, Op.BROADCAST


# Each row as the library's source has it: up to (or below) this size it runs the first, from there on the second.
@pytest.mark.parametrize(
    ("library", "op", "ranks", "architecture", "size", "before", "after"),
    [
        ("vllm", AR, 4, "hopper", 512 * KIB, "one-shot", "two-shot"),
        ("vllm", AR, 4, "hopper", 32 * MIB, "two-shot", "nccl"),
        ("vllm", AR, 6, "hopper", 512 * KIB, "two-shot", "nvls"),
        ("vllm", AR, 8, "hopper", 256 * KIB, "one-shot", "nvls"),
        ("vllm", AR, 8, "hopper", 64 * MIB, "nvls", "nccl"),
        ("vllm", AR, 2, "hopper", 64 * MIB, "one-shot", "nccl"),
        ("vllm", AR, 8, "blackwell", 1 * MIB, "two-shot", "nvls"),
        ("vllm", AR, 8, "blackwell", 128 * MIB, "nvls", "nccl"),
        ("vllm", AR, 8, "blackwell-ultra", 4 * MIB, "two-shot", "nvls"),
        ("vllm", AR, 8, "blackwell-ultra", 64 * MIB, "nvls", "nccl"),
        ("vllm", AR, 6, "blackwell-ultra", 8 * MIB, "two-shot", "nvls"),
        ("vllm", AR, 8, "ampere", 256 * KIB, "one-shot", "two-shot"),
        ("vllm", AR, 8, "ampere", 8 * MIB, "two-shot", "nccl"),
        ("sglang", AR, 4, "hopper", 384 * KIB, "one-shot", "two-shot"),
        ("sglang", AR, 8, "hopper", 128 * KIB, "one-shot", "two-shot"),
        ("sglang", AR, 8, "hopper", 512 * KIB, "two-shot", "nvls"),
        ("sglang", AR, 8, "blackwell", 512 * KIB, "one-shot", "two-shot"),
        ("sglang", AR, 3, "blackwell", 4 * MIB, "one-shot", "two-shot"),
        ("trtllm", AR, 8, "hopper", 256 * KIB, "one-shot", "two-shot"),
        ("trtllm", AR, 8, "hopper", 4 * MIB, "two-shot", "nccl"),
        ("trtllm", AR, 4, "blackwell", 2 * MIB, "one-shot", "two-shot"),
        ("trtllm", AR, 4, "blackwell-ultra", 2 * MIB, "one-shot", "two-shot"),
        ("sglang", AR, 8, "blackwell-ultra", 512 * KIB, "one-shot", "two-shot"),
        ("flashinfer", AR, 8, "hopper", 2688 * KIB, "one-shot", "two-shot"),
        ("openmpi", AR, 8, "any", 8 * KIB, "recursive-doubling", "rabenseifner"),
        ("openmpi", AR, 5, "any", 16.0, "ring", "recursive-doubling"),
        ("openmpi", AR, 128, "any", 128 * KIB, "binomial", "recursive-doubling"),
        ("openmpi", A2A, 32, "any", 32 * 512.0, "bruck", "direct"),  # 512 bytes to each of 32 ranks
        ("mpich", AR, 7, "any", 8.0, "recursive-doubling", "rabenseifner"),
        ("mpich", AG, 8, "any", 512 * KIB, "recursive-doubling", "ring"),
        ("mpich", AG, 6, "any", 80 * KIB, "bruck", "ring"),
        ("mpich", BC, 16, "any", 512 * KIB, "scatter-doubling", "scatter-ring"),
        ("mpich", A2A, 8, "any", 8 * 256.0, "bruck", "direct"),
        ("mpich", A2A, 4, "any", 4 * 32 * KIB, "direct", "pairwise"),
        ("mpich", Op.REDUCE, 8, "any", 2 * KIB, "binomial", "rabenseifner"),
        ("mpich", Op.REDUCE_SCATTER, 8, "any", 512 * KIB, "recursive-doubling", "pairwise"),
    ],
)
def test_a_rule_switches_where_its_source_says(  # noqa: PLR0913, PLR0917  a row of a table
    library: str, op: Op, ranks: int, architecture: str, size: float, before: str, after: str
) -> None:
    found = rule(library, op, ranks, architecture, Mode.GRAPH)
    assert found.choice(size * 0.999, ranks) == before
    assert found.choice(size * 1.001, ranks) == after
    assert found.choice(size, ranks) == (after if found.strict else before)


@pytest.mark.parametrize("name", ["b300-sxm", "gb300-nvl72"])
def test_a_refresh_has_its_own_thresholds_and_all_else_of_its_generation(name: str) -> None:
    device = store.system(name)[0].device
    assert (device.architecture, generation(device.architecture)) == ("blackwell-ultra", "blackwell")
    assert generation("hopper") == "hopper"
    # Every rule of the first holds for the refresh, or one of its own does.
    for each in RULES:
        if "blackwell" in each.architectures:
            names = {other.variant for other in RULES if other.library == each.library and other.op == each.op
                     and other.ranks == each.ranks and device.architecture in other.architectures}  # fmt: skip
            assert each.variant in names, each.locator
    tuners = [store.library("vllm", architecture=of)[0].tuner for of in ("blackwell", device.architecture)]
    assert tuners[0].tree_ll is not None
    assert tuners[1].tree_ll is not None
    assert tuners[0].tree_ll.bandwidth_limit_bytes_per_s == tuners[1].tree_ll.bandwidth_limit_bytes_per_s
    assert tuners[0].has_nvls == tuners[1].has_nvls
    assert store.symmetric(device.architecture)[0] == store.symmetric("blackwell")[0]
    kv = {assumed_kv(weights="fp8", engine="vllm", architecture=of)[0] for of in ("blackwell", device.architecture)}
    assert kv == {"fp8"}


def test_a_mode_has_its_own_thresholds() -> None:
    limits = {mode: rule("sglang", AR, 4, "hopper", mode).limits[0].value for mode in (Mode.GRAPH, Mode.EAGER)}
    assert limits == {Mode.GRAPH: 384 * KIB, Mode.EAGER: 896 * KIB}


def test_variants_are_told_apart_and_never_the_default() -> None:
    fused = rule("vllm", AR, 8, "hopper", variant="fused with RMSNorm by FlashInfer")
    assert [limit.value for limit in fused.limits] == [512 * KIB, 512 * KIB]
    band = rule("vllm", AR, 8, "hopper", variant="NCCL's symmetric memory, on H100 and GB200")
    assert [band.choice(size, 8) for size in (8 * KIB, 64 * KIB, 1 * MIB)] == [
        "nccl-symmetric", "one-shot", "nccl-symmetric",
    ]  # fmt: skip
    quick = rule("vllm", AR, 8, "cdna3", variant="quick reduce FP, bf16")
    assert quick.choice(16 * MIB, 8) == "quick-reduce"
    assert quick.choice(16 * MIB - 1, 8) == "custom"


def test_a_barrier_has_one_algorithm_and_no_size() -> None:
    found = rule("mpich", Op.BARRIER, 9, "any")
    assert (found.limits, found.choice(0.0, 9)) == ((), "dissemination")


def test_ranks_beyond_a_rule_have_none() -> None:
    assert not [each for each in RULES if each.library == "vllm" and each.holds(5, "hopper", None)]
    assert [each.ranks for each in RULES if each.library == "openmpi" and each.holds(2047, "any", None)] == [
        (512, 2047)
    ]


@pytest.mark.parametrize("each", RULES, ids=lambda each: f"{each.library} {each.op} {each.ranks} {each.variant}")
def test_every_rule_can_be_traced_and_names_what_is_known(each: Rule) -> None:
    source = store.rule_sources()[each.source]
    assert re.search(r"\b[0-9a-f]{8}\b", source.title), "it names no commit"
    assert source.date
    assert source.url.startswith("https://")
    assert len(each.locator) > 3
    assert len(each.algorithms) == len(each.limits) + 1
    assert set(each.algorithms) - NO_LAWS <= set(LAWS[each.op])
    assert [limit.value for limit in each.limits] == sorted(limit.value for limit in each.limits)
    assert all(
        isinstance(limit, Datum) and limit.unit == "bytes" and limit.source == each.source for limit in each.limits
    )


def test_every_library_with_a_rule_is_in_the_catalogue_and_every_source_is_used() -> None:
    assert {each.library for each in RULES} <= set(store.names("library"))
    assert {each.source for each in RULES} == set(store.rule_sources())


# --- rules that are refused -------------------------------------------------------------------------------------------


def read(**changes: Any) -> list[Rule]:  # noqa: ANN401  any field of an entry
    given: dict[str, Any] = {
        "library": "mine", "version": "1", "op": Op.ALL_REDUCE, "algorithms": ("ring", "one-shot"),
        "limits": {"8": ("1 KiB",)}, "source": "here", "locator": "a line", **changes,
    }  # fmt: skip
    sources = {"here": SourceEntry(title="mine", date="2026")}
    return list(libraries.rules("mine", RuleEntry(**given), sources, where="file"))


def test_a_rule_of_ones_own_is_read() -> None:
    (found,) = read(limits={"4-7": ("1 KiB",)})
    assert (found.ranks, found.choice(1024.0, 5), found.choice(1025.0, 5)) == ((4, 7), "ring", "one-shot")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"limits": {"8": ("1 KiB", "2 KiB")}}, r"file \[mine\] limits\.8: 2 sizes for 2 algorithms"),
        ({"limits": {"eight": ("1 KiB",)}}, r"'eight' is no number of ranks.*512\+"),
        ({"limits": {"8": ("1024",)}}, "has no unit"),
        ({"algorithms": ("a", "b", "c"), "limits": {"8": ("2 KiB", "1 KiB")}}, "the sizes fall"),
        ({"source": "there"}, r"no source 'there'.*here"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(**changes)
