# SPDX-License-Identifier: Apache-2.0
"""Inner block whose results are neighbours in a row: forward and dX of convolutions.

    for rows, strips of P columns:
        for channels, for rows of the kernel, for taps:
            Q x P sums += weight * source

A block's code depends on this description and nothing else; extents and strides are constants that
it reads, so that layers share blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from poetfw.kernels.assembler import FLOATS, Assembler, Cost, Term
from poetfw.kernels.comments import nested, source_text
from poetfw.kernels.inner_block import InnerBlock
from poetfw.kernels.stencil_shape import StencilShape
from poetfw.kernels.tables import (
    BIAS,
    RETURN,
    RUN_FLAGS,
    RUN_NEXT,
    WORD,
    StencilWords,
    TileRun,
    place_of,
)


def _at(field: str) -> str:
    return place_of(StencilWords, field)


@dataclass(frozen=True)
class Stencil(StencilShape, InnerBlock):
    """A stencil block: its instructions, and what they cost."""

    def _weight(self, output: int, tap: int, row: int, channel: int) -> int:
        if self.adjacent:
            return self.length + output
        if self.resident:
            return self.length + row * self.taps + tap
        if self.taps == 1 and self.unrolled > 1:
            return self.length + output * self.unrolled + channel
        return self.length + tap % self.chunk

    def _emit_row(self, code: Assembler, row: int, channel: int, begun: set[int]) -> None:
        """A row of the segment, and its products with rows of the kernel."""
        last = row == self.rows - 1
        if self.sources:
            code.access_each("vldr", "r1", 0, self.sources)
        elif self.met_by_line[row]:
            code.load_floats("r1", 0, self.length)
        if not (self.single and last):
            code.emit(f"add r1, r1, {'r7' if last else 'r6'}")
        if self.adjacent:
            code.load_floats("r2", self.length, self.outputs)
            code.emit("add r2, r2, r8")
        for (result_row, kernel_row), output in product(self.met_by_line[row], range(self.outputs)):
            pointer = f"r{2 + output}"
            if self.lines and not self.resident:
                pointer = "r3"
                code.emit(f"add.w r3, r2, #{WORD * kernel_row * self.taps}")
            first_sum = self.sum + (result_row + output) * self.strip
            for first in range(0, self.taps, self.chunk):
                taps = range(first, min(first + self.chunk, self.taps))
                loaded = self.adjacent or self.resident or (self.taps == 1 and self.unrolled > 1)
                if not loaded:
                    code.load_floats(pointer, self.length, len(taps), advance=True)
                items = []
                for tap, (column, met) in product(taps, enumerate(self.columns)):
                    for place in (at for one, at in met if one == tap):
                        to = first_sum + column
                        begins = to not in begun and (self.two_levels or self.single)
                        begins = begins and not self.run
                        begun.add(to)
                        weight = self._weight(output, tap, kernel_row, channel)
                        items.append(Term(to, place, weight, begins))
                spare = range(self.length + self.weight_registers, self.sum)[: self.spare]
                code.products(items, spare)
            goes_on = not (self.single and last) and not self.resident and not self.lines
            if self.gap and goes_on:
                code.emit(f"add {pointer}, {pointer}, #{WORD * self.gap}")

    def _emit_begin(self, code: Assembler) -> None:
        """Registers that hold for all rows."""
        code.part("run")
        if not self.is_flat:
            code.emit(f"str lr, {RETURN}")
        if not self.one_row:
            code.emit("str r1, [sp]")
        if not self.is_flat:
            code.emit("str r2, [sp, #8]")
        code.emit("mov r12, r3")
        if self.cut or self.ends_early:
            code.load("r10", f"[r4, #{RUN_FLAGS}]")
        if not self.one_row:
            code.emit(f"add r5, r4, #{RUN_NEXT}")
            code.load_many("r5", ("r6", "r7", "r8"))
            code.emit("str r6, [sp, #4]")
        elif not self.single:
            code.load("r7", f"[r4, #{RUN_NEXT + WORD}]")
            code.load("r8", f"[r4, #{RUN_NEXT + 2 * WORD}]")
        if self.rows > 1:
            code.load("r6", _at("row_step"))
        if self.cut:  # the address of the first row that is met, which the table has by number
            code.emit("uxtb.w r11, r10")
            code.emit("adr.w r3, 9f")
            code.emit("ldr.w r11, [r3, r11, lsl #2]", 2)
        if self.planes:
            code.load("r5", _at("channels"))
            code.part("plane")
            code.label(4)
        if self.resident:
            for row in range(self.kernel_rows):
                first = self.length + row * self.taps
                code.load_floats("r2", first, self.taps, advance=True)

    def _emit_strip(self, code: Assembler) -> None:
        """Zeros, and weights of each result channel."""
        code.part("row")
        if not self.one_row:
            code.label(5)
            code.load("r1", "[sp]")
        if not self.whole_rows:
            code.load("lr", _at("strips"))
        code.part("strip")
        if not self.whole_rows:
            code.label(6)
            code.emit("str r1, [sp, #12]")
        if self.continued:
            self._emit_results(code, "vldr", "r3")
        elif not self.single:
            code.zero(range(self.total, FLOATS), "r9")
        if not self.resident and not self.is_flat:
            code.load("r2", "[sp, #8]")
        if self.outputs > 1 and not self.adjacent:
            code.load("r9", _at("weight_other"))
            for output in range(1, self.outputs):
                code.emit(f"add r{2 + output}, r{1 + output}, r9")
        if not self.single:
            code.load("r11" if self.run else "r9", _at("channels"))

    def _emit_channel(self, code: Assembler) -> None:
        """Products of a channel, and their sums added to totals."""
        if self.run:
            code.part("channels")
            code.label(2)
            code.zero(range(self.sum, self.total), "r6")
            code.emit("mov r9, r11")
            code.emit(f"cmp.w r11, #{self.run}")
            code.emit("it hi")
            code.emit(f"movhi.w r9, #{self.run}")
            code.emit(f"sub.w r11, r11, #{self.run}")
        code.part("channel")
        code.label(1)
        if self.cut or self.ends_early:
            code.emit("msr APSR_nzcvq, r10", 2)
        if self.cut:
            code.emit("bvs.w 8f")
        several = self.taps == 1 and self.unrolled > 1 and not self.adjacent
        if several:
            for output in range(self.outputs):
                first = self.length + output * self.unrolled
                code.load_floats(f"r{2 + output}", first, self.unrolled, advance=True)
        for channel in range(self.unrolled):
            begun: set[int] = set()
            for row in range(self.rows):
                code.part(f"row {row}")
                if row and self.cut:
                    code.label(20 + row)
                self._emit_row(code, row, channel, begun)
                if self.ends_early and row == self.rows - 1 - self.ends_early:
                    code.emit("beq.w 7f")
            code.part("channel")
            if self.two_levels and not self.run:
                self._emit_totals(code)
        if not self.single:
            if not self.adjacent and not several:
                for output in range(self.outputs):
                    code.emit(f"add r{2 + output}, r{2 + output}, r8")
            code.emit(f"subs r9, r9, #{self.unrolled if self.run else 1}")
            code.emit("bne.w 1b")
        if self.run:
            code.part("channels")
            self._emit_totals(code)
            code.emit("cmp.w r11, #0")
            code.emit("bgt.w 2b")

    def _emit_totals(self, code: Assembler) -> None:
        for i in range(self.results):
            if self.columns[i % self.strip]:
                code.add(self.total + i, self.sum + i)

    def _emit_end(self, code: Assembler) -> None:
        """Results, and the next strip or row."""
        code.part("results")
        if self.ends_early:
            code.label(7)
        if self.bias and self.planes:
            code.load("r9", _at("channels"))
            code.load("r3", BIAS)
            code.emit("sub.w r9, r9, r5")
            code.emit("add.w r9, r3, r9, lsl #2")
        elif self.bias:
            code.load("r9", BIAS)
        if self.bias:
            code.load_floats("r9", 0, self.outputs)
            if self.single:  # the sum of 0 and products is not -0, that of -0 and a bias of -0 is
                code.zero([self.outputs], "r9")
                for output in range(self.outputs):
                    code.add(output, self.outputs)
        elif self.single:
            code.zero([0], "r9")
        if self.bias or self.single:
            for row, column in product(range(self.result_rows), range(self.strip)):
                code.add(
                    self.total + row * self.strip + column,
                    row if self.outputs > 1 and self.bias else 0,
                )
        self._emit_results(code, "vstr", "r2")
        if not self.whole_rows:
            code.emit("subs.w lr, lr, #1")
            code.emit("beq.n 3f")
            self._emit_next_strip(code)
        code.part("row end")
        if self.one_row and not self.whole_rows:
            code.label(3)
        if not self.one_row:
            self._emit_next_row(code)
        code.part("return")
        code.emit("bx lr", 3) if self.is_flat else code.emit(f"ldr.w pc, {RETURN}", 2)
        if self.cut:
            self._emit_cut(code)

    def _emit_next_row(self, code: Assembler) -> None:
        """The next row of results, and behind the last one the next plane."""
        if not self.whole_rows:
            code.label(3)
            code.load("r1", "[sp]")
        code.load("r2", _at("source_row"))
        code.load("r3", _at("result_row"))
        if self.whole_rows:
            code.load("r1", "[sp]")
        code.emit("add r1, r1, r2")
        code.emit("add r12, r12, r3")
        code.emit("str r1, [sp]")
        code.load("r3", "[sp, #4]")
        code.emit("subs r3, r3, #1")
        code.emit("str r3, [sp, #4]")
        code.emit("bne.w 5b")
        if self.planes:
            self._emit_next_plane(code)

    def _emit_cut(self, code: Assembler) -> None:
        """Zeros, as no row begins the sums, and on to the first row that is met."""
        code.part("cut")
        code.label(8)
        first = self.sum if self.two_levels else self.total
        scratch = "r3" if self.planes else "r5"
        code.emit(f"mov.w {scratch}, #0")
        code.emit(f"vmov s{first}, {scratch}", 2)
        for i in range(1, self.results):
            code.move(first + i, first)
        code.emit("bx r11", 3)
        code.align()
        code.label(9)
        for row in range(self.rows):
            code.word(f"2{row}b + 1" if row else "0")

    def _emit_results(self, code: Assembler, access: str, pointer: str) -> None:
        """Load or store the results of a strip, by row or channel."""
        for row in range(self.result_rows):
            if row == 1:
                code.load("r9", _at("result_other"))
            if row:
                code.emit(f"add {pointer}, {'r12' if row == 1 else pointer}, r9")
            place, first = pointer if row else "r12", self.total + row * self.strip
            if self.targets:
                code.access_each(access, place, first, self.targets)
            elif access == "vldr":
                code.load_floats(place, first, self.strip)
            else:
                code.store_floats(place, first, self.strip)

    def _emit_next_strip(self, code: Assembler) -> None:
        code.part("next strip")
        code.load("r1", "[sp, #12]")
        if self.overlap:
            code.emit("cmp.w lr, #1")
            code.emit("itt eq")
            code.emit(f"ldreq r2, {_at('source_last')}", 2)
            code.emit(f"ldreq r3, {_at('result_last')}", 1)
            code.emit("itt ne")
            code.emit(f"ldrne r2, {_at('source_strip')}", 2)
            code.emit(f"ldrne r3, {_at('result_strip')}", 1)
        else:
            code.load("r2", _at("source_strip"))
            code.load("r3", _at("result_strip"))
        code.emit("add r1, r1, r2")
        code.emit("add r12, r12, r3")
        code.emit("b.w 6b", 3)

    def _emit_next_plane(self, code: Assembler) -> None:
        code.part("plane end")
        code.emit("subs.w r5, r5, #1")
        code.emit("it eq")
        code.emit(f"ldreq.w pc, {RETURN}", 2)
        code.part("next plane")
        code.load("r2", "[sp, #8]")
        code.load("r3", _at("weight_other"))
        code.emit("add r1, r1, r7")
        code.emit("str r1, [sp]")
        code.emit("add r12, r12, r8")
        code.emit("add r2, r2, r3")
        code.emit("str r2, [sp, #8]")
        code.load("r3", f"[r4, #{RUN_NEXT}]")
        code.emit("str r3, [sp, #4]")
        code.emit("b.w 4b", 3)

    def _emit(self, code: Assembler) -> None:
        self._emit_begin(code)
        self._emit_strip(code)
        self._emit_channel(code)
        self._emit_end(code)

    def cost(self, runs: Sequence[TileRun], words: StencilWords) -> Cost:
        """Instructions and cycles of all runs of a call."""
        total = Cost()
        channels = 1 if self.single else words.channels // (self.unrolled if self.run else 1)
        planes = words.channels if self.planes else 1
        for run in runs:
            rows = run.rows * planes
            strips = rows * words.strips
            each = strips * channels
            times = {"run": 1, "row": rows, "strip": strips, "channel": each, "results": strips}
            times |= {"row end": rows}
            last = self.rows - (self.ends_early if run.ends_early else 0)
            times |= {f"row {row}": each for row in range(run.skipped, last)}
            taken = rows - planes + strips * (channels - 1)
            if self.run:  # one loop ends where another one goes on
                times["channels"] = strips * -(-words.channels // self.run)
            if not self.whole_rows:
                times["next strip"] = strips - rows
                taken += rows
            if self.planes:
                times |= {"plane": planes, "plane end": planes, "next plane": planes - 1}
            else:
                times["return"] = 1
            if run.skipped:
                times["cut"] = each
                taken += each
            if run.ends_early:
                taken += each
            total += self.code.total(times, taken)
        return total

    def text(self) -> str:
        """The function in assembly, for a file that includes assembly.h."""
        first_product = self.length + self.weight_registers
        registers = {
            f"s0-s{self.length - 1}": "row of the source",
            f"s{self.length}-s{first_product - 1}": "weights",
            f"s{first_product}-s{first_product + self.spare - 1}": "products",
            f"s{self.sum}-s{self.total - 1}": "a channel's sums" if self.two_levels else "",
            f"s{self.total}-s31": "totals [row or output][column]",
            "r0": "constants",
            "r1": "source",
            "r2-r5": "weights by output" if self.outputs > 1 else "weights, planes to come in r5",
            "r6": "bytes to the next row of the source",
            "r7, r8": "bytes to the next " + ("plane" if self.planes else "channel"),
            "r9": "channels to come",
            "r10": "flags: V and Z, rows that are left out",
            "r11": "channels behind this run"
            if self.run
            else "address of the first row that is met",
            "r12": "result",
            "lr": "strips to come",
            "[sp]": "row's source, and behind it rows to come, weights, strip's source",
        }
        loops = [
            "for (i = 0; i < run->rows; i++)",
            f"for (strip = 0; strip < strips; strip++)  {self.strip} columns",
            f"for (c = 0; c < channels; c += {self.unrolled})"
            + (f"  sums of {self.run} added to totals" if self.run else ""),
            f"for (u = run->skipped; u < {self.rows}; u++)  rows of the source",
            f"for (v = 0; v < {self.taps}; v++)",
            f"for (o = 0; o < {self.outputs}; o++)",
            f"for (j = 0; j < {self.strip}; j++)",
            "total[o][j] += source[place[j][v]] * weight[o][u][v]",
        ]
        if self.lines:
            loops[5] = "for (o = 0; o < several; o++)  rows of results, see meets"
            loops[7] = "total[o][j] += source[place[j][v]] * weight[meets[u][o]][v]"
        places = "  ".join(",".join(f"{tap}:{at}" for tap, at in met) for met in self.columns)
        tables = [f"place, v:place of each j:  {places}"]
        if self.lines:
            met_rows = (",".join(f"{row}:{tap}" for row, tap in line) for line in self.lines)
            tables.append(f"meets, o:row of the kernel of each u:  {'  '.join(met_rows)}")
        return source_text(self.name, [*nested(loops), *tables], registers, self.code)
