"""Do the tests bite? Change one constant or formula at a time, run the related tests, and print what nobody noticed.

    python tools/mutate.py              all 47 rows (some 9 minutes); exit 1 where more than 2 survive
    python tools/mutate.py SPIKE trace  the rows whose file or text has one of these words

Each row is applied in a scratch copy of src, never in the tree. A row whose text is gone is an error that names it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
MOST_SURVIVORS: Final = 2
_LONGEST_S: Final = 600
_QUICK: Final = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--no-header", "--tb=line")
_FAILED: Final = 1  # pytest: some tests failed; any other code is a run that says nothing


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: a file below src/nhalf, the text that stands there once, what replaces it, and who should notice it.

    Of the tests, `unit/fit` is tests/unit/test_fit.py.
    """

    file: str
    text: str
    becomes: str
    tests: str

    @property
    def name(self) -> str:
        """Return the row in words."""
        return f"{self.file}: {self.text.strip()} -> {self.becomes.strip()}"


_DOUBTS, _TRACE, _FORMS = "unit/doubts", "unit/trace_doubts", "laws/collective_forms"
_DOCTOR: Final = "unit/doctor"
_STEP = "golden/article golden/decode_cases unit/response unit/elasticity unit/band unit/communication cli/decode"
MUTANTS: Final = tuple(
    Mutant(*row)
    for row in (
        # laws: steps and bytes
        ("laws/collective/all_reduce.py", '"ring", "2 * (k - 1) * alpha"', '"ring", "3 * (k - 1) * alpha"', _FORMS),
        ("laws/collective/all_reduce.py", '"2 * {IS_SEVERAL} * alpha", "2', '"3 * {IS_SEVERAL} * alpha", "2', _FORMS),
        ("laws/collective/all_gather.py", '"bruck", "log2_ceil(k)', '"bruck", "2 * log2_ceil(k)', _FORMS),
        ("laws/collective/all_to_all.py", '"pairwise", "(k - 1) * alpha"', '"pairwise", "k * alpha"', _FORMS),
        ("laws/collective/broadcast.py", '"scatter-doubling", "2 * log2', '"scatter-doubling", "log2', _FORMS),
        ("laws/tuner.py", "2.8e-6 * k * m", "3.8e-6 * k * m", "unit/selection"),
        ("laws/roofline.py", "minimum(eta, stream)", "maximum(eta, stream)", _STEP),
        # predict: the step
        ("predict/step.py", "tq * b / dp * L / 60", "tq * b / dp * L / 61", _STEP),
        ("predict/memory.py", "RESERVE_BYTES = 3e9", "RESERVE_BYTES = 3.3e9", "unit/memory cli/decode"),
        ("predict/memory.py", "USABLE_SHARE = 0.9", "USABLE_SHARE = 0.92", "unit/memory cli/decode"),
        ("predict/incast.py", "COLLAPSE: Final = 10.0", "COLLAPSE: Final = 9.0", "unit/incast unit/band"),
        ("predict/communication.py", "EAGER_LAUNCHES = 3.7", "EAGER_LAUNCHES = 4.2", _STEP),
        # decide and words: ties and what is worth saying
        ("decide/regime.py", "TIE = 0.05", "TIE = 0.06", "unit/search unit/plan_ranking cli/decode"),
        ("decide/lint.py", "NOISE: Final = 0.09", "NOISE: Final = 0.12", "unit/lint cli/lint"),
        ("decide/lint.py", "_AGREES: Final = 0.05", "_AGREES: Final = 0.08", "unit/lint cli/lint"),
        ("report/verdict.py", "_EARNEST = 0.005", "_EARNEST = 0.02", "cli/decode cli/one_number"),
        # curve: weights and bands
        ("curve/spread.py", "SIBLING: Final = 0.15", "SIBLING: Final = 0.25", _DOUBTS),
        ("curve/leastsquares.py", "HUBER: Final = 1.345", "HUBER: Final = 1.6", _DOUBTS),
        ("curve/measured.py", "_OF_A_MEDIAN: Final = 0.5", "_OF_A_MEDIAN: Final = 0.6", _DOUBTS),
        # evidence: what is believed, and what is doubted
        ("evidence/series.py", "_SPIKE: Final = 1.5", "_SPIKE: Final = 1.8", _DOUBTS),
        ("evidence/series.py", "_FALL: Final = 1.2", "_FALL: Final = 1.1", _DOUBTS),
        ("evidence/identify.py", "ON_FLOOR: Final = 1.5", "ON_FLOOR: Final = 1.7", _DOUBTS),
        ("evidence/identify.py", "ON_CEILING: Final = 4.0", "ON_CEILING: Final = 3.0", _DOUBTS),
        ("evidence/identify.py", "SMALL: Final = 4096.0", "SMALL: Final = 8192.0", _DOUBTS),
        ("evidence/identify.py", "DECADE: Final = 10.0", "DECADE: Final = 9.0", _DOUBTS),
        ("evidence/comparison.py", "LAUNCH_NOISE: Final = 0.03", "LAUNCH_NOISE: Final = 0.015", _DOUBTS),
        ("evidence/checks.py", "_SLOW_FLOOR: Final = 3.0", "_SLOW_FLOOR: Final = 3.5", _DOUBTS),
        ("evidence/checks.py", "_SLOW_LINK: Final = 50.0", "_SLOW_LINK: Final = 40.0", _DOUBTS),
        # doctor: from where on something is slow
        ("doctor/pairs.py", "_SIGMAS = math.log(1.1)", "_SIGMAS = math.log(1.25)", _DOCTOR),
        ("doctor/pairs.py", "_MOST: Final = 0.8", "_MOST: Final = 1.1", _DOCTOR),
        ("doctor/history.py", "_SIGMAS = math.log(1.1)", "_SIGMAS = math.log(1.05)", _DOCTOR),
        ("doctor/examination.py", "_TWICE: Final = 2.0", "_TWICE: Final = 3.0", _DOCTOR),
        ("doctor/examination.py", "_APART: Final = math.log(1.5)", "_APART: Final = math.log(2.5)", _DOCTOR),
        ("doctor/examination.py", "_SETTLED, _DOUBTED = 0.5", "_SETTLED, _DOUBTED = 0.7", _DOCTOR),
        ("doctor/clues.py", "few = facts.hcas <= nics_per_node / 2", "few = facts.hcas < nics_per_node / 2", _DOCTOR),
        # trace: who is named, and why
        ("trace/fixed_time.py", "_LOWER = 0.1", "_LOWER = 0.2", _TRACE),
        ("trace/stragglers.py", "_LEAST_SHARE = 0.005", "_LEAST_SHARE = 0.02", _TRACE),
        ("trace/stragglers.py", "_AGREES = 0.4", "_AGREES = 0.9", _TRACE),
        ("trace/cause.py", "_MOSTLY = 0.6", "_MOSTLY = 0.7", _TRACE),
        ("trace/cause.py", "_UNIFORM = 0.8", "_UNIFORM = 0.5", _TRACE),
        ("trace/matching.py", "LEAST_AGREEMENT = 0.95", "LEAST_AGREEMENT = 0.9", _TRACE),
        # loading and calibrate: what a table or an input is asked
        ("loading/changes.py", "BIDIRECTIONAL = 1.3", "BIDIRECTIONAL = 1.6", _DOUBTS),
        ("loading/case_checks.py", "REPEAT: Final = 0.18", "REPEAT: Final = 0.25", _DOUBTS),
        ("calibrate/derive.py", "MOVED: Final = 0.01", "MOVED: Final = 0.02", _DOUBTS),
        ("calibrate/derive.py", "IDENTIFIED: Final = 0.5", "IDENTIFIED: Final = 0.6", _DOUBTS),
        # simulate and units
        ("simulate/straggler.py", "_DEVIATIONS = 6.0", "_DEVIATIONS = 4.0", "unit/simulate_straggler"),
        ("simulate/programs/rings.py", "shape.chunk(2 * k)", "shape.chunk(k)", "laws/simulate_agreement"),
        ("units/scales.py", "_BIT: Final = 1.0 / 8.0", "_BIT: Final = 1.0 / 10.0", "unit/units"),
    )
)  # fmt: skip


