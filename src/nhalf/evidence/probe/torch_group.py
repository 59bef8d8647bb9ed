"""The backend of the user's own torch: torch.distributed over Gloo on processors, or NCCL on GPUs.

The path of NCCL, with its graphs, has been read and run on stand-ins only: it is untested on hardware, and a run over
it says so. torch is imported only here.
"""

from __future__ import annotations

import datetime as dt
import os
import time
from typing import TYPE_CHECKING, Any, Final

from nhalf.collective import Op
from nhalf.errors import InputError
from nhalf.evidence.probe.processor import product

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nhalf.evidence.probe.backend import Action, Messenger
    from nhalf.evidence.probe.cell import Cell, Number
    from nhalf.evidence.probe.ranks import Place

NCCL: Final = "nccl"
_SIDE: Final = 256  # of the small product that collectives hide under, on a GPU
_WARM_GRAPH: Final = 3


class TorchGroup:
    """All ranks of the default process group."""

    def __init__(self, backend: str, place: Place, deadline_s: float) -> None:
        """Join the group. Raises InputError when torch has no such backend, or there is no GPU for this rank."""
        import torch
        import torch.distributed as dist

        self._torch, self._dist, self._backend = torch, dist, backend
        self.rank, self.size = place.rank, place.size
        self._gpu = backend == NCCL
        self._groups: dict[tuple[int, ...], Any] = {}
        if not dist.is_available() or not (dist.is_nccl_available() if self._gpu else dist.is_gloo_available()):
            raise InputError(f"this torch has no {backend}", where="--backend", do="install one that has it")
        if self._gpu:
            self._take_gpu(place)
        self._device = torch.device("cuda" if self._gpu else "cpu")
        timeout = dt.timedelta(seconds=2 * deadline_s)  # the conductor's deadline comes first
        try:
            dist.init_process_group(backend, rank=place.rank, world_size=place.size, timeout=timeout)
        except (RuntimeError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise InputError(f"the process group cannot be made: {reason}", where=f"--backend {backend}",
                             allowed="ranks that torchrun started, with MASTER_ADDR and MASTER_PORT",
                             do="torchrun --nproc-per-node 2 -m nhalf measure") from error  # fmt: skip

    def _take_gpu(self, place: Place) -> None:
        count = self._torch.cuda.device_count()
        local = place.local_rank if place.local_rank is not None else place.rank
        if local >= count:
            raise InputError(f"local rank {local} has no GPU of its own: there are {count}", where="--backend nccl",
                             allowed="one rank a GPU", do=f"torchrun --nproc-per-node {max(count, 1)}")  # fmt: skip
        self._torch.cuda.set_device(local)

    def share(self, text: str) -> str:
        """Return rank 0's text on every rank."""
        words = [text]
        self._dist.broadcast_object_list(words, src=0, device=self._device)
        return str(words[0])

    def messenger(self, channel: str, peer: int, size_bytes: int) -> Messenger:
        """Return messages of a size [bytes] to another rank."""
        del channel
        return _TorchMessenger(self, peer, size_bytes)

    def action(self, cell: Cell) -> Action:
        """Return a collective among the ranks of a cell."""
        return _TorchAction(self, cell)

    def among(self, ranks: tuple[int, ...]) -> Mapping[str, Any]:
        """Return the argument that names the process group of some ranks, none for all; each of them calls it."""
        if len(ranks) == self.size:
            return {}
        if ranks not in self._groups:
            self._groups[ranks] = self._dist.new_group(list(ranks), use_local_synchronization=True)
        return {"group": self._groups[ranks]}

    def barrier(self, ranks: tuple[int, ...]) -> None:
        """Return when these ranks have come here."""
        if self._gpu:
            # NCCL's barrier is a sum of one number; a rank goes on when the device says that it has ended.
            self._dist.barrier(device_ids=[self._torch.cuda.current_device()], **self.among(ranks))
            self._torch.cuda.synchronize()
        else:
            self._dist.barrier(**self.among(ranks))

    def graphed(self, run: Callable[[], None], count: int) -> Callable[[], None]:
        """Return a replay of `count` runs in a captured graph, which waits for the device."""
        if not self._gpu:
            raise InputError(f"{self._backend} has no graphs", where="--timing", allowed="isolated, back-to-back")
        cuda = self._torch.cuda
        side = cuda.Stream()
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):  # a capture wants the library to have made its buffers before
            for _ in range(_WARM_GRAPH):
                run()
        cuda.current_stream().wait_stream(side)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            for _ in range(count):
                run()

        def replay() -> None:
            graph.replay()
            cuda.synchronize()

        return replay

    def computation(self) -> Callable[[], None]:
        """Return a small product of matrices on the device that the messages come from."""
        return self.product(_SIDE, _SIDE, _SIDE) if self._gpu else product(48, 48, 48)

    def product(self, rows: int, inner: int, columns: int) -> Callable[[], None]:
        """Return a product of matrices on the device that the messages come from, in bf16 on a GPU."""
        if not self._gpu:
            return product(rows, inner, columns)
        shapes = ((rows, inner), (inner, columns), (rows, columns))
        left, right, result = (self._torch.ones(shape, dtype=self._torch.bfloat16, device=self._device)
                               for shape in shapes)  # fmt: skip
        return lambda: self._torch.matmul(left, right, out=result)

    @property
    def device_clock(self) -> bool:
        """Return whether marks are of a GPU's clock."""
        return self._gpu

    def stamp(self) -> Any:  # noqa: ANN401
        """Return the time now [ns], or an event among what the GPU is to do."""
        if not self._gpu:
            return time.perf_counter_ns()
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def read(self, stamps: Sequence[Any]) -> Sequence[int]:
        """Return the times of marks [ns]; of a GPU's, since the first of them."""
        if not self._gpu or not stamps:
            return stamps
        self._torch.cuda.synchronize()
        return [round(stamps[0].elapsed_time(each) * 1e6) for each in stamps]

    def settle(self) -> None:
        """Wait for the device."""
        if self._gpu:
            self._torch.cuda.synchronize()

    def facts(self) -> Mapping[str, str]:
        """Return the versions, the device, and that NCCL's path is untested."""
        found = {"backend": self._backend, "torch": str(self._torch.__version__)}
        if self._gpu:
            version = self._torch.cuda.nccl.version()
            found["library"] = f"nccl {'.'.join(map(str, version)) if isinstance(version, tuple) else version}"
            found["device"] = str(self._torch.cuda.get_device_name())
            found["untested"] = "nhalf's NCCL path was written without GPUs: compare it with nccl-tests"
        return found

    def close(self) -> None:
        """Leave the group; a rank that lost another cannot, and its process ends instead."""
        if "TORCHELASTIC_RUN_ID" in os.environ or self._dist.is_initialized():
            self._dist.destroy_process_group()

    def tensor(self, size_bytes: int, value: float, number: Number | None = None) -> Any:  # noqa: ANN401  a tensor
        """Return a tensor of this rank's device: of numbers to be summed, else of bytes."""
        dtype = {"f32": "float32", "bf16": "bfloat16", None: "uint8"}[number]
        count = size_bytes // {"f32": 4, "bf16": 2, None: 1}[number]
        return self._torch.full((count,), value, dtype=getattr(self._torch, dtype), device=self._device)

    @property
    def dist(self) -> Any:  # noqa: ANN401  torch.distributed
        """Return torch.distributed."""
        return self._dist

    @property
    def torch(self) -> Any:  # noqa: ANN401
        """Return torch."""
        return self._torch


