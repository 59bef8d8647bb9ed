"""What `nhalf measure` was asked, as text, becomes a request: every flag is checked before a process starts."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.collective import Op
from nhalf.errors import InputError, did_you_mean
from nhalf.evidence.probe import loop_flags, meeting, sockets
from nhalf.evidence.probe.plan import BACKENDS, COLLECTIVES, SOCKETS, Request, whole
from nhalf.evidence.probe.ranks import place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nhalf.evidence.probe.cell import How, Program
    from nhalf.evidence.probe.messages import Channel
    from nhalf.evidence.probe.ranks import Place

_TIMINGS: Final[dict[str, How]] = {"isolated": "isolated", "back-to-back": "back_to_back", "graph": "graph"}
_SYNCS: Final = ("auto", "window", "barrier")
_BUDGET_S, _BUDGET_COLLECTIVES_S = 12.0, 30.0
_SESSION_S: Final = 3600.0  # of a host that listens, whose guest says how long it measures
_LARGEST: Final = 2**32  # [bytes]
_MOST_RANKS: Final = 1024
_TWO: Final = 2
_FIRST_POWER, _LAST_POWER = 3, 23
"""The default sizes: 8 B to 8 MiB, each twice the one before, or four times where collectives are measured as well."""
_TORCH: Final = ("gloo", "nccl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The flags of `nhalf measure` as they were typed; `listen` and `connect` are HOST or HOST:PORT.

    `sizes_bytes` [bytes] is what --sizes means, empty where it was not given; `loops` and `ladder` are of --model.
    """

    sizes_bytes: Sequence[float] = ()
    command: str = "nhalf measure"
    backend: str | None = None
    ranks: str | None = None
    ops: str | None = None
    channels: str | None = None
    timing: str | None = None
    pairs: str | None = None
    overlap: bool = False
    fuse: str | None = None
    fuse_size: str = "16KiB"
    listen: str | None = None
    connect: str | None = None
    bind: str | None = None
    port: str | None = None
    word: str = ""
    budget: str | None = None
    target: str = "2%"
    deadline: str = "30s"
    wait: str = "60s"
    sync: str = "auto"
    placement: str | None = None
    seed: str = "1"
    launches: str = "1"
    file: str = ""
    loops: tuple[Program, ...] = ()
    ladder: tuple[Program, ...] = ()

    @property
    def apart(self) -> bool:
        """Return whether this host measures with another."""
        return self.listen is not None or bool(self.connect)


def requested(asked: Asked, environment: Mapping[str, str]) -> tuple[Place | None, Request]:
    """Return who this process is, where a launcher started it, and what to measure.

    Raises InputError when a flag is wrong, or two of them contradict each other.
    """
    here = None if asked.apart else place(environment)
    backend = _backend(asked, here)
    size = _size(asked, here, backend)
    if asked.loops:
        loop_flags.check(_own(asked), asked.loops, backend)
    ops = _ops(asked, backend)
    groups = any(op in COLLECTIVES for op in ops)
    hows = _hows(asked, backend, groups=groups)
    _consistent(asked if not asked.loops else replace(asked, fuse=None, overlap=False), here, backend, ops)
    if asked.sync not in _SYNCS:
        raise InputError(f"{asked.sync!r} is no way to begin", where="--sync", allowed=", ".join(_SYNCS))
    default = _BUDGET_COLLECTIVES_S if asked.loops or (groups and not asked.pairs) else _BUDGET_S
    if asked.listen is not None:
        default = _SESSION_S
    host, port = meeting.place(asked)
    return here, Request(
        backend=backend,
        size=size,
        channels=_channels(asked) if backend == SOCKETS else (),
        ops=ops,
        sizes_bytes=_sizes(asked, ops, size),
        hows=hows,
        pair_hows=tuple(how for how in hows if how != "graph") or ("isolated",) if asked.timing else ("isolated",),
        budget_s=_time(asked.budget, "--budget") if asked.budget else default,
        deadline_s=_time(asked.deadline, "--deadline") * loop_flags.patience(asked.loops),
        wait_s=_time(asked.wait, "--wait"),
        target=_share(asked.target),
        seed=units.parse_count(asked.seed, where="--seed"),
        launches=_launches(asked, here),
        sync=asked.sync,
        pairs=asked.pairs is not None,
        overlap=asked.overlap and not asked.loops,
        fuse=units.parse_int_list(asked.fuse, where="--fuse") if asked.fuse and not asked.loops else (),
        fuse_bytes=int(units.parse(asked.fuse_size, "size", where="--fuse-size")),
        host=host if asked.connect else "",
        bind="" if asked.connect else host,
        port=port,
        word=meeting.word(asked, here, environment),
        placement=meeting.placement(asked, here, backend),
        command=asked.command,
        file=asked.file,
        loops=loop_flags.programs(asked.loops, backend),
        ladder=asked.ladder,
    )


