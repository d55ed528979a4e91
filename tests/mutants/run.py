# SPDX-License-Identifier: Apache-2.0
"""Breaks the code by rule, one small mistake at a time, and prints those that no test notices.

A sample of all mistakes that `rules` makes, and all of `by_hand.toml`, is judged in copies of the
checkout by the test files that `reach` says are closest.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from queue import SimpleQueue

import click
import pytest
from hypothesis import Phase, settings

sys.path.insert(0, str(Path(__file__).parents[1]))

from mutants.reach import Reach
from mutants.rules import Mutant, mutants

CHECKOUT = Path(__file__).parents[2]
MOST_FILES, LONGEST_S = 5, 40
"""Test files that judge a mistake, and seconds of a processor that they may take together."""
LARGEST_SURVIVING_SHARE = 0.05
_PRELOADED = "pytest,hypothesis,numpy,onnx,cvxpy,click,rich.progress,scipy.optimize,highspy"
"""Most of a test's time would go into importing these."""
_PYTEST = ("-x", "-q", "--tb=no", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist")
_CONTEXT = multiprocessing.get_context("forkserver")


class Fate(StrEnum):
    """What became of a mistake."""

    KILLED = "killed"
    SURVIVED = "survived"
    UNDECIDED = "undecided"
    """Its tests took too long, as they do without it."""


@dataclass(frozen=True)
class Verdict:
    """What became of a mistake, the test that failed, and seconds."""

    mutant: Mutant
    fate: Fate
    note: str
    time_s: float


class Watch:
    """A plugin of pytest that keeps the first test that failed."""

    def __init__(self) -> None:
        self.failed = ""

    def pytest_exception_interact(self, node: pytest.Item | pytest.Collector) -> None:
        self.failed = self.failed or node.nodeid


class Copy:
    """A copy of the checkout in which mistakes are made."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        self.root, self._temporary = folder / "checkout", folder / "temporary"
        self._made = 0
        shutil.copytree(checkout, self.root, ignore=shutil.ignore_patterns(".*", "build", "dist"))
        (self.root / ".venv").symlink_to(checkout / ".venv")

    def judge(self, mutant: Mutant, tests: Sequence[str]) -> Verdict:
        """Make the mistake, run the tests, take it back."""
        began_s = time.monotonic()
        file = self.root / mutant.path
        right, times = file.read_text(), file.stat()
        file.write_text(mutant.applied(right))
        self._made += 1  # compiled modules are taken as up to date by their second and size
        os.utime(file, (times.st_atime, times.st_mtime + 60 * self._made))
        try:
            failed = self.run(tests)
        finally:
            file.write_text(right)
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        fate = Fate.SURVIVED if failed == "" else Fate.KILLED
        if failed is None:
            failed, fate = "it takes too long", Fate.KILLED
            if self.run(tests) is None:
                fate = Fate.UNDECIDED
        return Verdict(mutant, fate, failed, round(time.monotonic() - began_s, 1))

    def run(self, tests: Sequence[str], longest_s: int = LONGEST_S) -> str | None:
        """The first test that fails; empty if none does, None if they take too long."""
        shutil.rmtree(self._temporary, ignore_errors=True)
        self._temporary.mkdir()
        answer = self._temporary / "answer"
        process = _CONTEXT.Process(
            target=_pytest, args=(self.root, self._temporary, tests, longest_s)
        )
        process.start()
        process.join(5 * longest_s)
        if process.is_alive() or process.exitcode == -signal.SIGXCPU:
            with suppress(ProcessLookupError):
                os.killpg(process.pid or 0, signal.SIGKILL)
            process.join()
            return None
        if process.exitcode in (0, 5):
            return ""
        return answer.read_text() if answer.exists() else "it crashes"


def _pytest(root: Path, temporary: Path, tests: Sequence[str], longest_s: int) -> None:
    """Run tests in a copy; this process ends with pytest's exit code."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (longest_s, resource.RLIM_INFINITY))
    with (temporary / "output").open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(root)
    os.environ["PYTHONPATH"] = str(root / "host")
    os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
    sys.path.insert(0, str(root / "host"))
    phases = (Phase.explicit, Phase.generate)
    settings.register_profile("mutants", max_examples=10, phases=phases, deadline=None)
    gc.freeze()  # pytest collects garbage again and again: not what was there before it
    watch = Watch()
    code = pytest.main([*_PYTEST, "--hypothesis-profile=mutants", *tests], plugins=[watch])
    (temporary / "answer").write_text(watch.failed or f"pytest ends with code {int(code)}")
    sys.stdout.flush()
    os._exit(code)


def by_hand(checkout: Path, file: Path) -> Iterator[tuple[Mutant, list[str]]]:
    """Mistakes that no rule makes, and the tests that should notice each.

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
        yield Mutant(entry["path"], line, start, end, found[0][0], entry["new"]), entry["tests"]


def by_rule(checkout: Path, reach: Reach, seed: int, count: int) -> list[Mutant]:
    """A sample of what the rules make: as many of each file as of any other, as far as it goes."""
    generator = random.Random(seed)
    files = reach.sources()
    waiting = {path: mutants(path, (checkout / path).read_text()) for path in files}
    chosen: list[Mutant] = []
    while len(chosen) < count and any(waiting.values()):
        for path in generator.sample(files, len(files)):
            if waiting[path] and len(chosen) < count:
                chosen.append(waiting[path].pop(generator.randrange(len(waiting[path]))))
    return chosen


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
@click.option("--preload", default=_PRELOADED, hidden=True)
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
    _CONTEXT.set_forkserver_preload(preload.split(","))
    reach = Reach(checkout)
    made = {m: reach.tests_of(m.path, MOST_FILES) for m in by_rule(checkout, reach, seed, count)}
    hand = checkout / "tests/mutants/by_hand.toml"
    if hand.exists():
        made |= dict(by_hand(checkout, hand))
    made = {mutant: tests for mutant, tests in made.items() if only in str(mutant)}
    if not made:
        raise click.UsageError(f"no mistake has {only!r} in its name")
    with tempfile.TemporaryDirectory(prefix="poetfw-mutants-") as folder:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for number in range(jobs):
            copies.put(Copy(checkout, Path(folder, str(number))))

        def judge(mutant: Mutant) -> Verdict:
            copy = copies.get()
            try:
                return copy.judge(mutant, made[mutant])
            finally:
                copies.put(copy)

        verdicts = []
        with ThreadPoolExecutor(jobs) as pool:
            for future in as_completed([pool.submit(judge, mutant) for mutant in made]):
                verdicts.append(future.result())
                if results:
                    with results.open("a") as file:
                        file.write(json.dumps(asdict(verdicts[-1])) + "\n")
                if verdicts[-1].fate is not Fate.KILLED:
                    click.echo(f"{verdicts[-1].fate}: {verdicts[-1].mutant}", err=True)
                if len(verdicts) % 25 == 0 or len(verdicts) == len(made):
                    click.echo(f"{len(verdicts)} of {len(made)} mistakes", err=True)
        noticed = sorted({v.note for v in verdicts if "::" in v.note})
        anyway = Copy(checkout, Path(folder, "right")).run(noticed, 900) if noticed else ""
    if as_json:
        click.echo(json.dumps([asdict(verdict) for verdict in verdicts], indent=2))
    fates = Counter(verdict.fate for verdict in verdicts)
    said = ", ".join(f"{fates[fate]} {fate}" for fate in Fate if fates[fate])
    click.echo(f"{len(verdicts)} mistakes: {said}", err=as_json)
    if anyway:
        click.echo(f"without any mistake, this fails: {anyway}", err=True)
        sys.exit(2)
    sys.exit(fates[Fate.SURVIVED] > LARGEST_SURVIVING_SHARE * len(verdicts))


if __name__ == "__main__":
    main()
