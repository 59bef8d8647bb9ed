"""The flags of `nhalf simulate`, read: a machine, programs, conditions and how late ranks are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nhalf import units
from nhalf.catalog import store
from nhalf.decide.agreement import shape_for
from nhalf.errors import InputError
from nhalf.files.reading import read_json, read_text
from nhalf.link import Link
from nhalf.loading import simulate_checks
from nhalf.loading.links import link_of
from nhalf.simulate import programs, schedule, straggler
from nhalf.simulate.engine import Conditions
from nhalf.simulate.machine import Machine, Wiring, from_fabric, from_links, more_than_sold
from nhalf.simulate.program import MOST_AT_ONCE

if TYPE_CHECKING:
    from nhalf.simulate.program import Program
    from nhalf.simulate.straggler import Skew

_KINDS = ("exponential", "normal", "hiccup", "pareto")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Session:
    """What a command line asks for, read and checked."""

    machine: Machine
    programs: tuple[Program, ...]
    conditions: Conditions
    skew: Skew | None
    draws: int
    seed: int
    words: str
    flags: dict[str, Any] = field(default_factory=dict)


def session(op: str, flags: dict[str, Any]) -> Session:
    """Return the session of an operation and its flags.

    Raises
    ------
    InputError
        A missing or impossible flag, an unreadable file.
    """
    own = own_schedule(op) if op.endswith(".json") else None
    if own is None:
        op = programs.operation(op)
        flags = {**flags, "topology": _topology(op, flags)}
    simulate_checks.check(op, flags)
    ranks = own.ranks if own is not None else units.parse_count(needed(flags, "ranks", "8"), where="--ranks")
    on = machine(ranks, flags)
    made = (own,) if own is not None else made_programs(op, ranks, on, flags)
    simulate_checks.check_group(made, flags)
    simulate_checks.check_adding(made, flags)
    skew, draws = skew_and_draws(ranks, flags)
    return Session(
        machine=on,
        programs=made,
        conditions=conditions(ranks, flags),
        skew=skew,
        draws=draws,
        seed=count(flags, "seed", 1),
        words=on.words,
        flags=flags,
    )


def _topology(op: str, flags: dict[str, Any]) -> str | None:
    """Return the topology asked for; without one, that of an algorithm that runs on no other."""
    asked: str | None = flags["topology"]
    names = {name.strip().casefold() for name in (flags["algorithm"] or "").split(",")}
    if asked or flags["system"] or not programs.IN_SWITCH.get(op, {}).keys() & names:
        return asked
    return "multicast"


def count(flags: dict[str, Any], name: str, default: int) -> int:
    """Return the whole number of a flag."""
    value = flags.get(name.replace("-", "_"))
    return default if value is None else units.parse_count(str(value), where=f"--{name}")


def needed(flags: dict[str, Any], name: str, example: str) -> str:
    """Return the text of a flag that must be given."""
    value = flags.get(name.replace("-", "_"))
    if value is None:
        raise InputError(f"--{name} is missing", where=f"--{name}", do=f"add --{name} {example}")
    return str(value)


def own_schedule(path: str) -> Program:
    """Return the program of a schedule's file."""
    if not read_text(Path(path)).lstrip().startswith("{"):
        raise InputError(
            "a schedule is one JSON object",
            where=path,
            allowed='{"ranks": 2, "messages": [{"from": 0, "to": 1, "bytes": 4096}]}',
            do="put a list of messages under the key messages",
        )
    return schedule.read(read_json(Path(path)), where=path)


def machine(ranks: int, flags: dict[str, Any]) -> Machine:
    """Return the machine that the flags describe: a system's fabric, or a link and a topology."""
    if flags["system"]:
        if flags["latency"] or flags["bandwidth"] or flags.get("link"):
            raise InputError("--on and a link are both given", where="--on", allowed="one of the two")
        if ranks < 2:  # noqa: PLR2004  said by the programs too, but a fabric has no span for it
            raise InputError("1 rank has nobody to talk to", where="--ranks", allowed="2 or more")
        system, _ = store.system(flags["system"], where="--on")
        found = from_fabric(system.fabric, ranks)
        assumed = more_than_sold(system.name, ranks)
        return replace(found, words=f"{found.words} ({assumed})") if assumed else found
    if flags.get("link"):
        if flags["latency"] or flags["bandwidth"]:
            raise InputError(
                "--link and --latency/--bandwidth are both given", where="--link", allowed="one of the two"
            )
        return from_links(ranks, link_of(flags["link"], where="--link"), _wiring(flags))
    latency = units.parse(
        needed(flags, "latency", "5us (or --link 5us,400GB/s, or --on SYSTEM)"), "time", where="--latency"
    )
    bandwidth = units.parse(needed(flags, "bandwidth", "50GB/s"), "bandwidth", where="--bandwidth")
    return from_links(ranks, Link(latency, bandwidth), _wiring(flags))