def _own(asked: Asked) -> dict[str, object]:
    """Return the flags that a loop leaves no room for."""
    return {"--ops": asked.ops, "--sizes": asked.sizes_bytes, "--pairs": asked.pairs, "--timing": asked.timing,
            "--launches": asked.launches, "--overlap": asked.overlap}  # fmt: skip


def _backend(asked: Asked, here: Place | None) -> str:
    if asked.backend is None:
        if here is None:
            return SOCKETS
        return _torch_backend() if here.launcher == "torchrun" else "mpi"
    name = asked.backend.strip().casefold()
    if name not in BACKENDS:
        raise InputError(f"{asked.backend!r} is not a backend", where="--backend", allowed=", ".join(BACKENDS),
                         do=did_you_mean(name, BACKENDS))  # fmt: skip
    if name != SOCKETS and asked.apart:
        raise InputError(f"two hosts meet over sockets, not {name}", where="--backend", allowed=SOCKETS,
                         do="start the ranks with your launcher instead: torchrun, mpiexec, srun")  # fmt: skip
    if name in _TORCH:
        if here is None:
            raise InputError(f"{name} needs ranks that torchrun started", where="--backend", allowed="sockets, mpi",
                             do=f"torchrun --nproc-per-node 2 -m nhalf measure --backend {name}")  # fmt: skip
        _need("torch", name)
    if name == "mpi":
        _need("mpi4py", name)
    return name


def _need(package: str, backend: str) -> None:
    if importlib.util.find_spec(package) is None:
        do = "in the checkout: pip install '.[mpi]'" if package == "mpi4py" else "use the Python that has your torch"
        raise InputError(f"{package} is not installed", where=f"--backend {backend}", do=do)


def _torch_backend() -> str:
    _need("torch", "gloo")
    import torch

    return "nccl" if torch.cuda.is_available() else "gloo"


def _size(asked: Asked, here: Place | None, backend: str) -> int:
    need = loop_flags.ranks(asked.loops)
    if asked.ranks is None:
        size = here.size if here else need or 2
    else:
        size = units.parse_count(asked.ranks, where="-n")
        if here is not None and size != here.size:
            raise InputError(f"{here.launcher} started {here.size} ranks, not {size}", where="-n",
                             do="leave -n out")  # fmt: skip
        if asked.connect and size != 2:  # noqa: PLR2004  one here, one there
            raise InputError("two hosts have a rank each", where="-n", allowed="2", do="leave -n out")
    if not 2 <= size <= _MOST_RANKS:  # noqa: PLR2004
        raise InputError(f"{size} rank{'s' * (size != 1)} cannot measure", where="-n", allowed=f"2 to {_MOST_RANKS}")
    if need and size != need:
        raise InputError(f"the layout has {need} ranks, and there are {size}", where="--tp, --pp",
                         do="change the layout or the number of ranks: both are the same")  # fmt: skip
    if backend == SOCKETS and size > 2 and not asked.pairs and not need:  # noqa: PLR2004
        raise InputError(f"sockets measure pairs, and {size} ranks have several", where="-n", allowed="2",
                         do="--pairs all for every pair, or --backend mpi for collectives")  # fmt: skip
    return size


def _ops(asked: Asked, backend: str) -> tuple[Op, ...]:
    known = (Op.SEND_RECV,) if backend == SOCKETS else (Op.SEND_RECV, *COLLECTIVES)
    if asked.ops is None:
        return known
    found = []
    for text in asked.ops.split(","):
        op = Op.parse(text.strip(), where="--ops")
        if op not in known:
            do = "--backend mpi -n 4" if op in COLLECTIVES else ""
            raise InputError(f"{backend} cannot measure {op}", where="--ops", allowed=", ".join(known), do=do)
        if op not in found:
            found.append(op)
    return tuple(found)


def _hows(asked: Asked, backend: str, *, groups: bool) -> tuple[How, ...]:
    if asked.timing is None:
        if backend == "nccl":
            return ("isolated", "back_to_back", "graph")
        return ("isolated", "back_to_back") if groups else ("isolated",)
    found: list[How] = []
    for text in asked.timing.split(","):
        name = text.strip().casefold().replace("_", "-")
        if name not in _TIMINGS:
            raise InputError(f"{text!r} is no way of timing", where="--timing", allowed=", ".join(_TIMINGS),
                             do=did_you_mean(name, _TIMINGS))  # fmt: skip
        if name == "graph" and backend != "nccl":
            raise InputError(f"{backend} has no graphs", where="--timing", allowed="isolated, back-to-back")
        if _TIMINGS[name] not in found:
            found.append(_TIMINGS[name])
    return tuple(found)


