"""OLLA's networks: peak memory of a training step in PyTorch's order and in ours, then placed.

Peaks count everything: parameters, the batch, activations, gradients. Run it with

    python benchmarks/ordering.py --batches 1 32
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from caching_allocator import reserved_bytes
from networks import NETWORKS

from poetfw.memory import Buffer, place
from poetfw.memory.ordering import lifetimes, order_ops, peak_bytes

PUBLISHED = {1: (0.225, 0.304), 32: (0.101, 0.361)}
"""OLLA's mean reductions by batch: by ordering alone, and with placement (Steiner et al., 2022)."""


@dataclass(frozen=True, slots=True)
class Row:
    """One network at one batch. All bytes include what is resident.

    Attributes:
        network, batch, ops: what was ordered.
        pytorch_peak_bytes: live bytes at most, in PyTorch's order.
        pytorch_reserved_bytes: what the model of its caching allocator reserves for it.
        pytorch1_peak_bytes, pytorch1_reserved_bytes: the same before PyTorch 2.0, whose optimizers
            kept every gradient, zeroed, from step to step unless told not to.
        peak_bytes: live bytes at most, in our order.
        lower_bound_bytes: no order has a smaller peak.
        arena_bytes: what our order takes when placed at fixed addresses.
        ordering_time_s, placement_time_s: seconds for each.
    """

    network: str
    batch: int
    ops: int
    pytorch_peak_bytes: int
    pytorch_reserved_bytes: int
    pytorch1_peak_bytes: int
    pytorch1_reserved_bytes: int
    peak_bytes: int
    lower_bound_bytes: int
    arena_bytes: int
    ordering_time_s: float
    placement_time_s: float

    @property
    def ordering_reduction(self) -> float:
        """Share of PyTorch's peak that ordering saves."""
        return 1 - self.peak_bytes / self.pytorch_peak_bytes

    @property
    def ordering_reduction_1(self) -> float:
        """Share of the peak before PyTorch 2.0 that ordering and freeing gradients save."""
        return 1 - self.peak_bytes / self.pytorch1_peak_bytes

    @property
    def total_reduction_1(self) -> float:
        """Share of what PyTorch before 2.0 reserves that is saved in all."""
        return 1 - self.arena_bytes / self.pytorch1_reserved_bytes

    @property
    def fragmentation(self) -> float:
        """Share of our arena that is never needed at once."""
        return 1 - self.peak_bytes / self.arena_bytes

    @property
    def pytorch_fragmentation(self) -> float:
        """Share of what PyTorch reserves that is never live at once."""
        return 1 - self.pytorch_peak_bytes / self.pytorch_reserved_bytes

    @property
    def total_reduction(self) -> float:
        """Share of what PyTorch reserves that ordering and placement save."""
        return 1 - self.arena_bytes / self.pytorch_reserved_bytes


def measure(network: str, batch: int, time_limit_s: float = 60.0) -> Row:
    """Order and place one network."""
    step = NETWORKS[network](batch)
    problem = step.problem
    kept = step.with_kept_gradients()
    ordering = order_ops(problem, time_limit_s)
    begin = time.perf_counter()
    buffers = [
        Buffer(life.tensor, life.lower, life.upper, problem.sizes[life.tensor])
        for life in lifetimes(problem, ordering.order)
    ]
    placement = place(buffers, time_limit_s=time_limit_s)
    placement_time_s = time.perf_counter() - begin
    return Row(
        network=network,
        batch=batch,
        ops=len(problem.ops),
        pytorch_peak_bytes=peak_bytes(problem),
        pytorch_reserved_bytes=reserved_bytes(problem, step.resident),
        pytorch1_peak_bytes=peak_bytes(kept.problem),
        pytorch1_reserved_bytes=reserved_bytes(kept.problem, kept.resident),
        peak_bytes=ordering.peak_bytes,
        lower_bound_bytes=ordering.lower_bound_bytes,
        arena_bytes=problem.resident_bytes + placement.height_bytes,
        ordering_time_s=ordering.solve_time_s,
        placement_time_s=placement_time_s,
    )


