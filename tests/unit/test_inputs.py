"""The table of inputs: it loads nothing heavy, and one row more is an input of every command."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest

from nhalf.cli import completing
from nhalf.loading.inputs import BY_NAME, INPUTS, SCENARIO, of_command
from nhalf.loading.options import NAMES
from nhalf.transformer import KV_BYTES, WEIGHT_BYTES

if TYPE_CHECKING:
    from pathlib import Path

ONE_MORE = """
import sys
from pathlib import Path

from nhalf.loading import inputs
from nhalf.loading.readers import few

row = inputs.Input(
    name="activation_width", read=few(8), metavar="BYTES", help="Bytes of an activation.", default="2",
    path="workload.activation_bytes", column="activation_width", cell="name", words=("1", "2", "4"), axis=True,
    option=True,
)
inputs.INPUTS = (*inputs.INPUTS, row)
inputs.BY_NAME[row.name] = row

import nhalf
from nhalf.cli import completing, run
from nhalf.cli.decode import decode
from nhalf.loading.axes import grid
from nhalf.loading.case_table import Table
from nhalf.loading.cases import cases
from nhalf.loading.purchase_options import options
from nhalf.loading.request import Request, scenarios
from nhalf.loading.scenario_file import read_request

job = ["decode", "llama-3.1-8b", "--on", "h100-sxm", "--tp", "2", "--activation-width", "4"]
assert run([*job, "--save", "saved.toml", "--csv"]) == 0
assert "activation_width = 4" in Path("saved.toml").read_text()
loaded = [
    *scenarios(read_request(Path("saved.toml"))).scenarios,
    nhalf.load("llama-3.1-8b", on="h100-sxm", tp=2, activation_width=4),
]
request = Request(model="llama-3.1-8b", systems=("h100-sxm",))
found, _ = options(request, scenarios(request).scenarios, ["activation_width=4"], prices=False)
loaded += found[0].layouts
header = ("model", "system", "context", "batch", "activation_width")
table = Table(path="rows", header=header, rows=[["llama-3.1-8b", "h100-sxm", "1024", "1", "4"]])
loaded += [group.scenario for group in cases(table).groups]
assert [scenario.workload.activation_bytes for scenario in loaded] == [4.0] * 4
swept = grid(request, ["activation-width=2,4"]).grid
assert [cell.scenario.workload.activation_bytes for cell in swept.cells] == [2.0, 4.0]
(flag,) = [param for param in decode.params if param.name == "activation_width"]
assert flag.help == "Bytes of an activation.  [default: 2]"
assert completing.type_of(flag).words == ("1", "2", "4")
assert run([*job[:-1], "9"]) == 2
print("everywhere")
"""


def python(text: str, folder: Path) -> str:
    """Return what Python prints."""
    found = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=False, timeout=120, cwd=folder
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_one_row_more_is_a_flag_a_key_an_axis_a_word_a_keyword_a_column_and_completed(tmp_path: Path) -> None:
    assert python(ONE_MORE, tmp_path).endswith("everywhere\n")


def test_the_table_loads_nothing_heavy(tmp_path: Path) -> None:
    heavy = "('numpy', 'click', 'scipy', 'msgspec', 'nhalf.catalog', 'nhalf.loading.request')"
    text = f"import sys, nhalf.loading.inputs; print([name for name in {heavy} if name in sys.modules])"
    assert python(text, tmp_path) == "[]\n"


@pytest.mark.parametrize("name", ["exchange", "cp_exchange", "quantised_all_reduce", "kernel_bypass", "p2p", "phase"])
def test_choices_are_completed_and_no_other_is_taken(name: str) -> None:
    row = BY_NAME[name]
    found = completing.type_of(click.Option([row.on_command_line]))
    assert found is not None
    assert found.words == row.words
    assert [row.read(word, "here") for word in row.words] == list(row.words)


def test_words_are_dtypes_that_are_known() -> None:
    assert set(BY_NAME["weights"].words) <= set(WEIGHT_BYTES)
    assert set(BY_NAME["kv"].words) <= set(KV_BYTES)


def test_every_input_has_a_sentence_of_help_and_decode_takes_each() -> None:
    for row in INPUTS:
        assert not row.commands or all(row.help_of(command).strip() for command in row.commands), row.name
    assert {row.name for row in of_command("decode")} == set(BY_NAME) - {"model"}
    assert {row.name for row in of_command("plan")} < {row.name for row in of_command("decode")}
    assert set(NAMES) < set(BY_NAME)
    assert all(set(row.commands) >= set(SCENARIO) for row in INPUTS if row.part == "degrees")
