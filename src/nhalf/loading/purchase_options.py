"""Offers: the texts of `--option` as things that can be bought: moves of inputs, other machines, prices."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nhalf import units
from nhalf.catalog import stated, store
from nhalf.decide.levers import levers
from nhalf.decide.option import Move, Option
from nhalf.errors import InputError, did_you_mean
from nhalf.loading import changes
from nhalf.loading.changes import bidirectional, unit_of
from nhalf.loading.inputs import BY_NAME
from nhalf.loading.request import scenarios

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.loading.choices import Request
    from nhalf.loading.request import Loaded
    from nhalf.scenario import Scenario

LINKS: Final = {
    "nvlink": "intra_node", "intra-node": "intra_node", "nic": "", "inter-node": "inter_node",
    "inter-rack": "inter_rack",
}  # fmt: skip
"""Words for the links of a tier; a NIC is the tier that leaves a node, or a rack where nodes share switches."""
WORDS: Final = {
    "hbm": "system.device.memory_bandwidth_bytes_per_s", "memory": "system.device.memory_bytes",
    "flops": "system.device.bf16_flop_per_s",
}  # fmt: skip
"""Words for inputs of a device."""
_ANEW: Final = tuple(row.name for row in BY_NAME.values() if row.option)
"""Inputs that an option may name anew: system=gb200-nvl72, weights=fp8, tp=8, overlap=0.5, fuse_norm=true."""
_SAME: Final = tuple(row.name for row in BY_NAME.values() if row.option and row.part != "request")
"""Those with which the machine and the stack stay what they are."""
_PRICE: Final = re.compile(r"(?P<money>[^/]+?)\s*(?:/\s*(?P<per>[a-z]+))?", re.IGNORECASE)
_PER: Final = ("gpu", "nic", "node", "all")
_LABEL: Final = re.compile(r"(?P<label>[^=:]+):\s+(?P<rest>.+)", re.DOTALL)
_NOT_HERE: Final = {row.path: row.on_command_line for row in BY_NAME.values() if row.part == "request" and row.path}
_EXAMPLES: Final = "'nic=800Gb/s @ $1.2k', 'stack.host_launch_s=-10us', 'hbm=x1.4', 'system=gb200-nvl72', 'weights=fp8'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One `--option` taken apart: its name, its settings as written, and its price as written."""

    text: str
    name: str
    settings: tuple[tuple[str, str], ...]
    price: str | None

    @property
    def where(self) -> str:
        """Return where messages say that it was written."""
        return f"--option {self.text!r}"


def options(
    request: Request, layouts: Sequence[Scenario], texts: Sequence[str], *, prices: bool
) -> tuple[tuple[Option, ...], list[str]]:
    """Return the options that texts name, against the scenarios of a request, and warnings about them.

    Raises
    ------
    InputError
        A text that names no input, value, machine or price that is known.
    """
    if not texts:
        raise InputError("nothing is on the list", where="--option", allowed=_EXAMPLES, do="give at least one --option")
    found: list[Option] = []
    warnings: list[str] = []
    for text in texts:
        offer = parse(text)
        if offer.price is not None and not prices:
            raise InputError("a price is of no use here", where=offer.where, do="use nhalf buy, or leave out the '@'")
        if any(offer.name == option.name for option in found):
            raise InputError("the option is given twice", where=offer.where, do="give it once, or a label: 'name: ...'")
        found.append(_option(offer, request, layouts, warnings))
    return tuple(found), warnings


def standard(layouts: Sequence[Scenario]) -> tuple[str, ...]:
    """Return the options of a list that nobody wrote: what `nhalf decode` says would help, and the host's launches."""
    names = {
        lever.name: f"{lever.name}: {lever.path}=x{lever.factor:g}" for layout in layouts for lever in levers(layout)
    }
    return (*names.values(), "half the host's kernel launch: stack.host_launch_s=x0.5")


def parse(text: str) -> Offer:
    """Return an option taken apart: `[label: ]key=value[ + key=value]...[ @ price[/gpu|nic|node|all]]`.

    Raises
    ------
    InputError
        There is no `=`.
    """
    body, at, price = text.partition("@")
    labelled = _LABEL.fullmatch(body.strip())
    name, rest = (labelled["label"].strip(), labelled["rest"]) if labelled else (body.strip(), body.strip())
    settings = []
    for part in re.split(r"\s\+\s", rest):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key or not value:
            raise InputError(f"{part.strip()!r} is no key=value", where=f"--option {text!r}", allowed=_EXAMPLES)
        settings.append((key, value))
    return Offer(text=text, name=name, settings=tuple(settings), price=price.strip() if at else None)


