# SPDX-License-Identifier: Apache-2.0
"""Breaks the code by rule, one small mistake at a time, and prints those that no test notices.

A sample of all mistakes that `rules` makes, and all of `by_hand.toml`, is judged in copies of the
checkout by the tests that `reach` recorded to run their lines.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

import click
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from mutants import copies, marks
from mutants.copies import UNCHANGED, Copy, Exchange, Imports
from mutants.reach import Reach, Recorded, ordered, sources
from mutants.rules import Mutant, mutants

CHECKOUT = Path(__file__).parents[2]
FIRST_S, LONGEST_S = 2.0, 40.0
"""Recorded seconds of the tests that are run first, and of all that judge a mistake."""
MORE_S, MORE = 20.0, 4.0
"""Seconds of a processor that a test may take: these, and times what it took when recorded."""
LARGEST_SURVIVING_SHARE = 0.05
T, R = TypeVar("T"), TypeVar("R")


class Fate(StrEnum):
    """Verdict on a mistake."""

    KILLED = "killed"
    SURVIVED = "survived"
    UNDECIDED = "undecided"
    """Its tests take too long without it, too."""


@dataclass(frozen=True)
class Verdict:
    """Verdict on a mistake, the test that failed or how many passed, and seconds."""

    mutant: Mutant
    fate: Fate
    note: str
    time_s: float


@dataclass(eq=False)
class Watch:
    """A plugin of pytest that runs some tests in their order, and keeps the first that failed."""

    tests: list[Recorded]
    failed: list[str] = field(default_factory=list)

    def start(self, imports: Imports) -> None:
        """Nothing has to be prepared."""

    def is_done(self) -> bool:
        """True once a test has failed."""
        return bool(self.failed)

    def pytest_configure(self, config: pytest.Config) -> None:
        """Have no case left out of those that were recorded."""
        config.option.every_case = True

    def chosen(self, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        """The tests, in their order."""
        places = {test.name: place for place, test in enumerate(self.tests)}
        found = [item for item in items if item.nodeid in places]
        return sorted(found, key=lambda item: places[item.nodeid])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Have the process end where a test loops for ever."""
        (time_s,) = (test.time_s for test in self.tests if test.name == item.nodeid)
        signal.setitimer(signal.ITIMER_PROF, MORE_S + MORE * time_s)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)

    def pytest_exception_interact(self, node: pytest.Item | pytest.Collector) -> None:
        """Note a failure."""
        self.failed.append(node.nodeid)

    def answer(self) -> str:
        """The first test that failed."""
        return self.failed[0] if self.failed else ""


def judge(copy: Copy, mutant: Mutant, reach: Reach) -> Verdict:
    """Make the mistake, run the tests, take it back."""
    began_s = time.monotonic()
    file = copy.root / mutant.path
    right, times = file.read_text(), file.stat()
    wrong = mutant.applied(right)
    tests = tests_of(reach, mutant)
    exchange = Exchange(file, right, wrong) if file.suffix == ".py" else None
    is_anew = exchange is not None and (
        reach.runs_on_import(mutant.path, mutant.line) or not exchange.is_possible()
    )
    file.write_text(wrong)
    # Compiled modules are taken as up to date by their second and size: so each has another.
    os.utime(file, (times.st_atime, times.st_mtime + mutant.start + 60))
    try:
        failed = first_failure(copy, tests, exchange, is_anew)
        if failed == UNCHANGED:
            failed = first_failure(copy, tests, exchange, is_anew=True)
    finally:
        file.write_text(right)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    fate, note = Fate.KILLED, failed or "it takes too long"
    if failed == "":
        fate, note = Fate.SURVIVED, f"{len(tests)} tests pass"
    elif failed is None and first_failure(copy, tests) is None:
        fate = Fate.UNDECIDED
    return Verdict(mutant, fate, note, round(time.monotonic() - began_s, 1))


