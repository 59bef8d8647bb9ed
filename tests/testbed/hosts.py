"""Runs `nhalf measure` on the hosts of a bed: over sockets, by a launcher's variables, by mpiexec."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nhalf.evidence.probe import ahead

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.evidence.probe.bed import Bed

_SOURCE: Final = Path(__file__).resolve().parents[2] / "src"
_NHALF: Final = (sys.executable, "-m", "nhalf", "measure")
_AHEAD: Final = (sys.executable, ahead.__file__)
_FIRST, _OFTEN = (*_AHEAD, "first"), (*_AHEAD, "often")
_LAUNCHERS: Final = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "PMI_", "OMPI_", "SLURM_")
_LIMIT_S: Final = 30.0
_WORD: Final = {"NHALF_WORD": "sesame-sesame"}
BY_NETWORK: Final = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0"}
"""Keeps UCX, which MPICH calls between hosts, from the memory that the hosts of a bed share in truth."""
NO_LOCAL: Final = {"MPIR_CVAR_NOLOCAL": "1", **BY_NETWORK}
"""MPICH too takes the network, between hosts that it believes to be one."""
GIVING_WAY: Final = {"MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1"}
"""Ranks that wait give their processor away: there are more of them, with the relay, than processors."""


class FailedError(Exception):
    """A measurement ended with an error, which this is."""


def by_sockets(bed: Bed, *flags: str) -> dict[str, Any]:
    """Return the answer of the first two hosts, one of which listens."""
    other = _start([*_FIRST, *bed.inside(1, *_NHALF, "--listen", bed.addresses[1], "--wait", "30s")], **_WORD)
    try:
        connect = bed.inside(0, *_NHALF, "--connect", bed.addresses[1], *flags, "--json")
        return _answer(_start([*_FIRST, *connect], **_WORD))
    finally:
        _end([other])


def by_launcher(bed: Bed, each: int, *flags: str) -> dict[str, Any]:
    """Return the answer of `each` ranks a host that meet by the variables of a launcher."""
    started = []
    try:
        for rank in range(each * bed.hosts):
            given = {"RANK": str(rank), "WORLD_SIZE": str(each * bed.hosts), "MASTER_ADDR": bed.addresses[0], **_WORD}
            command = bed.inside(rank // each, *_NHALF, "--backend", "sockets", "--channels", "tcp", *flags, "--json")
            started.append(_start([*_FIRST, *command], **given))
        return _answer(started[0])
    finally:
        _end(started)


def by_mpi(bed: Bed, ranks: int, folder: Path, *flags: str, **variables: str) -> dict[str, Any]:
    """Return the answer of ranks of MPI, as many on each host; mpiexec starts them as on machines of their own."""
    each = max(ranks // bed.hosts, 1)
    script = folder / "on-host"
    cases = [
        f'{address}) exec {" ".join(bed.inside(host))} sh -c "$*" ;;' for host, address in enumerate(bed.addresses)
    ]
    script.write_text("\n".join(['#!/bin/sh\nhost="$1"; shift; case "$host" in', *cases, "esac\n"]), encoding="utf-8")
    script.chmod(0o755)
    hosts = ",".join(f"{address}:{each}" for address in bed.addresses)
    where = ["-launcher", "rsh", "-launcher-exec", str(script), "-localhost", bed.addresses[0], "-hosts", hosts]
    return _mpi(bed, [*where, "-n", str(ranks)], flags, {**BY_NETWORK, **variables})


def by_mpi_of_one_host(bed: Bed, *flags: str, **variables: str) -> dict[str, Any]:
    """Return the answer of two ranks of MPI on two hosts that mpiexec takes for one."""
    first, second = (" ".join(bed.inside(host)) for host in (0, 1))
    start = f'case $PMI_RANK in 0) exec {first} "$@";; *) exec {second} "$@";; esac'
    return _mpi(bed, ["-n", "2", "sh", "-c", start, "sh"], flags, variables)


def _mpi(bed: Bed, start: Sequence[str], flags: Sequence[str], variables: dict[str, str]) -> dict[str, Any]:
    mpiexec = str(Path(sys.executable).parent / "mpiexec")
    nhalf = [*_NHALF, "--backend", "mpi", "--bind", bed.addresses[0], *flags, "--json"]
    # mpiexec and its servers are ordinary processes: ranks that poll ahead of them would never hear from them.
    first = _FIRST if start[start.index("-n") + 1] == "2" else ()
    return _answer(_start([*_OFTEN, *bed.inside(0, mpiexec, *start, *first, *nhalf)], **GIVING_WAY, **variables))


def _start(command: Sequence[str], **more: str) -> subprocess.Popen[str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith(_LAUNCHERS)}
    return subprocess.Popen(command, env={**kept, "PYTHONPATH": str(_SOURCE), **more}, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip


def _answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    try:
        out, err = process.communicate(timeout=_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        process.kill()
        process.communicate()
        raise FailedError("nhalf measure hangs") from error
    if process.returncode:
        raise FailedError(err)
    found: dict[str, Any] = json.loads(out)
    return found


def _end(processes: Sequence[subprocess.Popen[str]]) -> None:
    """Let processes end by themselves for a moment, and end those that do not."""
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired, ValueError):
            process.communicate(timeout=10.0)
        if process.poll() is None:
            process.kill()
            process.communicate()
