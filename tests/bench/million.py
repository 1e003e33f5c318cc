"""The core with 1,000,000 finished jobs in the store beside the same with none: what grows, and how much."""

from __future__ import annotations

from typing import Any

from tests.bench import core

_RATES = ("bulk_enqueue_per_s", "single_enqueue_per_s", "sixteen_clients_per_s", "drain_per_s")
_TIMES = ("start_p50_ms", "start_p99_ms")


def measure(*, finished: int = 1_000_000) -> dict[str, Any]:
    """Each figure with none and with many, and its ratio, turned so that 1 is as fast and less is slower."""
    none, many = core.measure(), core.measure(finished=finished)
    ratios = {name: many[name] / none[name] for name in _RATES} | {name: none[name] / many[name] for name in _TIMES}
    rounded = {name: round(ratio, 2) for name, ratio in ratios.items()}
    figures = {name: (round(none[name], 2), round(many[name], 2)) for name in (*_RATES, *_TIMES)}
    return {"figures": figures, "ratios": rounded, "target": 0.9}