_HEADER = (
    f"{'network':16} {'batch':>5} {'ops':>5} {'PyTorch MB':>10} {'ours MB':>9} {'ordering':>9} "
    f"{'gap':>7} {'seconds':>8} {'reserved MB':>11} {'frag.':>7} {'arena MB':>9} {'total':>7} "
    f"{'seconds':>8} {'PyTorch 1 MB':>12} {'ordering':>9} {'total':>7}"
)


def format_row(row: Row) -> str:
    """A line of the table."""
    gap = 1 - row.lower_bound_bytes / row.peak_bytes
    return (
        f"{row.network:16} {row.batch:5} {row.ops:5} {row.pytorch_peak_bytes / 1e6:10.1f} "
        f"{row.peak_bytes / 1e6:9.1f} {-row.ordering_reduction:9.1%} {gap:7.2%} "
        f"{row.ordering_time_s:8.2f} {row.pytorch_reserved_bytes / 1e6:11.1f} "
        f"{row.pytorch_fragmentation:7.1%} {row.arena_bytes / 1e6:9.1f} "
        f"{-row.total_reduction:7.1%} {row.placement_time_s:8.2f} "
        f"{row.pytorch1_peak_bytes / 1e6:12.1f} {-row.ordering_reduction_1:9.1%} "
        f"{-row.total_reduction_1:7.1%}"
    )


def summarize(rows: Sequence[Row], batch: int) -> dict[str, float]:
    """Means and medians over the networks at one batch, beside the published ones if known."""
    of_batch = [row for row in rows if row.batch == batch]
    mean, median = statistics.mean, statistics.median
    summary = {
        "batch": batch,
        "mean_ordering_reduction": mean(r.ordering_reduction for r in of_batch),
        "mean_total_reduction": mean(r.total_reduction for r in of_batch),
        "mean_ordering_reduction_from_pytorch_1": mean(r.ordering_reduction_1 for r in of_batch),
        "mean_total_reduction_from_pytorch_1": mean(r.total_reduction_1 for r in of_batch),
        "mean_pytorch_fragmentation": mean(r.pytorch_fragmentation for r in of_batch),
        "mean_fragmentation": mean(r.fragmentation for r in of_batch),
        "median_ordering_time_s": median(r.ordering_time_s for r in of_batch),
        "median_placement_time_s": median(r.placement_time_s for r in of_batch),
        "largest_gap": max(1 - r.lower_bound_bytes / r.peak_bytes for r in of_batch),
    }
    if batch in PUBLISHED:
        summary["published_ordering_reduction"] = PUBLISHED[batch][0]
        summary["published_total_reduction"] = PUBLISHED[batch][1]
    return summary


def run(
    networks: Iterable[str] = NETWORKS,
    batches: Sequence[int] = (1, 32),
    time_limit_s: float = 60.0,
    json_path: Path | None = None,
) -> list[Row]:
    """Measure the networks, print the table as it grows, write it as JSON if a path is given."""
    rows = []
    print(_HEADER)
    for batch in batches:
        for network in networks:
            rows.append(measure(network, batch, time_limit_s))
            print(format_row(rows[-1]), flush=True)
    summaries = [summarize(rows, batch) for batch in batches]
    for summary in summaries:
        print(f"\nbatch {summary.pop('batch'):.0f}")
        for name, value in summary.items():
            unit = f"{value:.2f} s" if name.endswith("_s") else f"{value:.1%}"
            print(f"  {name.removesuffix('_s').replace('_', ' '):40} {unit}")
    if json_path is not None:
        document = {
            "rows": [asdict(row) for row in rows],
            "summaries": [
                {"batch": b, **summary} for b, summary in zip(batches, summaries, strict=True)
            ],
        }
        json_path.write_text(json.dumps(document, indent=2) + "\n")
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=list(NETWORKS), metavar="network")
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 32])
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for each stage")
    parser.add_argument("--json", type=Path, help="where to write the table as JSON")
    arguments = parser.parse_args()
    run(arguments.networks, arguments.batches, arguments.time_limit, arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
