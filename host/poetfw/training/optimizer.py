"""The optimizer's settings: stochastic gradient descent with momentum and weight decay."""

from __future__ import annotations

import math
from dataclasses import dataclass

from poetfw.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Sgd:
    """Stochastic gradient descent, with PyTorch's update rule.

    g = g + weight_decay * w;  v = momentum * v + g;  w = w - learning_rate * v

    Attributes:
        learning_rate: step size, above 0.
        momentum: in [0, 1); at 0 no momentum is kept in RAM.
        weight_decay: L2 penalty, 0 or more.

    Raises:
        ConfigError: a setting is outside its range.
    """

    learning_rate: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise ConfigError(f"the learning rate is {self.learning_rate}: it must be above 0")
        if not 0 <= self.momentum < 1:
            raise ConfigError(f"the momentum is {self.momentum}: it must be in [0, 1)")
        if not (math.isfinite(self.weight_decay) and self.weight_decay >= 0):
            raise ConfigError(f"the weight decay is {self.weight_decay}: it must be 0 or more")
