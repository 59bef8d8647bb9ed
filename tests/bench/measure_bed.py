"""A bed of network namespaces joined by a relay that imposes a delay and a rate, and what `nhalf measure` finds there.

    python tests/bench/measure_bed.py

Needs Linux, the right to make network namespaces and TUN devices, and about two minutes. Traffic stays inside the
namespaces. Two hosts are joined by one link; a packet leaves when the ones before it are through at the set rate, and
arrives after the set delay. The study prints what was imposed, what was found, and by how much they differ; `--strict`
ends with 1 when a difference is over its limit.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import heapq
import json
import os
import select
import shutil
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCE: Final = Path(__file__).resolve().parents[2] / "src"
_TUNSETIFF: Final = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_SLACK: Final = 29  # PR_SET_TIMERSLACK
_MTU: Final = 9000
_AWAKE_S: Final = 400e-6
_PORT: Final = 29_577
NAMES: Final = ("nhalf-a", "nhalf-b")
ADDRESSES: Final = ("10.77.0.1", "10.77.0.2")
RING_SIZE: Final = "8B:1MiB"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What the relay imposes: a one-way delay [s] and a rate [bytes/s]."""

    delay_s: float
    bytes_per_s: float


def sh(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, timeout=20)


def missing() -> str:
    """Return what this machine lacks for a bed, nothing when it lacks nothing."""
    if sys.platform != "linux":
        return "network namespaces are Linux's"
    if os.geteuid() != 0:
        return "making network namespaces needs root"
    if not Path("/dev/net/tun").exists():
        return "there is no /dev/net/tun"
    absent = [name for name in ("ip", "unshare") if shutil.which(name) is None]
    if absent:
        return f"not installed: {', '.join(absent)}"
    tried = subprocess.run(["unshare", "--net", "--uts", "true"], capture_output=True, timeout=20, check=False)
    return "" if tried.returncode == 0 else "this machine allows no network namespaces"


class Bed:
    """Two namespaces, each with one end of a link; it takes them away at the end, whatever happened."""

    def __init__(self, link: Link) -> None:
        """Keep what is to be imposed."""
        self.link = link
        self._relay: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Make the namespaces and start the relay."""
        self._remove()
        try:
            for name in NAMES:
                sh("ip", "netns", "add", name)
                sh("ip", "netns", "exec", name, "ip", "link", "set", "lo", "up")
            command = [sys.executable, __file__, "relay", str(self.link.delay_s), str(self.link.bytes_per_s)]
            self._relay = subprocess.Popen(command, stdout=subprocess.PIPE)
            if self._relay.stdout is None or self._relay.stdout.readline() != b"ready\n":
                sys.exit("the relay did not start")
            for name, own, other in zip(NAMES, ADDRESSES, reversed(ADDRESSES), strict=True):
                inside = ("ip", "-n", name)
                sh(*inside, "addr", "add", own, "peer", other, "dev", name)
                sh(*inside, "link", "set", name, "mtu", str(_MTU), "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Take everything away."""
        if self._relay is not None:
            self._relay.kill()
            self._relay.wait(10)
            if self._relay.stdout is not None:
                self._relay.stdout.close()
        self._remove()

    @staticmethod
    def _remove() -> None:
        for name in NAMES:
            with contextlib.suppress(subprocess.CalledProcessError):
                sh("ip", "netns", "del", name)


def inside(index: int, *command: str) -> list[str]:
    """Return a command that runs on one of the hosts, under a host name of its own."""
    named = f'hostname {NAMES[index]}; exec "$@"'
    return ["ip", "netns", "exec", NAMES[index], "unshare", "--uts", "sh", "-c", named, "sh", *command]


# --- the relay --------------------------------------------------------------------------------------------------------


def relay(link: Link) -> None:
    """Carry packets between the two devices until killed."""
    # Late wake-ups would be measured as latency: no slack of timers, and ahead of ordinary work.
    ctypes.CDLL(None).prctl(_SLACK, 1)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    awake = _awake()
    ends = [_device(name) for name in NAMES]
    free = [0.0, 0.0]  # when each direction has sent what it holds
    waiting: list[tuple[float, int, int, bytes]] = []
    count = 0
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while awake is None or not awake.closed:
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, _, to, packet = heapq.heappop(waiting)
            with contextlib.suppress(OSError):
                os.write(ends[to], packet)
            now = time.monotonic()
        # The last stretch is spent awake: a processor that has gone to sleep wakes up late.
        pause = max(waiting[0][0] - now - _AWAKE_S, 0.0) if waiting else None
        for end in select.select(ends, [], [], pause)[0]:
            come = ends.index(end)
            packet = os.read(end, _MTU + 64)
            now = time.monotonic()
            free[come] = max(free[come], now) + len(packet) / link.bytes_per_s
            count += 1
            heapq.heappush(waiting, (free[come] + link.delay_s, count, 1 - come, packet))


def _awake() -> Any:  # noqa: ANN401  a file that must stay open
    """Ask the kernel to let no processor sleep deeply while the result is held: it wakes up late, and so do the ranks.

    Without it ranks that wait longer than a processor polls before it sleeps (200 us here) see a latency of tens of
    microseconds more, which no control without a delay has.
    """
    with contextlib.suppress(OSError):
        file = Path("/dev/cpu_dma_latency").open("wb", buffering=0)  # noqa: SIM115
        file.write(struct.pack("i", 0))
        return file
    return None


def _device(name: str) -> int:
    """Return a TUN device of a name, moved into the namespace of that name."""
    handle = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(handle, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    sh("ip", "link", "set", name, "netns", name)
    return handle


# --- what is measured -------------------------------------------------------------------------------------------------


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE), **more}


