# SPDX-License-Identifier: Apache-2.0
"""Memory beside the papers': NNTrainer's cases, OLLA's networks, packings with a perfect answer."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from workloads import nntrainer, olla, packings, tables
from workloads.networks import NETWORKS


@dataclass(frozen=True, slots=True)
class Extent:
    """Extent of the measurements.

    Attributes:
        networks: of OLLA's set.
        batches: of each.
        network_limit: units of work for each search of a network.
        buffers, durations, seeds: of packings, one for each combination.
        packing_limit: units of work for each packing.
    """

    networks: Sequence[str] = tuple(NETWORKS)
    batches: Sequence[int] = (1, 32)
    network_limit: float = 45.0
    buffers: Sequence[int] = (150, 300, 500)
    durations: Sequence[int] = (1_000,)
    seeds: Sequence[int] = range(2)
    packing_limit: float = 60.0


FULL = Extent()
QUICK = Extent(
    networks=("alexnet", "vgg", "resnet", "mobilenet"),
    network_limit=5.0,
    buffers=(150,),
    packing_limit=5.0,
)


def run(extent: Extent) -> dict[str, object]:
    """Measure everything, as plain JSON values; say on standard error how far it is."""
    begin = time.perf_counter()
    rows = []
    for batch in extent.batches:
        for network in extent.networks:
            print(f"{network}, batch {batch}", file=sys.stderr)
            rows.append(olla.measure(network, batch, extent.network_limit))
    measured = []
    if find_spec("torch") is not None:
        from workloads.networks import live_bytes
        from workloads.networks.in_pytorch import MODULES

        measured = [live_bytes.measure(name, n) for n in extent.batches for name in MODULES]
    instances = packings.cut_rectangles(extent.buffers, extent.durations, 2**20, extent.seeds)
    packed = [packings.solve(instance, extent.packing_limit) for instance in instances]
    return {
        "nntrainer": [asdict(nntrainer.measure(case)) for case in nntrainer.TABLE_4],
        "nntrainer_middle_frozen": asdict(nntrainer.measure("FC-FC-FC", ("fc2*",))),
        "olla": olla.Report.of(rows).to_json(),
        "measured": [asdict(row) for row in measured],
        "packings": [asdict(packing) for packing in packed],
        "time_s": time.perf_counter() - begin,
    }


def shown(document: tables.Data, batches: Sequence[int]) -> Iterator[str]:
    """The lines of all tables."""
    yield "NNTrainer, Table 4: theoretical memory of a training step\n"
    yield from tables.nntrainer(document)
    for batch in batches:
        yield f"\nOLLA's networks at batch {batch} (docs/memory-figures.md has the columns)\n"
        yield from tables.olla(document, batch)
    yield ""
    yield from tables.olla_means(document)
    if document["measured"]:
        yield "\nThe PyTorch column beside PyTorch itself\n"
        yield from tables.measured(document)
    yield "\nPackings cut from a full rectangle, so that a perfect answer exists\n"
    yield from tables.packings(document)
    yield f"\n{document['time_s']:.0f} s in all"


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="example: python benchmarks/memory.py --networks vgg",
    )
    parser.add_argument("--quick", action="store_true", help="a part of it, in less than a minute")
    parser.add_argument(
        "--networks", nargs="+", choices=list(NETWORKS), metavar="NAME", help=", ".join(NETWORKS)
    )
    parser.add_argument("--batches", nargs="+", type=int, metavar="N", help="of each (1 and 32)")
    parser.add_argument("--json", type=Path, help="where to write all figures as JSON")
    arguments = parser.parse_args()
    extent = QUICK if arguments.quick else FULL
    extent = replace(extent, networks=arguments.networks or extent.networks)
    extent = replace(extent, batches=arguments.batches or extent.batches)
    document = run(extent)
    print("\n".join(shown(document, extent.batches)))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(document, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
