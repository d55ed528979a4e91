# SPDX-License-Identifier: Apache-2.0
"""No op is given to a kernel that holds less of it in registers or on the stack than it has."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

from poetfw.kernels.tilings import SINK_SUMS
from poetfw.ops.linear import LinearBackwardWeight

KERNELS = Path(__file__).parents[3] / "firmware_templates/kernels"


def constant(file: str, name: str) -> int:
    """What an enumeration of a C file gives to a name."""
    found = re.findall(rf"\b{name} = (\d+)", (KERNELS / file).read_text())
    assert len(found) == 1
    return int(found[0])


def test_all_weights_of_a_small_layer_are_held() -> None:
    most = constant("linear_small.c", "MOST_PRODUCTS")
    given = [
        features * outputs
        for batch, features, outputs in product(range(1, 67), repeat=3)
        if "small" in LinearBackwardWeight().kernel_of((batch, features, outputs), ()).function
    ]
    assert 1 < max(given) <= most


def test_sums_that_go_to_the_sink_together_are_counted_as_such() -> None:
    assert constant("tiles.c", "SUMS") == SINK_SUMS
