"""The backend of torch on a stand-in: what is called, in which order, and that a GPU is waited for."""
# ruff: noqa: ARG005  the names of parameters are torch's

from __future__ import annotations

import contextlib
import sys
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from nhalf.collective import Mode, Op
from nhalf.errors import InputError
from nhalf.evidence.probe.asked import Asked, requested
from nhalf.evidence.probe.cell import Cell, Program, Step
from nhalf.evidence.probe.looping import LoopTask
from nhalf.evidence.probe.messages import Visit
from nhalf.evidence.probe.plan import COLLECTIVES, cells
from nhalf.evidence.probe.ranks import Place
from nhalf.evidence.probe.timing import GRAPH_CALLS, Task
from nhalf.evidence.probe.torch_group import TorchGroup

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Place(rank=0, size=1, launcher="torchrun", local_rank=0)


class Tensor:
    """As much of a tensor as the backend touches."""

    def __init__(self, values: Any) -> None:  # noqa: ANN401
        self.values = np.asarray(values)

    @property
    def dtype(self) -> Any:  # noqa: ANN401
        return self.values.dtype

    def __len__(self) -> int:
        return len(self.values)

    def __eq__(self, other: object) -> Any:  # noqa: ANN401
        return Tensor(self.values == (other.values if isinstance(other, Tensor) else other))

    __hash__ = None  # type: ignore[assignment]

    def all(self) -> bool:
        return bool(self.values.all())

    def copy_(self, other: Tensor) -> None:
        self.values[:] = other.values

    def zero_(self) -> None:
        self.values[:] = 0

    def clone(self) -> Tensor:
        return Tensor(self.values.copy())

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> Any:  # noqa: ANN401
        return self.values

    def repeat_interleave(self, count: int) -> Tensor:
        return Tensor(np.repeat(self.values, count))


class Event:
    """A mark among what the GPU is to do: so many operations after the first."""

    def __init__(self, fake: Fake) -> None:
        self.fake, self.at = fake, 0

    def record(self) -> None:
        self.fake.note("record")
        self.at = len(self.fake.log)

    def elapsed_time(self, other: Event) -> float:
        return float(other.at - self.at)


class Fake:
    """A torch of one rank and one GPU that writes down what is called."""

    def __init__(self, *, gpus: int = 1) -> None:
        self.log: list[str] = []
        self.capturing = False
        self.captured = 0
        self.module = ModuleType("torch")
        self.dist = ModuleType("torch.distributed")
        vars(self.module).update(
            float32=np.float32, bfloat16=np.float16, uint8=np.uint8, __version__="9.9", distributed=self.dist,
            cuda=self.cuda(gpus),
            device=lambda name: name, full=lambda shape, value, dtype, device: Tensor(np.full(shape, value, dtype)),
            ones=lambda shape, dtype, device: Tensor(np.ones(shape)),
            arange=lambda a, b, dtype: Tensor(np.arange(a, b, dtype=dtype)),
            frombuffer=lambda data, dtype: Tensor(np.frombuffer(data, dtype)),
            matmul=lambda a, b, out: self.note("matmul"),
        )  # fmt: skip
        vars(self.dist).update(
            is_available=lambda: True, is_nccl_available=lambda: True, is_gloo_available=lambda: True,
            init_process_group=lambda backend, **_: self.note(f"init {backend}"),
            is_initialized=lambda: True, destroy_process_group=lambda: self.note("destroy"),
            broadcast_object_list=lambda words, src, device: self.note(f"words {device}"),
            barrier=lambda **_: self.operation("barrier"), send=lambda *_: self.note("send"),
            recv=lambda *_: self.note("recv"),
            all_reduce=lambda into, async_op: self.operation("all_reduce"),
            broadcast=lambda into, src, async_op: self.operation("broadcast"),
            all_gather_into_tensor=lambda into, out, async_op: self.moved("all_gather", into, out),
            reduce_scatter_tensor=lambda into, out, async_op: self.moved("reduce_scatter", into, out),
            all_to_all_single=lambda into, out, async_op: self.moved("all_to_all", into, out),
        )  # fmt: skip

    def cuda(self, gpus: int) -> SimpleNamespace:
        @contextlib.contextmanager
        def graph(_: object) -> Iterator[None]:
            self.capturing = True
            self.note("capture")
            yield
            self.capturing = False

        stream = SimpleNamespace(wait_stream=lambda other: self.note("wait stream"))
        return SimpleNamespace(
            device_count=lambda: gpus, set_device=lambda index: self.note(f"device {index}"),
            current_device=lambda: 0, get_device_name=lambda: "H100", is_available=lambda: gpus > 0,
            synchronize=lambda: self.note("synchronize"), nccl=SimpleNamespace(version=lambda: (2, 27, 3)),
            Event=lambda enable_timing: Event(self), Stream=lambda: stream,
            current_stream=lambda: stream, stream=lambda each: contextlib.nullcontext(),
            CUDAGraph=lambda: SimpleNamespace(replay=lambda: self.note("replay")), graph=graph,
        )  # fmt: skip

    def note(self, what: str) -> None:
        if self.capturing and what == "synchronize":
            pytest.fail("a capture must not wait for the device")
        self.log.append(what)

    def operation(self, name: str) -> SimpleNamespace:
        self.captured += self.capturing
        self.note(name)
        return SimpleNamespace(wait=lambda: self.note("wait"))

    def moved(self, name: str, into: Tensor, out: Tensor) -> SimpleNamespace:
        into.copy_(out)
        return self.operation(name)


