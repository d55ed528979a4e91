# SPDX-License-Identifier: Apache-2.0
"""Instructions of a Cortex-M4F: text, bytes and cycles come from one list.

Cycles are those of Arm's Cortex-M4 TRM r0p1, 3.3 and 7.2.3: a float load or store takes one and one
per register, an integer load two (one right after another integer load or store), a jump that is
taken three, and arithmetic one more where it uses the result of the instruction right before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

TAKEN = 2
"""Further cycles of a conditional jump that is taken."""

FLOATS = 32
"""Float registers."""


class TooManyRegistersError(Exception):
    """A block does not fit in the core's registers, or in the reach of its jumps."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Instructions and cycles of one execution, conditional jumps as not taken."""

    instructions: int = 0
    cycles: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.instructions + other.instructions, self.cycles + other.cycles)

    def __sub__(self, other: Cost) -> Cost:
        return self + other * -1

    def __mul__(self, times: int) -> Cost:
        return Cost(self.instructions * times, self.cycles * times)


@dataclass(frozen=True, slots=True)
class Term:
    """An addition of `source` * `weight` to a float register; `begins` where it is the first."""

    total: int
    source: int
    weight: int
    begins: bool = False


def float_list(first: int, count: int) -> str:
    """Adjacent float registers, as VLDM and VSTM name them."""
    return f"{{s{first}-s{first + count - 1}}}" if count > 1 else f"{{s{first}}}"


