"""Files that libraries load: the plug-in, NVIDIA's example configuration where it is safe, and the A/B run."""

from __future__ import annotations

import math
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from nhalf.quantiles import Z95
from nhalf.tune.bins import LARGEST
from nhalf.tune.paths import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nhalf.tune.choices import Choice
    from nhalf.tune.sweeps import Key, Sweep

PLUGIN: Final = "nccl_tuner.c"
CONFIGURATION: Final = "nccl_tuner.conf"
_LIBRARY: Final = "libnccl-tuner-nhalf.so"
_LONGEST: Final = 200
_FEWEST, _MOST = 3, 40
"""Runs of each arm that are asked for at least and at most."""
_PROGRAMS: Final = {"all-reduce": "all_reduce_perf", "all-gather": "all_gather_perf",
                    "reduce-scatter": "reduce_scatter_perf", "broadcast": "broadcast_perf",
                    "reduce": "reduce_perf"}  # fmt: skip


def made(found: Sequence[Choice]) -> list[Choice]:
    """Return the choices that say something to a library: those that are not left to it."""
    return [each for each in found if each.bin.path is not None]


def plugin(found: Sequence[Choice], head: str) -> str:
    """Return the source of the plug-in with the choices in its table; `head` says what they are of."""
    rows = []
    for each in made(found):
        if each.bin.path is None:
            continue
        words = ", ".join((each.key.op.upper().replace("-", "_"), f"{each.bin.start}u", f"{each.bin.end}u",
                           each.bin.path.algorithm.upper(), each.bin.path.protocol.upper(),
                           str(each.key.ranks), str(each.key.nodes)))  # fmt: skip
        rows.append(f"  {{{words}}},".replace("u, ", "ULL, "))
    text = (files("nhalf.tune") / PLUGIN).read_text(encoding="utf-8")
    safe = head.replace("*/", "* /").replace("\\", "/").replace("\n", "\n * ")
    return text.replace("@HEAD@", safe).replace("@TABLE@\n", "".join(f"{row}\n" for row in rows))


def unsafe(found: Sequence[Choice], keys: Sequence[Key]) -> str:
    """Return why NVIDIA's example plug-in must not have these choices, nothing where it may.

    It runs every call that no line matches on one channel, and no line is neutral.

    References
    ----------
    NVIDIA/nccl, `plugins/tuner/example/plugin.c`, which answers 1 channel before it looks for a line.
    """
    for ranks, nodes in sorted({(key.ranks, key.nodes) for key in keys}):
        for op in OPERATIONS:
            ours = [each for each in found if (each.key.op, each.key.ranks, each.key.nodes) == (op, ranks, nodes)]
            where = f"{op} on {ranks} ranks of {nodes} node{'s' if nodes > 1 else ''}"
            if not ours:
                return f"nothing is measured of {where}: it would run each such call on one channel"
            if any(each.bin.path is None for each in ours):
                return f"some sizes of {where} are left to NCCL: it would run those on one channel"
    return ""


def configuration(found: Sequence[Choice], head: str) -> str:
    """Return the lines of NVIDIA's example configuration: the first bin from 0, the last without an end, channels 0."""
    lines = [f"# {line[:_LONGEST]}" for line in head.splitlines()]
    for key in dict.fromkeys(each.key for each in found):
        ours = [each for each in made(found) if each.key == key]
        for place, each in enumerate(ours):
            if each.bin.path is None:
                continue
            start = 0 if place == 0 else each.bin.start
            end = LARGEST if place == len(ours) - 1 else each.bin.end
            path = f"{each.bin.path.algorithm},{each.bin.path.protocol}"
            lines.append(f"{key.op.replace('-', '')},{start},{end},{path},0,{key.nodes},{key.ranks},-1,-1")
    return "\n".join(lines) + "\n"


