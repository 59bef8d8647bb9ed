"""Ranks that already exist: who this process is, as torchrun, Open MPI, MPICH, Intel MPI or Slurm say in variables."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nhalf.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Who this process is.

    It is `rank` of `size`, says `launcher`; `local_rank` and `local_size` count on its host,
    `master` is rank 0's host.
    """

    rank: int
    size: int
    launcher: str
    local_rank: int | None = None
    local_size: int | None = None
    master: str = ""


_LEFT_OUT: Final = ("-o", "--output", "--budget", "--word")
_LAUNCHERS: Final = (
    ("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    (
        "Open MPI",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    ("MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    # A batch script has SLURM_PROCID as well; only a step, which srun starts, has a number of tasks of its own.
    ("Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""),
)


def place(environment: Mapping[str, str]) -> Place | None:
    """Return who this process is, or None where no launcher started it; the first launcher that speaks is believed.

    Raises InputError when a launcher's variables contradict each other.
    """
    for launcher, rank_name, size_name, *local_names in _LAUNCHERS:
        rank_text, size_text = environment.get(rank_name), environment.get(size_name)
        if launcher == "Slurm" and size_text is None:
            continue
        if rank_text is None and size_text is None:
            continue
        if rank_text is None or size_text is None:
            there, missing = (rank_name, size_name) if size_text is None else (size_name, rank_name)
            raise InputError(f"{there} is set and {missing} is not", where="the environment",
                             allowed=f"both, as {launcher} sets them, or neither", do=f"unset {there}")  # fmt: skip
        rank, size = _number(rank_name, rank_text), _number(size_name, size_text)
        if size < 1 or rank >= size:
            raise InputError(f"{rank_name}={rank} of {size_name}={size} cannot be", where="the environment",
                             allowed=f"0 to {size_name} - 1", do="start all ranks with one launcher")  # fmt: skip
        local, locals_ = (environment.get(name) for name in local_names)
        return Place(
            rank=rank,
            size=size,
            launcher=launcher,
            local_rank=_number(local_names[0], local) if local is not None else None,
            local_size=_number(local_names[1], locals_) if locals_ is not None else None,
            master=environment.get("MASTER_ADDR", ""),
        )
    return None


def _number(name: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise InputError(f"{name}={text!r} is not a number", where="the environment", allowed="0 or more",
                         do=f"unset {name}, or start the ranks with their launcher")  # fmt: skip
    return int(text)


def command(typed: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return `nhalf measure` as it was typed, to be proposed again: without where its samples went, and its word.

    It begins with what started this rank, where one host has them all: nobody else could start the command again.
    """
    kept, skip = [], False
    for text in typed:
        if skip or text in _LEFT_OUT:
            skip = not skip
        elif text != "--json" and not text.startswith(tuple(f"{flag}=" for flag in _LEFT_OUT)):
            kept.append(text)
    size = environment.get("WORLD_SIZE", "")
    by_torchrun = "TORCHELASTIC_RUN_ID" in environment and size == environment.get("LOCAL_WORLD_SIZE")
    start = ["torchrun", "--nproc-per-node", size, "-m", "nhalf"] if by_torchrun else ["nhalf"]
    return shlex.join([*start, "measure", *kept])
