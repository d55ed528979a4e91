# SPDX-License-Identifier: Apache-2.0
"""Runs a case through the command line, in this process, and judges what came of it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import FrameType

from fuzz import formats
from fuzz.serial_line import open_scripted
from poetfw import pipeline, planning
from poetfw.boards import Board
from poetfw.cli import main, output
from poetfw.comparisons import sweep
from poetfw.models import Model
from poetfw.planning import RamNeeds
from poetfw.tools import link

CPU_LIMIT_S = 10.0
MEMORY_LIMIT_BYTES = 1 << 30
"""Beyond what the process has once everything is imported."""

DOCUMENTED = {0, 1, 2, 3, 4, 5}
_LONGEST_ERROR = 20_000
_MOST_ERROR_LINES = 80


class TooSlow(BaseException):
    """A case takes more processor time than it may; no `except Exception` holds it up."""


@dataclass
class Outcome:
    """What came of a case.

    Attributes:
        codes: exit codes of its commands.
        complaints: what must not be, in words; empty where all is well.
    """

    codes: list[int] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


class Worker:
    """Runs cases, each in fresh folders below one of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writes: list[str] = []
        self._sandbox: Path | None = None
        for name in [name for name in os.environ if name.startswith("POETFW_")]:
            del os.environ[name]
        os.environ["MPLCONFIGDIR"] = str(folder / "matplotlib")
        os.environ["HOME"] = str(folder / "home")
        (folder / "home").mkdir()
        sys.dont_write_bytecode = True  # of what a case imports first, beside its source
        sweep.local_processes = _in_this_process  # type: ignore[assignment]
        link.open_port = open_scripted  # type: ignore[assignment]
        planning.ram_needs = _remembered(planning.ram_needs)
        self._draw_pictures = pipeline.draw_pictures
        self._built = folder / "built"
        sys.addaudithook(self._watch)
        signal.signal(signal.SIGPROF, _stop)
        resource.setrlimit(resource.RLIMIT_AS, (_virtual_bytes() + MEMORY_LIMIT_BYTES,) * 2)

    def run(self, name: str, seed: int) -> Outcome:
        """Make a case, run its commands, and judge them."""
        if name in formats.NEED_PROJECT and not self._built.exists():
            pipeline.draw_pictures = _no_pictures
            formats.build_project(self._built, self.command)
        outcome = Outcome()
        # They take a second and depend on nothing else; one build in fifty draws them.
        drawn = seed % 50 == 0
        pipeline.draw_pictures = self._draw_pictures if drawn else _no_pictures
        root = self.folder / "case"
        work = root / "work"
        for made in (work, root / "tmp", root / "outside"):
            made.mkdir(parents=True)
        (root / "outside" / "sentinel").write_bytes(bytes(4096))
        tempfile.tempdir = str(root / "tmp")
        os.chdir(work)
        try:
            case = formats.FORMATS[name](Random(f"{name}:{seed}"), formats.Place(work, self._built))
            for command in case.commands:
                self._judge(outcome, command, root, case.outs)
        finally:
            os.chdir(self.folder)
            shutil.rmtree(root)
        return outcome

    def _judge(
        self, outcome: Outcome, command: list[str], root: Path, outs: tuple[str, ...]
    ) -> None:
        before = _tree(root)
        del self._writes[:]
        self._sandbox = root
        begun_s = time.process_time()
        try:
            code, out, err = self.command(command)
        except TooSlow:
            outcome.complaints.append(f"{command}: more than {CPU_LIMIT_S:g} s of processor time")
            return
        except BaseException:
            outcome.complaints.append(f"{command}: {traceback.format_exc()[-1500:]}")
            return
        finally:
            self._sandbox = None
        outcome.codes.append(code)
        complaints = list(_complaints(command, code, out, err))
        if time.process_time() - begun_s > CPU_LIMIT_S:
            complaints.append(f"{time.process_time() - begun_s:.1f} s of processor time")
        complaints += [f"writes {path}" for path in self._writes]
        after = _tree(root)
        allowed = tuple(f"work/{out}" for out in outs)
        if code != 0 and command[0] != "run":
            allowed = ()
        complaints += [
            f"changes {path}"
            for path in sorted(before.keys() | after.keys())
            if before.get(path) != after.get(path) and not path.startswith(allowed or "\0")
        ]
        outcome.complaints += [f"{command}: {complaint}" for complaint in complaints]

    def command(self, arguments: list[str]) -> tuple[int, str, str]:
        """Run `poetfw` in this process, for at most so much of the processor's time."""
        out, err = io.StringIO(), io.StringIO()
        argv, sys.argv = sys.argv, ["poetfw", *arguments]
        results, messages = output.results.file, output.messages.file
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                output.results.file, output.messages.file = out, err
                signal.setitimer(signal.ITIMER_PROF, CPU_LIMIT_S)
                code = main._run()
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            sys.argv = argv
            output.results.file, output.messages.file = results, messages
        return code, out.getvalue(), err.getvalue()

    def _watch(self, event: str, arguments: tuple[object, ...]) -> None:
        """Note what is written outside the sandbox: what is in it, the trees tell."""
        if self._sandbox is None or event not in _WRITING:
            return
        if event == "open" and not int(str(arguments[2] or 0)) & _WRITE_FLAGS:
            return
        paths = arguments[:2] if event in ("os.rename", "os.link") else arguments[:1]
        for path in paths:
            if isinstance(path, str | bytes | os.PathLike) and os.path.isabs(os.fsdecode(path)):
                real = os.path.realpath(os.path.dirname(os.fsdecode(path)))
                if not real.startswith((str(self.folder), "/dev")):
                    self._writes.append(os.fsdecode(path))


