"""Start ranks on this machine, one process each or by mpiexec, and leave none behind."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nhalf.errors import InputError
from nhalf.evidence.probe.conductor import KEY
from nhalf.evidence.probe.placement import processors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.evidence.probe.conductor import Conductor
    from nhalf.evidence.probe.placement import Placement

_GRACE_S: Final = 3.0
_LAST_WORDS: Final = 300  # characters
WORKER: Final = "nhalf.evidence.probe.worker"


class Launched:
    """Processes that nhalf started, by rank; one of rank None stands for all of them (mpiexec)."""

    def __init__(self) -> None:
        """Begin without processes."""
        self._processes: dict[int | None, subprocess.Popen[bytes]] = {}
        self._outputs: dict[int | None, Any] = {}

    def start(
        self, rank: int | None, command: Sequence[str], environment: dict[str, str], handles: Sequence[int] = ()
    ) -> None:
        """Start a process in a group of its own, so that a Ctrl-C reaches it only through nhalf; it keeps `handles`."""
        output = tempfile.TemporaryFile()  # noqa: SIM115  closed in `end`
        self._outputs[rank] = output
        try:
            self._processes[rank] = subprocess.Popen(  # noqa: S603  our own worker, or the user's mpiexec
                list(command), env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True, pass_fds=handles,
            )  # fmt: skip
        except OSError as error:
            output.close()
            raise InputError(f"it cannot be started: {error.strerror or error}", where=command[0],
                             do="check that it is installed") from error  # fmt: skip

    def health(self) -> tuple[int | None, str] | None:
        """Return the first rank whose process ended, and how it ended; None while all run."""
        for rank, process in self._processes.items():
            code = process.poll()
            if code is not None:
                return rank, self._how(rank, code)
        return None

    def _how(self, rank: int | None, code: int) -> str:
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        words = self.last_words(rank)
        who = f"its process (pid {self._processes[rank].pid})" if rank is not None else "mpiexec"
        return f"{who} {how}{f', after: {words}' if words else ''}"

    def last_words(self, rank: int | None) -> str:
        """Return the end of what a process printed, on one line."""
        output = self._outputs[rank]
        output.seek(0)
        text = output.read().decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip(" =|-\t")]
        told = [line for line in lines if re.search(r"EXIT|[Ee]rror|nhalf:", line)] or lines[-3:]
        return " / ".join(told[-3:])[-_LAST_WORDS:]

    def end(self, *, patient: bool = True) -> None:
        """End what still runs: a moment to go by itself, then SIGTERM, then SIGKILL, to the whole group each time."""
        steps = ([None] if patient else []) + [signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)]
        for step in steps:
            running = [process for process in self._processes.values() if process.poll() is None]
            if step is not None:
                for process in running:
                    _signal(process, step)
            until = time.monotonic() + _GRACE_S
            for process in running:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(until - time.monotonic(), 0.01))
        for output in self._outputs.values():
            output.close()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, number)
        else:
            process.terminate()


def start_ranks(launched: Launched, conductor: Conductor, ranks: Sequence[int], how: Placement) -> None:
    """Start ranks that pass messages over sockets and shared memory, one process and, if it can be, processor each."""
    own = processors(len(ranks), how)
    for index, rank in enumerate(ranks):
        where = ["--processor", str(own[index])] if own else []
        launched.start(rank, _worker(conductor, "sockets", "--rank", str(rank), *where), rank_environment(conductor))


def start_mpi(launched: Launched, conductor: Conductor, how: Placement) -> None:
    """Start the ranks by mpiexec; each takes its processor itself.

    Raises InputError when mpi4py or mpiexec is missing.
    """
    mpiexec = find_mpiexec()
    keep = ("-disable-auto-cleanup",) if _is_hydra(mpiexec) else ()
    many = _open_mpi_flags(mpiexec)
    command = [mpiexec, *keep, *many, "-n", str(conductor.size), *_worker(conductor, "mpi", "--placement", how)]
    environment = rank_environment(conductor)
    if not processors(conductor.size):
        # More ranks than processors: MPICH's polling gives its processor away only when told to.
        environment.setdefault("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1")
    launched.start(None, command, environment)


def find_mpiexec() -> str:
    """Return the mpiexec beside this Python, where the extra puts it, or the first on the path."""
    import importlib.util

    if importlib.util.find_spec("mpi4py") is None:
        raise InputError("mpi4py is not installed", where="--backend mpi", allowed="an MPI that Python can call",
                         do="in the checkout: pip install '.[mpi]'")  # fmt: skip
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if beside.exists() else shutil.which("mpiexec")
    if found is None:
        raise InputError("there is no mpiexec", where="--backend mpi", allowed="MPICH, Open MPI or Intel MPI",
                         do="in the checkout: pip install '.[mpi]', or load your MPI's module")  # fmt: skip
    return found


def _version(mpiexec: str) -> str:
    try:
        found = subprocess.run([mpiexec, "--version"], capture_output=True, timeout=20, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.decode(errors="replace") + found.stderr.decode(errors="replace")


def _is_hydra(mpiexec: str) -> bool:
    """Return whether it is MPICH's, which can leave the other ranks alone when one dies, so that they can be asked."""
    return bool(re.search(r"HYDRA", _version(mpiexec)))


def _open_mpi_flags(mpiexec: str) -> tuple[str, ...]:
    """Return what Open MPI wants to hear before it starts more ranks than cores."""
    return ("--oversubscribe",) if re.search(r"Open MPI|OpenRTE|PRRTE", _version(mpiexec)) else ()


def _worker(conductor: Conductor, backend: str, *more: str) -> list[str]:
    where = ["--host", conductor.host, "--port", str(conductor.port)]
    return [sys.executable, "-m", WORKER, "--backend", backend, *where, *more]


def rank_environment(conductor: Conductor) -> dict[str, str]:
    """Return the environment of a rank: this one's, the key, and this package's place."""
    package = str(Path(__file__).resolve().parents[3])
    path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH", ""))))
    return {**os.environ, KEY: conductor.key.hex(), "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
