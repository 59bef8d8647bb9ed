"""The backend of MPI: mpi4py's buffers, one rank a process. mpi4py is imported only here.

References
----------
MPI Forum, "MPI: A Message-Passing Interface Standard", version 4.1 (2023), chapters 3 and 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nhalf.collective import Op
from nhalf.errors import InputError
from nhalf.evidence.probe.processor import OnProcessor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nhalf.breakdown import Array
    from nhalf.evidence.probe.backend import Action, Messenger
    from nhalf.evidence.probe.cell import Cell

_TAG: Final = 7
_FUNNELED: Final = "funneled"  # one thread speaks MPI, and MPI need not lock for others


def _library() -> Any:  # noqa: ANN401  mpi4py, which few have
    try:
        import mpi4py

        mpi4py.rc.thread_level = _FUNNELED
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise InputError(f"MPI cannot be loaded: {error}", where="--backend mpi",
                         do="in the checkout: pip install '.[mpi]', or build mpi4py") from error  # fmt: skip
    return MPI


class Mpi(OnProcessor):
    """All ranks of MPI_COMM_WORLD."""

    def __init__(self) -> None:
        """Join the world. Raises InputError when MPI cannot be loaded."""
        self._mpi = _library()
        self._world = self._mpi.COMM_WORLD
        self._world.Set_errhandler(self._mpi.ERRORS_RETURN)
        self.rank: int = self._world.Get_rank()
        self.size: int = self._world.Get_size()
        self._groups: dict[tuple[int, ...], Any] = {}

    def share(self, text: str) -> str:
        """Return rank 0's text on every rank."""
        found: str = self._world.bcast(text, root=0)
        return found

    def messenger(self, channel: str, peer: int, size_bytes: int) -> Messenger:
        """Return messages of a size [bytes] to another rank."""
        del channel
        return _MpiMessenger(self._world, self._mpi.BYTE, peer, size_bytes)

    def action(self, cell: Cell) -> Action:
        """Return a collective among the ranks of a cell; sums are of float32."""
        return _MpiAction(self._among(cell.ranks), self._mpi, cell.op, cell.size_bytes)

    def _among(self, ranks: tuple[int, ...]) -> Any:  # noqa: ANN401  a communicator
        """Return the communicator of some ranks; all of them call it."""
        if ranks not in self._groups:
            all_of_them = len(ranks) == self.size
            group = self._world.Get_group()
            self._groups[ranks] = self._world if all_of_them else self._world.Create_group(group.Incl(list(ranks)))
        return self._groups[ranks]

    def barrier(self, ranks: tuple[int, ...]) -> None:
        """Return when these ranks have come here."""
        self._among(ranks).Barrier()

    def facts(self) -> Mapping[str, str]:
        """Return the library and its version."""
        import mpi4py

        lines = self._mpi.Get_library_version().replace("\x00", "").splitlines()
        kept = [line.replace("\t", " ").strip() for line in lines if line.strip()]
        device = next((line for line in kept if "Device" in line), "")
        library = " ".join(dict.fromkeys([*kept[:1], device])).strip()
        return {"backend": "mpi", "library": library, "mpi4py": mpi4py.__version__}

    def close(self) -> None:
        """Leave the end to MPI's own, when the process ends."""


class _MpiMessenger:
    """Messages between two ranks."""

    def __init__(self, world: Any, byte: Any, peer: int, size_bytes: int) -> None:  # noqa: ANN401
        self._world = world
        self._peer = peer
        self._outgoing = np.zeros(size_bytes, dtype=np.uint8)
        self._incoming = np.zeros(size_bytes, dtype=np.uint8)
        self._out, self._into = [self._outgoing, byte], [self._incoming, byte]

    def send(self) -> None:
        """Send one message."""
        self._world.Send(self._out, self._peer, _TAG)

    def receive(self) -> None:
        """Return when one message has come."""
        self._world.Recv(self._into, self._peer, _TAG)

    def fill(self, pattern: bytes) -> None:
        """Write a pattern into what goes out."""
        self._outgoing[:] = np.frombuffer(pattern, dtype=np.uint8)

    def echo(self) -> None:
        """Let what came in go out next."""
        self._outgoing[:] = self._incoming

    def received(self) -> bytes:
        """Return what came in."""
        return self._incoming.tobytes()


class _MpiAction:
    """A collective with its buffers; sizes follow nccl-tests."""

    def __init__(self, world: Any, mpi: Any, op: Op, size_bytes: int) -> None:  # noqa: ANN401
        self._op, self._size = op, size_bytes
        self._rank, self._ranks = world.Get_rank(), world.Get_size()
        self._request: Any = None
        self._into: Array = np.zeros(0)
        names = {
            Op.ALL_REDUCE: "allreduce", Op.ALL_GATHER: "allgather", Op.REDUCE_SCATTER: "reduce_scatter_block",
            Op.ALL_TO_ALL: "alltoall", Op.BROADCAST: "bcast", Op.BARRIER: "barrier",
        }  # fmt: skip
        arguments = self._arguments(mpi)
        name = names[op]
        self._call = _bound(getattr(world, name.capitalize()), arguments)
        self._begin = _bound(getattr(world, f"I{name}"), arguments)

    def _arguments(self, mpi: Any) -> tuple[Any, ...]:  # noqa: ANN401
        size, ranks = self._size, self._ranks
        if self._op is Op.BARRIER:
            return ()
        if self._op in (Op.ALL_REDUCE, Op.REDUCE_SCATTER):
            count = size // 4
            self._out = np.full(count, float(self._rank + 1), dtype=np.float32)
            self._into = np.zeros(count if self._op is Op.ALL_REDUCE else count // ranks, dtype=np.float32)
            return ([self._out, mpi.FLOAT], [self._into, mpi.FLOAT], mpi.SUM)
        if self._op is Op.BROADCAST:
            self._into = np.full(size, self._rank + 1, dtype=np.uint8)
            return ([self._into, mpi.BYTE], 0)
        each = size if self._op is Op.ALL_TO_ALL else size // ranks
        self._out = np.full(each, self._rank + 1, dtype=np.uint8)
        self._into = np.zeros(size, dtype=np.uint8)
        return ([self._out, mpi.BYTE], [self._into, mpi.BYTE])

    def run(self) -> None:
        """Do it once."""
        self._call()

    def post(self) -> None:
        """Begin it."""
        self._request = self._begin()

    def finish(self) -> None:
        """Wait for its end."""
        self._request.Wait()

    def check(self) -> bool:
        """Do it once, and return whether every number is right."""
        self.run()
        if self._op is Op.BARRIER:
            return True
        ranks = self._ranks
        if self._op in (Op.ALL_REDUCE, Op.REDUCE_SCATTER):
            return bool(np.all(self._into == ranks * (ranks + 1) / 2))
        if self._op is Op.BROADCAST:
            return bool(np.all(self._into == 1))
        shares = np.repeat(np.arange(1, ranks + 1, dtype=np.uint8), len(self._into) // ranks)
        return bool(np.array_equal(self._into, shares))


def _bound(call: Any, arguments: tuple[Any, ...]) -> Callable[[], Any]:  # noqa: ANN401
    return lambda: call(*arguments)
