# SPDX-License-Identifier: Apache-2.0
"""Settings of the optimizers and of the learning rate, under PyTorch's names.

The arithmetic of an optimizer is in the file of its name in `poetfw.ops`. Its settings are kept
apart, without NumPy, because the command line creates options from them at each start.
"""

from __future__ import annotations

import math
import struct
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from poetfw.common.errors import ConfigError

if TYPE_CHECKING:
    from poetfw.ir import Attribute

SHAPES = ("constant", "step", "linear", "cosine")
"""Schedules of the learning rate, in the order of the kernel's `enum poet_schedule`."""

LARGEST_COUNT = 2**24
"""Largest number of steps: float32, in which they are counted, has every integer up to it."""


@dataclass(frozen=True, slots=True)
class RateSchedule:
    """Learning rate as a function of the step.

    The rate rises linearly during the first `warm_up` steps; the last of them has the full rate. At
    n steps after that, the factor of the rate is

        constant   1
        step       factor ^ floor(n / period)
        linear     1 - n / period         and 0 from `period` on
        cosine     (1 + cos(π n / period)) / 2, and 0 from `period` on

    as in PyTorch's `StepLR`, `LinearLR` to 0 and, up to its `T_max`, `CosineAnnealingLR`.

    Attributes:
        shape: one of `SHAPES`.
        period: number of steps of a period, 1 or more.
        factor: factor of shape `step`, in [0, 1].
        warm_up: number of steps of the warm-up; 0 for none.

    Raises:
        ConfigError: A setting is outside its range.
    """

    shape: str = "constant"
    period: int = 1
    factor: float = 0.1
    warm_up: int = 0

    @property
    def words(self) -> tuple[str, ...]:
        """Description of the schedule; empty for a constant rate without warm-up."""
        shape = f"{self.shape} over {self.period:,} updates"
        if self.shape == "step":
            shape = f"times {self.factor:g} every {self.period:,} updates"
        warm_up = (f"warm-up of {self.warm_up:,} updates",) if self.warm_up else ()
        return warm_up if self.shape == "constant" else (*warm_up, shape)

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise ConfigError(
                f"{self.shape!r} is not a schedule of the learning rate",
                "use one of: " + ", ".join(SHAPES),
            )
        if not 1 <= self.period <= LARGEST_COUNT:
            raise ConfigError(
                f"the schedule has {self.period} steps: they must be 1 to {LARGEST_COUNT:,}"
            )
        if not 0 <= self.warm_up <= LARGEST_COUNT:
            raise ConfigError(
                f"the warm-up has {self.warm_up} steps: they must be 0 to {LARGEST_COUNT:,}"
            )
        if not 0 <= self.factor <= 1:
            raise ConfigError(f"the schedule's factor is {self.factor}: it must be in [0, 1]")

    @property
    def changes(self) -> bool:
        """True if the learning rate depends on the step."""
        return self.shape != "constant" or self.warm_up > 0

    @staticmethod
    def parse(text: str, warm_up: int = 0) -> RateSchedule:
        """Parse `constant`, `cosine:STEPS`, `linear:STEPS` or `step:STEPS[:FACTOR]`.

        Raises:
            ConfigError: The text has another form, or a number is out of range.
        """
        shape, *numbers = text.split(":")
        counts = {"constant": (0,), "step": (1, 2)}.get(shape, (1,))
        try:
            if len(numbers) not in counts:
                raise ValueError(text)
            period = int(numbers[0]) if numbers else 1
            factor = float(numbers[1]) if len(numbers) > 1 else RateSchedule.factor_default()
        except ValueError:
            raise ConfigError(
                f"{text!r} is not a schedule of the learning rate",
                "use constant, cosine:STEPS, linear:STEPS or step:STEPS:FACTOR",
            ) from None
        return RateSchedule(shape, period, factor, warm_up)

    @staticmethod
    def factor_default() -> float:
        """Default factor of shape `step`, as in PyTorch."""
        return 0.1

    def attributes(self) -> dict[str, Attribute]:
        """Attributes of the op `pace` for this schedule."""
        return {
            "schedule": SHAPES.index(self.shape),
            "period": self.period,
            "factor": self.factor,
            "warm_up": self.warm_up,
        }


