# SPDX-License-Identifier: Apache-2.0
"""Memory beside the papers': NNTrainer's cases, OLLA's networks, packings with a perfect answer.

Run it with

    python benchmarks/memory.py [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

import nntrainer
import ordering
import placement
from networks import NETWORKS


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured.

    Attributes:
        networks: of OLLA's set.
        batches: of each.
        network_limit_s: seconds for each search of a network.
        buffers: sizes of the packings.
        seeds: packings of each size.
        packing_limit_s: seconds for each packing.
    """

    networks: Sequence[str]
    batches: Sequence[int]
    network_limit_s: float
    buffers: Sequence[int]
    seeds: Sequence[int]
    packing_limit_s: float


FULL = Extent(tuple(NETWORKS), (1, 32), 45.0, (150, 300, 500), range(2), 60.0)
QUICK = Extent(("alexnet", "vgg", "resnet", "mobilenet"), (1, 32), 5.0, (150,), range(2), 5)


def run(extent: Extent) -> dict[str, object]:
    """Measure and print everything; the same as plain JSON values."""
    begin = time.perf_counter()
    print("NNTrainer, Table 4: theoretical memory of a training step\n")
    cases = nntrainer.run()
    frozen = nntrainer.measure("FC-FC-FC", ("fc2*",))

    print("\n\nOLLA's networks (what each column counts is said below)\n")
    networks = ordering.run(extent.networks, extent.batches, extent.network_limit_s)
    print(f"\n{ordering.COLUMNS}")

    measured = []
    if find_spec("torch") is not None:
        import measured as pytorch

        print("\n\nThe PyTorch column beside PyTorch itself\n")
        measured = pytorch.run(extent.batches)

    print("\n\nPackings cut from a full rectangle, so that a perfect answer exists\n")
    instances = placement.cut_rectangles(extent.buffers, (1_000,), 2**20, extent.seeds)
    packings = placement.run(instances, extent.packing_limit_s)
    seconds = time.perf_counter() - begin
    print(f"\n{seconds:.0f} s in all")
    return {
        "nntrainer": [asdict(case) for case in cases],
        "nntrainer_middle_frozen": asdict(frozen),
        "olla": networks.to_json(),
        "measured": [asdict(row) for row in measured],
        "packings": [asdict(packing) for packing in packings],
        "time_s": seconds,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a part of it, in less than a minute")
    parser.add_argument("--json", type=Path, help="where to write all figures as JSON")
    arguments = parser.parse_args()
    document = run(QUICK if arguments.quick else FULL)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(document, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
