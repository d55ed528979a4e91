# SPDX-License-Identifier: Apache-2.0
"""Inventory of a build: bytes of RAM and flash, joules and seconds of a step, part by part.

A project's own files are read, so the builds of two versions of a network can be compared where
only their folders are left. Parts add up to the totals of `build.json`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poetfw.common.errors import OutputError, PlanError
from poetfw.common.reading import parse_json, read_bytes
from poetfw.firmware import BLOCK_BYTES
from poetfw.memory import Allocation, MemoryPlan
from poetfw.report import BuildReport
from poetfw.tools import ElfSection, elf_sections

ARENA = "poet_arena"
"""Symbol of the arena in every firmware."""

Parts = Mapping[str, float]
"""Amounts by the name of a part."""

Span = tuple[str, int, int]
"""Name, first byte, and the byte behind the last."""


@dataclass(frozen=True)
class Inventory:
    """Parts of a program; a part that cannot be read is None.

    Attributes:
        ram_bytes: bytes of RAM: tensors in the arena at its fullest step, and static variables.
        flash_bytes: bytes of flash by function and constant.
        energy_j: planned joules of a training step by op, recomputations included.
        time_s: planned seconds of a training step likewise.
    """

    ram_bytes: Parts | None
    flash_bytes: Parts | None
    energy_j: Parts | None
    time_s: Parts | None


def read_inventory(folder: Path, report: BuildReport) -> Inventory:
    """Inventory of the program in a project's folder.

    Raises:
        OutputError: A file of the project is malformed.
    """
    sections = _sections(folder, report)
    memory = _document(folder, "memory.json")
    costs = _document(folder, "costs.json")
    plan = _document(folder, "plan.json")
    try:
        arena = () if memory is None else arena_spans(MemoryPlan.from_json(memory))
        ram: Parts | None = None
        flash: Parts | None = None
        energy_j: Parts | None = None
        time_s: Parts | None = None
        if sections is not None:
            flash = _of_sections([s for s in sections if s.in_flash], report.flash_bytes)
            ram = _of_sections([s for s in sections if s.in_ram], report.ram_bytes, arena)
        elif memory is not None:
            ram = _with_rest(shares(arena), "(gaps of the arena)", report.peak_bytes)
        if costs is not None and plan is not None:
            runs = Counter(s["node"] for s in plan["training"] if s["step"] == "compute")
            ops = costs["ops"]
            joules = {op: float(ops[op]["energy_j"]) * n for op, n in runs.items()}
            seconds = {op: float(ops[op]["time_s"]) * n for op, n in runs.items()}
            figures = report.schedule
            energy_j = _with_rest(joules, "(transfers and waits)", figures.energy_j)
            time_s = _with_rest(seconds, "(transfers and waits)", figures.time_s)
    except (LookupError, TypeError, ValueError, AttributeError, PlanError) as error:
        raise OutputError(
            f"{folder}: its files are not what a build wrote: {error}", "build it again"
        ) from error
    return Inventory(ram, flash, energy_j, time_s)


def _document(folder: Path, name: str) -> Mapping[str, Any] | None:
    """JSON document of a project; None if it is not there."""
    path = folder / name
    try:
        found = parse_json(read_bytes(path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise OutputError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise OutputError(f"{path} is not what a build wrote", "build it again")
    return found


def _sections(folder: Path, report: BuildReport) -> Sequence[ElfSection] | None:
    """Sections of the board's ELF in a project's folder; None if it is not there.

    The folder may have moved since the build.
    """
    if report.elf is None:
        return None
    elf = Path(report.elf)
    path = folder / ".pio" / "build" / elf.parent.name / elf.name
    return elf_sections(path) if path.is_file() else None


def shares(spans: Iterable[Span]) -> dict[str, int]:
    """Bytes by name of spans (name, begin, end); what several cover counts for the first.

    Of those that begin together, the longest is the first.
    """
    found: Counter[str] = Counter()
    covered = 0
    for name, begin, end in sorted(spans, key=lambda span: (span[1], -span[2], span[0])):
        found[name] += max(0, end - max(begin, covered))
        covered = max(covered, end)
    return dict(found)


def arena_spans(memory: MemoryPlan) -> tuple[Span, ...]:
    """Spans of the arena's tensors at the step that reaches its end, and of the page buffer."""
    always = [*memory.persistent]
    steps = [
        [*always, *(one for one in allocations if one.lower <= lower < one.upper)]
        for allocations in (memory.training, memory.evaluation)
        for lower in sorted({one.lower for one in allocations})
    ]

    def fullness(there: Sequence[Allocation]) -> tuple[int, int]:
        end = max((one.offset + one.size_bytes for one in there), default=0)
        return end, sum(one.size_bytes for one in there)

    buffer = memory.page_buffer_offset
    return (
        *(
            (
                f"{one.owner} (workspace)" if one.workspace else one.owner,
                one.offset,
                one.offset + one.size_bytes,
            )
            for one in max(steps or [always], key=fullness)
        ),
        ("(page buffer)", buffer, min(buffer + BLOCK_BYTES, memory.arena_bytes)),
    )


def _with_rest(amounts: Mapping[str, float], rest: str, total: float | None) -> Parts:
    """Amounts above rounding errors, and what a total has beyond them."""
    found = dict(amounts)
    if total is not None:
        left = total - sum(found.values())
        found[rest] = found.get(rest, 0) + (left if abs(left) > 1e-12 * abs(total) else 0)
    return {name: amount for name, amount in found.items() if amount}


def _of_sections(
    sections: Sequence[ElfSection], total: int | None, arena: Sequence[Span] = ()
) -> Parts:
    """Bytes of sections by function and variable; those of the arena by tensor."""
    found: Counter[str] = Counter()
    for section in sections:
        spans = [(s.name, s.address, s.address + s.size_bytes) for s in section.symbols]
        for name, begin, _ in spans if arena else ():
            if name == ARENA:
                spans = [span for span in spans if span[0] != ARENA]
                spans += [(tensor, begin + low, begin + high) for tensor, low, high in arena]
                break
        own = shares(spans)
        found.update(own)
        found[f"(rest of {section.name})"] += section.size_bytes - sum(own.values())
    return _with_rest(found, "(padding)", total)


@dataclass(frozen=True)
class Change:
    """Difference of one part between two builds.

    Attributes:
        name: name of the part.
        before: amount in the base; 0 if it is not there.
        after: amount in this build; 0 if it is not there.
    """

    name: str
    before: float
    after: float

    @property
    def difference(self) -> float:
        """Amount by which it grew."""
        return self.after - self.before


def changes(before: Parts, after: Parts) -> tuple[Change, ...]:
    """Parts that differ, the largest difference first."""
    found = (
        Change(name, before.get(name, 0), after.get(name, 0))
        for name in dict.fromkeys([*after, *before])
    )
    return tuple(
        sorted((c for c in found if c.difference), key=lambda c: (-abs(c.difference), c.name))
    )
