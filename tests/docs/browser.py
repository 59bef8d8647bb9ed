"""A real Chromium, driven over its debugging pipe with the standard library alone."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import tempfile
import time
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE_S = 60.0


def chromium() -> str | None:
    """Return the browser of this machine: CHROMIUM, or the first on the path."""
    named = os.environ.get("CHROMIUM")
    return named or next((found for name in NAMES if (found := shutil.which(name))), None)


def _started(program: str, profile: str) -> tuple[int, int, int]:
    """Start a browser that reads commands from descriptor 3 and writes answers to 4, each ended by a zero byte."""
    flags = ["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--no-first-run", "--disable-background-networking", "--disable-dev-shm-usage",
             f"--user-data-dir={profile}", "about:blank"]  # fmt: skip
    read_commands, commands = os.pipe()
    answers, write_answers = os.pipe()
    # Out of the way first: a pipe may itself have got the number 3 or 4.
    ours = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10) for descriptor in (read_commands, write_answers)]
    actions = [
        *((os.POSIX_SPAWN_OPEN, descriptor, os.devnull, os.O_RDWR, 0) for descriptor in (0, 1, 2)),
        *((os.POSIX_SPAWN_DUP2, descriptor, number) for descriptor, number in zip(ours, (3, 4), strict=True)),
    ]
    try:
        process = os.posix_spawn(program, [program, *flags], os.environ, file_actions=actions)
    finally:
        for descriptor in (read_commands, write_answers, *ours):
            os.close(descriptor)
    return process, commands, answers


class Browser:
    """One page of a headless browser: what it said, what it asked the network for, and what its scripts return."""

    def __init__(self, program: str, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        self.events: list[dict[str, Any]] = []
        self._count, self._held = 0, b""
        self._profile = tempfile.mkdtemp(prefix="nhalf-browser-")
        self._process, self._commands, self._answers = _started(program, self._profile)
        try:
            targets = self.call("Target.getTargets", session=None)["targetInfos"]
            page = next(target["targetId"] for target in targets if target["type"] == "page")
            attached = self.call("Target.attachToTarget", {"targetId": page, "flatten": True}, session=None)
            self.session: str = attached["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
            scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
            self.call("Emulation.setEmulatedMedia", {"features": scheme})
            self.resize(width, height)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the browser."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGTERM)
        os.waitpid(self._process, 0)
        os.close(self._commands)
        os.close(self._answers)
        shutil.rmtree(self._profile, ignore_errors=True)

    def call(self, method: str, given: dict[str, Any] | None = None, *, session: str | None = "") -> dict[str, Any]:
        """Return the answer to one command; what happens meanwhile is kept in `events`."""
        self._count += 1
        number = self._count
        message: dict[str, Any] = {"id": number, "method": method, "params": given or {}}
        if session is not None:
            message["sessionId"] = session or self.session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE_S
        while True:
            heard = self._next(until)
            if heard.get("id") == number:
                if "error" in heard:
                    raise RuntimeError(f"{method}: {heard['error']}")
                result: dict[str, Any] = heard["result"]
                return result
            self.events.append(heard)

    def _next(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._held:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._answers], [], [], left)[0]:
                raise TimeoutError("the browser does not answer")
            heard = os.read(self._answers, 1 << 16)
            if not heard:
                raise RuntimeError("the browser has ended")
            self._held += heard
        first, _, self._held = self._held.partition(b"\0")
        found: dict[str, Any] = json.loads(first)
        return found

    def resize(self, width: int, height: int) -> None:
        """Make the page so wide and high."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", size)

    def visit(self, url: str, *, until: str) -> None:
        """Open an address, and wait until a script says that it is ready."""
        self.call("Page.navigate", {"url": url})
        self.wait(until)

    def wait(self, until: str) -> None:
        """Wait until a script returns true."""
        end = time.monotonic() + PATIENCE_S
        while not self.run(until):
            if time.monotonic() > end:
                raise TimeoutError(f"{until} does not come true")
            time.sleep(0.02)

    def open(self, path: Path) -> None:
        """Open a file, and wait until its charts are drawn."""
        self.call("Page.navigate", {"url": path.resolve().as_uri()})
        until = time.monotonic() + PATIENCE_S
        while self.run("document.readyState") != "complete" or not self.run("location.href.startsWith('file:')"):
            if time.monotonic() > until:
                raise TimeoutError(f"{path} does not load")
            time.sleep(0.05)
        if self.run("Boolean(window.nhalf)"):
            self.run("nhalf.ready")

    def run(self, script: str) -> Any:  # noqa: ANN401  whatever the script returns
        """Return what a script returns, once it is settled."""
        given = {"expression": script, "returnByValue": True, "awaitPromise": True}
        found = self.call("Runtime.evaluate", given)
        if "exceptionDetails" in found:
            raise RuntimeError(json.dumps(found["exceptionDetails"])[:2000])
        return found["result"].get("value")

    def point_at(self, x: float, y: float) -> None:
        """Move the mouse."""
        self.call("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Save what is to be seen."""
        shown = self.call("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": whole})
        path.write_bytes(base64.b64decode(shown["data"]))

    @property
    def complaints(self) -> list[str]:
        """Return what the console holds, and what no one caught."""
        wanted = {"Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"}
        return [json.dumps(event["params"])[:2000] for event in self.events if event.get("method") in wanted]

    @property
    def requests(self) -> list[str]:
        """Return what was asked for besides files and data of the page's own."""
        asked = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [url for url in asked if not url.startswith(("data:", "blob:"))]