def environment(found: Sequence[Choice], folder: str) -> str:
    """Return the environment that loads the plug-in, and the one of a job that can load no file."""
    lines = [
        "# Build first: cc -O2 -fPIC -shared -o libnccl-tuner-nhalf.so nccl_tuner.c",
        "# One tuner loads in a process: if the log names another (aws-ofi-nccl, gIB), its table would be lost.",
        f"export NCCL_TUNER_PLUGIN={_shell(f'{folder}/{_LIBRARY}')}",
        "export NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,TUNING   # to see once that it is loaded",
    ]
    if not made(found):
        return "# Nothing to set: every size is left to the library.\n"
    lines += ["", "# Where no file can be loaded, NCCL 2.24 or newer: per operation, but for all sizes of the job.",
              "# It forbids all else at large sizes too, which prefills pay for."]  # fmt: skip
    algorithms, protocols = [], []
    for op in dict.fromkeys(each.key.op for each in made(found)):
        paths = [each.bin.path for each in found if each.key.op == op]
        if None in paths:
            lines.append(f"# {op}: no such setting, since some sizes are left to NCCL.")
            continue
        name = op.replace("-", "")
        algorithms.append(
            f"{name}:{','.join(dict.fromkeys(path.algorithm.replace('_', '') for path in paths if path))}"
        )
        protocols.append(f"{name}:{','.join(dict.fromkeys(path.protocol for path in paths if path))}")
    if algorithms:
        lines += [f'# export NCCL_ALGO="{";".join(algorithms)}"', f'# export NCCL_PROTO="{";".join(protocols)}"']
    return "\n".join(lines) + "\n"


def repeats(sweep: Sweep, share: float) -> int:
    """Return the runs of each arm after which a gain of a share [1] stands out of the noise at 95 %."""
    if share <= 0:
        return _FEWEST
    return min(max(math.ceil(2.0 * (Z95 * sweep.noise / share) ** 2) + 1, _FEWEST), _MOST)


def experiment(runs: Sequence[tuple[Key, float, float, int]], folder: str) -> str:
    """Return a shell script of the A/B: with the choices and without, in turn; `runs` are keys, sizes and repeats."""
    lines = [
        "#!/bin/sh", "# The choices against NCCL's own, in turn, so that drift meets both alike.",
        "# Stop rule: all runs below, or earlier once nhalf tune --check tells every size; never at the first",
        "# good look.",
        "set -eu", f"cd {_shell(folder)}", f"test -e {_LIBRARY} || cc -O2 -fPIC -shared -o {_LIBRARY} {PLUGIN}",
        'LAUNCH="${LAUNCH:-srun}"   # or: LAUNCH="mpirun -np 16 --hostfile hosts"',
        'TESTS="${TESTS:-}"   # folder of nccl-tests/',
    ]  # fmt: skip
    for key, low, high, count in runs:
        program, name = _PROGRAMS[key.op], f"{key.op}-{key.ranks}x{key.nodes}"
        lines += [
            f"for run in $(seq 1 {count}); do",
            "  for arm in default tuned; do",
            '    off=0; if [ "$arm" = default ]; then off=1; fi',
            f'    NHALF_TUNER_OFF=$off NCCL_TUNER_PLUGIN="$PWD/{_LIBRARY}" \\',
            f'      $LAUNCH "${{TESTS}}{program}" -b {low:.0f} -e {high:.0f} -f 2 -g 1 -n 200 -w 50 \\',
            f'      > "{name}-$arm-$run.log"',
            "  done", "done",
        ]  # fmt: skip
    names = [f"{key.op}-{key.ranks}x{key.nodes}" for key, *_ in runs]
    logs = " ".join(f'$(for f in {name}-{arm}-*.log; do printf -- "--logs {arm}=%s " "$f"; done)'
                    for name in names for arm in ("default", "tuned"))  # fmt: skip
    return "\n".join([*lines, f"nhalf tune --check . {logs}", ""])


def batch_job(keys: Sequence[Key], per_node: int) -> str:
    """Return the same as a job of Slurm."""
    nodes, ranks = max(key.nodes for key in keys), max(key.ranks for key in keys)
    return "\n".join([
        "#!/bin/bash", f"#SBATCH --nodes={nodes}", f"#SBATCH --ntasks={ranks}",
        f"#SBATCH --ntasks-per-node={min(per_node, ranks)}", f"#SBATCH --gpus-per-node={min(per_node, ranks)}",
        "#SBATCH --exclusive", "#SBATCH --time=01:00:00", "#SBATCH --output=measure-%j.out",
        'LAUNCH="srun --mpi=pmix" sh measure.sh', "",
    ])  # fmt: skip


def _shell(text: str) -> str:
    """Return a text as one word of a shell."""
    import shlex

    return shlex.quote(text)
