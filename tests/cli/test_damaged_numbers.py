"""Numbers that no run has, and names that no file has: each ends with one line and exit code 2."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.cli.command import invoke

from nhalf.collective import Op
from nhalf.curve.leastsquares import nonnegative
from nhalf.trace import sizes

if TYPE_CHECKING:
    from pathlib import Path

_HEAD = "model,system,engine,tp,pp,isl,osl,concurrency,weight_dtype,tpot_s\n"
_ROW = "llama-3.1-8b,h100-sxm,vllm,{tp},1,1024,256,8,bf16,{time}\n"


@pytest.mark.parametrize("command", ["validate", "calibrate"])
@pytest.mark.parametrize("time", ["1e308", "1_0", "1e-12", "1e7"])
def test_a_time_that_no_token_takes_is_refused(command: str, time: str, tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_text(_HEAD + _ROW.format(tp=1, time="0.006") + _ROW.format(tp=2, time=time))
    done = invoke(command, str(path))
    assert done.code == 2
    assert f"c.csv:3: tpot_s '{time}' is" in done.err


@pytest.mark.parametrize("time", ["1e5", "2e-9"])
def test_slow_and_quick_times_are_read(time: str, tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_text(_HEAD + _ROW.format(tp=1, time=time))
    assert invoke("validate", str(path)).code == 0


def test_a_cell_longer_than_any_makes_no_table_of_a_file(tmp_path: Path) -> None:
    for name in ("c.csv", "c.txt"):
        path = tmp_path / name
        path.write_text("x" * 200_000 + ",model\n1,2\n")
        assert invoke("calibrate", str(path)).code == 2


def test_a_tensor_that_no_device_holds_has_no_size() -> None:
    assert sizes.of_shapes(Op.ALL_REDUCE, [[10**400, 2]], ["c10::BFloat16"]) is None
    assert sizes.of_shapes(Op.ALL_REDUCE, [[4, 2]], ["c10::BFloat16"]) == 16.0


def test_a_name_with_a_null_is_no_file() -> None:
    assert invoke("topo", "\x00").code == 2


def test_a_column_of_next_to_nothing_has_no_say() -> None:
    gram = np.array([[1.0, 1e-160], [1e-160, 1e-300]])
    with np.errstate(all="raise", under="ignore"):
        found = nonnegative(gram, np.array([2.0, 1e-150]))
    assert found[0] == pytest.approx(2.0, rel=1e-3)
    assert np.isfinite(found).all()


def test_a_number_of_ranks_below_one_is_none(tmp_path: Path) -> None:
    perf = {
        "coll": "AllReduce",
        "coll_sn": 1,
        "coll_msg_size_bytes": 8192,
        "coll_exec_time_us": 22,
        "coll_algobw_gbs": 0.37,
    }
    record = {"header": {"rank": 0, "n_ranks": -8, "nnodes": 1}, "metadata": {}, "coll_perf": perf}
    path = tmp_path / "f.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for _ in range(20)))
    assert invoke("fit", str(path)).code in (0, 2, 4)
