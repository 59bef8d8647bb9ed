"""The formats that nhalf brings along, in the order in which equally sure ones win."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nhalf.evidence.readers import (
    all_reduce_bench,
    commanded,
    deepep,
    deepspeed,
    delimited,
    gloo,
    imb,
    inspector,
    iperf3,
    kernels,
    mscclpp,
    nccl_debug,
    nccl_json,
    nccl_tests,
    netpipe,
    nhalf_run,
    nixlbench,
    nvbandwidth,
    nvshmem,
    osu,
    p2p_bandwidth,
    param,
    perftest,
    perftest_json,
    rccl_output,
    sockperf,
    ucc,
    ucx,
)

if TYPE_CHECKING:
    from nhalf.evidence.readers.protocol import Format

ALL: Final[tuple[Format, ...]] = (
    nhalf_run.READER,
    nccl_tests.READER,
    nccl_json.READER,
    rccl_output.READER,
    rccl_output.JSON_READER,
    osu.READER,
    imb.READER,
    imb.ONECCL_READER,
    perftest.READER,
    perftest_json.READER,
    nccl_debug.READER,
    nvbandwidth.READER,
    nvbandwidth.JSON_READER,
    p2p_bandwidth.READER,
    ucx.READER,
    ucc.READER,
    commanded.READER,
    commanded.HCCL_READER,
    nvshmem.READER,
    nixlbench.READER,
    deepep.READER,
    deepspeed.READER,
    all_reduce_bench.READER,
    param.READER,
    gloo.READER,
    mscclpp.READER,
    kernels.READER,
    iperf3.READER,
    sockperf.READER,
    netpipe.READER,
    inspector.READER,
    delimited.READER,
)
