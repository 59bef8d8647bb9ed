"""Keep the pages true: run every console block of the documentation.

    python tools/render_docs.py          rewrite what differs
    python tools/render_docs.py --check  exit with 1 when something differs

A console block is fenced with ```console; each line that starts with `$ nhalf` is run 100 characters wide, and what
it prints follows. A block may end a command's output with `...`: what stands above it must be how the output begins.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "howto").glob("*.md")),
]
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
WIDTH = "100"


def run(command: str) -> str:
    """Return what an nhalf command prints, without colour; the exit code does not matter, a page may show a refusal."""
    environment = {**os.environ, "COLUMNS": WIDTH, "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    words = command.removeprefix("nhalf ")
    done = subprocess.run(  # noqa: S602  the commands are this repository's own pages
        f'"{sys.executable}" -m nhalf {words}',
        shell=True,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return done.stdout + done.stderr


def rendered(block: str) -> str:
    """Return a console block with the output of each of its commands as it is now."""
    lines = block.splitlines()
    starts = [index for index, line in enumerate(lines) if line.startswith("$ nhalf")]
    parts: list[str] = []
    for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True):
        shown = lines[start + 1 : stop]
        while shown and not shown[-1].strip():
            shown.pop()
        output = run(lines[start][2:]).rstrip("\n").splitlines()
        if shown and shown[-1] == "...":
            output = [*output[: len(shown) - 1], "..."]
        parts.append("\n".join([lines[start], *output]))
    return "\n\n".join(parts) + "\n"


def page(text: str) -> str:
    """Return a page with every console block run again."""
    return BLOCK.sub(lambda found: f"```console\n{rendered(found[1])}```", text)


def main() -> int:
    """Render every page; return 1 when checking and something differs."""
    pages = {path: page(path.read_text(encoding="utf-8")) for path in PAGES}
    stale = [path for path, text in pages.items() if path.read_text(encoding="utf-8") != text]
    for path in stale:
        sys.stdout.write(f"differs: {path.relative_to(ROOT)}\n")
        if "--check" not in sys.argv:
            path.write_text(pages[path], encoding="utf-8")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
