"""`nhalf app`: the question of `nhalf decode` under the mouse, in a browser."""

from __future__ import annotations

import socket
from pathlib import Path

import click

from nhalf.cli import output
from nhalf.cli.asking import ask
from nhalf.cli.help_pages import Grouped
from nhalf.errors import InputError

_LOWEST, _HIGHEST = 0, 65535


@click.command(cls=Grouped)
@click.option("--bind", default="127.0.0.1", metavar="ADDRESS", show_default=True, help="The address to listen on.")
@click.option("--port", default=9464, metavar="N", show_default=True, help="The port; 0 takes a free one.")
@click.option("--on", "files", multiple=True, metavar="FILE.toml", help="A cluster file to choose from; repeat it.")
def app(bind: str, port: int, files: tuple[str, ...]) -> None:
    """Open the app on this machine: sliders for load, links and memory, and what they do to a token.

    Nothing leaves this machine and nothing is loaded from elsewhere. On another address than this machine's own, the
    address that is printed holds a word that visitors need.
    """
    if not _LOWEST <= port <= _HIGHEST:
        raise InputError(f"{port} is no port", where="--port", allowed="0 to 65535")
    try:
        import uvicorn

        from nhalf.app.asked import Opened
        from nhalf.app.server import Settings, application, token
    except ImportError as error:
        what = f"{error.name} is not installed"
        raise InputError(what, where="nhalf app", do="in the checkout: pip install '.[app]'") from error
    for file in files:
        if not Path(file).is_file():
            raise InputError("there is no such file", where=file, do="name a cluster file")
    opened = Opened(files={Path(file).stem: file for file in files})
    settings = Settings(ask=ask, host=bind, opened=opened, token=token(bind))
    config = uvicorn.Config(application(settings), log_level="warning", access_log=False)
    try:
        listening = socket.create_server((bind, port), family=socket.AF_INET6 if ":" in bind else socket.AF_INET)
        # What is accepted inherits it; without it each answer waits 40 ms for the acknowledgement of its header.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except (OSError, OverflowError) as error:
        why = str(getattr(error, "strerror", None) or error).partition(" (while")[0]
        raise InputError(f"{bind}:{port} cannot be listened on: {why}", where="--port", do="take another") from error
    found = listening.getsockname()[1]
    word = f"?token={settings.token}" if settings.token else ""
    name = f"[{bind}]" if ":" in bind else bind
    output.tell(f"nhalf app: http://{name}:{found}/{word}  (Ctrl-C ends it)")
    uvicorn.Server(config).run(sockets=[listening])
