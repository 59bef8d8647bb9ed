"""The wheel: built without a network, it holds what the commands need, and works away from the repository."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        ".",
        "--no-deps",
        "--no-build-isolation",
        "--quiet",
        "-w",
        str(into),
    ]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (found,) = into.glob("nhalf-*.whl")
    return found


def test_the_wheel_has_code_data_and_the_licence_and_nothing_of_the_repository(wheel: Path) -> None:
    names = ZipFile(wheel).namelist()
    for wanted in ("nhalf/py.typed", "nhalf/catalog/data/systems/h100-sxm.toml", "nhalf/report/glossary.toml"):
        assert wanted in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert [name for name in names if name.startswith(("tests/", "docs/", "tools/"))] == []


@pytest.mark.parametrize(
    ("words", "begins"),
    [("link 5us 400GB/s", "Messages below 2 MB"), ("decode llama-3.1-70b --on h100-sxm --tp 8", "TP8 takes ")],
)
def test_the_wheel_answers_where_nothing_of_the_repository_is(
    wheel: Path, tmp_path: Path, words: str, begins: str
) -> None:
    ZipFile(wheel).extractall(tmp_path / "site")
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment["PYTHONPATH"] = str(tmp_path / "site")
    told = "import nhalf; print(nhalf.__file__)"
    where = subprocess.run(
        [sys.executable, "-c", told], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert where.stdout.startswith(str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-m", "nhalf", *words.split()], cwd=tmp_path, env=environment, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout.startswith(begins)