def group(monkeypatch: pytest.MonkeyPatch, backend: str = "nccl", *, gpus: int = 1, here: Place = HERE) -> Any:  # noqa: ANN401
    fake = Fake(gpus=gpus)
    monkeypatch.setitem(sys.modules, "torch", fake.module)
    monkeypatch.setitem(sys.modules, "torch.distributed", fake.dist)
    return fake, TorchGroup(backend, here, 30.0)


@pytest.mark.parametrize("backend", ["gloo", "nccl"])
@pytest.mark.parametrize("op", COLLECTIVES)
def test_each_collective_is_right_and_waited_for(monkeypatch: pytest.MonkeyPatch, backend: str, op: Op) -> None:
    fake, ranks = group(monkeypatch, backend)
    task = Task(Cell(channel=backend, op=op, size_bytes=0 if op is Op.BARRIER else 64, ranks=(0,)), ranks, 0)
    assert task.prepare()["right"] is True
    fake.log.clear()
    found: Any = task.visit(Visit(id=0, repetitions=3))
    assert len(found["starts"]) == len(found["ends"]) == 3
    calls = [*fake.log, "barrier"]
    after = [calls[place + 1] for place, what in enumerate(calls[:-1]) if what == str(op).replace("-", "_")]
    if op is not Op.BARRIER:
        assert len(after) == 4  # one to warm up
        assert set(after) == {"synchronize" if backend == "nccl" else "barrier"}


def test_a_graph_is_warmed_up_captured_once_and_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, ranks = group(monkeypatch)
    cell = Cell(channel="nccl", op=Op.ALL_REDUCE, size_bytes=64, ranks=(0,), how="graph", mode=Mode.GRAPH)
    task = Task(cell, ranks, 0)
    task.prepare()
    assert fake.captured == GRAPH_CALLS
    assert fake.log.count("capture") == 1
    assert fake.log[: fake.log.index("capture")].count("all_reduce") >= 2  # before, on a stream of its own
    fake.log.clear()
    task.visit(Visit(id=0, repetitions=2))
    assert [what for what in fake.log if what in ("replay", "all_reduce")] == ["replay"] * 3
    assert fake.log[fake.log.index("replay") + 1] == "synchronize"


STEP = Step(name="all-reduce", op=Op.ALL_REDUCE, size_bytes=64, ranks=(0,))


def looping(ranks: Any, variant: str, work: tuple[int, int, int] = (0, 0, 0)) -> LoopTask:  # noqa: ANN401
    program = Program(tp=1, pp=1, ep=1, batch=1, steps=(STEP,) * 3, variant=variant, work=work)
    cell = Cell(channel="nccl", op=Op.ALL_REDUCE, size_bytes=64, ranks=(0,), how="loop", number="bf16", program=program)
    return LoopTask(cell, program, ranks, 0)


