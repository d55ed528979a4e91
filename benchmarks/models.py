# SPDX-License-Identifier: Apache-2.0
"""Ordinary networks, door by door: which train as in PyTorch, are asked about, or are refused."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from workloads.doors import BATCH, DOORS, STEPS, TOLERANCE, ExporterError, Outcome, through
from workloads.ordinary import NETWORKS
from workloads.own_tensors import NETWORKS as OWN_TENSORS

NOT_WRITTEN = "not written"
"""The word for a network that PyTorch's exporter does not write."""


def run(networks: Sequence[str], doors: Sequence[str]) -> list[dict[str, object]]:
    """Try and print every network through every door; the same as plain JSON values."""
    print(
        f"Losses of {STEPS} steps at batch {BATCH}, from the same weights, batches and dropout as "
        f"PyTorch's.\nagrees: to {TOLERANCE:g}. agrees if told: by --train and --freeze what "
        "the file does not say.\nno dropout: the exporter left it out, which nothing in the file "
        "says; so with detach().\nRAM: the least of an nRF52840, stack included. op: the largest "
        "error of an op of the firmware\non its own inputs, as a part of its bound.\n"
    )
    head = f"{'':27}{'ops':>5}{'parameters':>12}{'RAM':>12}{'op':>6}  "
    print(head + "".join(f"{door:24}" for door in doors))
    rows: list[dict[str, object]] = []
    reasons: dict[str, list[str]] = {}
    for network in networks:
        outcomes = {door: _outcome(network, door) for door in doors}
        tried = [each for each in outcomes.values() if isinstance(each, Outcome) and each.ops]
        first = tried[0] if tried else Outcome()
        words = {door: _word(each) for door, each in outcomes.items()}
        op = next((f"{each.op_error:.0%}" for each in tried if each.op_error is not None), "")
        print(f"{network:27}{first.ops:5}{first.parameters:12,}", end="")
        print(f"{first.smallest_ram_bytes:12,}{op:>6}  ", end="")
        print("".join(f"{_cell(each):24}" for each in outcomes.values()), flush=True)
        for door, each in outcomes.items():
            reason = each if isinstance(each, str) else each.refused
            if reason:
                reasons.setdefault(f"{network}, {door}", []).append(reason)
            known = asdict(each) if isinstance(each, Outcome) else {"refused": each}
            rows.append({"network": network, "door": door, "outcome": words[door], **known})
    print()
    for door in doors:
        counts = Counter(str(row["outcome"]) for row in rows if row["door"] == door)
        print(f"{door}: " + ", ".join(f"{count} {word}" for word, count in counts.most_common()))
    print()
    for place, said in reasons.items():
        print(f"{place}: {'; '.join(said):.300}")
    return rows


def _outcome(network: str, door: str) -> Outcome | str:
    with tempfile.TemporaryDirectory() as folder:
        try:
            return through(network, door, Path(folder))
        except ExporterError as error:
            return str(error)


def _word(outcome: Outcome | str) -> str:
    return outcome.word if isinstance(outcome, Outcome) else NOT_WRITTEN


def _cell(outcome: Outcome | str) -> str:
    if not isinstance(outcome, Outcome) or outcome.refused:
        return _word(outcome)
    return f"{outcome.word} {outcome.difference:.0e}"


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: python benchmarks/models.py --doors pt2",
    )
    parser.add_argument("--networks", help="separated by commas; all ordinary ones without")
    parser.add_argument("--own-tensors", action="store_true", help="networks of own_tensors.py")
    parser.add_argument("--doors", default="/".join(DOORS), help="separated by /")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    networks = list(OWN_TENSORS if arguments.own_tensors else NETWORKS)
    if arguments.networks:
        networks = arguments.networks.split(",")
    rows = run(networks, arguments.doors.split("/"))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    return int(any(row["outcome"] == "WRONG" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
