"""The core with 1,000,000 finished jobs in the store beside the same with none: what grows, and how much."""

from __future__ import annotations

from statistics import median
from typing import Any

from tests.bench import core

_RATES = ("bulk_enqueue_per_s", "single_enqueue_per_s", "sixteen_clients_per_s", "drain_per_s")
_TIMES = ("start_p50_ms", "start_p99_ms")


def measure(*, finished: int = 1_000_000, rounds: int = 3) -> dict[str, Any]:
    """Each figure with none and with many, medians of so many rounds in turn, and its ratio: less than 1 is slower.

    A single round tells little: one and the same figure differs by a fifth from run to run. The full store lies on the
    disk in both: a disk that has taken it is slower.
    """
    none: list[dict[str, Any]] = []
    many: list[dict[str, Any]] = []
    for _ in range(rounds):
        none.append(core.measure(finished=finished, unused=True))
        many.append(core.measure(finished=finished))
    figures = {name: tuple(median(found[name] for found in side) for side in (none, many)) for name in _RATES + _TIMES}
    ratios = {name: without / full if name in _TIMES else full / without for name, (without, full) in figures.items()}
    return {
        "figures": {name: [round(value, 2) for value in pair] for name, pair in figures.items()},
        "ratios": {name: round(ratio, 2) for name, ratio in ratios.items()},
        "target": 0.9,
    }
