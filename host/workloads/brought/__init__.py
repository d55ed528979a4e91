# SPDX-License-Identifier: Apache-2.0
"""A hundred small networks as people bring them: modules that return their loss, and samples.

Each is written as its tutorial, paper or repository has it, with the operators that people use
there, and without regard to what poetfw has.
"""

from workloads.brought import generative, losses, metrics, series, text, vision  # noqa: F401
from workloads.brought.networks import BATCH, NETWORKS, Brought

__all__ = ["BATCH", "NETWORKS", "Brought"]
