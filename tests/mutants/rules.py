# SPDX-License-Identifier: Apache-2.0
"""Small mistakes in Python and C, made by rule."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

_UNUSED = "".join(
    f'_Pragma("GCC diagnostic ignored \\"-Wunused-{what}\\"") '
    for what in ("parameter", "variable", "function", "but-set-variable")
)
"""A C compiler that takes warnings for errors is not to notice what a mistake leaves unused."""


LARGEST = 8
"""Numbers up to this are positions, counts and flags; larger ones also say how long to search."""


@dataclass(frozen=True, order=True)
class Mutant:
    """A mistake: the characters `start` to `end` of a file become `new`."""

    path: str
    line: int
    start: int
    end: int
    old: str
    new: str

    def __str__(self) -> str:
        old, new = (" ".join(text.split())[:60] for text in (self.old, self.new))
        return f"{self.path}:{self.line}: {old} → {new or 'nothing'}"

    def applied(self, text: str) -> str:
        """The text of the file with the mistake in it."""
        return (_UNUSED if self.path.endswith(".c") else "") + (
            text[: self.start] + self.new + text[self.end :]
        )


def mutants(path: str, text: str) -> list[Mutant]:
    """All mistakes that the rules make in a file, without those that leave its text the same."""
    edits = _python(text) if path.endswith(".py") else _c(text)
    return sorted(
        {
            Mutant(path, text.count("\n", 0, start) + 1, start, end, text[start:end], new)
            for start, end, new in edits
            if text[start:end] != new
        }
    )


Edit = tuple[int, int, str]

_SIGNS = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "//"), ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"), ast.Mod: ("%", "//"), ast.And: ("and", "or"), ast.Or: ("or", "and"),
}  # fmt: skip
"""How operators are written, and what is written instead."""

_KEYWORDS_LEFT_OUT = frozenset(
    "strict exist_ok parents check frozen slots timeout help "
    "alpha autolim fontsize linewidth ms zorder".split()
)
"""Arguments that guard against mistakes elsewhere, or that only an eye judges."""

_SYMMETRIC = frozenset(
    "__eq__ __ne__ allclose array_equal bytes_of gcd hypot isclose max maximum min minimum".split()
)
"""Functions to which the order of their arguments makes no difference."""


class _Python(ast.NodeVisitor):
    """Finds edits in code that runs: not in annotations, decorators, messages and f-strings."""

    def __init__(self, text: str) -> None:
        self.edits: list[Edit] = []
        self._text = text
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._lines = text.splitlines()

    def _at(self, line: int, column: int) -> int:
        """The place of a character, whose column is counted in bytes of UTF-8."""
        before = self._lines[line - 1].encode()[:column].decode()
        return self._starts[line - 1] + len(before)

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._at(node.lineno, node.col_offset), self._at(
            node.end_lineno, node.end_col_offset
        )

    def _between(self, left: ast.expr, right: ast.expr, sign: ast.AST) -> None:
        """Exchange an operator between two operands."""
        old, new = _SIGNS.get(type(sign), ("", ""))
        start, end = self._span(left)[1], self._span(right)[0]
        at = self._text.find(old, start, end)
        if old and at >= 0:
            self.edits.append((at, at + len(old), new))

    def _negate(self, test: ast.expr) -> None:
        start, end = self._span(test)
        self.edits.append((start, end, f"(not ({self._text[start:end]}))"))

    def _drop(self, statement: ast.stmt) -> None:
        self.edits.append((*self._span(statement), "pass"))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name not in ("__repr__", "__str__"):
            for child in (*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body):
                self.visit(child)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for child in node.body:
            self.visit(child)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Expr(self, node: ast.Expr) -> None:
        """Leave documentation and calls that write a message alone."""
        arguments = node.value.args[:1] if isinstance(node.value, ast.Call) else [node.value]
        if not any(map(_is_text, arguments)):
            self._drop(node)
            self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not isinstance(node.value, ast.Constant):
            self.edits.append((*self._span(node.value), "None"))
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        """Exchange two arguments of names."""
        first, second = (*node.args[:2], None, None)[:2]
        names = ast.Name | ast.Attribute
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if (
            isinstance(first, names)
            and isinstance(second, names)
            and called not in _SYMMETRIC
            and ast.dump(first) != ast.dump(second)
        ):
            (start, end), (then, last) = self._span(first), self._span(second)
            text = self._text
            self.edits.append((start, last, text[then:last] + text[end:then] + text[start:end]))
        if called == "reshape":  # of NumPy, to which -2 says as much as -1
            node.args = [argument for argument in node.args if not _is_minus_one(argument)]
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._drop(node)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            self._drop(node)
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._drop(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        """Nothing: an assertion that holds changes nothing."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Nothing: Python 3.11 does not know the places inside."""

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg not in _KEYWORDS_LEFT_OUT:
            self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" not in ast.dump(node.test):
            self._negate(node.test)
            self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = (node.left, *node.comparators)
        for left, sign, right in zip(operands, node.ops, node.comparators, strict=False):
            self._between(left, right, sign)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if not any(_is_text(operand) for operand in (node.left, node.right)):
            self._between(node.left, node.right, node.op)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between(left, right, node.op)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if node.value is True or node.value is False:
            self.edits.append((*self._span(node), str(not node.value)))
        elif isinstance(node.value, int) and node.value <= LARGEST:
            self.edits.append((*self._span(node), f"{node.value + 1}"))