def by_sockets(budget: str) -> dict[str, Any]:
    """Return the answer of two hosts that measure over TCP."""
    nhalf = [sys.executable, "-m", "nhalf", "measure"]
    other = subprocess.Popen(inside(1, *nhalf, "--listen", "--bind", ADDRESSES[1], "--wait", "30s"), env=environment(),
                             stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # fmt: skip
    try:
        return answer(inside(0, *nhalf, "--connect", ADDRESSES[1], "--sizes", RING_SIZE, "--budget", budget, "--json"))
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            other.wait(10)
        other.kill()
        other.wait()


def by_mpi(budget: str, *flags: str, **variables: str) -> dict[str, Any]:
    """Return the answer of two ranks of MPI, one on each host."""
    start = "import os,sys; b=os.environ['PMI_RANK']; os.execvp('ip', eval(sys.argv[1])[int(b)])"
    nhalf = [sys.executable, "-m", "nhalf", "measure", "--backend", "mpi", "--bind", ADDRESSES[0], "--sizes", RING_SIZE,
             "--budget", budget, "--json", *flags]  # fmt: skip
    places = repr([inside(rank, *nhalf) for rank in (0, 1)])
    mpiexec = str(Path(sys.executable).parent / "mpiexec")
    return answer([mpiexec, "-n", "2", sys.executable, "-c", start, places], **variables)


def answer(command: Sequence[str], **variables: str) -> dict[str, Any]:
    done = subprocess.run(
        command, env=environment(**variables), capture_output=True, timeout=120, check=False, text=True
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def by_least(name: str, found: dict[str, Any], control: dict[str, Any], link: Link) -> None:
    """Print the same from the least time of each size, which other work on the machine touches least."""
    points, base = (one["measured"][0]["points"] for one in (found, control))
    net = points[0]["min_s"] - base[0]["min_s"]
    low, high = points[-2:]
    rate = (high["size_bytes"] - low["size_bytes"]) / (high["min_s"] - low["min_s"])
    print(f"{name + ', least times':<28} {1e6 * link.delay_s:6.0f} us {1e-6 * link.bytes_per_s:6.1f} MB/s   "
          f"{1e6 * points[0]['min_s']:7.1f} us - {1e6 * base[0]['min_s']:5.1f} us  {1e-6 * rate:7.2f} MB/s   "
          f"{100 * (net / link.delay_s - 1):+6.2f} %  {100 * (rate / link.bytes_per_s - 1):+6.2f} %")  # fmt: skip


def row(name: str, found: dict[str, Any], control: dict[str, Any], link: Link) -> bool:
    """Print what was found beside what was imposed, and return whether all is within its limits."""
    by_least(name, found, control, link)
    (fit,), (base,) = ([each for each in one["fits"] if each["op"] == "point-to-point"] for one in (found, control))
    latency, rate = fit["latency_s"], fit["bandwidth_bytes_per_s"]
    refused = [each["verdict"] for each in (fit, base) if not all(each["identifiable"].values())]
    if refused:
        print(f"{name:<28} not measured: {' / '.join(refused)}")
        return False
    net = latency - base["latency_s"]
    misses = (net / link.delay_s - 1, rate / link.bytes_per_s - 1, net * rate / (link.delay_s * link.bytes_per_s) - 1)
    shown = "  ".join(f"{100 * miss:+6.2f} %" for miss in misses)
    print(f"{name:<28} {1e6 * link.delay_s:6.0f} us {1e-6 * link.bytes_per_s:6.1f} MB/s   {1e6 * latency:7.1f} us "
          f"- {1e6 * base['latency_s']:5.1f} us  {1e-6 * rate:7.2f} MB/s   {shown}   nodes {fit['nodes']}")  # fmt: skip
    return all(abs(miss) <= limit for miss, limit in zip(misses, (0.05, 0.02, 0.07), strict=True))


def study(*, budget: str, mpi: bool) -> bool:
    print(f"{'':<28} {'imposed':>22}   {'found':>18}{'':>18}   alpha, beta and n_1/2 off by (limits 5, 2, 7 %)")
    fine = True
    for delay_s, rate in ((500e-6, 20e6), (150e-6, 60e6)):
        with Bed(Link(delay_s=0.0, bytes_per_s=rate)):
            controls = [by_sockets(budget), *([by_mpi(budget, "--ops", "send-recv", **OVER_TCP)] if mpi else [])]
        with Bed(link := Link(delay_s=delay_s, bytes_per_s=rate)):
            found = [by_sockets(budget), *([by_mpi(budget, "--ops", "send-recv", **OVER_TCP)] if mpi else [])]
            for name, one, control in zip(("sockets", "mpi"), found, controls, strict=False):
                fine &= row(name, one, control, link)
            if mpi:
                silent = by_mpi("2s", "--ops", "send-recv")
                codes = [doubt["code"] for doubt in silent["doubts"]]
                print(f"{'mpi, left to itself':<28} {1e6 * silent['fits'][0]['floor_s']:.1f} us, doubts: {codes}")
                fine &= "transport" in codes
    return fine


OVER_TCP: Final = {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "all"}


def main() -> None:
    if sys.argv[1:2] == ["relay"]:
        relay(Link(delay_s=float(sys.argv[2]), bytes_per_s=float(sys.argv[3])))
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--no-mpi", action="store_true")
    parser.add_argument("--budget", default="8s")
    given = parser.parse_args()
    if why := missing():
        print(f"skipped: {why}")
        return
    fine = study(budget=given.budget, mpi=not given.no_mpi)
    if given.strict and not fine:
        sys.exit(1)


if __name__ == "__main__":
    main()
