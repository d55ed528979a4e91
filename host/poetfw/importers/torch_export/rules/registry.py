# SPDX-License-Identifier: Apache-2.0
"""Registry of rules by ATen operator, and properties of operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pydantic import validate_call

from poetfw.importers.torch_export.calls import CHECKED, Result
from poetfw.importers.torch_export.constants import SIZED
from poetfw.importers.torch_export.file import Weight

Rule = Callable[..., Result | Weight | tuple[Result, ...]]
Ints = tuple[int, ...]
Number = int | float

RULES: dict[str, Rule] = {}
"""Rules of all supported ATen operators, by name and overload."""
VIEWS: set[str] = set()
"""Operators whose result may share storage with their first argument."""
STRETCHING = ("expand.default", "repeat.default")
"""Operators that may add the batch axis to a tensor without one."""
RESHAPING = (
    *("view.default", "reshape.default", "flatten.using_ints", "unflatten.int"),
    *STRETCHING,
    *SIZED,
)
"""Operators whose result has the shape in `Call.results`."""

_SPECTRA = (
    "write the spectrum as F.conv1d with cosines and sines, or calculate it as features of the data"
)
_INSTEAD = (
    ("aten.stft.", _SPECTRA),
    ("aten.fft_", _SPECTRA),
    ("aten.grid_sampler", "move images when the data are made, or resize with F.interpolate"),
    ("aten.max_pool2d_with_indices.", "write nn.Upsample or nn.ConvTranspose2d for MaxUnpool2d"),
    ("aten.max_unpool", "write nn.Upsample or nn.ConvTranspose2d for MaxUnpool2d"),
    (
        "torch.ops.quantized_decomposed.",
        "activations are quantised, which cannot be trained: export the network before "
        "convert_pt2e, and build with --frozen-as int8",
    ),
    (".out", "it writes into a buffer: assign the result to a variable instead"),
)
"""Advice by a part of the operator's name."""

_Rule = TypeVar("_Rule", bound=Rule)


def unknown(target: str) -> str:
    """Reason why an operator without a rule cannot be trained, and what to write instead."""
    advice = next((text for part, text in _INSTEAD if part in target), None)
    return "poetfw has no such operator" if advice is None else advice


def aten(*targets: str, view: bool = False) -> Callable[[_Rule], _Rule]:
    """Decorator that registers a function as the rule of operators.

    Raises:
        ValueError: An operator already has a rule.
    """

    def register(rule: _Rule) -> _Rule:
        checked = validate_call(config=CHECKED)(rule)
        for target in targets:
            if target in RULES:
                raise ValueError(f"{target} has a rule already")
            RULES[target] = checked
            if view:
                VIEWS.add(target)
        return rule

    return register