def _is_minus_one(node: ast.expr) -> bool:
    return ast.unparse(node) == "-1"


def _is_text(node: ast.expr) -> bool:
    constant = isinstance(node, ast.Constant) and not isinstance(node.value, int | float)
    return constant or isinstance(node, ast.JoinedStr)


def _python(text: str) -> list[Edit]:
    visitor = _Python(text)
    visitor.visit(ast.parse(text))
    return visitor.edits


_C_IGNORED = re.compile(
    r"/\*.*?\*/|//[^\n]*"
    r"|^[^\n]*\(uintptr_t\)[^\n]*"  # an address says how something is calculated, never what
    r"|^[^\n]*__builtin_cpu_supports[^\n]*"  # tests run on one processor
    r'|"(?:\\.|[^"\\])*"'
    r"|'(?:\\.|[^'\\])+'"
    r"|^[ \t]*#(?:\\\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)
_C_OPERATORS = {
    "<=": "<", ">=": ">", "<": "<=", ">": ">=", "==": "!=", "!=": "==", "&&": "||", "||": "&&",
    "+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "&": "|", "|": "&", "<<": ">>", ">>": "<<",
    "+=": "-=", "-=": "+=",
}  # fmt: skip
_C_OPERATOR = re.compile(
    rf"(?<=[\w)\]] )({'|'.join(map(re.escape, sorted(_C_OPERATORS, key=len, reverse=True)))})(?= )"
)
_C_NUMBER = re.compile(r"(?<![\w.])(\d+)(u?)(?![\w.])")
_C_CONDITION = re.compile(r"\b(?:if|while) (\()")
_C_STATEMENT = re.compile(r"(?<=[;{}])\s+((?:\w+\([^;{}]*\)|[\w.\[\]>-]+ [-+*/|&^]?= [^;{}]*);)")


def _c(text: str) -> Iterator[Edit]:
    """Edits in C as clang-format writes it: outside comments, strings and the preprocessor."""
    code = _C_IGNORED.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
    for match in _C_OPERATOR.finditer(code):
        yield (*match.span(1), _C_OPERATORS[match[1]])
    for match in _C_NUMBER.finditer(code):
        if int(match[1]) <= LARGEST:
            is_truth = match[0] == "1" and code.endswith("return ", 0, match.start())
            yield (*match.span(), "0" if is_truth else f"{int(match[1]) + 1}{match[2]}")
    for match in _C_CONDITION.finditer(code):
        end = _closing(code, match.start(1))
        yield match.start(1), end, f"(!{text[match.start(1) : end]})"
    for match in _C_STATEMENT.finditer(code):
        yield (*match.span(1), ";")


def _closing(code: str, at: int) -> int:
    """The place behind the bracket that closes the one at a place."""
    depth = 0
    for i in range(at, len(code)):
        depth += {"(": 1, ")": -1}.get(code[i], 0)
        if depth == 0:
            return i + 1
    return len(code)