def first_failure(
    copy: Copy, tests: list[Recorded], exchange: Exchange | None = None, is_anew: bool = False
) -> str | None:
    """The first test that fails; empty if none does, None if they take too long."""
    batches = [*quick_and_others(tests)] if is_anew else [tests]
    failed: str | None = ""
    for batch in batches:
        copy.prepare()
        longest_s = 20 + MORE * sum(test.time_s for test in batch)
        watch = Watch(batch)
        if is_anew:
            failed = copy.run_anew([*dict.fromkeys(test.file for test in batch)], watch, longest_s)
        else:
            failed = copy.run(watch, longest_s, exchange)
        if failed != "":
            break
    return failed


def tests_of(reach: Reach, mutant: Mutant) -> list[Recorded]:
    """Tests that reach a mistake's line, then its file: quick ones apart from the rest.

    Those of a file stay together, as do their fixtures.
    """
    chosen: list[Recorded] = []
    taken_s = 0.0
    for tests in reach.tests_of(mutant.path, mutant.line):
        for test in ordered(tests, mutant.path):
            if taken_s + test.time_s > LONGEST_S and taken_s > 0:
                continue
            taken_s += test.time_s
            chosen.append(test)
    return [
        test
        for batch in quick_and_others(chosen)
        for file in dict.fromkeys(test.file for test in batch)
        for test in batch
        if test.file == file
    ]


def quick_and_others(tests: list[Recorded]) -> Iterator[list[Recorded]]:
    """The first tests, which take a moment, and all others."""
    taken_s = 0.0
    for count, test in enumerate(tests):
        taken_s += test.time_s
        if taken_s > FIRST_S and count > 0:
            yield tests[:count]
            yield tests[count:]
            return
    yield tests


def by_hand(checkout: Path, file: Path) -> Iterator[Mutant]:
    """Mistakes that no rule makes.

    Raises:
        ValueError: the text that one replaces is not in its file exactly once.
    """
    for entry in tomllib.loads(file.read_text())["mutant"]:
        text = (checkout / entry["path"]).read_text()
        found = [*re.finditer(r"\s+".join(map(re.escape, entry["old"].split())), text)]
        if len(found) != 1:
            raise ValueError(f"{entry['path']} has {entry['old']!r} {len(found)} times")
        start, end = found[0].span()
        line = text.count("\n", 0, start) + 1
        yield Mutant(entry["path"], line, start, end, found[0][0], entry["new"])


def lines_of(made: list[Mutant]) -> dict[str, set[int]]:
    """Lines of mistakes, by file."""
    lines: dict[str, set[int]] = defaultdict(set)
    for mutant in made:
        lines[mutant.path].add(mutant.line)
    return lines


def recorded(checkout: Path, folder: Path, made: list[Mutant], jobs: int) -> Reach:
    """Reach of each test; test files that changed, or whose sources did, are run to record it."""
    reach = Reach(checkout, lines_of(made))
    missing = reach.missing()
    if missing:
        click.echo(f"{len(missing)} test files are recorded", err=True)

        def marked(number: int) -> Copy:
            copy = Copy(checkout, folder / f"marked{number}")
            marks.write_marks(copy.root, reach.spans)
            return copy

        for count, _ in enumerate(Copies(jobs, marked).each(missing, reach.record), 1):
            if count % 25 == 0 or count == len(missing):
                click.echo(f"{count} of {len(missing)} test files", err=True)
    return reach


class Copies:
    """As many copies as there are jobs; each does one thing at a time."""

    def __init__(self, jobs: int, make: Callable[[int], Copy]) -> None:
        self._jobs, self._idle = jobs, SimpleQueue[Copy]()
        for number in range(jobs):
            self._idle.put(make(number))

    def each(self, items: Iterable[T], do: Callable[[Copy, T], R]) -> Iterator[R]:
        """Results for the items, as they come."""

        def done(item: T) -> R:
            copy = self._idle.get()
            try:
                return do(copy, item)
            finally:
                self._idle.put(copy)

        try:
            with ThreadPoolExecutor(self._jobs) as pool:
                for future in as_completed([pool.submit(done, item) for item in items]):
                    yield future.result()
        finally:
            while not self._idle.empty():
                self._idle.get().end()


