"""The exporter: predictions, excess and findings as metrics of Prometheus, over HTTP.

Names and types keep to the text format: HELP and TYPE once before the samples of a family, counters end in `_total`,
units are seconds, and a value that is not known has no sample.
"""

from __future__ import annotations

import math
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Final

from nhalf.errors import InputError
from nhalf.live.split import BEYOND, PREFILL, WORDS, excess
from nhalf.points import points
from nhalf.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from nhalf.live.answer import Answer
    from nhalf.points import Point
    from nhalf.scenario import Scenario

CONTENT: Final = "text/plain; version=0.0.4; charset=utf-8"
_FAMILIES: Final = {
    "nhalf_up": "Whether the last scrape of a server brought a page.",
    "nhalf_step_seconds": "The decode step: observed, predicted, the ends of its band, the floor of communication.",
    "nhalf_excess_seconds": "What the decode step takes over its prediction.",
    "nhalf_token_seconds": "The parts of the time of a token.",
    "nhalf_running_requests": "Requests that decode in a step.",
    "nhalf_context_tokens": "Mean tokens of a request in the cache.",
    "nhalf_finding": "Findings that hold now, by their code; alarm is 1 where somebody should act.",
    "nhalf_last_window_timestamp_seconds": "When the newest window ended.",
}
_WAIT_S: Final = 5.0


def exposition(answers: Sequence[Answer]) -> str:
    """Return the metrics of some servers as a page in the text format."""
    return written(
        (name, {"server": each.name, **labels}, value) for each in answers for name, labels, value in _samples(each)
    )


def written(samples: Iterable[tuple[str, Mapping[str, str], float]]) -> str:
    """Return samples, each a family, its labels and a value, as a page in the text format."""
    rows: dict[str, list[str]] = {name: [] for name in _FAMILIES}
    for name, labels, value in samples:
        if math.isfinite(value):
            rows[name].append(f"{name}{_labels(labels)} {value!r}")
    lines = ["# HELP nhalf_build_info The version of nhalf.", "# TYPE nhalf_build_info gauge",
             f'nhalf_build_info{{version="{VERSION}"}} 1.0']  # fmt: skip
    for name, cells in rows.items():
        if cells:
            lines += [f"# HELP {name} {_FAMILIES[name]}", f"# TYPE {name} gauge", *cells]
    return "\n".join(lines) + "\n"


def predicted(scenarios: Iterable[Scenario]) -> str:
    """Return what is predicted of scenarios as a page in the text format, in the families of the watcher."""
    return written(sample for each in scenarios for sample in _forecast(points(each).at(0)))


def _forecast(row: Point) -> Iterable[tuple[str, Mapping[str, str], float]]:
    """Yield the samples of one prediction."""
    of = {"model": row.model, "system": row.system, "layout": row.layout_name, "batch": f"{row.batch:g}"}
    kinds = {"predicted": row.step_s, "low": row.low_s, "high": row.high_s, "floor": row.columns["collective_fixed"]}
    for kind, value in kinds.items():
        yield "nhalf_step_seconds", {**of, "kind": kind}, value
    words = {**WORDS, "collective_transfer": BEYOND, "prefill": PREFILL}
    for name, owed in row.columns.items():
        if owed > 0:
            yield "nhalf_token_seconds", {**of, "part": words[name], "kind": "predicted"}, owed / row.accepted_tokens


def _samples(found: Answer) -> Iterable[tuple[str, Mapping[str, str], float]]:
    """Yield the samples of one server: family, labels and value."""
    yield "nhalf_up", {}, 0.0 if any(each.code == "no-answer" for each in found.findings) or found.seen is None else 1.0
    for finding in {each.code: each for each in found.findings}.values():
        yield "nhalf_finding", {"code": finding.code, "alarm": str(int(finding.alarm))}, 1.0
    if found.seen is None:
        return
    seen = found.seen
    yield "nhalf_step_seconds", {"kind": "observed"}, float(seen.decode_s[0])
    if seen.predicted is not None:
        kinds = {"predicted": seen.predicted.step_s, "low": seen.predicted.low_s, "high": seen.predicted.high_s,
                 "floor": seen.predicted.floor_s}  # fmt: skip
        for kind, value in kinds.items():
            yield "nhalf_step_seconds", {"kind": kind}, float(value)
        yield "nhalf_excess_seconds", {}, float(excess(seen)[0])
    for part in found.parts:
        if part.time_s is not None:
            yield "nhalf_token_seconds", {"part": part.name, "kind": part.kind}, float(part.time_s)
    yield "nhalf_running_requests", {}, float(seen.window.running[0])
    yield "nhalf_context_tokens", {}, float(seen.window.context[0])
    yield "nhalf_last_window_timestamp_seconds", {}, float(seen.window.end)


def _labels(labels: Mapping[str, str]) -> str:
    """Return labels as the format writes them."""
    cells = (f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return "{" + ",".join(cells) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def serve(address: str, page: Callable[[], str]) -> ThreadingHTTPServer:
    """Return a server that answers `/metrics` at HOST:PORT with a page; it runs in a thread until it is shut down.

    Raises
    ------
    InputError
        The address is none, or taken.
    """
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:  # noqa: PLR2004  ports end there
        raise InputError(f"{address!r} is no HOST:PORT", where="--serve", do="write --serve 127.0.0.1:9464")

    class Handler(BaseHTTPRequestHandler):
        timeout = _WAIT_S

        def do_GET(self) -> None:
            """Answer one scrape."""
            known = self.path.partition("?")[0] in ("/metrics", "/")
            body = page().encode() if known else b"only /metrics is here\n"
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", CONTENT if known else "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing: standard error is the watcher's."""

    try:
        server = ThreadingHTTPServer((host.strip("[]") or "127.0.0.1", int(port)), Handler)
    except OSError as error:
        raise InputError(f"nothing can listen there: {error.strerror or error}", where="--serve") from error
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True, name="exporter").start()
    return server