@dataclass(frozen=True, slots=True)
class Optimizer(ABC):
    """Settings of an optimizer, with PyTorch's names and, unless noted, its defaults.

    Attributes:
        learning_rate: step size, above 0; with a schedule, the largest one.
        weight_decay: 0 or more.
        clip_norm: largest norm of all gradients together, above 0, to which they are scaled down as
            by `torch.nn.utils.clip_grad_norm_`. None for no limit. As no gradient is applied before
            the norm is known, all of them are kept until then.
        clip_value: largest magnitude of any element of a gradient, above 0, as in
            `torch.nn.utils.clip_grad_value_`. None for no limit.
        schedule: schedule of the learning rate, counted in updates.
        micro_batches: number of training steps per update, each with a batch of its own, of whose
            gradients the mean is applied; if above 1, each parameter keeps the sum of gradients.

    Raises:
        ConfigError: A setting is outside its range.
    """

    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    clip_norm: float | None = field(default=None, kw_only=True)
    clip_value: float | None = field(default=None, kw_only=True)
    schedule: RateSchedule = field(default=RateSchedule(), kw_only=True)
    micro_batches: int = field(default=1, kw_only=True)

    kind: ClassVar[str]
    """Name of the optimizer and of its update op, an `UpdateKind`."""

    def __post_init__(self) -> None:
        check_setting("learning rate", self.learning_rate, above=0)
        check_setting("weight decay", self.weight_decay)
        if self.clip_norm is not None:
            check_setting("norm to clip at", self.clip_norm, above=0)
        if self.clip_value is not None:
            check_setting("value to clip at", self.clip_value, above=0)
            if self.clip_norm is not None:
                raise ConfigError(
                    "gradients cannot be clipped both by norm and by value",
                    "choose one of the two",
                )
        if not 1 <= self.micro_batches <= LARGEST_COUNT:
            raise ConfigError(
                f"a batch is made up of {self.micro_batches} micro-batches: they must be 1 to "
                f"{LARGEST_COUNT:,}"
            )
        if self.micro_batches > 1 and self.clip_norm is not None:
            raise ConfigError(
                "gradients cannot be clipped by their norm over micro-batches: they are added up "
                "one by one, and the norm of their sum is never known before they are applied",
                "clip them by value, or train without micro-batches",
            )
        self.check()

    @abstractmethod
    def check(self) -> None:
        """Check the settings that are specific to this optimizer.

        Raises:
            ConfigError: A setting is outside its range.
        """

    @property
    def betas_of_moments(self) -> tuple[float, ...]:
        """Decay rates of the moments with bias correction; at most two."""
        return ()

    def attributes(self) -> dict[str, Attribute]:
        """Attributes of the update op that are specific to this optimizer."""
        shared = {known.name for known in fields(Optimizer)}
        return {
            known.name: int(value) if isinstance(value, bool) else value
            for known in fields(self)
            if known.name not in shared and (value := getattr(self, known.name)) is not None
        }

    @property
    def summary(self) -> str:
        """Name and settings for reports."""
        said = {"learning rate": self.learning_rate} | self.attributes()
        if self.weight_decay:
            said["weight decay"] = self.weight_decay
        if self.clip_norm is not None:
            said["norm clipped at"] = self.clip_norm
        if self.clip_value is not None:
            said["values clipped at"] = self.clip_value
        if self.micro_batches > 1:
            said["micro-batches"] = self.micro_batches
        words = [f"{name.replace('_', ' ')} {_text(value)}" for name, value in said.items()]
        return f"{self.kind}: {', '.join((*words, *self.schedule.words))}"


_F32 = ", and finite, when rounded to float32"


def _text(value: Attribute) -> str:
    return f"{value:g}" if isinstance(value, int | float) else " ".join(map(str, value))


def check_setting(
    name: str, value: float, *, above: float | None = None, below: float = math.inf
) -> None:
    """Check that a number, rounded to float32, is in [0, below) or (above, below).

    Raises:
        ConfigError: The number is outside the range.
    """
    try:
        (rounded,) = struct.unpack("f", struct.pack("f", value))
    except OverflowError:
        rounded = math.inf
    if rounded < below and (rounded >= 0 if above is None else rounded > above):
        return
    if above is not None:
        wanted = f"above {above:g}"
    else:
        wanted = "0 or more" if below == math.inf else f"in [0, {below:g})"
    raise ConfigError(f"the {name} is {value}: it must be {wanted}{_F32}")