def by_rule(checkout: Path, seed: int, count: int) -> list[Mutant]:
    """A sample of what the rules make: as many of each file as of any other, as far as it goes.

    Each is drawn by what its line says: whoever changes some lines has the others' mistakes drawn
    again, so that their records hold, and a test that was missing stays of use.
    """
    waiting: list[tuple[int, bytes, bytes, Mutant]] = []
    for path in sources(checkout):
        text = (checkout / path).read_text()
        lines = text.splitlines()

        def place(mutant: Mutant, lines: list[str] = lines) -> bytes:
            said = seed, mutant.path, lines[mutant.line - 1].strip(), mutant.old, mutant.new
            return hashlib.sha256(repr(said).encode()).digest()

        file = hashlib.sha256(f"{seed} {path}".encode()).digest()
        made = sorted((place(mutant), mutant) for mutant in mutants(path, text))
        waiting += [(turn, file, at, mutant) for turn, (at, mutant) in enumerate(made)]
    return [mutant for *_, mutant in sorted(waiting)[:count]]


@click.command()
@click.option("--seed", default=1, show_default=True, help="Of the sample.")
@click.option("--count", default=300, show_default=True, help="Mistakes by rule.")
@click.option("--only", metavar="PATTERN", default="", help="Those with this text in their name.")
@click.option("-j", "jobs", metavar="N", type=click.IntRange(1), default=1, help="At a time.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdicts as JSON.")
@click.option(
    "--results",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Append each verdict as a line of JSON as it comes.",
)
@click.option("--checkout", type=click.Path(path_type=Path), default=CHECKOUT, hidden=True)
@click.option("--preload", default=copies.PRELOADED, hidden=True)
def main(
    seed: int,
    count: int,
    only: str,
    jobs: int,
    as_json: bool,
    results: Path | None,
    checkout: Path,
    preload: str,
) -> None:
    """Judge a sample of mistakes, and print those that no test notices.

    Exits with 1 if more than 5% survive, with 2 if a test that noticed one fails without any.
    """
    os.environ |= {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    copies.preload(preload)
    hand = checkout / "tests/mutants/by_hand.toml"
    every = [*by_rule(checkout, seed, count), *(by_hand(checkout, hand) if hand.exists() else ())]
    made = [mutant for mutant in every if only in str(mutant)]
    if not made:
        raise click.UsageError(f"no mistake has {only!r} in its name")
    folder = checkout / "build/mutants/copies"
    paths = {mutant.path for mutant in made}
    reach = recorded(checkout, folder, [m for m in every if m.path in paths], jobs)
    verdicts: list[Verdict] = []

    def judged(copy: Copy, mutant: Mutant) -> Verdict:
        return judge(copy, mutant, reach)

    pool = Copies(jobs, lambda number: Copy(checkout, folder / str(number)))
    for verdict in pool.each(made, judged):
        verdicts.append(verdict)
        if results:
            with results.open("a") as file:
                file.write(json.dumps(asdict(verdict)) + "\n")
        if verdict.fate is not Fate.KILLED:
            click.echo(f"{verdict.fate}: {verdict.mutant} ({verdict.note})", err=True)
        if len(verdicts) % 25 == 0 or len(verdicts) == len(made):
            click.echo(f"{len(verdicts)} of {len(made)} mistakes", err=True)
    noticed = sorted({v.note for v in verdicts if v.note.startswith("tests/")})
    right = Copy(checkout, folder / "right")
    anyway = first_failure(right, [Recorded(name, 10.0, 1) for name in noticed]) if noticed else ""
    right.end()
    shutil.rmtree(folder)
    if as_json:
        click.echo(json.dumps([asdict(verdict) for verdict in verdicts], indent=2))
    fates = Counter(verdict.fate for verdict in verdicts)
    said = ", ".join(f"{fates[fate]} {fate}" for fate in Fate if fates[fate])
    click.echo(f"{len(verdicts)} mistakes: {said}", err=as_json)
    if anyway != "":
        click.echo(
            f"without any mistake, this fails: {anyway or 'all of them take too long'}", err=True
        )
        sys.exit(2)
    sys.exit(fates[Fate.SURVIVED] > LARGEST_SURVIVING_SHARE * len(verdicts))


if __name__ == "__main__":
    main()
