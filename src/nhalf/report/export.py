"""`-o FILE`: an answer as a page of HTML, or one of its figures as SVG or PNG.

A command needs one line: `export.write(path, lambda: <command>_page.page(answer), command=export.typed())`. The page is
made while the JavaScript that draws it is being bundled; the bundle is kept in the user's cache for the next time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nhalf.errors import InputError
from nhalf.files.writing import write_bytes, write_text
from nhalf.printable import shown
from nhalf.report.figures.figure import WIDE, altair, config, needed
from nhalf.report.page import html

if TYPE_CHECKING:
    from collections.abc import Callable

    from nhalf.report.page import Page, Section

KINDS: Final = (".html", ".svg", ".png")
_DIRECT: Final = (
    'import {{parse,View,Warn}} from "https://cdn.jsdelivr.net/npm/vega@{}/+esm";window.vega={{parse,View,Warn}};'
)
"""Vega alone, by the name under which vl-convert carries it inside itself: nothing is fetched. A third smaller."""
_AROUND: Final = "window.vega=vegaEmbed.vega;"
"""The same through the one name that vl-convert promises, should the inner one ever change."""
_SCALE: Final = 2
_CHANNELS: Final = ("color", "strokeDash", "shape", "size", "opacity")
_INK: Final = "#1b1b1f"
_CACHE_ENV: Final = "NHALF_CACHE"


def is_page(path: str | Path) -> bool:
    """Tell whether a file is one that `write` knows how to make, by its name."""
    return Path(path).suffix.lower() in KINDS


def check(path: str | Path) -> None:
    """Refuse, before any work is done, a file that cannot be made.

    Raises
    ------
    InputError
        The name has none of the endings, or the extra [report] is not installed.
    """
    if not is_page(path):
        raise InputError(
            f"{Path(path).name} is neither a page nor a figure",
            where="-o",
            allowed="report.html, figure.svg, figure.png",
            do="end the name in one of these",
        )
    if not Path(path).absolute().parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no folder", where="-o", do="make the folder first")
    altair()
    needed("vl_convert", "vl-convert-python")
    if Path(path).suffix.lower() == ".html":
        needed("jinja2", "jinja2")


def typed() -> str:
    """Return the command that the user typed, ready to be typed again."""
    return shlex.join(["nhalf", *sys.argv[1:]])


def write(path: str | Path, make: Callable[[], Page], *, command: str) -> None:
    """Write the page that `make` returns, or one figure of it: the section that the file is named for, else the first.

    So `-o report.html` is the page, `-o waterfall.svg` its section `waterfall`, and `-o figure.png` its first one.

    Raises
    ------
    InputError
        The name has none of the endings, the extra [report] is not installed, the file cannot be written, or the
        answer has no figure.
    """
    check(path)
    target = Path(path)
    if target.suffix.lower() == ".html":
        with ThreadPoolExecutor(max_workers=1) as pool:
            bundled = pool.submit(bundle)
            page = make()
            write_text(target, html(page, command=command, bundle=bundled.result()))
        return
    drawing = _spec(_section(make(), target))
    converter = _converter()
    if target.suffix.lower() == ".svg":
        write_text(target, shown(converter.vegalite_to_svg(drawing)))
        return
    write_bytes(target, converter.vegalite_to_png(drawing, scale=_SCALE))


def bundle() -> str:
    """Return the JavaScript that draws, from the cache where this version of it lies there.

    Raises
    ------
    InputError
        vl-convert is not installed, or may not have the addresses that it reserves.
    """
    converter: Any = needed("vl_convert", "vl-convert-python")
    direct = _DIRECT.format(converter.get_vega_version())
    name = hashlib.sha256(f"{converter.__version__} {direct}".encode()).hexdigest()[:16]
    kept = _cache() / f"vega-{name}.js"
    with contextlib.suppress(OSError, UnicodeDecodeError):
        text = kept.read_text(encoding="utf-8")
        if text.endswith(_END):
            return text
    converter = _converter()
    try:
        made: str = converter.javascript_bundle(direct)
    except ValueError:
        made = converter.javascript_bundle(_AROUND)
    made = made.replace("</script", "<\\/script") + _END
    with contextlib.suppress(OSError, InputError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_text(kept, made)
    return made


def _converter() -> Any:  # noqa: ANN401  a module
    """Return vl-convert, which would end the whole process where it cannot reserve the addresses of its heap.

    Raises
    ------
    InputError
        It is not installed, or a limit is below what it reserves.
    """
    with contextlib.suppress(ImportError):  # no such limits on Windows
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY and limit < _ADDRESSES:
            raise InputError(
                f"drawing reserves 64 GiB of addresses (not memory), and a limit allows {limit / 2**30:.3g} GiB",
                where="-o", do="set ulimit -v unlimited, or take --json, --csv or --md",
            )  # fmt: skip
    return needed("vl_convert", "vl-convert-python")


_ADDRESSES: Final = 65 << 30
"""Bytes of addresses that a process needs in which V8 starts: vl-convert 1.9 fails with 63.9 GiB and runs with 65.3."""
_END: Final = "\n/* end */"
"""The last letters of a bundle: one that was cut short is made again."""


def _cache() -> Path:
    """Return the folder for what can be made again, as the platform has it."""
    if own := os.environ.get(_CACHE_ENV):
        return Path(own)
    base = os.environ.get("LOCALAPPDATA") if sys.platform == "win32" else os.environ.get("XDG_CACHE_HOME")
    return Path(base or Path("~/.cache").expanduser()) / "nhalf"


def _section(page: Page, target: Path) -> Section:
    """Return the section that a file is named for, or the first one that has a figure."""
    drawn = [section for section in page.sections if section.figures]
    if not drawn:
        raise InputError("this answer has no figure", where=str(target), do="write report.html instead")
    return next((section for section in drawn if section.key == target.stem), drawn[0])


def _spec(section: Section) -> dict[str, Any]:
    """Return the Vega-Lite specification of a section's figures side by side, on white, with their titles."""
    columns = 2 if len(section.figures) > 1 else 1
    views = []
    for figure in section.figures:
        view = {name: value for name, value in figure.chart.to_dict(validate=False).items() if name[0] != "$"}
        view.pop("config", None)
        views.append({**view, "width": WIDE, "title": figure.title})
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "config": config(ink=_INK, background="#ffffff") | {"padding": 14},
        "title": {"text": section.title, "offset": 14},
        "description": " ".join(figure.text for figure in section.figures),
        "concat": views,
        "columns": columns,
        "spacing": 34,
        # All channels alike: else the symbols of one legend would come apart by channel.
        "resolve": {kind: dict.fromkeys(_CHANNELS, "independent") for kind in ("scale", "legend")},
    }
