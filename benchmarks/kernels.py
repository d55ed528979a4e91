# SPDX-License-Identifier: Apache-2.0
"""The kernels' executed instructions and estimated cycles, beside the goals and the peers' figures.

Builds a firmware of the project's own kernels for a Cortex-M4F and a Cortex-M0+, runs it on their
emulated machines with a plugin that counts, and prints a table.

The kept figures are those of host/workloads/kernels/figures.json, which --record writes. With
--survey, ops of many shapes are run on the Cortex-M4F, and those listed that miss 1.5 times the
goals. Their cycles are compared with those of the hand-written kernels that tiles replaced.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

from workloads.kernels.cases import CASES, Case, missing_kinds, surveyed
from workloads.kernels.measuring import (
    KEPT,
    BenchError,
    Measured,
    beside_replaced,
    changed,
    code_bytes,
    compiler_version,
    load,
    measure,
    misses,
    replaced,
    text_of,
    worse,
)
from workloads.published import published


def _peer(figures: Mapping[str, Any], path: str) -> tuple[float, str] | None:
    """The fewest instructions of a public library, and which that is."""
    if not path:
        return None
    found: Any = figures
    for part in path.split("."):
        found = found[part]
    public = {name: value for name, value in found.items() if not name.startswith("prototype")}
    name = min(public, key=lambda one: float(_least(public[one])))
    return float(_least(public[name])), name


def _least(value: float | Sequence[float]) -> float:
    return min(value) if isinstance(value, Sequence) else value


def table(
    cases: Sequence[Case], now: Mapping[str, Measured], before: Mapping[str, Measured]
) -> Iterator[str]:
    """Lines of a Markdown table: instructions and estimated cycles per unit of work."""
    figures = published("kernels")
    yield "| kernel | pass | per | before | now | goal | peer | stack |"
    yield "|---|---|---|--:|--:|--:|--:|--:|"
    for case in cases:
        if case.key not in now:
            continue
        one = now[case.key]
        old = before.get(case.key)
        peer = _peer(figures, case.peers)
        goal = case.goal
        columns = (
            case.name,
            case.part,
            case.unit,
            "" if old is None else _per(case, old),
            _per(case, one),
            ""
            if goal is None
            else f"{goal.instructions:.3g}"
            + ("" if goal.cycles is None else f" / {goal.cycles:.3g}"),
            "" if peer is None else f"{peer[0]:.3g} {peer[1]}",
            str(one.stack_bytes),
        )
        yield f"| {' | '.join(columns)} |"


def _per(case: Case, one: Measured) -> str:
    return f"{one.instructions / case.work:.2f} / {one.cycles / case.work:.2f}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="example: python benchmarks/kernels.py --only dense"
    )
    parser.add_argument("--record", action="store_true", help="keep the figures")
    parser.add_argument("--compare", type=Path, default=KEPT, help="figures to compare with")
    parser.add_argument("--only", default="", help="cases with this text in their name")
    parser.add_argument("--survey", action="store_true", help="which of many shapes miss the goals")
    arguments = parser.parse_args()
    if arguments.record and (arguments.only or arguments.survey):
        parser.error("--record keeps the figures of all cases: leave out --only and --survey")
    known = list(surveyed() if arguments.survey else chain.from_iterable(CASES.values()))
    if not any(arguments.only in case.key for case in known):
        parser.error(f"--only {arguments.only!r}: no such case; there is {known[0].name!r}")
    try:
        if arguments.survey:
            return survey(arguments.only)
        return run(arguments.record, arguments.compare, arguments.only)
    except BenchError as error:
        print(error, file=sys.stderr)
        return 3


def survey(only: str) -> int:
    """Print which of many shapes take more than their goals on the Cortex-M4F."""
    every = {case.key: case for case in chain(surveyed(), CASES["nrf52840"])}
    cases = [case for key, case in every.items() if only in key]
    with tempfile.TemporaryDirectory(prefix="poetfw-kernels-") as folder:
        now = measure("nrf52840", cases, Path(folder)) if cases else {}
    outside = [case for case in surveyed() if case.key in now and misses(case, now[case.key])]
    print("\n".join(table(outside, now, {})))
    print(f"\n{len(outside)} of {len(cases)} are outside")
    print("\n".join(("", *beside_replaced(replaced(), now))))
    return 0


def run(record: bool, compare: Path, only: str) -> int:
    """Measure and print; 1 if a kernel is worse, or leaves other bits, than what is compared."""
    before = load(compare)[1] if compare.exists() else {}
    boards = {}
    lines = []
    for name, every in CASES.items():
        cases = [case for case in every if only in case.key]
        with tempfile.TemporaryDirectory(prefix="poetfw-kernels-") as folder:
            now = measure(name, cases, Path(folder)) if cases else {}
            sizes = code_bytes(name, Path(folder))
        print(f"\n{name}: executed instructions / estimated cycles\n")
        print("\n".join(table(cases, now, before.get(name, {}))))
        print(f"\ncode: {', '.join(f'{source} {size:,}' for source, size in sizes.items())} B")
        lines += [f"worse: {name}: {line}" for line in worse(before.get(name, {}), now)]
        lines += [f"other bits: {name}: {key}" for key in changed(before.get(name, {}), now)]
        boards[name] = {key: asdict(one) for key, one in now.items()}
    print(f"\nnot measured: {', '.join(missing_kinds())}")
    print("\n".join(lines))
    if record:
        document = {"compiler": compiler_version("nrf52840"), "boards": boards}
        KEPT.write_text(text_of(document))
        return 0
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
