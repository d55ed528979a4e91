# SPDX-License-Identifier: Apache-2.0
"""Sizes that a file leaves open (`dynamic_shapes`), replaced by numbers for the requested batch.

The result is the program that `torch.export` writes for an example of this batch size: axis 0 of
each input is the batch, and other open axes are those of the example. Sizes are expressions in
text, as SymPy's `srepr` writes them; guards are Python's comparisons.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from poetfw.common.errors import ModelError, cut

_LONGEST = 1000
"""Most characters of an expression."""
_LARGEST = 2.0**63
_SYMBOL = re.compile(r"Symbol\('(\w{1,40})'")

_Number = int | float
_Numbers = Mapping[str, _Number]
_Extents = Mapping[str, list[_Number | None]]


def with_batch(document: Any, batch: int) -> Any:
    """Replace open sizes in the JSON of a program by numbers.

    Sizes that depend on values of tensors stay open.

    Raises:
        ModelError: The program does not hold for this batch size.
        LookupError: The document is malformed.
        TypeError: The document is malformed.
        ValueError: The document is malformed.
    """
    module = document["graph_module"]
    tensors = module["graph"]["tensor_values"]
    inputs = [
        spec["user_input"]["arg"]["as_tensor"]["name"]
        for spec in module["signature"]["input_specs"]
        if "as_tensor" in spec.get("user_input", {}).get("arg", {})
    ]
    known: dict[str, int] = {}
    example: dict[str, int] = {}
    for at_batch in (True, False):
        for name in inputs:
            for axis, size in enumerate(tensors[name]["sizes"]):
                if "as_expr" in size and (axis == 0) == at_batch:
                    _solve(size["as_expr"], batch if at_batch else None, known, example)
    extents = {name: [_size(size, known) for size in tensors[name]["sizes"]] for name in inputs}
    changed = known != example or any(own and own[0] != batch for own in extents.values())
    if changed:
        extents = {name: [batch, *own[1:]] for name, own in extents.items()}
        _check_guards(document, extents, known, batch)
    return {**document, "graph_module": _closed(module, known, {})}


def _solve(
    expression: Any, wanted: int | None, known: dict[str, int], example: dict[str, int]
) -> None:
    """Determine the one symbol of an input's open size, which is linear in it.

    Args:
        expression: the size.
        wanted: its value; None for that of the example.
        known: symbols with their values.
        example: symbols with their values in the example.

    Raises:
        ModelError: The size cannot have this value.
    """
    text, hint = expression["expr_str"], (expression.get("hint") or {}).get("as_int")
    symbols = set(_SYMBOL.findall(text))
    if len(symbols) != 1 or hint is None:
        return
    (symbol,) = symbols
    zero, one = (evaluate(text, {symbol: at}) for at in (0, 1))
    if zero is None or one is None or zero == one:
        return
    example.setdefault(symbol, int((hint - zero) // (one - zero)))
    value = hint if wanted is None else wanted
    at = int((value - zero) // (one - zero))
    if evaluate(text, {symbol: at}) != value:
        raise ModelError(
            f"the file is of batches of {zero:g} + {one - zero:g}·n samples, not {value}",
            f"export it with an example of {value} samples, without dynamic_shapes",
        )
    known.setdefault(symbol, at)


def _check_guards(document: Any, extents: _Extents, known: Mapping[str, int], batch: int) -> None:
    """Check the conditions under which PyTorch took the program's path through the code.

    There are some only where sizes were left open, or were found not to be open after all. A
    lower bound of 2 is PyTorch's default, which it does not enforce.

    Raises:
        ModelError: One does not hold, or cannot be evaluated.
    """
    broken = []
    for name, bounds in document.get("range_constraints", {}).items():
        low, high = bounds.get("min_val"), bounds.get("max_val")
        value = known.get(name)
        if value is not None and low is not None and value < low > 2:
            broken.append(f"{name} ≥ {low}")
        if value is not None and high is not None and value > high:
            broken.append(f"{name} ≤ {high}")
    guards = document.get("guards_code") or []
    broken += [guard for guard in guards if not evaluate(guard, known, extents)]
    if broken:
        raise ModelError(
            f"the file does not hold for a batch of {batch}: PyTorch exported it for "
            f"{cut(broken[0], 120)!r}",
            f"export it with an example of {batch} samples, without dynamic_shapes",
        )


def _size(size: Any, known: _Numbers) -> _Number | None:
    if "as_expr" in size:
        return evaluate(size["as_expr"]["expr_str"], known)
    number: _Number | None = size.get("as_int")
    return number


def _closed(value: Any, known: _Numbers, named: Mapping[str, _Number]) -> Any:
    """Replace open sizes in a part of the document, which may hold graphs.

    Args:
        value: the part.
        known: symbols with their values.
        named: values of named sizes, of the graphs around it.
    """
    if isinstance(value, list):
        return [_closed(entry, known, named) for entry in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("nodes"), list):
        named = {**named, **_named(value, known)}
        nodes = [node for node in value["nodes"] if not _is_size(node, named)]
        value = {**value, "nodes": nodes}
    if len(value) == 1:
        ((key, inner),) = value.items()
        kind = key.replace("sym_", "")
        if key == "as_expr":
            number = evaluate(inner["expr_str"], known)
            return value if number is None else {"as_int": int(number)}
        if key in ("as_sym_int", "as_sym_float", "as_sym_bool"):
            number = named.get(inner.get("as_name"), inner.get(kind))
            return value if number is None else {kind: number}
        if key in ("as_sym_ints", "as_sym_floats"):
            numbers = [named.get(each.get("as_name"), each.get(kind[:-1])) for each in inner]
            return value if None in numbers else {kind: numbers}
    return {key: _closed(inner, known, named) for key, inner in value.items()}


def _named(graph: Any, known: _Numbers) -> dict[str, _Number]:
    """Values of a graph's named sizes."""
    found = {}
    for table in ("sym_int_values", "sym_float_values"):
        for name, each in graph.get(table, {}).items():
            if "as_expr" in each:
                number = evaluate(each["as_expr"]["expr_str"], known)
                if number is not None:
                    found[name] = float(number) if table == "sym_float_values" else int(number)
    return found