def setting(default: Any, text: str) -> Any:
    """Declare a setting that is specific to an optimizer, with its default and help text."""
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True, slots=True)
class Sgd(Optimizer):
    """Stochastic gradient descent, with the defaults of poetfw's models.

    g = g + weight_decay * w;  v = momentum * v + g;  w = w - learning_rate * v

    Attributes:
        momentum: in [0, 1); at 0 no momentum is kept in RAM.
        nesterov: True if w moves by g + momentum * v instead of v.

    Raises:
        ConfigError: A setting is outside its range.
    """

    kind = "sgd"
    learning_rate: float = 0.05
    momentum: float = setting(0.9, "Momentum, in [0, 1).")
    weight_decay: float = 0.0
    nesterov: bool = setting(False, "Nesterov's momentum, which looks ahead.")

    def check(self) -> None:
        check_setting("momentum", self.momentum, below=1)
        if self.nesterov and self.momentum == 0:
            raise ConfigError("Nesterov's momentum needs a momentum above 0")

    def attributes(self) -> dict[str, Attribute]:
        nesterov: dict[str, Attribute] = {"nesterov": 1} if self.nesterov else {}
        return {"momentum": self.momentum, **nesterov}


@dataclass(frozen=True, slots=True)
class Adam(Optimizer):
    """Adam.

    m = β₁ m + (1 - β₁) g;  v = β₂ v + (1 - β₂) g²
    w = w - learning_rate * (m / (1 - β₁ᵗ)) / (sqrt(v / (1 - β₂ᵗ)) + eps)

    Attributes:
        betas: β₁ and β₂, in [0, 1).
        eps: above 0.

    Raises:
        ConfigError: A setting is outside its range.
    """

    kind = "adam"
    betas: tuple[float, float] = setting((0.9, 0.999), "Decays of both moments, in [0, 1).")
    eps: float = setting(1e-8, "Added to the root that is divided by; above 0.")

    def check(self) -> None:
        for beta in self.betas:
            check_setting("beta", beta, below=1)
        check_setting("eps", self.eps, above=0)

    @property
    def betas_of_moments(self) -> tuple[float, ...]:
        return self.betas

    def attributes(self) -> dict[str, Attribute]:
        return {"beta1": self.betas[0], "beta2": self.betas[1], "eps": self.eps}


@dataclass(frozen=True, slots=True)
class AdamW(Adam):
    """Adam with decoupled weight decay: w = w - learning_rate * weight_decay * w first."""

    kind = "adamw"
    weight_decay: float = 1e-2


@dataclass(frozen=True, slots=True)
class RmsProp(Optimizer):
    """RMSprop.

    q = alpha * q + (1 - alpha) * g²;  s = momentum * s + g / (sqrt(q) + eps)
    w = w - learning_rate * s

    Attributes:
        alpha: in [0, 1).
        eps: above 0.
        momentum: in [0, 1); at 0, s is not kept in RAM.

    Raises:
        ConfigError: A setting is outside its range.
    """

    kind = "rmsprop"
    learning_rate: float = 1e-2
    alpha: float = setting(0.99, "Decay of the mean square, in [0, 1).")
    eps: float = setting(1e-8, "Added to the root that is divided by; above 0.")
    momentum: float = setting(0.0, "Momentum, in [0, 1).")

    def check(self) -> None:
        check_setting("alpha", self.alpha, below=1)
        check_setting("eps", self.eps, above=0)
        check_setting("momentum", self.momentum, below=1)


@dataclass(frozen=True, slots=True)
class Adagrad(Optimizer):
    """Adagrad: q = q + g²;  w = w - learning_rate * g / (sqrt(q) + eps).

    Attributes:
        eps: above 0.

    Raises:
        ConfigError: A setting is outside its range.
    """

    kind = "adagrad"
    learning_rate: float = 1e-2
    eps: float = setting(1e-10, "Added to the root that is divided by; above 0.")

    def check(self) -> None:
        check_setting("eps", self.eps, above=0)


OPTIMIZERS: Mapping[str, type[Optimizer]] = MappingProxyType(
    {settings.kind: settings for settings in (Adagrad, Adam, AdamW, RmsProp, Sgd)}
)
"""Settings of all optimizers, by name."""