def test_a_token_on_gpus_is_one_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, ranks = group(monkeypatch)
    task = looping(ranks, "graph")
    assert task.prepare()["right"] is True
    assert fake.captured == 3
    fake.log.clear()
    found: Any = task.visit(Visit(id=0, repetitions=2))
    assert fake.log == ["barrier", "synchronize", *["replay", "synchronize"] * 3]
    assert (len(found["tokens"]), found["marks"]) == (2, [])


def test_a_token_that_the_host_launches_is_marked_by_the_gpu_and_waited_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake, ranks = group(monkeypatch)
    task = looping(ranks, "", work=(2, 2, 2))
    task.prepare()
    fake.log.clear()
    found: Any = task.visit(Visit(id=0, repetitions=1))
    token = [*["matmul", "record", "all_reduce", "record"] * 3, "synchronize"]
    assert fake.log == ["barrier", "synchronize", *token, *token, "synchronize"]
    assert found["own"] is True
    assert [second - first for first, second in zip(found["marks"][::2], found["marks"][1::2], strict=True)] == [
        2e6
    ] * 3


def test_in_an_overlapped_token_work_follows_the_start_of_a_collective(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, ranks = group(monkeypatch)
    task = looping(ranks, "overlap", work=(2, 2, 2))
    fake.log.clear()
    task.visit(Visit(id=0, repetitions=1))
    assert fake.log[-10:] == [*["all_reduce", "matmul", "wait"] * 3, "synchronize"]


def test_the_start_and_the_wait_are_timed_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, ranks = group(monkeypatch)
    task = Task(Cell(channel="nccl", op=Op.BROADCAST, size_bytes=64, ranks=(0,), how="split"), ranks, 0)
    task.prepare()
    fake.log.clear()
    found: Any = task.visit(Visit(id=0, repetitions=2))
    assert (len(found["enqueue"]), len(found["wait"])) == (2, 2)
    assert fake.log[2:5] == ["broadcast", "wait", "synchronize"]


def test_computing_goes_on_while_the_collective_does(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, ranks = group(monkeypatch)
    task = Task(Cell(channel="nccl", op=Op.ALL_REDUCE, size_bytes=64, ranks=(0,), how="overlap"), ranks, 0)
    fake.log.clear()
    found: Any = task.visit(Visit(id=0, repetitions=1, works=3))
    assert set(found) == {"alone", "work", "both", "works"}
    last = len(fake.log) - 1 - fake.log[::-1].index("all_reduce")
    assert fake.log[last:] == ["all_reduce", "matmul", "matmul", "matmul", "wait", "synchronize"]


def test_a_run_over_nccl_says_that_it_is_untested(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, ranks = group(monkeypatch)
    facts = ranks.facts()
    assert (facts["library"], facts["device"], facts["torch"]) == ("nccl 2.27.3", "H100", "9.9")
    assert "without GPUs" in facts["untested"]
    ranks.close()
    assert fake.log[-1] == "destroy"


def test_a_rank_without_a_gpu_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="local rank 1 has no GPU of its own: there are 1"):
        group(monkeypatch, here=Place(rank=1, size=2, launcher="torchrun", local_rank=1))


def test_a_torch_without_the_backend_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake()
    vars(fake.dist)["is_nccl_available"] = lambda: False
    monkeypatch.setitem(sys.modules, "torch", fake.module)
    monkeypatch.setitem(sys.modules, "torch.distributed", fake.dist)
    with pytest.raises(InputError, match="this torch has no nccl"):
        TorchGroup("nccl", HERE, 30.0)


def test_gpus_are_measured_by_graph_and_eager(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake()
    fake.module.__spec__ = SimpleNamespace()  # type: ignore[assignment]
    monkeypatch.setitem(sys.modules, "torch", fake.module)
    environment = {"RANK": "0", "WORLD_SIZE": "2"}
    _, request = requested(Asked(ops="all-reduce"), environment)
    assert request.backend == "nccl"
    modes = {(cell.how, cell.mode) for cell in cells(request, {0: 0, 1: 0})}
    assert {("graph", Mode.GRAPH), ("isolated", Mode.EAGER), ("back_to_back", Mode.EAGER)} <= modes
