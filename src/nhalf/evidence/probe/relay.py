"""The relay of a bed: carries packets between hosts at a set rate, with a set delay. It runs as a process.

A packet leaves its host when the ones before it are through at that host's rate, enters the other host no faster than
that host's rate allows, and arrives after the delay. It imports nothing of nhalf, so that what it imposes and what
nhalf finds have nothing in common.
"""

from __future__ import annotations

import contextlib
import ctypes
import heapq
import json
import math
import os
import random
import select
import struct
import sys
import time
from pathlib import Path
from typing import Any, Final

MTU: Final = 9000
_TUNSETIFF: Final = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_SLACK: Final = 29  # PR_SET_TIMERSLACK
_PRIORITY: Final = 20
_AWAKE_S: Final = 400e-6
_IPV4: Final = 4
_HEADERS: Final = 52  # [bytes] of IP and TCP with time stamps, which are not counted
_SMALL: Final = 256  # [bytes]
_STEP_S, _MOST_S = 1e-7, 5e-5
_LAST_OCTET: Final = 19  # of the address a packet of IPv4 goes to


class Wires:
    """What the relay imposes: each host's one-way delay [s], rate [bytes/s] and jitter [s], and what is under way.

    A packet takes half of either host's delay, and an exponential draw with half of either host's jitter as its mean;
    packets of one host to another keep their order.
    """

    def __init__(self, ports: list[dict[str, float]]) -> None:
        """Begin with nothing under way."""
        self.ports = ports
        self._leaves, self._enters = [0.0] * len(ports), [0.0] * len(ports)
        self._last: dict[tuple[int, int], float] = {}
        self._random = random.Random(1)  # noqa: S311  a delay, not a secret
        self.waiting: list[tuple[float, int, int, bytes]] = []
        self._count = 0

    def take(self, now: float, source: int, to: int, packet: bytes) -> None:
        """Set when a packet that has left its host arrives."""
        first, second = self.ports[source], self.ports[to]
        load = max(len(packet) - _HEADERS, 0)
        leaves = max(self._leaves[source], now) + load / first["bytes_per_s"]
        enters = max(leaves, self._enters[to] + load / second["bytes_per_s"])
        if load:
            self._leaves[source], self._enters[to] = leaves, enters
        else:  # an acknowledgement: behind the data of its own direction it would hold up those of the other
            enters = now
        due = enters + (first["delay_s"] + second["delay_s"]) / 2.0
        if jitter := (first["jitter_s"] + second["jitter_s"]) / 2.0:
            due = max(due + self._random.expovariate(1.0 / jitter), self._last.get((source, to), 0.0))
            self._last[source, to] = due
        self._count += 1
        heapq.heappush(self.waiting, (due, self._count, to, packet))


class Lag:
    """How long after a small packet is due it has been handed over [s], in the middle: at once, and after a delay.

    A relay that waits in between hands over some microseconds slower than one that does not, as its caches have cooled.
    A control without delay holds none of that, so a delayed packet is handed over as much earlier.
    """

    def __init__(self) -> None:
        """Begin with no lag known."""
        self._middle = {False: 0.0, True: 0.0}

    @property
    def more_s(self) -> float:
        """Return by how much it is longer after a delay [s], 0 until both are known."""
        return min(max(self._middle[True] - self._middle[False], 0.0), _MOST_S) if self._middle[False] else 0.0

    def saw(self, lag_s: float, *, delayed: bool) -> None:
        """Move the middle by a step towards a lag [s]."""
        self._middle[delayed] += math.copysign(_STEP_S, lag_s - self._middle[delayed])


def main(names: list[str]) -> None:
    """Make a device of each name, say `ready`, and carry packets until standard input ends.

    A line of standard input sets what is imposed from now on, and is answered by `set`.
    """
    _be_quick()
    ends = [_device(name) for name in names]
    wires, lag = Wires([]), Lag()
    _say("ready")
    while True:
        _hand_over(wires, lag, ends)
        # The last stretch is spent awake: a processor that has gone to sleep wakes up late.
        waiting = wires.waiting
        pause = max(waiting[0][0] - time.monotonic() - _AWAKE_S, 0.0) if waiting else None
        for ready in select.select([0, *ends], [], [], pause)[0]:
            if ready == 0:
                line = sys.stdin.readline()
                if not line:
                    return
                wires = Wires(json.loads(line))
                _say("set")
                continue
            packet = os.read(ready, MTU + 64)
            to = packet[_LAST_OCTET] - 1 if packet[0] >> 4 == _IPV4 else -1
            if 0 <= to < len(wires.ports):
                wires.take(time.monotonic(), ends.index(ready), to, packet)


def _hand_over(wires: Wires, lag: Lag, ends: list[int]) -> None:
    """Hand over every packet that is due."""
    waiting, delayed = wires.waiting, any(port["delay_s"] for port in wires.ports)
    early_s = lag.more_s if delayed else 0.0
    while waiting and waiting[0][0] <= time.monotonic() + early_s:
        due, _, to, packet = heapq.heappop(waiting)
        with contextlib.suppress(OSError):  # the device is down, as it is at the very end
            os.write(ends[to], packet)
        if len(packet) <= _SMALL:
            lag.saw(time.monotonic() - due + early_s, delayed=delayed)


def _be_quick() -> None:
    """Ask for no slack of timers, to run before ordinary work, and that no processor sleeps deeply meanwhile.

    Late wake-ups would be measured as latency. The file stays open as long as this process lives.
    """
    ctypes.CDLL(None).prctl(_SLACK, 1)
    if os.environ.get("PIN"):
        os.sched_setaffinity(0, {0})
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    with contextlib.suppress(OSError):
        _KEPT.append(file := Path("/dev/cpu_dma_latency").open("wb", buffering=0))  # noqa: SIM115
        file.write(struct.pack("i", 0))


_KEPT: list[Any] = []


def _device(name: str) -> int:
    import fcntl  # which Windows lacks, where tests are collected all the same

    handle = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(handle, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    return handle


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
