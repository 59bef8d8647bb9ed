"""Makes a large profiler file of the shape that an engine's trace has, for the studies of speed and memory."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
COMPUTE = "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8>(Params)"


def events(count: int, rank: int = 0) -> Iterator[dict[str, object]]:
    """Yield about `count` events: half Python frames, then operators, launches, flows and kernels."""
    step, now = 0, 1000.0
    made = 0
    while made < count:
        begin = now
        for k in range(100):
            frame = {"Python id": made, "Python parent id": made - 1, "Ev Idx": made}
            for depth in range(4):
                yield {"ph": "X", "cat": "python_function", "name": f"vllm/layers/linear.py({depth}): forward",
                       "pid": 7, "tid": 7, "ts": now, "dur": 9.0, "args": frame}  # fmt: skip
            dims, types = [[1, 4096], [4096, 4096]], ["bf16", "bf16"]
            yield {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 7, "ts": now, "dur": 8.0,
                   "args": {"External id": made, "Input Dims": dims, "Input type": types, "Ev Idx": made}}  # fmt: skip
            yield {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 7, "ts": now,
                   "dur": 4.0, "args": {"External id": made, "cbid": 211, "correlation": made}}  # fmt: skip
            yield {"ph": "s", "id": made, "pid": 7, "tid": 7, "ts": now + 1, "cat": "ac2g", "name": "ac2g"}
            args = {"External id": made, "device": rank, "context": 1, "stream": 7, "correlation": made, "queued": 0,
                    "registers per thread": 128, "shared memory": 49152, "grid": [32, 1, 1], "block": [128, 1, 1],
                    "blocks per SM": 0.3, "warps per SM": 1.2, "est. achieved occupancy %": 12}  # fmt: skip
            name = COMPUTE
            if k % 5 == 4:
                name = NCCL
                args |= {"Collective name": "allreduce", "In msg nelems": 8192, "Out msg nelems": 8192, "Group size": 4,
                         "dtype": "BFloat16", "Process Group Name": "3", "Process Group Ranks": "[0, 1, 2, 3]",
                         "Seq": made}  # fmt: skip
            yield {
                "ph": "X",
                "cat": "kernel",
                "name": name,
                "pid": rank,
                "tid": 7,
                "ts": now + 5,
                "dur": 9.0,
                "args": args,
            }
            now += 10.0
            made += 8
        yield {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 7, "tid": 7, "ts": begin,
               "dur": now - begin, "args": {}}  # fmt: skip
        step += 1


def write(path: Path, count: int, rank: int = 0) -> None:
    """Write a trace as Kineto lays it out, gzipped where the name says so."""
    info = {"backend": "nccl", "rank": rank, "world_size": 4}
    with gzip.open(path, "wt", compresslevel=1) if path.suffix == ".gz" else path.open("w") as file:
        file.write('{\n  "schemaVersion": 1,\n  "distributedInfo": ' + json.dumps(info) + ',\n  "traceEvents": [\n')
        for i, event in enumerate(events(count, rank)):
            args = event.pop("args", {})
            text = json.dumps(event)[:-1] + ',\n    "args": {\n      ' + json.dumps(args)[1:-1] + "\n    }\n  }"
            file.write((",\n  " if i else "  ") + text)
        file.write('\n  ],\n  "traceName": "made.json",\n  "baseTimeNanoseconds": 1790857026000000000\n}\n')
