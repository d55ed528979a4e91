# SPDX-License-Identifier: Apache-2.0
"""Numbers in a file that may be the example's batch size.

A file of an example has `x.size(0)` as a number wherever the author calculates with it. With
another batch the number would be wrong, so a number that may be it is an error there.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from poetfw.importers.torch_export import schema
from poetfw.importers.torch_export.file import Weight

_Number = int | float
_FRAME = re.compile(r'File "([^"\n]*)", line (\d+), in [^\n]*\n([^\n]*)')
_MODULE = re.compile(r"[/\\]torch[/\\](nn|_|functional)")
"""Matches files of PyTorch's modules, whose numbers are set before `forward`."""
_SIZE = re.compile(r"\.size\(0\)|\.shape\[0\]|\blen\((?!self\b)|\.(numel|nelement)\(")
"""Matches code that may ask for the batch size."""
_OPERANDS = ("other", "value", "alpha", "min", "max", "fill_value", "weight")
"""Arguments that are operands of arithmetic if they are integers; others are axes or extents."""
_FIXED = ("ord", "p", "eps", "momentum", "dropout_p", "correction", "exponent")
"""Arguments of floating-point type that are no operands."""
_LITERAL = "torch.ops.aten.lift_fresh_copy.default"
"""Operator that a tensor of numbers written in `forward` becomes."""
_COUNTING = ("end", "n")
"""Arguments that say how many rows a table of constants has."""


@dataclass(frozen=True, slots=True)
class _Operand:
    """A number that a node calculates with, and the author's line: file, number and text."""

    number: _Number
    line: tuple[str, str, str]


class BatchNumbers:
    """Numbers of a graph that may be its example's batch size."""

    def __init__(
        self,
        nodes: Sequence[schema.OperatorCall],
        weights: Mapping[str, Weight],
        batch: int,
    ) -> None:
        """Count the numbers of each line."""
        self._batch = batch
        self._constants = {
            name: float(weight.values.reshape(-1)[0])
            for name, weight in weights.items()
            if weight.values.size == 1 and not weight.is_parameter
        }
        self._values = _values(batch)
        self._kinds: dict[tuple[str, str, str], Counter[str]] = {}
        self._counts: Counter[tuple[tuple[str, str, str], str]] = Counter()
        for node in nodes:
            line = _line(node)
            if line is not None:
                self._kinds.setdefault(line, Counter())[node.target] += 1
            for operand in self._operands(node):
                self._counts[operand.line, repr(operand.number)] += 1

    def found(self, node: schema.OperatorCall) -> _Number | None:
        """Number of a node that may come from the batch size; None without one.

        Numbers that the author's line spells out are the author's, unless the line calculates with
        more of the same value, or asks for a size.
        """
        for operand in self._operands(node):
            asks = _SIZE.search(operand.line[2])
            if not self._is_spelled(operand) if asks else self._is_near(operand):
                return operand.number
        return None

    def _is_near(self, operand: _Operand) -> bool:
        near = any(math.isclose(abs(operand.number), value) for value in self._values)
        return near and not self._is_spelled(operand)

    def _is_spelled(self, operand: _Operand) -> bool:
        """True if the line has the number as often as a run of the line calculates with it."""
        literals = Counter(_literals(operand.line[2]))
        runs = min(self._kinds[operand.line].values())
        key = repr(abs(operand.number))
        used = sum(self._counts[operand.line, sign + key] for sign in ("", "-"))
        return literals[key] * runs >= used

    def _operands(self, node: schema.OperatorCall) -> Iterator[_Operand]:
        line = _line(node)
        if line is None:
            return
        if node.target == _LITERAL:
            yield from (
                _Operand(self._constants[n], line) for n in node.reads if n in self._constants
            )
        for each in node.inputs:
            ((key, number),) = list(each.arg.items())[:1] or [("", None)]
            counts = self._batch == 1 and each.name in _COUNTING and not node.reads
            integer = key == "as_int" and (each.name in _OPERANDS or counts)
            if integer or (key == "as_float" and each.name not in _FIXED):
                if isinstance(number, int | float) and math.isfinite(number):
                    yield _Operand(number, line)


def _values(n: int) -> set[float]:
    """Numbers that people calculate from a batch size n, above 0."""
    counts = (n, n * n, n * (n - 1))
    return {value for count in counts if count > 0 for value in (float(count), 1 / count)}


def _line(node: schema.OperatorCall) -> tuple[str, str, str] | None:
    """The line that calls an operator: file, number and text; None for PyTorch's modules."""
    trace: Any = node.metadata.get("stack_trace")
    frames = _FRAME.findall(trace) if isinstance(trace, str) else []
    if not frames:
        return ("", node.target, "")
    file, number, text = frames[-1]
    return None if _MODULE.search(file) else (file, number, text)


def _literals(text: str) -> Iterator[str]:
    """Numbers that a line calculates with, as Python writes them; subscripts are left out."""
    for match in re.finditer(
        r"(?:[-+*/<>=(,%]\s*)(\d[\d_]*(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+)(?![\w\]])"
        r"|(?<![\w.\[])(\d[\d_]*(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+)(?=\s*[-+*/<>%])",
        text,
    ):
        digits = (match[1] or match[2]).replace("_", "")
        yield repr(float(digits)) if re.search(r"[.eE]", digits) else repr(int(digits))