def _is_size(node: Any, named: Mapping[str, _Number]) -> bool:
    """True for a node whose results are known sizes."""
    results = [
        inner.get("as_name") if key.startswith("as_sym") else None
        for output in node["outputs"]
        for key, inner in output.items()
    ]
    return bool(results) and all(name in named for name in results)


# Expressions -----------------------------------------------------------------------------------


class _UnknownError(Exception):
    """Part of an expression that is not understood."""


_NOT_UNDERSTOOD = (
    *(_UnknownError, SyntaxError, ValueError, TypeError, LookupError, ArithmeticError),
    *(RecursionError, MemoryError),
)


def _product(*factors: _Number) -> _Number:
    return math.prod(factors)


def _sum(*terms: _Number) -> _Number:
    return sum(terms)


def _power(base: _Number, exponent: _Number) -> _Number:
    if abs(exponent) > 64:
        raise _UnknownError
    result: _Number = base**exponent
    return result


def _quotient(dividend: _Number, divisor: _Number) -> _Number:
    return dividend / divisor


_FUNCTIONS: Mapping[str, Callable[..., _Number]] = MappingProxyType(
    {
        "Add": _sum,
        "Mul": _product,
        "Pow": _power,
        "FloatPow": _power,
        "PowByNatural": _power,
        "Rational": _quotient,
        "FloorDiv": operator.floordiv,
        "CleanDiv": operator.floordiv,
        "IntTrueDiv": operator.truediv,
        "FloatTrueDiv": operator.truediv,
        "Mod": operator.mod,
        "PythonMod": operator.mod,
        **{"Max": max, "max": max, "Min": min, "min": min},
        "Integer": int,
        "Float": float,
        "ToFloat": float,
        "Abs": abs,
        "CeilToInt": math.ceil,
        "FloorToInt": math.floor,
        "TruncToInt": math.trunc,
        **{
            f"OpaqueUnaryFn_{function.__name__}": function
            for function in (math.sqrt, math.log, math.log2, math.exp)
        },
    }
)
_OPERATORS: Mapping[type[ast.AST], Callable[..., _Number]] = MappingProxyType(
    {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
        ast.Div: operator.truediv,
        ast.FloorDiv: operator.floordiv,
        ast.Mod: operator.mod,
        ast.Pow: _power,
        ast.USub: operator.neg,
        ast.Eq: operator.eq,
        ast.NotEq: operator.ne,
        ast.Lt: operator.lt,
        ast.LtE: operator.le,
        ast.Gt: operator.gt,
        ast.GtE: operator.ge,
    }
)


def evaluate(text: str, known: _Numbers, extents: _Extents | None = None) -> _Number | None:
    """Value of an expression; None if it is not understood or has other symbols.

    Args:
        text: a size as SymPy's `srepr` writes it, or a guard in Python.
        known: symbols with their values.
        extents: shapes of inputs by name, for guards: `L['x'].size()[0]`.
    """
    if not isinstance(text, str) or len(text) > _LONGEST:
        return None
    try:
        return _value(ast.parse(text, mode="eval").body, known, extents or {})
    except _NOT_UNDERSTOOD:
        return None


def _value(node: ast.AST, known: _Numbers, extents: _Extents) -> _Number:
    def of(each: ast.AST) -> _Number:
        return _value(each, known, extents)

    match node:
        case ast.Constant(value=bool() | int() | float() as number):
            result: _Number = number
        case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name))]):
            result = known[name]
        case ast.Call(func=ast.Name(id="Float"), args=[ast.Constant(value=str(digits))]):
            result = float(digits)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            result = _FUNCTIONS[name](*map(of, arguments))
        case ast.Subscript(
            value=ast.Call(
                func=ast.Attribute(
                    value=ast.Subscript(slice=ast.Constant(value=str(name))), attr="size"
                )
            ),
            slice=ast.Constant(value=int(axis)),
        ):
            result = _known(extents[name][axis])
        case ast.BinOp(left=left, op=kind, right=right):
            result = _OPERATORS[type(kind)](of(left), of(right))
        case ast.UnaryOp(op=kind, operand=operand):
            result = _OPERATORS[type(kind)](of(operand))
        case ast.Compare(left=left, ops=[kind], comparators=[right]):
            result = _OPERATORS[type(kind)](of(left), of(right))
        case ast.BoolOp(op=ast.And(), values=values):
            result = all(map(of, values))
        case ast.BoolOp(op=ast.Or(), values=values):
            result = any(map(of, values))
        case _:
            raise _UnknownError
    if not abs(result) < _LARGEST:
        raise _UnknownError
    return result


def _known(extent: _Number | None) -> _Number:
    if extent is None:
        raise _UnknownError
    return extent
