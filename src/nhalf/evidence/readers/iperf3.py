"""Read iperf3 `-J`: the bandwidth of a stream in each interval; it measures no latency.

Source, by description: esnet/iperf, src/iperf_api.c.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from nhalf.collective import Mode, Op
from nhalf.evidence.readers.columns import note
from nhalf.evidence.readers.json_text import array, dictionary, number, objects
from nhalf.evidence.readers.numerals import BIT_PER_S
from nhalf.evidence.readers.protocol import Format
from nhalf.evidence.table import Figure, Skipped, Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nhalf.evidence.readers.protocol import Line


def _parse(lines: Iterable[Line], source: str) -> list[Table]:
    found, problem = objects(lines)
    tables = [_table(one, source) for one in found if "intervals" in one or "end" in one or "error" in one]
    if problem:
        skipped = Skipped(file=source, line=0, why=problem)
        tables.append(Table(file=source, tool="iperf3", skipped=(skipped,)))
    return tables


def _table(document: dict[str, Any], source: str) -> Table:
    start = dictionary(dictionary(document.get("start")).get("test_start"))
    figures: list[Figure] = []
    skipped: list[Skipped] = []
    for interval in map(dictionary, array(document.get("intervals"))):
        total = dictionary(interval.get("sum"))
        rate = number(total.get("bits_per_second"))
        when = f"{number(total.get('start')) or 0:.0f} to {number(total.get('end')) or 0:.0f} s"
        if total.get("omitted") is True:
            skipped.append(Skipped(file=source, line=0, why=f"{when}: omitted by the run itself (-O)"))
        elif rate is None or rate <= 0.0:
            skipped.append(Skipped(file=source, line=0, why=f"{when}: nothing was sent"))
        else:
            figures.append(Figure(of="bandwidth", value=rate * BIT_PER_S, label=when))
    if "error" in document:
        skipped.append(Skipped(file=source, line=0, why=f"the run failed: {document['error']}"))
    protocol = str(start.get("protocol", ""))
    streams = number(start.get("num_streams"))
    environment = {"protocol": protocol, "streams": f"{streams:.0f}" if streams else ""}
    return Table(
        file=source,
        tool="iperf3",
        op=Op.SEND_RECV,
        test="point-to-point",
        ranks=2,
        nodes=2,
        mode=Mode.HOST,
        quantity="back_to_back",
        size_is="none",
        label=protocol,
        streamed=True,
        figures=tuple(figures),
        environment={key: text for key, text in environment.items() if text},
        notes=(
            note("stream", "a stream: bandwidth only; its round-trip times are under load and not a latency"),
            note("unit", "bits_per_second is bits"),
        ),
        skipped=tuple(skipped),
    )


READER = Format(
    name="iperf3",
    words=('"iperf 3', '"bits_per_second"'),
    signs=(
        (re.compile(r'"version"\s*:\s*"iperf 3'), 1.0),
        (re.compile(r'"intervals"\s*:\s*\[[\s\S]*"bits_per_second"'), 0.9),
    ),
    parse=_parse,
    whole=True,
)