def _consistent(asked: Asked, here: Place | None, backend: str, ops: tuple[Op, ...]) -> None:
    """Refuse flags that contradict each other."""
    if asked.listen is not None and asked.connect:
        raise InputError("one host listens, the other connects", where="--listen", allowed="one of the two")
    if asked.bind and asked.listen is None and here is None:
        raise InputError("only a host that listens, or rank 0 of a launcher, binds", where="--bind",
                         do="add --listen, or leave --bind out")  # fmt: skip
    if asked.pairs is not None and asked.pairs.strip().casefold() != "all":
        raise InputError(f"{asked.pairs!r} is no set of pairs", where="--pairs", allowed="all")
    wants = [name for name, value in (("--overlap", asked.overlap), ("--fuse", asked.fuse)) if value]
    groups = any(op in COLLECTIVES for op in ops)
    if wants and asked.pairs:
        raise InputError("pairs do no collectives", where=wants[0], do="leave --pairs out")
    if wants and not groups:
        raise InputError(f"it needs a collective, and {backend} measures {', '.join(ops)}", where=wants[0],
                         allowed="backends mpi, gloo and nccl", do=f"--backend mpi -n 2 {wants[0]}")  # fmt: skip
    if asked.channels is not None and backend != SOCKETS:
        raise InputError(f"channels are those of sockets, not of {backend}", where="--channels", do="leave it out")


def _channels(asked: Asked) -> tuple[Channel, ...]:
    known = sockets.channels()
    if asked.loops:
        known = tuple(name for name in known if name != sockets.MEMORY)
        return known[:1] if asked.channels is None else _named(asked, known)[:1]
    if asked.apart:
        known = (sockets.TCP,)
    return known if asked.channels is None else _named(asked, known)


def _named(asked: Asked, known: tuple[Channel, ...]) -> tuple[Channel, ...]:
    found = []
    for name in dict.fromkeys(text.strip().casefold() for text in (asked.channels or "").split(",")):
        if name in known:
            found.append(next(each for each in known if each == name))
        else:
            two = "two hosts share a network only" if asked.connect and name in sockets.LOCAL else ""
            raise InputError(two or f"{name!r} is no channel", where="--channels", allowed=", ".join(known),
                             do=did_you_mean(name, known))  # fmt: skip
    return tuple(found)


def _sizes(asked: Asked, ops: tuple[Op, ...], ranks: int) -> tuple[int, ...]:
    doublings = 1 if ops == (Op.SEND_RECV,) else 2
    found = sorted({round(size) for size in asked.sizes_bytes}) or [
        2**power for power in range(_FIRST_POWER, _LAST_POWER + 1, doublings)
    ]
    if found[0] < 1 or found[-1] > _LARGEST:
        bad = found[0] if found[0] < 1 else found[-1]
        raise InputError(f"a message of {units.format_size(bad)} cannot be measured", where="--sizes",
                         allowed="1 B to 4 GiB")  # fmt: skip
    if max((whole(op, size, ranks) for op in ops for size in found), default=1) > 2 * _LARGEST:
        raise InputError("the largest message is too large for so many ranks", where="--sizes")
    return tuple(found)


def _launches(asked: Asked, here: Place | None) -> int:
    found = units.parse_count(asked.launches, where="--launches")
    if found == _TWO:
        raise InputError("two launches do not tell how launches differ", where="--launches", allowed="1, or 3 and more",
                         do="--launches 5")  # fmt: skip
    if found > 1 and (here is not None or asked.apart):
        raise InputError("only ranks that nhalf itself starts can be started anew", where="--launches", allowed="1",
                         do="run the command several times, each with its own -o, then nhalf fit them")  # fmt: skip
    return found


def _time(text: str, where: str) -> float:
    found = units.parse(text, "time", where=where)
    if found <= 0:
        raise InputError("no time is left to measure in", where=where, allowed="a time above 0, such as 12s")
    return found


def _share(text: str) -> float:
    found = units.parse(text, "ratio", where="--target")
    if not 0 < found < 1:
        raise InputError(f"{text} is no precision", where="--target", allowed="above 0 and below 100%, such as 2%")
    return found
