# SPDX-License-Identifier: Apache-2.0
"""A trained network moved to rotated digits: what is gained by training a part of it.

The network is trained on the digits, and then goes on with the same digits turned by some degrees,
whole and in parts, each from the same weights and with the same batches. Everything runs on this
computer, by the reference in float32.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from poetfw.common.limits import Work
from poetfw.models import build_model
from poetfw.training import select
from workloads import tables
from workloads.rotated_digits import Outcome, outcomes, updates_of

COLUMNS = """\
Means over the seeds, and the least in brackets.

    bytes      of training at the peak, of what training everything takes
    energy     joules of a training step, of what training everything takes
    gain       of accuracy on the turned digits, of what training everything gains
"""


@dataclass(frozen=True)
class Case:
    """A network and what of it is trained, beside everything and the plan.

    Attributes:
        model, batch: a built-in model that the digits fit, and the samples in a batch.
        seeds: how many, of the first weights and of the order of samples.
        ways: what `--train` takes, patterns joined by `+`.
    """

    model: str
    batch: int
    seeds: int
    variants: tuple[str, ...]


CASES = (
    Case("digits-cnn", 32, 5, ("last:1", "last:3", "last:4", "bias", "bias+norm")),
    Case("lenet5", 8, 3, ("last:2", "last:3", "bias")),
    Case("mlp", 32, 5, ("last:1", "last:2", "bias")),
)
BY_NAME = {case.model: case for case in CASES}


def measured(case: Case, degrees: float = 90.0, share: float = 0.5) -> dict[str, Any]:
    """The outcome of each way with each seed, as plain JSON values."""
    rows: list[Outcome] = []
    for seed in range(case.seeds):
        rows += outcomes(case.model, case.batch, degrees, share, seed, case.variants)
        print(f"{case.model}: seed {seed} done", file=sys.stderr)
    return {**asdict(case), "rows": [asdict(row) for row in rows]}


def shares(network: Mapping[str, Any]) -> list[tuple[list[float], list[float]]]:
    """Of each pattern of a measured network, recorded shares of bytes and joules, and new ones."""
    model = build_model(network["model"], network["batch"])
    updates = updates_of(model)
    full = updates.measure(updates.everything(), Work())
    found = []
    for way in network["ways"]:
        row = next(row for row in network["rows"] if row["way"] == way)
        needs = updates.measure(select(model.graph, way.split("+")), Work())
        now = [needs.size_bytes / full.size_bytes, needs.energy_j / full.energy_j]
        found.append(([row["bytes_share"], row["energy_share"]], now))
    return found


def main() -> None:
    """Measure; print a table for each network."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="example: python benchmarks/sparse_updates.py mlp --degrees 45"
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BY_NAME)}; or all")
    parser.add_argument("--degrees", type=float, default=90)
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    unknown = sorted(set(given.names) - set(BY_NAME))
    if unknown:
        parser.error(f"there is no network {unknown[0]!r}: known are {', '.join(BY_NAME)}")
    networks = [
        measured(BY_NAME[name], given.degrees, given.share) for name in given.names or BY_NAME
    ]
    print(f"{COLUMNS}\nDigits turned by {given.degrees:g} degrees:\n")
    print("\n".join(tables.sparse({"networks": networks})))
    if given.json is not None:
        given.json.write_text(json.dumps(networks, indent=2))


if __name__ == "__main__":
    main()