def _option(offer: Offer, request: Request, layouts: Sequence[Scenario], warnings: list[str]) -> Option:
    """Return one option: first what makes it another request, then the inputs that it moves."""
    asked = [(key.casefold().replace("-", "_"), value) for key, value in offer.settings]
    renamed = {key: value for key, value in asked if key in _ANEW}
    base = tuple(layouts)
    if renamed:
        loaded = scenarios(_changed(request, renamed, offer))
        warnings += [f"{offer.where}: {warning}" for warning in (*loaded.warnings, *_cache(loaded, layouts))]
        base = loaded.scenarios
    moves = [
        move
        for (key, value), (plain, _) in zip(offer.settings, asked, strict=True)
        if plain not in _ANEW
        for move in _moves(key, value, base[0], offer, warnings)
    ]
    return Option(
        name=offer.name,
        layouts=base,
        moves=tuple(moves),
        price_per_gpu=_price(offer, base[0]),
        another=any(key not in _SAME for key in renamed),
    )


def _cache(loaded: Loaded, layouts: Sequence[Scenario]) -> list[str]:
    """Return a warning where the dtype of the cache, which nobody states, is another one with an option."""
    before, after = layouts[0].workload.kv_dtype, loaded.scenarios[0].workload.kv_dtype
    if before == after or not any(default.flag == "--kv" for default in loaded.defaults):
        return []
    return [f"servers mostly keep the cache in {after} then, and in {before} before; state --kv to hold it"]


def _changed(request: Request, renamed: dict[str, str], offer: Offer) -> Request:
    """Return the request with some of its inputs named anew."""
    words: dict[str, str | bool] = {"true": True, "on": True, "false": False, "off": False}
    values = {key: words.get(value.casefold(), value) if BY_NAME[key].is_switch else value
              for key, value in renamed.items()}  # fmt: skip
    if "system" in renamed:
        values["system"] = store.find("system", renamed["system"], where=offer.where)
    return request.updated(values, lambda row: f"{offer.where} {row.name}")


def _moves(key: str, value: str, base: Scenario, offer: Offer, warnings: list[str]) -> list[Move]:
    """Return what one setting does to inputs."""
    word, _, part = key.casefold().replace("_", "-").partition(".")
    if word in LINKS and part in ("", "latency", "bandwidth"):
        return _of_link(word, part, value, base, offer, warnings)
    if key.casefold() in ("fabric", changes.TRANSPORT):
        return _of_fabric(value, base, offer)
    if word == "all-reduce" and not part:
        return _of_kernel(value, offer)
    path = WORDS.get(key.casefold(), key)
    if path in _NOT_HERE:
        raise InputError("that is asked of the machine, not bought", where=offer.where, do=f"use {_NOT_HERE[path]}")
    known = dict(base.inputs())
    if path not in known:
        names = [*_ANEW, *LINKS, *WORDS, "all-reduce"]
        begun = [name for name in LINKS if name.startswith(f"{word}-")]
        meant = f"Did you mean '{begun[0]}{f'.{part}' if part else ''}'?" if begun else ""
        raise InputError(
            f"there is nothing to set by the name {key!r}",
            where=offer.where,
            allowed=f"{', '.join(names)}, or the path of any input",
            do=meant or did_you_mean(key, [*names, *known]),
        )
    return [_move(path, value, base, offer, warnings)]


def _of_link(word: str, part: str, value: str, base: Scenario, offer: Offer, warnings: list[str]) -> list[Move]:
    """Return the moves of a link word: a rate, a time, both, or a link of the catalogue by name."""
    fabric = base.system.fabric
    tier = LINKS[word] or ("inter_rack" if fabric.inter_rack is not None else "inter_node")
    if getattr(fabric, tier) is None:
        raise InputError(
            f"{base.system.name} has no links by the name {word}", where=offer.where, allowed="nvlink, nic"
        )
    stem = f"system.fabric.{tier}."
    ends = {"latency": f"{stem}latency_s", "bandwidth": f"{stem}bandwidth_bytes_per_s"}
    if part:
        return [_move(ends[part], value, base, offer, warnings)]
    if value.casefold() == "off":
        do = {"intra_node": "--option p2p=off lets devices of a node reach each other through the host alone"}.get(
            tier, "take a --tp that stays inside a node"
        )
        raise InputError(f"{word} cannot be off", where=offer.where, allowed="a rate, a time, or a link's name", do=do)
    pieces = [piece.strip() for piece in value.split(",")]
    if len(pieces) == 1 and re.fullmatch(r"[A-Za-z][\w .-]*", value) and factor_of(value) is None:
        link, _ = store.link(value, where=offer.where)
        given = ((ends["latency"], link.latency_s), (ends["bandwidth"], link.bandwidth_bytes_per_s))
        stack = "" if tier == "intra_node" else stated.links()[store.find("link", value, where=offer.where)].transport
        now = base.system.transport
        own = _of_fabric(stack, base, offer) if stack and now is not None and not now.name.startswith(stack) else []
        # The constants of a network stack hold the latency of its links.
        return [*(Move(path=path, kind="value", amount=float(number)) for path, number in given[bool(own) :]), *own]
    return [_move(ends[_end(piece, word, offer)], piece, base, offer, warnings) for piece in pieces]