def main(words: list[str]) -> int:
    """Run the rows that were asked for; return 1 where more survive than may, 2 where a row does not apply."""
    chosen = [mutant for mutant in MUTANTS if not words or any(word in mutant.name for word in words)]
    gone = [mutant.name for mutant in chosen if _source(mutant).count(mutant.text) != 1]
    if gone or not chosen:
        sys.stderr.write("".join(f"stands there not once: {name}\n" for name in gone) or "no row has these words\n")
        return 2
    if not passes({name for mutant in chosen for name in mutant.tests.split()}):
        sys.stderr.write("the tests fail without any mutant: mend them first\n")
        return 2
    survivors = []
    for mutant in chosen:
        survived = passes(set(mutant.tests.split()), mutant)
        sys.stdout.write(f"{'SURVIVED' if survived else 'killed  '}  {mutant.name}\n")
        sys.stdout.flush()
        survivors += [mutant.name] * survived
    sys.stdout.write(f"{len(survivors)} of {len(chosen)} survived\n")
    return 1 if len(survivors) > MOST_SURVIVORS else 0


def passes(tests: set[str], mutant: Mutant | None = None) -> bool:
    """Tell whether tests pass on a copy of the source, with a mutant in it where one is given.

    Raises
    ------
    RuntimeError
        They could not be run.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        if mutant is not None:
            changed = _source(mutant).replace(mutant.text, mutant.becomes)
            (copy / "nhalf" / mutant.file).write_text(changed, encoding="utf-8")
        files = sorted("tests/{}/test_{}.py".format(*name.split("/")) for name in tests)
        done = subprocess.run(  # noqa: S603  the tests are this repository's own
            [sys.executable, "-m", "pytest", *_QUICK, *files],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(copy)}, capture_output=True, encoding="utf-8", check=False,
            timeout=_LONGEST_S,
        )  # fmt: skip
    if done.returncode not in {0, _FAILED}:
        raise RuntimeError(f"{mutant or 'no mutant'}: pytest ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.returncode == 0


def _source(mutant: Mutant) -> str:
    return (ROOT / "src" / "nhalf" / mutant.file).read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
