"""The how-tos as a reader follows them: each page's commands in their order, in a folder of one's own."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.command import invoke

ROOT = Path(__file__).resolve().parents[2]
HOWTO = ROOT / "docs" / "howto"
LOG = ROOT / "tests" / "logs" / "nccl_tests" / "2026-03_all_reduce.txt"
FILES = ("all_reduce.txt", "tonight.txt", "last-week.txt", "node17.txt", "slurm-123456.out")
"""What a reader has measured."""
CONFIG = """{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
"num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
"torch_dtype": "bfloat16", "hidden_act": "silu", "tie_word_embeddings": false}"""
ELSEWHERE = ("measure",)
"""Commands that need several machines, or GPUs."""


def lines(page: Path) -> list[str]:
    """Return the commands of a page that nobody shows the output of."""
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    found = [line.partition("  #")[0] for block in blocks for line in block.splitlines()]
    return [line for line in found if "nhalf " in line and not any(f"nhalf {word}" in line for word in ELSEWHERE)]


PAGES = [page for page in sorted(HOWTO.glob("*.md")) if lines(page)]


def script(path: Path, text: str) -> None:
    """Write a program."""
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_run_one_after_the_other(page: Path, tmp_path: Path) -> None:
    for name in FILES:
        shutil.copy(LOG, tmp_path / name)
    (table,) = re.findall(r"```text\n(model,.*?)```", (HOWTO / "calibrate.md").read_text(encoding="utf-8"), re.DOTALL)
    for name in ("runs.csv", "bench.csv"):
        (tmp_path / name).write_text(table, encoding="utf-8")
    (tmp_path / "config.json").write_text(CONFIG, encoding="utf-8")
    system = tmp_path / "my-catalogue/systems/my-system.toml"
    system.parent.mkdir(parents=True)
    shutil.copy(ROOT / "src/nhalf/catalog/data/systems/h100-sxm.toml", system)
    programs = tmp_path / "programs"
    programs.mkdir()
    script(programs / "nhalf", f'exec {shlex.quote(sys.executable)} -m nhalf "$@"')
    script(programs / "nvidia-smi", f"exec cat {shlex.quote(str(ROOT / 'tests/logs/topo/h100-8.txt'))}")
    script(programs / "jq", "exec cat")
    paths = {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src")}
    for line in lines(page):
        found = subprocess.run(
            ["sh", "-c", line], cwd=tmp_path, env={**os.environ, **paths}, capture_output=True, text=True, check=False
        )
        assert found.returncode in (0, 4), f"{line}: {found.stderr}"  # 4: a limit that the page sets has failed
        assert "Traceback" not in found.stderr


def test_the_model_of_the_page_answers_at_the_first_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", (HOWTO / "own-model.md").read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("my-model.toml").write_text(text, encoding="utf-8")
    assert invoke("decode", "my-model.toml", "--on", "h100-sxm", "--tp", "2,4").out.startswith("TP4 is fastest")
