# SPDX-License-Identifier: Apache-2.0
"""Runs cases: `python -m fuzz --case onnx:17`, or `--format onnx --first 0 --count 100`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

from fuzz.formats import FORMATS
from fuzz.running import Worker


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--case", metavar="FORMAT:SEED", help="replay one case")
    parser.add_argument("--format", choices=tuple(FORMATS))
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=100, help="how many seeds")
    parser.add_argument("--log", type=Path, help="where the case that runs is written down")
    asked = parser.parse_args()
    if asked.case:
        name, _, seed = asked.case.partition(":")
        wanted = [(name, int(seed))]
    else:
        names = [asked.format] if asked.format else list(FORMATS)
        wanted = [(n, asked.first + i) for n in names for i in range(asked.count)]
    codes: Counter[int] = Counter()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        worker = Worker(Path(folder).resolve())
        for name, seed in wanted:
            if asked.log:
                asked.log.write_text(f"{name}:{seed}")
            outcome = worker.run(name, seed)
            codes.update(outcome.codes)
            failed += bool(outcome.complaints)
            for complaint in outcome.complaints:
                print(f"{name}:{seed}: {complaint}", file=sys.stderr)
            if asked.case:
                print(f"{name}:{seed}: exit codes {outcome.codes}")
    print(
        json.dumps({"cases": len(wanted), "failed": failed, "codes": dict(sorted(codes.items()))})
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
