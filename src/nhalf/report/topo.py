"""The answer of `nhalf topo`: the matrix as links, the weakest edge of the ring, and the NIC nearest to each GPU."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from nhalf import units
from nhalf.evidence.readers.topo import ORDER, nvlinks
from nhalf.report.document import envelope, of

if TYPE_CHECKING:
    from nhalf.catalog.topology import Edge, Machine
    from nhalf.link import Link
    from nhalf.report.canvas import Canvas


def write(machine: Machine, canvas: Canvas, *, whole: bool = True) -> None:
    """Write the verdict, the weakest edge, the letters as links, if `whole` the nearest NICs, and what was assumed."""
    canvas.paragraph(_verdict(machine), bold=True)
    if machine.weakest:
        link = machine.weakest.link
        half = units.format_size(float(link.half_size_bytes), binary=True)
        canvas.paragraph(f"A message of {half} is the n_1/2 of that edge: below it latency costs more than bytes.")
    _write_letters(machine, canvas)
    if whole:
        _write_nics(machine, canvas)
    if machine.notes:
        canvas.heading("Notes")
        for note in machine.notes:
            canvas.paragraph(f"  {note.text}", indent="    ")
    canvas.following(_next(machine))


def _verdict(machine: Machine) -> str:
    """Return in words what limits a ring over all GPUs."""
    gpus, nics = len(machine.matrix.gpus), len(machine.matrix.nics)
    what = f"{gpus} GPU{'s' if gpus > 1 else ''} and {nics} NIC{'s' if nics != 1 else ''}"
    if machine.weakest is None:
        return f"{what}: one GPU makes no ring."
    same = len({edge.letters for edge in _between_gpus(machine)}) == 1
    edge = machine.weakest
    cost = f"{units.format_bandwidth(float(edge.link.bandwidth_bytes_per_s))} one way, {_latency(edge)}"
    if same:
        return f"{what}: every pair of GPUs is {edge.letters}, {cost}."
    advice = ""
    if machine.better_weakest is not None:
        order = ", ".join(name.removeprefix("GPU") for name in machine.better)
        advice = f" In the order {order} it would be {machine.better_weakest.letters}."
    return f"{what}: the weakest edge of the ring is {edge.start} to {edge.end}, {edge.letters}, {cost}.{advice}"


def _latency(edge: Edge) -> str:
    return units.format_time(float(edge.link.latency_s))


def _between_gpus(machine: Machine) -> list[Edge]:
    """Return the edges between GPUs, each pair in both directions."""
    gpus = set(machine.matrix.gpus)
    return [edge for edge in machine.edges if {edge.start, edge.end} <= gpus]


def _write_letters(machine: Machine, canvas: Canvas) -> None:
    """Write what each kind of letters is, and how many pairs of GPUs, and of a GPU and a NIC, have it."""
    gpus = set(machine.matrix.gpus)
    inside = Counter(edge.letters for edge in _between_gpus(machine))
    to_nics = Counter(edge.letters for edge in machine.edges if edge.start in gpus and edge.end not in gpus)
    edges = {edge.letters: edge for edge in machine.edges if edge.letters in inside or edge.letters in to_nics}
    order = sorted(edges, key=lambda letters: edges[letters].strength, reverse=True)
    canvas.heading("Letters")
    rows = [
        [
            letters,
            str(inside[letters] // 2 or "-"),
            str(to_nics[letters] or "-"),
            _latency(edges[letters]),
            units.format_bandwidth(float(edges[letters].link.bandwidth_bytes_per_s)),
            units.format_size(float(edges[letters].link.half_size_bytes), binary=True),
            edges[letters].source,
        ]
        for letters in order
    ]
    canvas.table(["<", "GPU pairs", "to NICs", "latency", "bandwidth", "n_1/2", "<as"], rows)


def _write_nics(machine: Machine, canvas: Canvas) -> None:
    """Write which NICs are nearest to each GPU."""
    if not machine.matrix.nics or not machine.matrix.gpus:
        return
    canvas.heading("Nearest NICs")
    rows = []
    for gpu in machine.matrix.gpus:
        letters, names = nearest(machine, gpu)
        place = machine.matrix.places.get(gpu)
        shown = [machine.matrix.devices.get(name, name) for name in names]
        rows.append([gpu, letters, ", ".join(shown), place.numa if place else "", place.cpus if place else ""])
    canvas.table(["<GPU", "<by", "<NICs", "<NUMA", "<cores"], rows)


def nearest(machine: Machine, gpu: str) -> tuple[str, list[str]]:
    """Return the letters of the shortest way from a GPU to a NIC, and the NICs that have it."""
    ways = {nic: machine.matrix.cells[gpu, nic] for nic in machine.matrix.nics if (gpu, nic) in machine.matrix.cells}
    if not ways:
        return "", []
    best = max(ways.values(), key=_nearness)
    return best, [nic for nic, letters in ways.items() if letters == best]


def _nearness(letters: str) -> int:
    return len(ORDER) if nvlinks(letters) else ORDER.index(letters)


def _next(machine: Machine) -> str:
    """Return the command to run next."""
    if machine.weakest is None:
        return "nhalf catalog systems"
    link = machine.weakest.link
    bandwidth = units.format_bandwidth(float(link.bandwidth_bytes_per_s)).replace(" ", "")
    return f"nhalf link {_latency(machine.weakest).replace(' ', '')} {bandwidth}"


# --- a catalogue of one's own -----------------------------------------------------------------------------------------


def tables(machine: Machine, *, lender: str) -> dict[str, Any]:
    """Return the machine as the tables of a cluster file: its node and the links in it.

    `lender` is the system whose curves stand in, empty where none does: those of other links are not taken over.
    """
    fabric: dict[str, Any] = {"devices_per_node": len(machine.matrix.gpus), "topology": str(machine.topology)}
    if machine.intra_node is not None:
        latency, bandwidth = (
            float(each) for each in (machine.intra_node.latency_s, machine.intra_node.bandwidth_bytes_per_s)
        )
        fabric["intra_node"] = {"latency": f"{latency!r} s", "bandwidth": f"{bandwidth!r} B/s"}
    return {**({} if lender else {"sibling": ""}), "fabric": fabric}


# --- the document -----------------------------------------------------------------------------------------------------


def document(machine: Machine) -> dict[str, Any]:
    """Return the document of the contract: one link for each cell, each one way; `weakest` is null for one GPU."""
    return envelope(
        "topo",
        {
            "verdict": _verdict(machine),
            "nodes": [_node(machine, name) for name in machine.matrix.names],
            "links": [_link(edge) for edge in machine.edges],
            "ring": list(machine.ring),
            "weakest": machine.weakest and _link(machine.weakest),
            "better_ring": list(machine.better),
            "better_weakest": machine.better_weakest and _link(machine.better_weakest),
            "fabric": _fabric(machine),
            "notes": [of(note, "code", "text") for note in machine.notes],
        },
    )


def _node(machine: Machine, name: str) -> dict[str, Any]:
    """Return a GPU or NIC with where it sits; unknown is null."""
    place = machine.matrix.places.get(name)
    gpu = name in machine.matrix.gpus
    return {
        "name": name,
        "type": "gpu" if gpu else "nic",
        "device": machine.matrix.devices.get(name),
        "cpu_affinity": (place.cpus or None) if place else None,
        "numa_affinity": (place.numa or None) if place else None,
        "nearest_nics": nearest(machine, name)[1] if gpu else None,
    }


def _link(edge: Edge) -> dict[str, Any]:
    ends = of(edge, link="source", kind="letters", **{"from": "start", "to": "end"})
    return {**ends, **_costs(edge.link)}


def _costs(link: Link) -> dict[str, float]:
    return {name: float(getattr(link, name)) for name in ("latency_s", "bandwidth_bytes_per_s")}


def _fabric(machine: Machine) -> dict[str, Any]:
    """Return the machine as one node of a fabric: a ring sees its weakest edge."""
    link = machine.intra_node
    return {
        "devices_per_node": len(machine.matrix.gpus),
        "nics_per_node": len(machine.matrix.nics),
        "topology": str(machine.topology),
        "intra_node": link and _costs(link),
    }
