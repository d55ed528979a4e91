# SPDX-License-Identifier: Apache-2.0
"""Every power cut and every fault of the storage in two epochs of a tiny network: what comes of it.

    python tests/power [--board NAME] [--seeds N] [--depth N] [--case N]

prints two tables, or with --case replays one cut.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[1]))

from network import FAULTS, ORDERS, STEPS_PER_EPOCH, TEARS, harness, project


@click.command()
@click.option("--board", type=click.Choice(["nrf52840", "stm32f405"]), default="nrf52840")
@click.option("--steps", default=2 * STEPS_PER_EPOCH, help="Training steps.")
@click.option("--every", default=1, help="Steps between two checkpoints.")
@click.option("--seeds", default=10, help="Ways of what is left to chance.")
@click.option("--depth", default=1, help="How often the power goes.")
@click.option("--case", type=int, help="Replay this cut.")
def main(board: str, steps: int, every: int, seeds: int, depth: int, case: int | None) -> None:
    """Print what comes of cuts and faults."""
    with harness(board, project(board).image(steps, every)) as tried:
        if case is not None:
            print(tried.cut(case, seeds, depth))
            print(tried.console)
            return
        count = tried.cases(seeds)
        bad, table = tried.cuts(0, count, seeds, depth)
        print(f"{count:,} cuts, at each of {tried.blocks_written} blocks that are written\n")
        print(f"{'the block':16}{'those before it':18}outcomes")
        for tear in TEARS:
            for order in ORDERS:
                found = {c: n for (t, o, c), n in table.items() if (t, o) == (tear, order)}
                print(f"{tear:16}{order:18}{', '.join(f'{n:,} x {c}' for c, n in found.items())}")
        if bad >= 0:
            print(f"\nthe first that is not right: --case {bad} --seeds {seeds} --depth {depth}")
        print(f"\n{tried.calls * len(FAULTS) * 2:,} faults, at each of {tried.calls} calls\n")
        for fault in FAULTS:
            for for_ever in (False, True):
                counts = Counter(tried.fault(i, fault, for_ever) for i in range(tried.calls))
                said = ", ".join(f"{n:,} x {outcome}" for outcome, n in counts.most_common())
                print(f"{fault:24}{'for ever' if for_ever else 'once':10}{said}", flush=True)


if __name__ == "__main__":
    main()
