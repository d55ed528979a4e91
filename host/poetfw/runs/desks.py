# SPDX-License-Identifier: Apache-2.0
"""Training of listening programs: this computer sends the commands, over one line per program.

With several programs, each executes its part of a step in the plan's order and stops at each of its
messages. One thread per program moves it from message to message: a sent message is fetched at
once, and a message to receive is delivered as soon as its sender has sent it. Sending never waits,
and every message precedes its receiver's wait in the plan. So the first unfinished action in the
plan's order can always proceed, or fails: there is no deadlock.
"""

from __future__ import annotations

import contextlib
import random
import shlex
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from queue import SimpleQueue
from typing import TypeVar

from poetfw.common.errors import DeviceError, WrongBoardError
from poetfw.firmware import RunRequest, Traffic
from poetfw.firmware.project import RUN_DIR
from poetfw.memory import ONLY, Message
from poetfw.runs.execution import BuildFolder, BuiltProject, fresh_image
from poetfw.runs.observer import RunObserver, StepDone
from poetfw.runs.on_board import check_board, fetch_trained, prepare_board, write_trained
from poetfw.runs.running import ProgramLog, Training
from poetfw.settings import RunSettings
from poetfw.tools import RunLog, emulator_of
from poetfw.tools.console import check_finite
from poetfw.tools.link import Desk, DeviceLink, PortLine, StatusError, Trained, open_port, piped

_Result = TypeVar("_Result")
_CAPTURE = 1
_NEVER_CAME = None

Connect = Callable[
    [BuiltProject, str | None, RunRequest], contextlib.AbstractContextManager[PortLine]
]
"""Context manager that connects to a program's firmware, at a port or on its twin."""


def reach(
    project: BuiltProject, port: str | None, request: RunRequest
) -> contextlib.AbstractContextManager[PortLine]:
    """Connect to a program's firmware: on its board at a port, or on its twin.

    Raises:
        PortBusyError, PortError: The port cannot be used.
        BoardError, OutputError, ToolError: See `on_a_twin`.
    """
    if port is not None:
        return open_port(port, project.board.console_baud)
    return on_a_twin(project, request)


@contextlib.contextmanager
def on_a_twin(project: BuiltProject, request: RunRequest) -> Iterator[PortLine]:
    """Start a program's firmware on its twin, with a fresh storage image.

    Raises:
        BoardError: The emulator cannot send input to firmware.
        OutputError: The image cannot be written.
        ToolError: The emulator is missing.
    """
    machine, folder = project.twin.machine, project.folder / RUN_DIR
    emulator = emulator_of(machine)
    emulator.require()
    command = emulator.listening(machine, project.runnable)
    fresh_image(machine, project.image, folder, request)
    with piped(command, folder) as line:
        yield line


def by_desk(
    ports: Mapping[str, str],
    build: BuildFolder,
    request: RunRequest,
    settings: RunSettings,
    observer: RunObserver,
    connect: Connect = reach,
) -> Training:
    """Train all programs by commands over a line to each one's board or twin.

    Args:
        ports: ports of the programs on boards, by memory name; the others run on twins.
        build: the build; programs for boards must already be flashed.
        request: what the firmware shall do.
        settings: settings of the run.
        observer: told of progress and of each training step.
        connect: opens the line to a program.

    Raises:
        DeviceError: A program, its board or the line fails, or programs disagree.
        UnfinishedUploadError, WrongBoardError, WrongCardError, ForeignCardError: A board or its
            storage does not hold the program.
    """
    with contextlib.ExitStack() as stack:
        # Exit waits for the pool's threads, which wait for answers until their lines are closed.
        pool = stack.enter_context(ThreadPoolExecutor(len(build.projects)))
        desks = {
            name: Desk(
                DeviceLink(
                    stack.enter_context(connect(project, ports.get(name), request)),
                    random.randrange(1, 1 << 31),
                    settings.silence_s,
                )
            )
            for name, project in build.projects.items()
        }
        return _Desks(build, ports, desks, pool, observer).train(request, settings)


