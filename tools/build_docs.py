"""Build the site: the pages of docs/, and the reference and the gallery that the program makes.

    python tools/build_docs.py            into build/site, without a network

Pages and pictures are gathered in build/docs, and zensical turns them into HTML, strictly: a warning ends the build.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import reference

ROOT: Final = Path(__file__).resolve().parents[1]
BUILD: Final = ROOT / "build"
PAGES: Final = BUILD / "docs"
GALLERY: Final = (
    ("Where more GPUs stop helping", "decode llama-3.1-70b --on h100-sxm --weights fp8 --tp 1,2,4,8,16"),
    ("The same at four batches", "decode llama-3.1-70b --on h100-sxm --weights fp8 --tp 1,2,4,8 --batch 1,16,64,256"),
    ("A model with experts", "decode deepseek-v3 --on h200-sxm --tp 8 --batch 1,16,64,256"),
    ("An all-reduce by its size", "collective all-reduce --on h100-sxm --ranks 8"),
    ("The same on two machines", "collective all-reduce --on h100-sxm,b200-sxm --ranks 8"),
    ("A log, its curve and its line", "fit tests/logs/nccl_tests/2026-03_all_reduce.txt"),
    ("Every layout of 16 GPUs", "plan llama-3.1-70b --on h100-sxm --gpus 16 --weights fp8 --users 32"),
    ("A plan for experts", "plan deepseek-v3 --on h200-sxm --gpus 16 --tpot 50ms"),
    ("What to buy, by batch", "buy llama-3.1-70b --on h100-sxm --tp 16 --batch 1,16,128"),
    ("What changes would save", "whatif llama-3.1-70b --on h100-sxm --tp 8 --batch 1,16,128"),
)  # fmt: skip
"""The figures, each with the command that draws it."""
_LINK: Final = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


def gather() -> None:
    """Copy the pages, and the README as the front page."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES)
    front = (ROOT / "README.md").read_text(encoding="utf-8")
    for outside in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"):
        text = (ROOT / outside).read_text(encoding="utf-8")
        (PAGES / outside.lower()).write_text(text.replace("](docs/", "]("), encoding="utf-8")
        front = front.replace(f"]({outside})", f"]({outside.lower()})")
    front = front.replace("](docs/decisions)", "](decisions/0001-a-curve-under-a-what-if.md)").replace("](docs/", "](")
    (PAGES / "index.md").write_text(front, encoding="utf-8")


def refer() -> None:
    """Write the reference."""
    into = PAGES / "reference"
    (into / "commands").mkdir(parents=True, exist_ok=True)
    (into / "schemas").mkdir(exist_ok=True)
    listed = ["# Commands", ""]
    for name, page in reference.commands().items():
        (into / "commands" / f"{name}.md").write_text(page, encoding="utf-8")
        listed.append(f"- [nhalf {name}](commands/{name}.md)")
    (into / "commands.md").write_text("\n".join([*listed, ""]), encoding="utf-8")
    for name, text in (
        ("glossary", reference.glossary()),
        ("fields", reference.fields()),
        ("python", reference.python()),
    ):
        (into / f"{name}.md").write_text(text, encoding="utf-8")
    told = ["# Schemas", "", "JSON Schemas of what `--json` prints, made from the documents of the examples.", ""]
    for name, made in reference.schemas().items():
        (into / "schemas" / f"{name}.json").write_text(json.dumps(made, indent=1), encoding="utf-8")
        told.append(f"- [nhalf {name}](schemas/{name}.json)")
    (into / "schemas.md").write_text("\n".join([*told, ""]), encoding="utf-8")


def draw() -> None:
    """Draw the gallery."""
    into = PAGES / "gallery"
    into.mkdir()
    page = [
        "# Gallery",
        "",
        "Each figure stands over the command that drew it; `-o report.html` writes a page of its own.",
        "",
    ]
    for index, (title, line) in enumerate(GALLERY, 1):
        picture = into / f"{index:02}.svg"
        command = [sys.executable, "-m", "nhalf", *shlex.split(line), "-o", str(picture)]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)  # noqa: S603  our own commands
        page += [
            f"## {title}",
            "",
            f"![{title}](gallery/{picture.name})",
            "",
            f"```sh\nnhalf {line} -o figure.svg\n```",
            "",
        ]
    (PAGES / "gallery.md").write_text("\n".join(page), encoding="utf-8")


def broken() -> list[str]:
    """Return the links between pages that lead nowhere."""
    return [
        f"{page.relative_to(PAGES)}: {target}"
        for page in sorted(PAGES.rglob("*.md"))
        for target in _LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]


def build() -> int:
    """Build the site; return the exit code of the step that failed, or 0."""
    os.chdir(ROOT)  # examples name files of the repository
    gather()
    refer()
    draw()
    if nowhere := broken():
        sys.stderr.write("\n".join(["links that lead nowhere:", *nowhere, ""]))
        return 1
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "-f", "zensical.toml"]
    return subprocess.run(command, cwd=ROOT, check=False).returncode  # noqa: S603  our own command


if __name__ == "__main__":
    sys.exit(build())
