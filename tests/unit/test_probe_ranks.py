"""Who this process is, as launchers say, and what `nhalf measure` was asked, flag by flag."""

from __future__ import annotations

from typing import Any

import pytest

from nhalf.collective import Op
from nhalf.errors import InputError
from nhalf.evidence.probe.asked import Asked, requested
from nhalf.evidence.probe.plan import cells, example_pairs, whole
from nhalf.evidence.probe.ranks import command, place

TORCHRUN = {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}
MPICH = {"PMI_RANK": "3", "PMI_SIZE": "4"}
SLURM = {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_LOCALID": "0"}


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        (TORCHRUN, ("torchrun", 1, 4, 1)),
        (OPEN_MPI, ("Open MPI", 2, 4, 0)),
        (MPICH, ("MPICH", 3, 4, None)),
        (SLURM, ("Slurm", 0, 2, 0)),
        (OPEN_MPI | TORCHRUN, ("torchrun", 1, 4, 1)),
        (SLURM | MPICH, ("MPICH", 3, 4, None)),
    ],
)
def test_each_launcher_is_understood(environment: dict[str, str], found: tuple[Any, ...]) -> None:
    here = place(environment)
    assert here is not None
    assert (here.launcher, here.rank, here.size, here.local_rank) == found


def test_nobody_started_ranks() -> None:
    assert place({}) is None
    assert place({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}) is None  # a batch script, not a step


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"RANK": "0"}, "RANK is set and WORLD_SIZE is not.*unset RANK"),
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE is set and RANK is not"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK=2 of WORLD_SIZE=2 cannot be"),
        ({"PMI_RANK": "first", "PMI_SIZE": "2"}, "PMI_RANK='first' is not a number"),
    ],
)
def test_launchers_that_contradict_themselves(environment: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        place(environment)


# ------------------------------------------------------------------------------------------------- flags


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"backend": "socket"}, "'socket' is not a backend.*Did you mean 'sockets'"),
        ({"backend": "gloo"}, "gloo needs ranks that torchrun started.*torchrun --nproc-per-node 2"),
        ({"backend": "mpi", "listen": ""}, "two hosts meet over sockets, not mpi"),
        ({"listen": "", "connect": "there"}, "one host listens, the other connects"),
        ({"bind": "127.0.0.1"}, "only a host that listens, or rank 0"),
        ({"ranks": "1"}, "1 rank cannot measure"),
        ({"ranks": "0"}, "'0' is not a whole number"),
        ({"ranks": "4"}, "sockets measure pairs.*--pairs all"),
        ({"ranks": "3", "connect": "there"}, "two hosts have a rank each"),
        ({"ranks": "5000", "pairs": "all"}, "5000 ranks cannot measure"),
        ({"ops": "all-reduce"}, "sockets cannot measure all-reduce.*--backend mpi"),
        ({"ops": "all-redice"}, "'all-redice' is not a known op.*Did you mean 'all-reduce'"),
        ({"timing": "graph"}, "sockets has no graphs"),
        ({"timing": "isolatd"}, "is no way of timing.*Did you mean 'isolated'"),
        ({"pairs": "some"}, "'some' is no set of pairs"),
        ({"overlap": True}, "it needs a collective"),
        ({"fuse": "1,2"}, "it needs a collective"),
        ({"channels": "udp"}, "'udp' is no channel"),
        ({"channels": "unix", "connect": "there"}, "two hosts share a network only"),
        ({"sync": "clock"}, "'clock' is no way to begin"),
        ({"budget": "0s"}, "no time is left"),
        ({"budget": "12"}, "'12' has no unit"),
        ({"deadline": "5GB"}, "is a size, not a time"),
        ({"target": "0%"}, "0% is no precision"),
        ({"port": "70000"}, "70000 is no port"),
        ({"connect": "there:70000", "word": "sesame-sesame"}, "--connect there:70000: 70000 is no port"),
        ({"connect": "there:7", "port": "8", "word": "sesame-sesame"}, "the port is given twice"),
        ({"listen": "10.0.0.1", "bind": "10.0.0.2"}, "the address is given twice"),
        ({"connect": "there"}, "printed a word, and this one does not know it.*NHALF_WORD=... nhalf measure"),
        ({"connect": "there", "word": "sesame"}, "--word: a word of 6 characters is too short"),
        ({"word": "sesame-sesame"}, "ranks that nhalf starts here need no word"),
        ({"placement": "far"}, "'far' is no placement.*spread, near, free"),
        ({"placement": "near", "listen": ""}, "your shell says on which processors"),
        ({"seed": "x"}, "'x' is not a whole number"),
        ({"sizes_bytes": (8.0, 1e12)}, "a message of 1 TB cannot be measured"),
        ({"sizes_bytes": (0.25,)}, "a message of 0 B cannot be measured"),
        ({"fuse_size": "16"}, "'16' has no unit"),
    ],
)
def test_bad_flags_are_one_clear_error(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        requested(Asked(**flags), {})


def test_a_rank_count_must_be_the_launchers() -> None:
    with pytest.raises(InputError, match="torchrun started 4 ranks, not 2"):
        requested(Asked(backend="sockets", ranks="2", pairs="all"), TORCHRUN)


def test_without_flags_two_ranks_send_messages() -> None:
    here, request = requested(Asked(), {})
    assert here is None
    assert (request.backend, request.size, request.ops) == ("sockets", 2, (Op.SEND_RECV,))
    assert (request.sizes_bytes[0], request.sizes_bytes[-1]) == (8, 8 * 1024 * 1024)
    planned = cells(request, {0: 0, 1: 0})
    assert {cell.channel for cell in planned} == set(request.channels)
    assert len(planned) == len(request.channels) * len(request.sizes_bytes)


def test_the_backend_follows_the_launcher() -> None:
    here, request = requested(Asked(pairs="all", backend="sockets"), MPICH)
    assert here is not None
    assert request.size == 4
    assert len(cells(request, dict.fromkeys(range(4), 0))) == len(request.channels) * 6 * 6


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ({"listen": ""}, ("", 0)),
        ({"listen": "10.0.0.1:99"}, ("10.0.0.1", 99)),
        ({"listen": "", "bind": "10.0.0.1", "port": "99"}, ("10.0.0.1", 99)),
        ({"listen": "[::1]:99"}, ("::1", 99)),
    ],
)
def test_a_host_listens_where_it_is_told_to(flags: dict[str, Any], found: tuple[str, int]) -> None:
    _, request = requested(Asked(**flags), {})
    assert (request.bind, request.port, request.host, request.word) == (*found, "", "")


