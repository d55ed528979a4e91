# SPDX-License-Identifier: Apache-2.0
"""A hundred networks as people bring them: how many train from their `.pt2` files as in PyTorch."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from workloads.brought import NETWORKS
from workloads.brought.training import STEPS, TOLERANCE, outcomes


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="example: python benchmarks/brought.py triplet --json"
    )
    parser.add_argument("networks", nargs="*", help="names; all without any")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.networks) - set(NETWORKS)):
        parser.error(f"there is no network {unknown[0]!r}: known are {', '.join(NETWORKS)}")
    found = outcomes(arguments.networks or list(NETWORKS))
    if arguments.json:
        print(json.dumps([asdict(each) for each in found], indent=1))
        return 0
    for each in found:
        if each.refused:
            print(f"{each.network}: refused: {each.refused:.400}")
        elif not each.trains:
            print(f"{each.network}: another network, weights differ by {each.difference:.1e}")
    right, refused = sum(e.trains for e in found), sum(bool(e.refused) for e in found)
    print(
        f"{right} of {len(found)} networks train as in PyTorch: weights within {TOLERANCE:g} after "
        f"{STEPS} steps. {refused} are refused, {len(found) - right - refused} differ."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
