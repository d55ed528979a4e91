# SPDX-License-Identifier: Apache-2.0
"""Numbers in a file that may be the example's batch size.

A file of an example has `x.size(0)` as a number wherever the author calculates with it. With
another batch the number would be wrong, so a number that may be it is an error there.
"""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from poetfw.importers.torch_export import schema
from poetfw.importers.torch_export.file import Weight

_Number = int | float
_Line = tuple[str, str, str]
_FRAME = re.compile(r'File "([^"\n]*)", line (\d+), in [^\n]*\n([^\n]*)')
_MODULE = re.compile(r"[/\\]torch[/\\](nn|_|functional)")
"""Matches files of PyTorch's modules, whose numbers are set before `forward`."""
_SIZE = re.compile(r"\.size\(0\)|\.shape\[0\]|\blen\((?!self\b)|\.(numel|nelement)\(")
"""Matches code that may ask for the batch size."""
_ATTRIBUTE = re.compile(r"(?:[-+*/(,=]\s*)self(?:\.\w+)+(?![\w.(\[])|self(?:\.\w+)+(?=\s*[-+*/])")
"""Matches attributes of a module that a line calculates with."""
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
    line: _Line


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
            name: weight.values.reshape(-1)[0].item()
            for name, weight in weights.items()
            if weight.values.size == 1 and weight.values.dtype.kind in "if"
            if not weight.is_parameter and np.isfinite(weight.values).all()
        }
        self._kinds: dict[_Line, Counter[str]] = {}
        self._counts: Counter[tuple[_Line, str]] = Counter()
        self._weights: Counter[_Line] = Counter()
        for node in nodes:
            line = _line(node)
            if line is not None:
                self._kinds.setdefault(line, Counter())[node.target] += 1
                self._weights[line] += sum(name in weights for name in node.reads)
            for operand in self._operands(node):
                self._counts[operand.line, repr(operand.number)] += 1

    def found(self, node: schema.OperatorCall) -> _Number | None:
        """Number of a node that may come from the batch size; None without one.

        Numbers that the author's line spells out are the author's, and so are those of a module,
        as `self.scale`, unless the line calculates with more numbers.
        """
        for operand in self._operands(node):
            number = operand.number
            if node.target == _LITERAL and number == int(number):
                number = int(number)
            counts = _SIZE.search(operand.line[2]) or _is_of(number, self._batch)
            if counts and self._unspelled(operand) > 0 and not self._is_of_module(operand.line):
                return operand.number
        return None

    def _unspelled(self, operand: _Operand) -> int:
        """Count of uses of the number that the text does not explain, times runs of the line."""
        literals = Counter(_literals(operand.line[2]))
        key = repr(abs(operand.number))
        used = sum(self._counts[operand.line, sign + key] for sign in ("", "-"))
        return used - literals[key] * self._runs(operand.line)

    def _is_of_module(self, line: _Line) -> bool:
        """True if attributes in the line's text can be all the numbers that it does not spell."""
        numbers = {number.removeprefix("-") for at, number in self._counts if at == line}
        unspelled = (self._unspelled(_Operand(ast.literal_eval(n), line)) for n in numbers)
        attributes = len(_ATTRIBUTE.findall(line[2])) * self._runs(line) - self._weights[line]
        return 0 < sum(max(0, each) for each in unspelled) <= attributes

    def _runs(self, line: _Line) -> int:
        return min(self._kinds[line].values())

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


def _is_of(number: _Number, n: int) -> bool:
    """True for numbers that people calculate from a batch size n: whole ones, or one over them."""
    counts = [count for count in (n, n * n, n * (n - 1)) if count > 0]
    if isinstance(number, int):
        return abs(number) in counts
    return any(math.isclose(abs(number), 1 / count) for count in counts)


def _line(node: schema.OperatorCall) -> _Line | None:
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
