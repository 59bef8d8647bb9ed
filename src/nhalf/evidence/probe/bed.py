"""The bed: hosts of one machine, each in a network namespace, joined by a relay that imposes delay and rate.

Latency and bandwidth are imposed, so what is measured can be compared with it. It needs Linux and the right to make
namespaces and TUN devices; nothing leaves the namespaces, and they are gone when this process is.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from nhalf.evidence.probe.relay import MTU

if TYPE_CHECKING:
    from collections.abc import Sequence

_RELAY: Final = Path(__file__).with_name("relay.py")
_LIMIT_S: Final = 20.0
ONE_THREAD: Final = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Ranks that share processors would otherwise each start a thread for every one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """How a host is joined to the others: one-way delay [s], rate of either direction [bytes/s], mean jitter [s]."""

    delay_s: float
    bytes_per_s: float
    jitter_s: float = 0.0


def missing() -> str:
    """Return what this machine lacks for a bed, nothing when it lacks nothing."""
    if sys.platform != "linux":
        return "network namespaces are Linux's"
    if os.geteuid() != 0:
        return "making network namespaces needs root"
    if not Path("/dev/net/tun").exists():
        return "there is no /dev/net/tun"
    absent = [name for name in ("ip", "unshare", "nsenter") if shutil.which(name) is None]
    if absent:
        return f"not installed: {', '.join(absent)}"
    tried = subprocess.run(  # noqa: S603
        [str(shutil.which("unshare")), "--net", "--uts", "true"], capture_output=True, timeout=_LIMIT_S, check=False
    )
    return "" if tried.returncode == 0 else "this machine allows no network namespaces"


class Bed:
    """Hosts `bed-0`, `bed-1`, ... with addresses 10.77.0.1, 10.77.0.2, ... and the relay between them."""

    def __init__(self, hosts: int) -> None:
        """Keep how many hosts there are to be."""
        self.hosts = hosts
        self.names = [f"bed-{index}" for index in range(hosts)]
        self.addresses = [f"10.77.0.{index + 1}" for index in range(hosts)]
        self._devices = [f"n{os.getpid()}-{index}" for index in range(hosts)]
        self._keepers: list[subprocess.Popen[str]] = []
        self._relay: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        """Make the hosts and start the relay."""
        try:
            for name in self.names:
                # `cat` keeps the namespaces until this process closes its standard input, or is gone.
                keep = ["unshare", "--net", "--uts", "sh", "-c", f"hostname {name}; echo ready; exec cat"]
                self._keepers.append(_started(keep, "ready"))
            self._relay = _started([sys.executable, str(_RELAY), *self._devices], "ready")
            for index, device in enumerate(self._devices):
                _run("ip", "link", "set", device, "netns", str(self._keepers[index].pid))
                for words in (
                    f"link set {device} name eth0", "link set lo up", f"addr add {self.addresses[index]}/24 dev eth0",
                    f"link set eth0 mtu {MTU} up",
                ):  # fmt: skip
                    _run(*self.inside(index, "ip", *words.split()))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Take everything away, and whoever is left on a host: a server of mpiexec may wait there for ever."""
        self._empty()
        for process in filter(None, (self._relay, *self._keepers)):
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        for process in filter(None, (self._relay, *self._keepers)):
            try:
                process.wait(_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _empty(self) -> None:
        own = {keeper.pid: _network(keeper.pid) for keeper in self._keepers}
        for path in Path("/proc").glob("[0-9]*"):
            if int(path.name) not in own and _network(int(path.name)) in own.values():
                with contextlib.suppress(OSError):
                    os.kill(int(path.name), signal.SIGKILL)

    def impose(self, ports: Port | Sequence[Port]) -> None:
        """Set what is imposed on every host, or on each, from now on; what is under way is lost."""
        each = [ports] * self.hosts if isinstance(ports, Port) else ports
        if self._relay is None or self._relay.stdin is None or self._relay.stdout is None:
            raise RuntimeError("the bed is not made")
        self._relay.stdin.write(f"{json.dumps([asdict(port) for port in each])}\n")
        self._relay.stdin.flush()
        if self._relay.stdout.readline() != "set\n":
            raise RuntimeError("the relay is gone")

    def inside(self, host: int, *command: str) -> list[str]:
        """Return a command that runs on one of the hosts."""
        return ["nsenter", "--target", str(self._keepers[host].pid), "--net", "--uts", *command]


def _started(command: Sequence[str], word: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603
    if process.stdout is None or process.stdout.readline() != f"{word}\n":
        process.kill()
        raise RuntimeError(f"{command[0]} did not start")
    return process


def _network(pid: int) -> str:
    """Return the network namespace of a process, a name of nobody's where it has ended."""
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:
        return f"none of {pid}"


def _run(*words: str) -> None:
    with contextlib.suppress(subprocess.CalledProcessError):
        subprocess.run(words, check=True, capture_output=True, timeout=_LIMIT_S)  # noqa: S603
        return
    raise RuntimeError(" ".join(words))
