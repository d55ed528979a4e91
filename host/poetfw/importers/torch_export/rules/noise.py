# SPDX-License-Identifier: Apache-2.0
"""Rules of operators that draw random numbers: by step, op and element, as dropout does."""

from __future__ import annotations

import math
from typing import Any

from poetfw.importers.refusal import UnsupportedError
from poetfw.importers.torch_export.calls import Call, Value
from poetfw.importers.torch_export.expression import Expression
from poetfw.importers.torch_export.rules.registry import aten


def _uniform(call: Call) -> Expression:
    shape = call.results[0] or (1,)
    return Expression(call, call.net.uniform(call.name, shape))


def _normal(call: Call) -> Expression:
    """Normally distributed numbers, by the method of Box and Muller (1958)."""
    radius = ((1.0 - _uniform(call)).log() * -2.0).sqrt()
    return radius * (_uniform(call) * (2.0 * math.pi)).apply("cos")


@aten("rand.default")
def _rand(call: Call, size: tuple[Any, ...], pin_memory: bool = False) -> str:
    return _uniform(call).tensor


@aten("rand_like.default")
def _rand_like(call: Call, self: Value) -> str:
    return _uniform(call).tensor


@aten("randn.default")
def _randn(call: Call, size: tuple[Any, ...], pin_memory: bool = False) -> str:
    return _normal(call).tensor


@aten("randn_like.default")
def _randn_like(call: Call, self: Value) -> str:
    return _normal(call).tensor


@aten("normal.default")
def _filled(call: Call, self: Value, mean: float = 0.0, std: float = 1.0) -> str:
    """Normally distributed numbers in place of others, as `torch.distributions` draws them."""
    return (_normal(call) * std + mean).tensor


@aten("bernoulli.p")
def _bernoulli(call: Call, self: Value, p: float = 0.5) -> str:
    if not 0 <= p <= 1:
        raise UnsupportedError(f"it draws 1 with the probability {p:g}")
    return (-_uniform(call) + p).above(0.0).tensor
