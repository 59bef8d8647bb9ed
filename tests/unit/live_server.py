"""A server for the tests of `nhalf live`, run as a process: it replays pages, plays a history, or behaves badly.

    python tests/unit/live_server.py pages FILE...     each GET is answered with the next page, the last one again
    python tests/unit/live_server.py history CAUSE KIND SEED    each GET is 10 s later
    python tests/unit/live_server.py silent|slow|huge|moved|binary|half|lying

The port is printed on the first line.
"""

from __future__ import annotations

import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.unit.live_histories import BUSY, FULL, Engine, daily, history, steady

STEP_S = 10.0
PAGE = b'vllm:num_requests_running{engine="0"} 1.0\n'


class Player:
    """What a server answers, page by page."""

    def __init__(self, words: list[str]) -> None:
        self.mode, *self.words = words
        self.asked = 0
        self.engine: Engine | None = None
        if self.mode == "history":
            cause, self.kind, seed = self.words[:3]
            full, at = int(seed) % 2 == 0, float(self.words[3])
            given = FULL if full else BUSY
            made = {"daily": daily(BUSY), "daily-added": daily(BUSY, added_from=at), "nothing": steady(given)}
            self.engine = Engine(made.get(cause) or history(cause, full=full, at=at), seed=int(seed), kind=self.kind)

    def page(self) -> bytes:
        """Return the next page."""
        self.asked += 1
        if self.engine is not None:
            self.engine.until(STEP_S * self.asked)
            return self.engine.page(self.kind).encode()
        return Path(self.words[min(self.asked, len(self.words)) - 1]).read_bytes()


class Handler(BaseHTTPRequestHandler):
    """Answers GET by the player's mode."""

    player: Player

    def do_GET(self) -> None:
        """Answer."""
        if self.path == "/v1/models":
            self._send(200, b'{"data": [{"id": "served", "root": "meta-llama/Llama-3.3-70B-Instruct"}]}')
        elif self.player.mode in {"pages", "history"}:
            self._send(200, self.player.page())
        else:
            getattr(self, f"_{self.player.mode}")()

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _silent(self) -> None:
        time.sleep(60)

    def _slow(self) -> None:
        self.send_response(200)
        self.end_headers()
        for _ in range(600):
            self.wfile.write(b"#")
            self.wfile.flush()
            time.sleep(0.1)

    def _huge(self) -> None:
        self.send_response(200)
        self.end_headers()
        for _ in range(2000):
            self.wfile.write(PAGE * 1000)

    def _moved(self) -> None:
        self._send(302, b"", Location=self.player.words[0])

    def _binary(self) -> None:
        self._send(200, bytes(range(256)) * 40)

    def _half(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(PAGE)

    def _lying(self) -> None:
        """Answer with numbers that cannot be."""
        self.player.asked += 1
        turn = self.player.asked
        rows = {"count": 10.0 * turn, "sum": [float("nan"), 1e300, -5.0, float("inf")][turn % 4]}
        body = "".join(f"vllm:inter_token_latency_seconds_{name} {value}\n" for name, value in rows.items())
        self._send(200, body.encode() + b'vllm:broken{engine="0 1\nvllm:num_requests_running 1_000\n')

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def main() -> None:
    """Serve until the end."""
    Handler.player = Player(sys.argv[1:])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)  # noqa: T201  the test reads it
    server.serve_forever()


if __name__ == "__main__":
    main()
