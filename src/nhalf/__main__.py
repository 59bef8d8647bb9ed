"""`python -m nhalf` is the command line."""

from __future__ import annotations

from nhalf.cli import main

if __name__ == "__main__":
    main()