class Assembler:
    """A list of instructions, in parts whose costs are kept by name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.parts: dict[str, Cost] = {}
        self.size_bytes = 0
        self._part = "begin"
        self._written: int | None = None  # by the arithmetic instruction right before
        self._integer_access = False  # the instruction right before was one

    def part(self, name: str) -> None:
        """Begin a part; one of a name that exists goes on with it."""
        self._part = name
        self.parts.setdefault(name, Cost())
        self.lines.append(f"/* {name} */")

    def text(self) -> str:
        """Lines of assembly."""
        return "\n".join(self.lines)

    def _append(self, text: str, cycles: int, size: int) -> None:
        name, _, operands = text.partition(" ")
        self.lines.append(f"   {name:7} {operands}".rstrip())
        self.parts[self._part] = self.parts.get(self._part, Cost()) + Cost(1, cycles)
        self.size_bytes += size
        self._written = None
        self._integer_access = False

    def emit(self, text: str, cycles: int = 1) -> None:
        """Append an instruction that is neither arithmetic of floats nor a load."""
        self._append(text, cycles, _size(text))
        self._integer_access = text.startswith("str ")

    def label(self, number: int) -> None:
        """Append a local label."""
        self.lines.append(f"{number}:")
        self._written = None
        self._integer_access = False

    def word(self, text: str) -> None:
        """Append a constant of four bytes."""
        self.lines.append(f"   .word   {text}")
        self.size_bytes += 4

    def align(self) -> None:
        """Begin at a multiple of four bytes."""
        self.lines.append("   .p2align 2")
        self.size_bytes += -self.size_bytes % 4

    def load(self, to: str, place: str) -> None:
        """LDR of an integer register."""
        text = f"ldr {to}, {place}"
        self._append(text, 1 if self._integer_access else 2, _size(text))
        self._integer_access = True

    def load_many(self, pointer: str, registers: Sequence[str]) -> None:
        """LDM of integer registers, in ascending order."""
        text = f"ldm.w {pointer}, {{{', '.join(registers)}}}"
        self._append(text, 1 + len(registers), 4)

    def _arithmetic(self, name: str, to: int, *sources: int) -> None:
        depends = self._written in sources
        operands = ", ".join(f"s{n}" for n in (to, *sources))
        self._append(f"{name}.f32 {operands}", 1 + depends, 4)
        self._written = to

    def multiply(self, to: int, one: int, other: int) -> None:
        """VMUL."""
        self._arithmetic("vmul", to, one, other)

    def add(self, to: int, other: int) -> None:
        """VADD to a register."""
        self._arithmetic("vadd", to, to, other)

    def move(self, to: int, source: int) -> None:
        """VMOV of a float register."""
        if to != source:
            self._arithmetic("vmov", to, source)

    def zero(self, floats: Iterable[int], integer: str) -> None:
        """Set float registers to 0; an integer register becomes 0 too."""
        first = None
        for number in floats:
            if first is None:
                first = number
                self.emit(f"movs {integer}, #0")
                self._append(f"vmov s{first}, {integer}", 2, 4)
            else:
                self.move(number, first)

    def load_floats(self, pointer: str, first: int, count: int, *, advance: bool = False) -> None:
        """VLDM of adjacent floats; `advance` moves the pointer behind them."""
        if count:
            mark = "!" if advance else ""
            self._append(f"vldmia {pointer}{mark}, {float_list(first, count)}", 1 + count, 4)

    def store_floats(self, pointer: str, first: int, count: int, *, advance: bool = False) -> None:
        """VSTM of adjacent floats."""
        if count:
            mark = "!" if advance else ""
            self._append(f"vstmia {pointer}{mark}, {float_list(first, count)}", 1 + count, 4)

    def access_each(self, name: str, pointer: str, first: int, offsets: Iterable[int]) -> None:
        """VLDR or VSTR of single floats; offsets count elements."""
        for i, offset in enumerate(offsets):
            self._append(f"{name} s{first + i}, [{pointer}, #{4 * offset}]", 2, 4)

    def products(self, items: Sequence[Term], spare: Sequence[int]) -> None:
        """Multiply and add; as many products are under way as there are spare registers."""
        count = max(len(spare), 1)
        for first in range(0, len(items), count):
            group = items[first : first + count]
            places = [
                item.total if item.begins else to
                for item, to in zip(group, spare or [0], strict=False)
            ]
            for item, to in zip(group, places, strict=True):
                self.multiply(to, item.source, item.weight)
            for item, to in zip(group, places, strict=True):
                if not item.begins:
                    self.add(item.total, to)

    def total(self, times: Mapping[str, int], taken: int) -> Cost:
        """Cost of a run whose parts are executed so often, with so many conditional jumps taken."""
        cost = sum((self.parts[name] * count for name, count in times.items()), Cost())
        return cost + Cost(0, TAKEN * taken)


_LOW = re.compile(r"r[0-7]$")
_OPERANDS = re.compile(r"\s*,\s*(?![^\[{]*[\]}])")


def _size(text: str) -> int:
    """Bytes of an instruction as GNU's and LLVM's assemblers encode it."""
    name, _, rest = text.partition(" ")
    operands = _OPERANDS.split(rest)
    if (
        name.endswith(".n")
        or re.fullmatch("it[te]*", name)
        or (name in ("bx", "mov") and "#" not in rest)
    ):
        return 2
    if name.endswith(".w") or name.startswith("v") or name == "msr":
        return 4
    low = [bool(_LOW.match(one)) for one in operands]
    number = int(rest.rsplit("#", 1)[1].rstrip("]"), 0) if "#" in rest else None
    if name in ("ldr", "str", "ldreq", "ldrne", "streq"):
        base = operands[1].strip("[]").split(",")[0]
        if not low[0] or "lsl" in rest:
            return 4
        if base == "sp":
            return 2
        return 2 if _LOW.match(base) and (number or 0) <= 124 else 4
    if name in ("movs", "cmp"):
        return 2 if low[0] and number is not None and number < 256 else 4
    if name in ("adds", "subs"):
        return 2 if all(low[:2]) and number is not None and number < 8 else 4
    if name == "add" and number is None:
        return 2 if operands[0] == operands[1] else 4
    if name in ("add", "sub") and operands[0] == "sp" and number is not None:
        return 2 if number <= 508 else 4
    return 4
