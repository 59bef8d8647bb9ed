"""The app on a port of this machine, for tests."""

from __future__ import annotations

import http.client
import threading
import time
import urllib.parse
from contextlib import closing
from typing import TYPE_CHECKING, Any

import uvicorn

from nhalf.app.server import application

if TYPE_CHECKING:
    from nhalf.app.server import Settings


class Served:
    """An app that listens on a port of this machine."""

    def __init__(self, settings: Settings) -> None:
        config = uvicorn.Config(application(settings), host="127.0.0.1", port=0, log_level="error", lifespan="off")
        listening = config.bind_socket()
        self.port: int = listening.getsockname()[1]
        self.server = uvicorn.Server(config)
        threading.Thread(target=self.server.run, kwargs={"sockets": [listening]}, daemon=True).start()
        while not self.server.started:
            time.sleep(0.01)

    def get(self, path: str, parameters: Any = (), **headers: str) -> tuple[int, str]:  # noqa: ANN401  urlencode's
        return self.ask("GET", f"{path}?{urllib.parse.urlencode(parameters)}", None, headers)[:2]

    def ask(self, method: str, path: str, body: bytes | None, headers: Any) -> tuple[int, str, Any]:  # noqa: ANN401
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as link:
            link.request(method, path, body=body, headers=headers)
            answer = link.getresponse()
            return answer.status, answer.read().decode(), answer.headers