def _wiring(flags: dict[str, Any]) -> Wiring:
    """Return how the ranks hang together."""
    inter = None
    if flags["inter_latency"] or flags["inter_bandwidth"]:
        latency = units.parse(needed(flags, "inter-latency", "8us"), "time", where="--inter-latency")
        bandwidth = units.parse(needed(flags, "inter-bandwidth", "50GB/s"), "bandwidth", where="--inter-bandwidth")
        inter = Link(latency, bandwidth)
    hop = flags["hop_latency"]
    over = flags["oversubscription"]
    ratio = units.parse(over.removesuffix(":1"), "ratio", where="--oversubscription") if over else 1.0
    if ratio <= 0:
        raise InputError(
            f"{over!r} is no oversubscription", where="--oversubscription", allowed="more than 0, such as 4 or 4:1"
        )
    return Wiring(
        topology=flags["topology"] or "switch",
        group=count(flags, "ranks-per-node", 0),
        oversubscription=ratio,
        nics=count(flags, "nics", 0),
        pod=count(flags, "nodes-per-leaf", 0),
        inter=inter,
        hop_latency_s=units.parse(hop, "time", where="--hop-latency") if hop else None,
    )


def made_programs(op: str, ranks: int, on: Machine, flags: dict[str, Any]) -> tuple[Program, ...]:
    """Return the program of each algorithm asked for."""
    size = 1.0 if op == "barrier" else units.parse(needed(flags, "size", "16KiB"), "size", where="--size")
    skew = units.parse(flags["routing"], "ratio", where="--routing") if flags["routing"] else 0.0
    asked = flags["algorithm"] or next(iter(programs.PROGRAMS[op]))
    every = asked.strip().casefold() == "all"
    in_switch = programs.IN_SWITCH.get(op, {})
    names = list(programs.PROGRAMS[op]) if every else [programs.algorithm(op, name) for name in asked.split(",")]
    if on.network.kind == "multicast":
        names += list(in_switch) * every
    elif in_switch.keys() & set(names):
        do = "add --topology multicast"
        if flags["system"]:
            link = store.system(flags["system"], where="--on")[0].fabric.intra_node
            ends = units.format_time(float(link.latency_s)), units.format_bandwidth(float(link.bandwidth_bytes_per_s))
            own = f"--on {flags['system']}, which does not say what its switch can"
            do = f"take --link {','.join(ends).replace(' ', '')} instead of {own}"
        raise InputError("nvls needs a switch that adds up and copies", where="--algorithm", do=do)
    if len(set(names)) < len(names):
        raise InputError(f"{asked!r} names an algorithm twice", where="--algorithm", do="name each once")
    made = []
    for name in names:
        shape = shape_for(name, ranks, size, on, skew=skew)
        try:
            made.append(programs.build(op, name, shape))
        except InputError:
            # Of "all", those are left out that this number of ranks or this machine cannot have.
            if not every or ranks < 2 or size < 1:  # noqa: PLR2004
                raise
    return tuple(made)


def conditions(ranks: int, flags: dict[str, Any]) -> Conditions:
    """Return how ranks and ports behave."""
    found = [straggler.parse(text, ranks) for text in flags["stragglers"]]
    for one in found:
        if one.what == "jitter" or one.chance < 1:
            raise InputError(
                f"{one.text!r} needs many steps",
                where="--straggler",
                do="use nhalf simulate decode, or --draws with --skew",
            )
    starts = straggler.starts(found, ranks)
    rate = flags["reduction_rate"]
    return Conditions(
        ports=flags["ports"].strip().casefold(),
        protocol=flags["protocol"].strip().casefold(),
        reduction_s_per_byte=1 / units.parse(rate, "bandwidth", where="--reduction-rate") if rate else 0.0,
        starts_s=starts if starts.any() else None,
        slowness=straggler.factors(found, ranks, "slow"),
        port_slowness=straggler.factors(found, ranks, "link"),
    )


def skew_and_draws(ranks: int, flags: dict[str, Any]) -> tuple[Skew | None, int]:
    """Return the skew and how many draws of it."""
    text = flags["skew"]
    draws = count(flags, "draws", 10_000)
    if not text:
        return None, draws
    if draws * ranks > MOST_AT_ONCE:
        raise InputError(
            f"{draws:,} draws of {ranks:,} ranks are {draws * ranks:,} times to keep",
            where="--draws",
            allowed=f"1 to {MOST_AT_ONCE // ranks:,}",
        )
    if text.partition(":")[0].strip().casefold() not in _KINDS and Path(text).exists():
        return straggler.samples(read_text(Path(text)), where=text), draws
    return straggler.parse_skew(text), draws