def _of_kernel(value: str, offer: Offer) -> list[Move]:
    """Return the move to a kernel that takes another time for an all-reduce, without saying how: 23us, -44us or x0.5.

    A time is that of the message of one sequence; larger ones take as much more or less.
    """
    factor = factor_of(value)
    if factor is not None:
        if factor <= 0:
            raise InputError("an all-reduce takes some time", where=offer.where, allowed="more than x0")
        return [Move(path="stack.remedies.all_reduce_factor", kind="value", amount=factor)]
    amount = units.parse(value.lstrip("+-").strip(), "time", where=offer.where)
    if value[0] in "+-":
        saved = amount if value[0] == "-" else -amount
        return [Move(path="stack.remedies.all_reduce_saved_s", kind="value", amount=saved)]
    if amount <= 0:
        raise InputError("an all-reduce takes some time", where=offer.where, allowed="more than 0s")
    return [Move(path="stack.remedies.all_reduce_s", kind="value", amount=amount)]


def _of_fabric(name: str, base: Scenario, offer: Offer) -> list[Move]:
    """Return the moves to the constants of another network stack between nodes."""
    if base.system.transport is None:
        raise InputError(f"no NICs of a known kind join the nodes of {base.system.name}", where=offer.where,
                         allowed="a system with a fabric: nhalf catalog fabrics")  # fmt: skip
    origins = store.transport(name, where=offer.where)[1]
    return [Move(path=f"system.transport.{path}", kind="value", amount=datum.value) for path, datum in origins.items()]


def _end(piece: str, word: str, offer: Offer) -> str:
    """Return whether a piece is a latency or a bandwidth, by its unit."""
    bare = piece.lstrip("+-")
    if factor_of(piece) is not None:
        raise InputError(
            f"{piece!r} may be of the latency or of the bandwidth",
            where=offer.where,
            do=f"write {word}.bandwidth={piece} or {word}.latency={piece}",
        )
    try:
        units.parse(bare, "time")
    except InputError:
        units.parse(bare, "bandwidth", where=offer.where)
        return "bandwidth"
    return "latency"


def factor_of(value: str) -> float | None:
    """Return the factor that `x2`, `-20%` or `+50%` means, or None."""
    times = re.fullmatch(r"[xX*]\s*(\d+\.?\d*|\.\d+)", value)
    if times:
        return float(times[1])
    share = re.fullmatch(r"([+-])\s*(\d+\.?\d*|\.\d+)\s*%", value)
    return 1 + float(share[1] + share[2]) / 100 if share else None


def _move(path: str, value: str, base: Scenario, offer: Offer, warnings: list[str]) -> Move:
    """Return the move of one input: a value, a signed change, or a factor.

    Raises
    ------
    InputError
        A value without its unit, or one that leads to an impossible input.
    """
    where, before, unit = f"{offer.where}, {path}", base.value(path), unit_of(path)
    if isinstance(before, int):
        return Move(path=path, kind="value", amount=units.parse_count(value, where=where))
    now, factor, is_time = _mean(before), factor_of(value), unit == "s"
    if factor is not None:
        move = Move(path=path, kind="factor", amount=factor)
    elif value[0] in "+-":
        size = units.parse_for_unit(value[1:].strip(), unit, where=where)
        move = Move(path=path, kind="delta", amount=size if value[0] == "+" else -size)
    else:
        move = Move(path=path, kind="value", amount=units.parse_for_unit(value, unit, where=where))
    after = _mean(move.of(now))
    shown = units.format_value(now, unit)
    if move.kind == "delta" and now + move.amount < 0 and is_time:
        warnings.append(f"{where}: there are only {shown} to take; it ends at 0")
    elif after < 0 or (after == 0 and not is_time):
        raise InputError(f"{value!r} leaves nothing of {shown}", where=where, allowed="more than 0 in the end")
    if path.endswith("_efficiency") and after > 1:
        raise InputError(f"{value!r} makes it more than a datasheet rate", where=where, allowed="at most 1 in the end")
    if path.endswith(".intra_node.bandwidth_bytes_per_s") and move.kind == "value":
        warnings += bidirectional(after, now, where)
    return move


def _mean(value: object) -> float:
    """Return a quantity as one number."""
    mean = getattr(value, "mean", None)
    return float(mean()) if mean is not None else float(value)  # type: ignore[arg-type]


def _price(offer: Offer, base: Scenario) -> float | None:
    """Return the price of an option on each GPU [$]; stated for a NIC, a node or all, it is spread over their GPUs."""
    if offer.price is None:
        return None
    found = _PRICE.fullmatch(offer.price)
    per = ((found["per"] if found else None) or "gpu").casefold()
    if found is None or per not in _PER:
        allowed = "$1.2k, or $1.2k/gpu, /nic, /node, /all"
        raise InputError(f"{offer.price!r} is no price", where=offer.where, allowed=allowed)
    money = units.parse(found["money"], "money", where=offer.where)
    if money <= 0:
        raise InputError("a price of nothing has no gain per money", where=offer.where, do="leave out the '@'")
    fabric = base.system.fabric
    shares = {
        "gpu": 1.0,
        "nic": _mean(fabric.nics_per_node) / fabric.devices_per_node,
        "node": 1.0 / fabric.devices_per_host,
        "all": 1.0 / base.layout.devices,
    }
    return money * shares[per]