class _Mail:
    """Messages of one step, passed from sending to receiving threads by their place in the step."""

    def __init__(self, count: int) -> None:
        self._boxes: list[SimpleQueue[bytes | None]] = [SimpleQueue() for _ in range(count)]

    def send(self, place: int, content: bytes) -> None:
        self._boxes[place].put(content)

    def wait_for(self, place: int) -> bytes:
        """Wait until a message is sent; returns its bytes.

        Raises:
            _AnotherFailed: The sender has failed.
        """
        content = self._boxes[place].get()
        if content is _NEVER_CAME:
            raise _AnotherFailed
        return content

    def give_up(self) -> None:
        """Wake all waiting threads with the news that no more messages come."""
        for box in self._boxes:
            box.put(_NEVER_CAME)


class _AnotherFailed(Exception):
    """Raised in threads that wait for a program that failed, which reports its error itself."""


class _Desks:
    """Listening programs, with one thread each."""

    def __init__(
        self,
        build: BuildFolder,
        ports: Mapping[str, str],
        desks: Mapping[str, Desk],
        pool: ThreadPoolExecutor,
        observer: RunObserver,
    ) -> None:
        self._build = build
        self._ports = ports
        self._desks = desks
        self._pool = pool
        self._observer = observer
        self._update_if_single = (observer if ONLY in desks else RunObserver()).activity
        """Reports transfers of a single program; with several, progress could not be told apart."""

    def on_each(
        self,
        do: Callable[[str, Desk], _Result],
        failed: Callable[[], None] = lambda: None,
    ) -> dict[str, _Result]:
        """Call a function for every program in parallel; `failed` is called as soon as one raises.

        Raises:
            DeviceError: A program fails; the message names it. Others may still be running.
        """

        def guarded(name: str) -> _Result:
            try:
                return do(name, self._desks[name])
            except BaseException:
                failed()
                raise

        futures = {self._pool.submit(guarded, name): name for name in self._desks}
        for future in as_completed(futures):
            error, name = future.exception(), futures[future]
            if isinstance(error, StatusError):
                raise DeviceError(
                    f"{_named(name)}the firmware stopped with an error: {error.message}"
                ) from error
            if isinstance(error, DeviceError) and name != ONLY:
                said = f"{_named(name)}{error.message}"
                raise DeviceError(said, *self._hints(name, error), said=error.said) from error
            if error is not None and not isinstance(error, _AnotherFailed):
                raise error
        return {name: future.result() for future, name in futures.items()}

    def _hints(self, name: str, error: DeviceError) -> tuple[str, ...]:
        """Hints of an error, with the `flash` command completed and hints to resume left out."""
        at = ["--port", self._ports[name]] if name in self._ports else []
        folder = self._build.projects[name].folder
        to_flash = shlex.join(["poetfw", "flash", "--out", str(folder), *at])
        return tuple(
            hint.replace("poetfw flash", to_flash)
            for hint in error.try_next
            if "goes on where it stopped" not in hint
        )

    def train(self, request: RunRequest, settings: RunSettings) -> Training:
        """Train and evaluate, then fetch the trained state.

        Raises:
            DeviceError: A program fails, or starts at another step.
        """
        steps, every = request.steps, request.checkpoint_every
        tells = self._build.loss_memory
        self._observer.activity(0, steps, "starting")
        self.on_each(lambda name, desk: self._prepare(name, desk, settings.resume))
        for desk in self._desks.values():
            desk.end_within(settings.timeout_s)
        done, moved = self._begin(request, settings.resume)
        failures = {name: desk.failures for name, desk in self._desks.items()}
        ticks = dict.fromkeys(self._desks, 0)
        traffic = dict.fromkeys(self._desks, Traffic())
        losses = []
        self._observer.activity(min(done, steps), steps, "training")
        for step in range(done + 1, steps + 1):
            trained = self._step(step)
            of_step = {name: each.traffic - moved[name] for name, each in trained.items()}
            for name, each in trained.items():
                ticks[name] += each.ticks
                traffic[name] += of_step[name]
                moved[name] = each.traffic
            losses.append(check_finite("loss", trained[tells].loss))
            parts = {name: each.ticks for name, each in trained.items()}
            self._observer.step(StepDone(step, steps, losses[-1], parts))
            self._observer.moved(sum(of_step.values(), Traffic()))
            self._observer.repeated(sum(d.failures - failures[n] for n, d in self._desks.items()))
            if step == steps:
                self._send_the_last()
            if step == steps or (every and step % every == 0):
                moved = self.on_each(lambda name, desk: desk.save())
                self._observer.checkpoint(step)
        metrics: tuple[float, ...] = ()
        if request.evaluate:
            metrics = self.on_each(self._evaluate)[self._build.evaluator.stages.training.here]
        summaries = self.on_each(lambda name, desk: desk.summary())
        for name, summary in summaries.items():
            used = summary.high_water_bytes, summary.stack_high_water_bytes
            self._observer.memory(name, *used)
        for desk in self._desks.values():
            desk.end_within(None)
        repeated = {name: desk.failures - failures[name] for name, desk in self._desks.items()}
        fetched = self.on_each(
            lambda name, desk: fetch_trained(
                self._build.projects[name], desk, request.capture, self._update_if_single
            )
        )
        programs = {}
        for name, project in self._build.projects.items():
            log = RunLog(
                losses=tuple(losses),
                metrics=metrics,
                ticks=ticks[name],
                resumed_from=done,
                step_traffic=traffic[name],
                **asdict(summaries[name]),
            )
            image = write_trained(project, request, fetched[name])
            programs[name] = ProgramLog(log, image, self._ports.get(name), repeated[name])
        return Training(programs)

    def _prepare(self, name: str, desk: Desk, resume: bool) -> None:
        """Check that the right program answers, and restore its initial weights unless resuming."""
        project, port = self._build.projects[name], self._ports.get(name)
        if port is None:
            check_board(project, desk)
            desk.open_storage()
            return
        others = {its.report.plan_id: n for n, its in self._build.projects.items() if n != name}
        answering = desk.hello().plan_id if others else None
        if answering in others:
            raise WrongBoardError(
                f"the program that answers at {port} is that of {others[answering]!r}",
                "give each device its own --port",
            )
        prepare_board(project, desk, resume, self._update_if_single)

    def _begin(self, request: RunRequest, resume: bool) -> tuple[int, dict[str, Traffic]]:
        """Begin the training; returns the number of steps already done, and transfers so far."""

        def begin(name: str, desk: Desk) -> tuple[int, Traffic]:
            done, moved = desk.begin(request.steps, _CAPTURE * request.capture)
            if done and not resume:
                raise DeviceError(
                    f"the board goes on after step {done}, although its storage was given the "
                    "initial weights",
                    "try another card",
                )
            return done, moved

        begun = self.on_each(begin)
        moved = {name: traffic for name, (_, traffic) in begun.items()}
        return max(done for done, _ in begun.values()), moved

    def _own(self, name: str) -> list[tuple[int, Message]]:
        """Messages of a program with their place among all; the program numbers them from 1."""
        messages = enumerate(self._build.messages)
        return [(n, each) for n, each in messages if name in (each.source, each.target)]

    def _step(self, step: int) -> dict[str, Trained]:
        if not self._build.apart:
            return self.on_each(lambda name, desk: desk.train(step))
        mail = _Mail(len(self._build.messages))

        def part(name: str, desk: Desk) -> Trained:
            own = [each for each in self._own(name) if each[1].behind is not None]
            for number, (place, message) in enumerate(own, 1):
                desk.train_part(step, number)
                if message.source == name:
                    size = self._build.size_bytes(message)
                    mail.send(place, desk.take_message(number, size))
                else:
                    desk.give_message(number, mail.wait_for(place))
            return desk.train_part(step, len(own) + 1)

        return self.on_each(part, mail.give_up)

    def _send_the_last(self) -> None:
        """Send the final values that the evaluating program lacks."""
        mail = _Mail(len(self._build.messages))

        def move(name: str, desk: Desk) -> None:
            last = [
                (number, place, message)
                for number, (place, message) in enumerate(self._own(name), 1)
                if message.behind is None
            ]
            for number, place, message in last:
                if message.source == name:
                    size = self._build.size_bytes(message)
                    mail.send(place, desk.take_message(number, size))
            for number, place, message in last:
                if message.target == name:
                    desk.give_message(number, mail.wait_for(place))

        self.on_each(move, mail.give_up)

    def _evaluate(self, name: str, desk: Desk) -> tuple[float, ...]:
        project = self._build.projects[name]
        batches = project.evaluations if project.stages.training.evaluates_here else 0
        return tuple(check_finite("metric", desk.evaluate(batch + 1)) for batch in range(batches))


def _named(name: str) -> str:
    return "" if name == ONLY else f"device {name!r}: "