def test_the_word_may_stand_in_the_environment_and_only_there_where_it_is_of_use() -> None:
    given = {"NHALF_WORD": "sesame-sesame"}
    assert requested(Asked(connect="there:7"), given)[1].word == "sesame-sesame"
    assert requested(Asked(connect="there", word="sesame-opens"), given)[1].word == "sesame-opens"
    assert requested(Asked(), given)[1].word == ""


def test_placement_is_said_by_who_places() -> None:
    assert requested(Asked(), {})[1].placement == "spread"
    assert requested(Asked(placement="near"), {})[1].placement == "near"
    assert requested(Asked(listen=""), {})[1].placement == "free"
    assert requested(Asked(backend="sockets", pairs="all"), MPICH)[1].placement == "launcher"
    with pytest.raises(InputError, match="MPICH says on which processors"):
        requested(Asked(backend="sockets", pairs="all", placement="free"), MPICH)


def test_the_command_is_proposed_again_without_its_word_and_file() -> None:
    typed = ["--connect", "there", "--word", "sesame-sesame", "-o", "x.json", "--budget=3s", "--json", "--seed", "2"]
    assert command(typed, {}) == "nhalf measure --connect there --seed 2"
    started = {"TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    assert command(["--word=x"], started) == "torchrun --nproc-per-node 2 -m nhalf measure"


# ------------------------------------------------------------------------------------------------- cells


@pytest.mark.parametrize(
    ("op", "asked", "ranks", "size"),
    [
        (Op.ALL_REDUCE, 9, 3, 12),
        (Op.ALL_GATHER, 8, 3, 9),
        (Op.REDUCE_SCATTER, 8, 3, 12),
        (Op.ALL_TO_ALL, 8, 4, 8),
        (Op.BROADCAST, 9, 4, 9),
        (Op.SEND_RECV, 7, 2, 7),
    ],
)
def test_sizes_share_out_evenly(op: Op, asked: int, ranks: int, size: int) -> None:
    assert whole(op, asked, ranks) == size


def test_pairs_inside_and_across_nodes() -> None:
    assert example_pairs({0: 0, 1: 0}) == [("", (0, 1))]
    assert example_pairs({0: 0, 1: 1}) == [("", (0, 1))]
    assert example_pairs({0: 0, 1: 0, 2: 1, 3: 1}) == [("in a node", (0, 1)), ("between nodes", (0, 2))]


def test_collectives_are_timed_in_each_way_and_split_once() -> None:
    _, request = requested(Asked(backend="mpi", ranks="4", ops="all-reduce,barrier", overlap=True, fuse="1,2,4"), {})
    planned = cells(request, dict.fromkeys(range(4), 0))
    by_how = {how: [cell for cell in planned if cell.how == how] for how in ("isolated", "back_to_back", "split")}
    assert {cell.op for cell in by_how["split"]} == {Op.ALL_REDUCE, Op.BARRIER}
    assert {cell.size_bytes for cell in planned if cell.op is Op.BARRIER} == {0}
    fused = {(cell.size_bytes, cell.count) for cell in planned if cell.label == "fuse"}
    assert fused == {(16384, 1), (16384, 2), (16384, 4), (32768, 1), (65536, 1)}
    assert all(cell.is_extra for cell in planned if cell.how in ("split", "overlap"))
