# SPDX-License-Identifier: Apache-2.0
"""Attributes of the ops that update parameters."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from poetfw.ir import Attribute
from poetfw.optimizers import Optimizer


@dataclass(frozen=True)
class UpdateAttributes:
    """The parts of a training step's updates: the optimizer, and the pace if any."""

    optimizer: Optimizer
    undecayed: Collection[str]
    pace: str | None

    def attributes(self, parameter: str) -> dict[str, Attribute]:
        """The attributes of a parameter's update."""
        optimizer = self.optimizer
        rate: dict[str, Attribute] = {"learning_rate": optimizer.learning_rate}
        attributes = rate if self.pace is None else {"paced": 1}
        attributes |= optimizer.attributes()
        attributes["weight_decay"] = 0.0 if parameter in self.undecayed else optimizer.weight_decay
        if optimizer.clip_value is not None:
            attributes["clip_value"] = optimizer.clip_value
        if optimizer.micro_batches > 1:
            attributes["micro_batches"] = optimizer.micro_batches
        return attributes
