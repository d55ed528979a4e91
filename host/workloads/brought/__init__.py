# SPDX-License-Identifier: Apache-2.0
"""Small networks as people bring them: modules that return their loss, and samples.

Each is written as its tutorial, paper or repository has it, with the operators that people use
there, and without regard to what poetfw has.
"""

from workloads.brought import (  # noqa: F401
    further,
    generative,
    losses,
    metrics,
    penalties,
    series,
    text,
    vision,
    zoo,
)
from workloads.brought.networks import BATCH, NETWORKS, Brought

__all__ = ["BATCH", "NETWORKS", "Brought"]
