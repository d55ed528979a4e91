# SPDX-License-Identifier: Apache-2.0
"""The optimizer's settings: stochastic gradient descent with momentum, weight decay, clipping."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from poetfw.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Sgd:
    """Stochastic gradient descent, with PyTorch's update rule.

    g = g + weight_decay * w;  v = momentum * v + g;  w = w - learning_rate * v

    Attributes:
        learning_rate: step size, above 0.
        momentum: in [0, 1); at 0 no momentum is kept in RAM.
        weight_decay: L2 penalty, 0 or more.
        clip_norm: largest norm of all gradients together, above 0; where it is exceeded, all are
            scaled down to it first, as `torch.nn.utils.clip_grad_norm_` does. None for no limit.
            No gradient is applied before the norm is known, so all of them are kept until then.

    Raises:
        ConfigError: a setting is outside its range.
    """

    learning_rate: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 0.0
    clip_norm: float | None = None

    def __post_init__(self) -> None:
        if not 0 < _rounded(self.learning_rate) < math.inf:
            raise ConfigError(
                f"the learning rate is {self.learning_rate}: it must be above 0{_F32}"
            )
        if not 0 <= _rounded(self.momentum) < 1:
            raise ConfigError(f"the momentum is {self.momentum}: it must be in [0, 1){_F32}")
        if not 0 <= _rounded(self.weight_decay) < math.inf:
            raise ConfigError(
                f"the weight decay is {self.weight_decay}: it must be 0 or more{_F32}"
            )

        if self.clip_norm is not None and not 0 < _rounded(self.clip_norm) < math.inf:
            raise ConfigError(f"the norm to clip at is {self.clip_norm}: it must be above 0{_F32}")


_F32 = ", and finite, when rounded to float32"


def _rounded(value: float) -> float:
    """The value that the device calculates with."""
    with np.errstate(over="ignore", under="ignore"):
        return float(np.float32(value))
