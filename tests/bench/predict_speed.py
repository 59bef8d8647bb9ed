"""How long 10^5 rows of serving runs take to predict, bands included: the goal is under 2 s.

python tests/bench/predict_speed.py
"""

from __future__ import annotations

import time

from nhalf.loading.case_table import Table, read_table
from nhalf.loading.cases import cases
from nhalf.loading.golden import SERVING
from nhalf.loading.predictions import predictions
from nhalf.report.predict import table as written

ROWS = 100_000


def main() -> None:
    """Print the time of each part [s]."""
    runs = read_table(SERVING)
    copies = -(-ROWS // len(runs.rows))
    many = Table(
        path=runs.path, header=runs.header, rows=[list(row) for _ in range(copies) for row in runs.rows][:ROWS]
    )
    predictions(cases(runs))  # files of the catalogue are read once
    start = time.perf_counter()
    loaded = cases(many)
    middle = time.perf_counter()
    found = predictions(loaded)
    end = time.perf_counter()
    print(f"{len(found.refused)} rows: {middle - start:.2f} s to scenarios, {end - middle:.2f} s to predict")
    written(found)
    print(f"{time.perf_counter() - end:.2f} s to write as CSV")


if __name__ == "__main__":
    main()
