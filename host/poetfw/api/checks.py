# SPDX-License-Identifier: Apache-2.0
"""Checks of a build: limits of its figures, and comparison with another build."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from poetfw.api.firmware import Firmware
from poetfw.api.options import RUN, settings_of
from poetfw.common.errors import ConfigError, DataError, OutputError
from poetfw.common.reading import parse_json, read_bytes
from poetfw.comparisons.inventory import Change, Inventory, changes, read_inventory
from poetfw.memory import ONLY
from poetfw.pipeline import REPORT
from poetfw.planning import folders_of
from poetfw.report import BuildReport
from poetfw.runs.observer import Reporting, Update
from poetfw.settings.check import CheckLimits

_KINDS = {"ram_bytes": "RAM", "flash_bytes": "flash", "energy_j": "energy", "time_s": "time"}


@dataclass(frozen=True)
class Checked:
    """Figure of a build.

    Attributes:
        name: name of the figure, such as "RAM"; of several programs, with that of the program.
        unit: "B", "s", "J", or empty for a share or a count.
        value: value in this build.
        base: value in the build compared with; None without one.
        limit: limit that was given; None for none.
        least: true if the limit is the smallest value allowed.
    """

    name: str
    unit: str
    value: float
    base: float | None = None
    limit: float | None = None
    least: bool = False

    @property
    def ok(self) -> bool:
        """True if the limit is kept."""
        if self.limit is None:
            return True
        return self.value >= self.limit if self.least else self.value <= self.limit


@dataclass(frozen=True)
class Reasons:
    """Parts of a figure that differ from the base.

    Attributes:
        name: name of the figure, as in `Checked`.
        unit: unit of the parts.
        changes: parts that differ, the largest difference first.
    """

    name: str
    unit: str
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class CheckReport:
    """Result of a check.

    Attributes:
        title: model and board.
        costs: source of planned energy and time.
        figures: figures, with limits and base.
        reasons: parts behind figures that differ from the base.
        missing: parts that could not be compared, each with the reason.
    """

    title: str
    costs: str
    figures: tuple[Checked, ...]
    reasons: tuple[Reasons, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True if all limits are kept."""
        return all(figure.ok for figure in self.figures)

    def to_json(self) -> dict[str, Any]:
        """The report as plain JSON values."""
        figures = [{**asdict(one), "ok": one.ok} for one in self.figures]
        return {"schema_version": 1, "ok": self.ok, **asdict(self), "figures": figures}


def check_build(
    firmware: Firmware,
    limits: CheckLimits,
    against: Path | None = None,
    accuracy: Callable[[], float] | None = None,
) -> CheckReport:
    """Check a build's figures against limits, and compare it with another build.

    Args:
        firmware: the build; it must be compiled if its RAM or flash is limited.
        limits: limits of figures.
        against: folder or `build.json` of the base; None for no comparison.
        accuracy: called for the accuracy if it is limited.

    Raises:
        OutputError: The build is not compiled, or a file of a build is malformed.
    """
    report = firmware.figures
    base = None if against is None else BuildReport.read(_report_of(against))
    figures = [*_figures(report, base, limits, firmware.folder)]
    if limits.accuracy is not None and accuracy is not None:
        figures.append(Checked("accuracy", "", accuracy(), None, limits.accuracy, least=True))
    reasons: list[Reasons] = []
    missing: list[str] = []
    if against is not None and base is not None:
        for name in report.memories:
            if name not in base.memories:
                missing.append(f"the base has no program {name!r}")
                continue
            ours = _inventory(firmware.folder, report, name)
            theirs = _inventory(_report_of(against).parent, base, name)
            reasons += _reasons(name, theirs, ours, missing)
    board = "several boards" if len(report.memories) > 1 else report.board
    title = f"{report.model} on {board}, batch {report.batch}"
    return CheckReport(title, report.costs, tuple(figures), tuple(reasons), tuple(missing))


def read_accuracy(path: Path) -> float:
    """Accuracy in a document of `poetfw run --json`.

    Raises:
        DataError: The file is no such document, or holds no accuracy.
    """
    try:
        document = parse_json(read_bytes(path))
        found = document["accuracy"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise DataError(
            f"{path} is not what `poetfw run --json` printed: {error}",
            "write it anew: poetfw run --json > FILE",
        ) from error
    if not isinstance(found, float) or not 0 <= found <= 1:
        raise DataError(f"{path} holds no accuracy: {json.dumps(found)!s:.40}")
    return found


def measured_accuracy(firmware: Firmware, update: Update) -> float:
    """Accuracy after a training on the twin.

    Args:
        firmware: the build.
        update: called with the progress.

    Raises:
        PoetfwError: The run fails, or its network has no classes.
    """
    settings, where, machine, files = settings_of(RUN, {})
    finished = firmware.train(settings, where, machine, files, Reporting(update))
    if finished.accuracy is None:
        raise ConfigError("--min-accuracy is for classifiers: this network has a held-out loss")
    return finished.accuracy


def _report_of(against: Path) -> Path:
    return against / REPORT if against.is_dir() else against


def _inventory(folder: Path, report: BuildReport, name: str) -> Inventory:
    return read_inventory(folders_of([name], folder)[name], report.of(name))


def _figures(
    report: BuildReport, base: BuildReport | None, limits: CheckLimits, folder: Path
) -> Iterator[Checked]:
    """Figures of each program, and of the plan."""
    for name, program in report.memories.items():
        own = None if base is None else base.memories.get(name)
        prefix = f"{name}: " if name != ONLY else ""
        for kind, limit in (("ram_bytes", limits.ram_bytes), ("flash_bytes", limits.flash_bytes)):
            value = getattr(program, kind)
            if value is None and limit is not None:
                raise OutputError(
                    f"{folder} was generated but not compiled: its {_KINDS[kind]} is not known",
                    "run `poetfw build` again, without --generate-only",
                )
            if value is not None:
                before = None if own is None else getattr(own, kind)
                yield Checked(f"{prefix}{_KINDS[kind]}", "B", value, before, limit)
        before = None if own is None else own.peak_bytes
        yield Checked(f"{prefix}arena", "B", program.peak_bytes, before)
    now: Any = report.schedule
    then: Any = None if base is None else base.schedule
    yield Checked("time", "s", now.time_s, then and then.time_s, limits.step_s)
    yield Checked("energy", "J", now.energy_j, then and then.energy_j, limits.energy_j)
    for count in ("recomputes", "page_outs", "page_ins"):
        yield Checked(
            count.replace("_", "-"), "", getattr(now, count), then and getattr(then, count)
        )


def _reasons(
    name: str, before: Inventory, after: Inventory, missing: list[str]
) -> Iterator[Reasons]:
    """Parts of a program's figures that differ; what cannot be compared is added to `missing`."""
    units: Mapping[str, str] = {"energy_j": "J", "time_s": "s"}
    prefix = f"{name}: " if name != ONLY else ""
    for kind, label in _KINDS.items():
        old, new = getattr(before, kind), getattr(after, kind)
        if old is None or new is None:
            which = "base" if old is None else "build"
            missing.append(
                f"{prefix}{label} by part: the {which}'s folder lacks the files that it needs"
            )
            continue
        found = changes(old, new)
        if found:
            yield Reasons(f"{prefix}{label}", units.get(kind, "B"), found)