_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_WRITING = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.truncate"}


def _stop(number: int, frame: FrameType | None) -> None:
    raise TooSlow


@contextlib.contextmanager
def _in_this_process(jobs: int) -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as executor:
        yield executor


def _no_pictures(*arguments: object) -> dict[str, bytes]:
    return {}


RamNeedsOf = Callable[[Model, Sequence[Board]], RamNeeds]


def _remembered(ram_needs: RamNeedsOf) -> RamNeedsOf:
    """`poetfw models` takes seconds, mostly for batches that a case before it had as well."""
    known: dict[tuple[str, tuple[int, ...]], RamNeeds] = {}

    def remembered(model: Model, boards: Sequence[Board]) -> RamNeeds:
        key = (model.name, model.input.shape)
        if key not in known:
            known[key] = ram_needs(model, boards)
        return known[key]

    return remembered


def _virtual_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def _complaints(command: list[str], code: int, out: str, err: str) -> Iterator[str]:
    if code not in DOCUMENTED:
        yield f"exit code {code}: {err[-1500:]}"
        return
    if "Traceback" in err:
        yield f"a traceback: {err[-1500:]}"
    if len(err) > _LONGEST_ERROR or err.count("\n") > _MOST_ERROR_LINES:
        yield f"{len(err)} characters on stderr: {err[:200]!r}"
    for stream in (out, err):
        odd = Counter(c for c in stream if not c.isprintable() and c != "\n")
        if odd:
            yield f"control characters {dict(odd)} in {stream[:300]!r}"
        if any(line.startswith("FORGED") for line in stream.splitlines()):
            yield f"a forged line in {stream[:300]!r}"
    if "--json" in command and "--export" not in command:
        try:
            document = json.loads(out)
            if code:
                assert document["error"]["exit_code"] == code
                assert document["error"]["message"]
        except (ValueError, KeyError, TypeError, AssertionError) as error:
            yield f"stdout is not the one document: {error!r}: {out[:300]!r}"
    elif code and out:
        yield f"an error, and output: {out[:300]!r}"
    if code and "error:" not in err:
        yield f"exit code {code} without a word: {err[:300]!r}"


def _tree(root: Path) -> Mapping[str, tuple[int, bytes]]:
    """Everything below a folder: its mode, and its content or where it leads."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            status = os.lstat(path)
            held = b""
            if os.path.islink(path):
                held = os.fsencode(os.readlink(path))
            elif name in files and os.path.isfile(path):
                held = Path(path).read_bytes()
            found[os.path.relpath(path, root)] = (status.st_mode, held)
    return found
