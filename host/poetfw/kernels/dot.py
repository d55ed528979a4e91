# SPDX-License-Identifier: Apache-2.0
"""Inner block whose results are sums along rows: dW of convolutions, and products of matrices.

    for samples, rows:
        sums = 0
        for groups of J columns:  A x V x B sums += source[column + tap] * weight[column]
        totals += sums

For dW the source is x, and the "weight" dy; for a dense layer these are w and x.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from poetfw.kernels.assembler import FLOATS, Assembler, Cost, Term
from poetfw.kernels.comments import nested, source_text
from poetfw.kernels.inner_block import LARGEST_BYTES, InnerBlock
from poetfw.kernels.stencil_shape import MOST_PRODUCTS
from poetfw.kernels.tables import (
    BIAS,
    FARTHEST,
    RUN_NEXT,
    WORD,
    DotWords,
    TileRun,
    place_of,
)

MOST_POINTERS = 8
PUT_AT = "[sp, #12]"
"""The place of the pointer to results."""


def _at(field: str) -> str:
    return place_of(DotWords, field)


@dataclass(frozen=True)
class Dot(InnerBlock):
    """Description of a block of sums along rows.

    Attributes:
        sources: A, rows of the source, of which each has `taps` sums with each row of weights.
        weights: B, rows of weights.
        taps: V.
        group: J, columns at a time.
        stride: columns of the source from a column of weights to the next.
        dilation: columns of the source from tap to tap.
        padding: columns that the head, or the whole row, meets before the source.
        right: columns that the tail, or the whole row, meets behind the source.
        head: columns of weights before the groups, which meet all padding on the left.
        tail: columns of weights behind the groups, which meet all padding on the right.
        whole: one group is the row.
        chunk: columns of it that are loaded at a time, of one tap without padding; 0 for all.
        one_row: there is one row of one sample; otherwise totals stay in registers beside sums.
        steps: columns of the source lie between rows. Rows of weights are always adjacent.
        adjacent: results of all sources with a row of weights are adjacent.
        short: the last row has fewer groups.
        bias: each source has a number that is added to its results.
        through: the block goes through all sources, A at a time, of which each is one group.
        continued: totals begin with what is in the results.
    """

    sources: int
    weights: int
    taps: int
    group: int
    stride: int = 1
    dilation: int = 1
    padding: int = 0
    right: int = 0
    head: int = 0
    tail: int = 0
    whole: bool = False
    chunk: int = 0
    one_row: bool = False
    steps: bool = True
    adjacent: bool = False
    short: bool = False
    bias: bool = False
    through: bool = False
    continued: bool = field(default=False, repr=False)

    @cached_property
    def name(self) -> str:
        """Identifier of the function."""
        digest = zlib.crc32(repr(self).encode())
        sizes = f"{self.sources}x{self.weights}x{self.taps}"
        return f"poet_tile_sums_{sizes}_{digest:08x}" + "_continued" * self.continued

    @property
    def sums(self) -> int:
        """A x V x B."""
        return self.sources * self.weights * self.taps

    @cached_property
    def gathers(self) -> bool:
        """True for one tap, stride > 1, no padding: only columns that are met are loaded."""
        return self.taps == 1 and self.stride > 1 and not self.padding and not self.right

    @cached_property
    def step(self) -> int:
        """Columns of a segment from a column of weights to the next."""
        return 1 if self.gathers else self.stride

    def segment(self, columns: int) -> int:
        """Columns of the source, padding too, that so many columns of weights meet."""
        return (columns - 1) * self.step + (self.taps - 1) * self.dilation + 1

    @cached_property
    def kept(self) -> int:
        """Columns of a group's segment that the next one meets again."""
        return 0 if self.whole else max(0, self.segment(self.group) - self.group * self.step)

    @cached_property
    def fresh(self) -> int:
        """Columns of the source that a group loads."""
        if self.whole:
            return self.chunk or self._row
        return self.segment(self.group) - self.kept

    @property
    def _row(self) -> int:
        """Columns of the source that a whole row meets."""
        return self.segment(self.group) - self.padding - self.right

    @property
    def head_source(self) -> int:
        """Columns of the source that the head meets."""
        return self.segment(self.head) - self.padding

    @property
    def by_weights(self) -> bool:
        """True where columns of one row of weights are loaded at a time."""
        return self.sources == 1 and self.taps > 1

    @cached_property
    def sum(self) -> int:
        """First register of sums; one of zeros is before."""
        return FLOATS - self.sums * (1 if self.one_row else 2)

    @property
    def free(self) -> int:
        """Registers below those of sums and of zero."""
        return self.sum if self.whole else self.sum - 1

    @cached_property
    def _weight(self) -> int:
        return self.sources * self.kept + self.fresh

    @cached_property
    def _needed(self) -> int:
        rows = 1 if self.by_weights else self.weights
        found = self._weight + rows * (self.chunk or self.group)
        found = max(found, self._weight + rows * self.tail)
        if self.head:
            found = max(found, self.head_source + rows * self.head)
        return found

    @property
    def fits(self) -> bool:
        """True where registers suffice, and groups are as they must be."""
        return (
            self._needed < self.free
            and self.sources + self.weights <= MOST_POINTERS
            and self.fresh >= self.whole
            and not (self.head and self.sources > 1)
            and not (self.bias and self.sums + self.sources > FLOATS)
            and not (self.continued and self.one_row and 2 * self.sums > FLOATS)
            and not (self.through and not (self.one_row and self.whole and self.taps == 1))
            and not (self.gathers and self.group * self.stride > FARTHEST)
            and not (self.chunk and (self.taps > 1 or self.padding or self.right))
            and self.sums * (self.group + self.head + self.tail) <= LARGEST_BYTES // 8
        )

    @property
    def estimate(self) -> tuple[float, int, int]:
        """Cycles of a group, of a row besides, and of a call besides, roughly."""
        spare = min(MOST_PRODUCTS, self.free - self._needed)

        def of(columns: int, loaded: int) -> float:
            products = self.sums * columns
            stalls = 2 * products / spare if spare < 2 else 0.0
            stalls += products * (self.weights * self.taps == 1)  # each addition waits for another
            loads = self.sources * (loaded * (1 + self.gathers) + 1) + self.weights * (columns + 1)
            return 2 * products + stalls + loads

        group = of(self.group, self.fresh) + (0 if self.whole else 4 + self.sources * self.kept)
        row = self.sums + 4
        row += 0 if self.whole else self.sums + 2 + 2 * self.sources * self.kept
        if self.head:
            row += round(of(self.head, self.head_source)) + 2
        if self.tail:
            row += round(of(self.tail, self.segment(self.tail) - self.kept))
        row += 0 if self.one_row else 4 + (2 + self.sources if self.steps else 0)
        return group, row, 60 + 5 * self.sums

    def travel(self, groups: int) -> int:
        """Elements of the source from a row's beginning to where it has been gone through."""
        if self.whole:
            return 0 if self.gathers else self._row
        if self.gathers:
            return (groups * self.group + self.tail) * self.stride
        source = self.head * self.stride - self.padding
        source += self.kept + groups * self.group * self.stride
        if self.tail:
            source += max(0, self.segment(self.tail) - self.kept - self.right)
        return source

    def _emit_products(
        self,
        code: Assembler,
        columns: int,
        weight: int,
        place: Callable[[int, int], int | None],
        loads: Callable[[int], None],
        begun: set[int] | None,
    ) -> None:
        """Sums of some columns; `place` is the register of a source's column, `loads` loads one."""
        pointers = [f"r{1 + self.sources + b}" for b in range(self.weights)]
        spare = range(self._needed, self.free)[:MOST_PRODUCTS]
        if not self.by_weights:
            for b, pointer in enumerate(pointers):
                code.load_floats(pointer, weight + b * columns, columns, advance=True)
        for source in range(self.sources):
            loads(source)
            turns = (
                [[b] for b in range(self.weights)] if self.by_weights else [[*range(self.weights)]]
            )
            for turn in turns:
                if self.by_weights:
                    code.load_floats(pointers[turn[0]], weight, columns, advance=True)
                items = []
                for column in range(columns):
                    for b in turn:
                        for tap in range(self.taps):
                            at = place(source, column * self.step + tap * self.dilation)
                            if at is None:
                                continue
                            to = self.sum + (b * self.sources + source) * self.taps + tap
                            begins = begun is not None and to not in begun
                            if begun is not None:
                                begun.add(to)
                            first = weight + (0 if self.by_weights else b * columns)
                            items.append(Term(to, at, first + column, begins))
                code.products(items, spare)

    def _emit_head(self, code: Assembler) -> None:
        def place(_: int, at: int) -> int | None:
            return at - self.padding if at >= self.padding else None

        def load(_: int) -> None:
            code.load_floats("r1", 0, self.head_source, advance=True)

        self._emit_products(code, self.head, self.head_source, place, load, None)
        step = self.head * self.stride - self.segment(self.head)
        if step:
            code.emit(f"{'add' if step > 0 else 'sub'}.w r1, r1, #{4 * abs(step)}")

    def _emit_whole(self, code: Assembler) -> None:
        begun: set[int] = set()
        for first in range(0, self.group, self.chunk or self.group):
            columns = min(self.chunk, self.group - first) or self.group
            self._emit_columns(code, first, columns, begun)
        code.zero([to for to in range(self.sum, self.sum + self.sums) if to not in begun], "r9")

    def _emit_columns(self, code: Assembler, first: int, columns: int, begun: set[int]) -> None:
        """Sums of some columns of a whole row."""
        count = columns if self.chunk else self.fresh

        def place(_: int, at: int) -> int | None:
            return at - self.padding if 0 <= at - self.padding < count else None

        def load(source: int) -> None:
            if self.gathers:
                offsets = range(first * self.stride, (first + count) * self.stride, self.stride)
                code.access_each("vldr", f"r{1 + source}", 0, offsets)
            else:
                code.load_floats(f"r{1 + source}", 0, count, advance=True)

        self._emit_products(code, columns, self.fresh, place, load, begun)

    def _load(self, code: Assembler, pointer: str, first: int, count: int) -> None:
        """Columns of the source, and the pointer behind them."""
        if self.gathers:
            code.access_each("vldr", pointer, first, range(0, count * self.stride, self.stride))
            code.emit(f"add.w {pointer}, {pointer}, #{WORD * count * self.stride}")
        else:
            code.load_floats(pointer, first, count, advance=True)

    def _emit_group(self, code: Assembler) -> None:
        base = self.sources * self.kept

        def place(source: int, at: int) -> int:
            return source * self.kept + at if at < self.kept else base + at - self.kept

        def load(source: int) -> None:
            pointer = f"r{1 + source}"
            self._load(code, pointer, base, self.fresh)
            ahead = self.group * self.step - self.fresh
            if ahead > 0:
                code.emit(f"add.w {pointer}, {pointer}, #{4 * ahead}")

        if self.short:
            code.emit("cmp.w r10, #1")
            code.emit("it eq")
            code.emit(f"ldreq.w r9, {_at('last_groups')}", 2)
            code.emit("cmp.w r9, #0")
            code.emit("beq.w 4f")
            code.part("group")
        code.label(3)
        self._emit_products(code, self.group, self._weight, place, load, None)
        for source in range(self.sources):
            for at in range(self.kept):
                code.move(place(source, at), place(source, at + self.group * self.step))
        code.emit("subs.w r9, r9, #1")
        code.emit("bne.w 3b")
        if self.short:
            code.label(4)

    def _emit_tail(self, code: Assembler) -> None:
        base = self.sources * self.kept
        length = self.segment(self.tail) - self.right

        def place(source: int, at: int) -> int | None:
            if at >= length:
                return None
            return source * self.kept + at if at < self.kept else base + at - self.kept

        def load(source: int) -> None:
            self._load(code, f"r{1 + source}", base, max(0, length - self.kept))

        self._emit_products(code, self.tail, self._weight, place, load, None)

    def _emit_begin(self, code: Assembler) -> None:
        """Pointers to all rows, and totals."""
        code.part("run")
        code.emit("str lr, [sp, #16]")
        code.emit(f"str r3, {PUT_AT}")
        if not self.one_row:
            code.emit(f"add.w r5, r4, #{RUN_NEXT}")
            code.load_many("r5", ("r5", "r6", "r7"))
            code.emit("stm.w sp, {r5, r6, r7}", 4)
        if self.through:
            code.load("lr", _at("samples"))
            if self.bias:
                code.load("r10", BIAS)
                code.emit("str r10, [sp, #8]")
        first = 1 + self.sources
        if self.sources > 1:
            code.emit(f"mov r{first}, r2")
            code.load("r9", _at("source_other"))
            for i in range(1, self.sources):
                code.emit(f"add r{1 + i}, r{i}, r9")
        if self.weights > 1:
            code.load("r9", _at("weight_other"))
            for i in range(1, self.weights):
                code.emit(f"add r{first + i}, r{first + i - 1}, r9")
        if self.continued and not self.one_row:
            code.load("r9", PUT_AT)
            self._each_result(code, code.load_floats, FLOATS - self.sums)
        elif not self.one_row:
            code.zero(range(FLOATS - self.sums, FLOATS), "r9")
        if not self.whole:
            code.zero([self.sum - 1], "r9")
        if not self.one_row:
            code.load("r12", _at("samples"))

    def _emit_put(self, code: Assembler) -> None:
        """Totals to where they belong."""
        base = FLOATS - self.sums
        code.load("r9", PUT_AT)
        if self.bias:
            code.load("r10", "[sp, #8]" if self.through else BIAS)
            code.load_floats("r10", 0, self.sources)
            for i in range(self.sums):
                code.add(base + i, i % self.sources)
        self._each_result(code, code.store_floats, base)

    def _each_result(
        self, code: Assembler, access: Callable[[str, int, int], None], base: int
    ) -> None:
        """Load or store all results, from r9 on."""
        one_by_one = self.sources > 1 and not self.adjacent
        if one_by_one:
            code.load("r10", _at("put_source"))
        if self.weights > 1:
            code.load("r11", _at("put_weight"))
        for weight in range(self.weights):
            at = base + weight * self.sources * self.taps
            last = weight == self.weights - 1
            if one_by_one:
                if not last:
                    code.emit("mov r12, r9")
                for source in range(self.sources):
                    access("r9", at + source * self.taps, self.taps)
                    if source < self.sources - 1:
                        code.emit("add r9, r9, r10")
                if not last:
                    code.emit("add.w r9, r12, r11")
            else:
                access("r9", at, self.sources * self.taps)
                if not last:
                    code.emit("add r9, r9, r11")

    def _emit_row(self, code: Assembler) -> None:
        code.part("row")
        code.label(2)
        if not self.whole:
            zero = self.sum - 1
            for i in range(self.sums):
                code.move(self.sum + i, zero)
            if self.head:
                self._emit_head(code)
            for source in range(self.sources):
                code.load_floats(f"r{1 + source}", source * self.kept, self.kept, advance=True)
            code.load("r9", _at("groups"))
        code.part("shorten" if self.short else "group")
        if self.whole:
            self._emit_whole(code)
        else:
            self._emit_group(code)
        code.part("row end")
        if self.tail:
            self._emit_tail(code)

    def _emit_totals(self, code: Assembler) -> None:
        if self.one_row and self.continued:
            code.load("r9", PUT_AT)
            self._each_result(code, code.load_floats, 0)
        elif self.one_row:
            code.zero([0], "r9")
        for i in range(self.sums):
            if self.one_row:
                code.add(self.sum + i, i if self.continued else 0)
            else:
                code.add(self.sum + self.sums + i, self.sum + i)

    def _emit_through(self, code: Assembler) -> None:
        """The next sources, with the same weights."""
        code.part("through")
        for source in range(self.sources if self.sources > 1 else 0):
            code.emit(
                f"add.w r{1 + source}, r{1 + source}, #{WORD * (self.sources - 1) * self.group}"
            )
        for weight in range(1 + self.sources, 1 + self.sources + self.weights):
            code.emit(f"sub.w r{weight}, r{weight}, #{WORD * self.group}")
        for place in ("[sp, #12]", "[sp, #8]")[: 1 + self.bias]:
            code.load("r9", place)
            code.emit(f"add.w r9, r9, #{WORD * self.sources}")
            code.emit(f"str r9, {place}")
        code.emit("b.w 1b", 3)

    def _emit_steps(self, code: Assembler, place: str, first: int, count: int) -> None:
        """Pointers to the next row or sample."""
        code.load("r9", place)
        for i in range(count):
            code.emit(f"add r{first + i}, r{first + i}, r9")

    def _emit(self, code: Assembler) -> None:
        self._emit_begin(code)
        code.part("sample")
        if self.through:
            code.label(1)
        if not self.one_row:
            code.label(1)
            code.load("r10", "[sp]")
        self._emit_row(code)
        self._emit_totals(code)
        if not self.one_row:
            first_weight = 1 + self.sources
            if self.steps:
                self._emit_steps(code, _at("source_row"), 1, self.sources)
            code.emit("subs.w r10, r10, #1")
            code.emit("bne.w 2b")
            code.part("sample end")
            self._emit_steps(code, "[sp, #4]", 1, self.sources)
            self._emit_steps(code, "[sp, #8]", first_weight, self.weights)
            code.emit("subs.w r12, r12, #1")
            code.emit("bne.w 1b")
        code.part("put")
        self._emit_put(code)
        if self.through:
            code.emit("subs.w lr, lr, #1")
            code.emit("beq.w 2f")
            self._emit_through(code)
            code.label(2)
        code.part("return")
        code.emit("ldr.w pc, [sp, #16]", 2)

    def cost(self, runs: Sequence[TileRun], words: DotWords) -> Cost:
        """Instructions and cycles of all runs of a call."""
        total = Cost()
        groups = 1 if self.whole else words.groups
        samples = words.samples if self.through or not self.one_row else 1
        for run in runs:
            rows = samples * (1 if self.one_row else run.rows)
            times = {"run": 1, "sample": samples, "row": rows, "group": rows * groups}
            times |= {"row end": rows, "put": 1, "return": 1}
            if self.through:
                times |= {"put": samples, "through": samples - 1}
            taken = rows * (groups - 1)
            if self.short:
                times |= {"shorten": rows, "group": (rows - 1) * groups + words.last_groups}
                taken += words.last_groups - groups
                taken += 2 if not words.last_groups else 0
            taken += self.through
            if not self.one_row:
                times["sample end"] = samples
                taken += rows - samples + samples - 1
            total += self.code.total(times, taken)
        return total

    def text(self) -> str:
        """The function in assembly, for a file that includes assembly.h."""
        first = 1 + self.sources
        registers = {
            f"s0-s{self._weight - 1}": "columns of the source; those first that are met again",
            f"s{self._weight}-s{self._needed - 1}": "columns of weights",
            f"s{self._needed}-s{self.free - 1}": "products",
            f"s{self.sum - 1}": "" if self.whole else "0",
            f"s{self.sum}-s{self.sum + self.sums - 1}": "sums [b][a][v]",
            f"s{self.sum + self.sums}-s31": "" if self.one_row else "totals",
            "r0": "constants",
            f"r1-r{self.sources}": "rows of the source",
            f"r{first}-r{first + self.weights - 1}": "rows of weights",
            "r9": "groups to come, and scratch",
            "r10": "rows to come",
            "r12": "samples to come",
            "[sp]": "rows, and behind it bytes to the next sample, result",
        }
        place = f"{self.stride} * j + {self.dilation} * v - {self.padding}"
        loops = [
            "for (n = 0; n < samples; n++)",
            "for (row = 0; row < run->rows; row++, total += sum, sum = 0)",
            f"for (j = 0; j < columns; j++)  {self.head} + {self.group} at a time + {self.tail}",
            f"for (a = 0; a < {self.sources}; a++)",
            f"for (b = 0; b < {self.weights}; b++)",
            f"for (v = 0; v < {self.taps}; v++)",
            f"sum[b][a][v] += source[a][{place}] * weight[b][j]",
        ]
        return source_text(self.name, nested(loops), registers, self.code)