class _TorchMessenger:
    """Messages between two ranks."""

    def __init__(self, group: TorchGroup, peer: int, size_bytes: int) -> None:
        self._group, self._peer = group, peer
        self._outgoing = group.tensor(size_bytes, 0)
        self._incoming = group.tensor(size_bytes, 0)

    def send(self) -> None:
        """Send one message."""
        self._group.dist.send(self._outgoing, self._peer)

    def receive(self) -> None:
        """Return when one message has come, and the device has it."""
        self._group.dist.recv(self._incoming, self._peer)
        self._group.settle()

    def fill(self, pattern: bytes) -> None:
        """Write a pattern into what goes out."""
        self._outgoing.copy_(self._group.torch.frombuffer(bytearray(pattern), dtype=self._group.torch.uint8))

    def echo(self) -> None:
        """Let what came in go out next."""
        self._outgoing.copy_(self._incoming)

    def received(self) -> bytes:
        """Return what came in."""
        return bytes(self._incoming.cpu().numpy().tobytes())


class _TorchAction:
    """A collective with its buffers; sizes follow nccl-tests."""

    def __init__(self, group: TorchGroup, cell: Cell) -> None:
        self._group, self._op, self._number = group, cell.op, cell.number
        self._ranks, self._place = len(cell.ranks), cell.ranks.index(group.rank)
        self._work: Any = None
        self._out, self._into = self._buffers(cell.size_bytes)
        # Newer versions of torch renamed two of them, and warn about the old names.
        dist = group.dist
        all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
        reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
        among = group.among(cell.ranks)
        out, into = self._out, self._into
        self._calls: dict[Op, Callable[[bool], Any]] = {
            Op.ALL_REDUCE: lambda later: dist.all_reduce(into, async_op=later, **among),
            Op.ALL_GATHER: lambda later: all_gather(into, out, async_op=later, **among),
            Op.REDUCE_SCATTER: lambda later: reduce_scatter(into, out, async_op=later, **among),
            Op.ALL_TO_ALL: lambda later: dist.all_to_all_single(into, out, async_op=later, **among),
            Op.BROADCAST: lambda later: dist.broadcast(into, src=cell.ranks[0], async_op=later, **among),
            Op.BARRIER: lambda later: dist.barrier(async_op=later, **among),
        }
        self._call = self._calls[cell.op]

    def _buffers(self, size: int) -> tuple[Any, Any]:
        tensor, number, own = self._group.tensor, self._number, self._place + 1
        if self._op is Op.BARRIER:
            return None, None
        if self._op is Op.ALL_REDUCE:
            return None, tensor(size, own, number)  # in place: the sum grows, and is reset by `check`
        if self._op is Op.REDUCE_SCATTER:
            return tensor(size, own, number), tensor(size // self._ranks, 0, number)
        if self._op is Op.BROADCAST:
            return None, tensor(size, own)
        each = size if self._op is Op.ALL_TO_ALL else size // self._ranks
        return tensor(each, own), tensor(size, 0)

    def run(self) -> None:
        """Do it once; on a GPU, `settle` waits for its end."""
        self._call(False)  # noqa: FBT003

    def post(self) -> None:
        """Begin it."""
        self._work = self._call(True)  # noqa: FBT003

    def finish(self) -> None:
        """Wait for its end."""
        self._work.wait()

    def check(self) -> bool:
        """Do it once with known numbers, and return whether every result is right."""
        group, ranks = self._group, self._ranks
        self.run()
        group.settle()
        if self._op is Op.BARRIER:
            return True
        into = self._into.cpu()
        if self._op in (Op.ALL_REDUCE, Op.REDUCE_SCATTER):
            right = bool((into == ranks * (ranks + 1) / 2).all())
            if self._op is Op.ALL_REDUCE:
                self._into.zero_()  # zeros stay zeros, however often they are summed
            return right
        if self._op is Op.BROADCAST:
            return bool((into == 1).all())
        shares = group.torch.arange(1, ranks + 1, dtype=into.dtype).repeat_interleave(len(into) // ranks)
        return bool((into == shares).all())
