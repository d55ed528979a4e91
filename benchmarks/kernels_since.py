# SPDX-License-Identifier: Apache-2.0
"""Which kernels take longer than those of an older revision, over many shapes.

Draws ops of many shapes, the same ones for a seed, and runs each with this tree's kernels and with
the revision's, on the emulated machine of `kernels.py`. Prints how many take over 3% more estimated
cycles now, how many leave other bits, and lists the slower ones. Run it with

    python benchmarks/kernels_since.py REVISION [--board NAME] [--only TEXT] [--count N] [--seed N]

Revision ec0e13a has the kernels before any was made faster. A Cortex-M0+ had plain sums then, so
that other bits are expected there. 100 shapes of each of nine families take five minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from shutil import copy

from kernel_bench.cases import CASES, Case
from kernel_bench.drawn import FAMILIES, drawn
from kernels import BENCH, TOLERANCE, BenchError, Measured, Results, changed
from rich.console import Console
from rich.progress import track

ROOT = Path(__file__).parent.parent
AT_ONCE = 100
"""Cases of one firmware."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        epilog="example: python benchmarks/kernels_since.py ec0e13a --only depthwise --count 50",
    )
    parser.add_argument("revision", help="of this repository, to compare with")
    parser.add_argument("--board", choices=list(CASES), default="nrf52840", help="(nrf52840)")
    parser.add_argument("--only", default="", help="families of ops with this in their name")
    parser.add_argument("--count", type=int, default=100, help="shapes of each family (100)")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn (0)")
    arguments = parser.parse_args()
    families = [family for family in FAMILIES if arguments.only in family]
    if not families:
        parser.error(f"--only {arguments.only!r}: no such family of {', '.join(FAMILIES)}")
    console = Console(stderr=True)
    worse: list[str] = []
    differ = 0
    try:
        with tree_of(arguments.revision) as then:
            print("| ops | passes | over 3% slower | other bits | cycles, of before | least |")
            print("|---|--:|--:|--:|--:|--:|")
            for family in families:
                cases = drawn(family, arguments.count, arguments.seed)
                before, now = {}, {}
                for some in track(_parts(cases), family, console=console, transient=True):
                    before |= _measured(then, arguments.board, some)
                    now |= _measured(ROOT, arguments.board, some)
                lines = list(slower(before, now))
                worse += lines
                bits = len(changed(before, now))
                differ += bits
                counts = f"{len(now)} | {len(lines)} | {bits}"
                print(f"| {family} | {counts} | {_ratios(before, now)} |")
    except BenchError as error:
        print(error, file=sys.stderr)
        return 3
    print("", *(f"slower: {line}" for line in worse), sep="\n")
    return 1 if worse or differ else 0


@contextmanager
def tree_of(revision: str) -> Iterator[Path]:
    """A revision's files in a folder of their own, with this tree's way of counting."""
    with tempfile.TemporaryDirectory(prefix="poetfw-since-") as folder:
        archive = Path(folder) / "tree.tar"
        tree = Path(folder) / "tree"
        tree.mkdir()
        _run("git", "-C", str(ROOT), "archive", f"--output={archive}", revision)
        _run("tar", "-xf", str(archive), "-C", str(tree))
        copy(BENCH / "plugin.c", tree / "benchmarks/kernel_bench")
        yield tree


def _measured(tree: Path, board: str, cases: Sequence[Case]) -> Results:
    """What the kernels of a tree take."""
    path = os.pathsep.join((str(tree / "host"), str(tree / "benchmarks")))
    told = _run(
        *(sys.executable, str(BENCH / "measure_cases.py"), board),
        given=json.dumps([asdict(case) for case in cases]),
        env={**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
    )
    return {key: Measured(**one) for key, one in json.loads(told).items()}


def _run(*command: str, given: str | None = None, env: dict[str, str] | None = None) -> str:
    ran = subprocess.run(command, input=given, env=env, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise BenchError(f"{command[0]}: {ran.stderr[-2000:].strip()}")
    return ran.stdout


def _parts(cases: Sequence[Case]) -> list[Sequence[Case]]:
    return [cases[at : at + AT_ONCE] for at in range(0, len(cases), AT_ONCE)]


def slower(before: Results, now: Results) -> Iterator[str]:
    """What takes over 3% more cycles, and how much more."""
    for key, one in now.items():
        old = before[key].cycles
        if one.cycles > old * (1 + TOLERANCE):
            yield f"{key}: {old:,} -> {one.cycles:,} cycles, {one.cycles / old - 1:+.1%}"


def _ratios(before: Results, now: Results) -> str:
    """Columns: all cycles, and those of the pass that gained most, relative to before."""
    each = [now[key].cycles / before[key].cycles for key in now]
    total = sum(one.cycles for one in now.values()) / sum(one.cycles for one in before.values())
    return f"{total:.0%} | {min(each):.0%}"


if __name__ == "__main__":
    sys.exit(main())
