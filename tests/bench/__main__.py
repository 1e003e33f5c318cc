"""`make bench`: every benchmark, or those named: `python -m tests.bench laptop cells detached core listing page`.

`million` is run by its name only: it takes 20 minutes and 5 GB of disk.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module

ALL = ("laptop", "cells", "detached", "core", "listing", "page")


def main() -> None:
    """Run and print, one JSON object a benchmark."""
    for name in sys.argv[1:] or ALL:
        print(f"== {name}", flush=True)
        print(json.dumps(import_module(f"tests.bench.{name}").measure(), indent=1, default=str), flush=True)


if __name__ == "__main__":
    main()
