# SPDX-License-Identifier: Apache-2.0
"""Measures cases on the board that is named, with whichever tree is on PYTHONPATH.

Standard input describes them, as JSON; standard output says what each takes.
"""

import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from kernels import measure

from kernel_bench.cases import Call, Case


def tuples(value: object) -> object:
    """What JSON made lists of, as it was."""
    return tuple(map(tuples, value)) if isinstance(value, list) else value


def call_of(fields: dict[str, object]) -> Call:
    """The call that was written as JSON."""
    attributes = fields.pop("attributes")
    assert isinstance(attributes, dict)
    plain = {name: tuples(value) for name, value in attributes.items()}
    return Call(**{name: tuples(value) for name, value in fields.items()}, attributes=plain)


def main() -> None:
    cases = [
        Case(one["name"], one["part"], tuple(map(call_of, one["calls"])), one["work"])
        for one in json.load(sys.stdin)
    ]
    with tempfile.TemporaryDirectory(prefix="poetfw-kernels-") as folder:
        results = measure(sys.argv[1], cases, Path(folder))
    json.dump({key: asdict(one) for key, one in results.items()}, sys.stdout)


if __name__ == "__main__":
    main()
