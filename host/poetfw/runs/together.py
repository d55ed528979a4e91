# SPDX-License-Identifier: Apache-2.0
"""Partners at work: a program for each device, which this computer brings together.

A step on several devices goes through the plan's order. Each partner follows its own part of that,
and stops for each of its messages. Here a thread for each has it go on from message to message:
what it sends is taken at once, and what it needs is given to it as soon as its partner has sent it.
Sending waits for nobody, and a message that is waited for comes earlier in the plan than what waits
for it. So the first thing in the plan's order that is not done can always be done, or fails.
"""

from __future__ import annotations

import contextlib
import random
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from poetfw.common.errors import (
    BoardError,
    ConfigError,
    DeviceError,
    OutputError,
    WrongBoardError,
    listed,
)
from poetfw.common.reading import parse_json, read_bytes
from poetfw.firmware import RunRequest, SlotPurpose, check_image, read_slots
from poetfw.firmware.project import RUN_DIR
from poetfw.memory import Message, StepPlan
from poetfw.ops import Array
from poetfw.pipeline import PROGRAMS
from poetfw.planning import Progress
from poetfw.report import PartnerRun, PartnersReport
from poetfw.runs.execution import BuiltProject, SlotValues, fresh_image, open_project
from poetfw.runs.on_board import Update, check_board, fetch_trained, prepare_board, write_trained
from poetfw.runs.running import evaluate_log, make_request, program_run
from poetfw.runs.verification import Run, verify
from poetfw.schedule import StepKind
from poetfw.settings import RunSettings
from poetfw.tools import RunLog, emulator_of
from poetfw.tools.console import check_finite
from poetfw.tools.link import (
    Desk,
    Line,
    Link,
    StatusError,
    Summary,
    Trained,
    open_port,
    piped,
)
from poetfw.training import Program

_Result = TypeVar("_Result")
_CAPTURE = 1
_NEVER_CAME = None


@dataclass(frozen=True)
class Partner:
    """A device with a program of its own.

    Attributes:
        project: the program's.
        plan: its part of the training step.
        messages: those that it sends or gets, each with its place among all; its program counts
            them from 1, those of a step first.
        port: where its board is; None if its twin runs its program.
    """

    project: BuiltProject
    plan: StepPlan
    messages: tuple[tuple[int, Message], ...]
    port: str | None

    @property
    def of_a_step(self) -> tuple[tuple[int, Message], ...]:
        """Those that a training step stops for."""
        return tuple(each for each in self.messages if each[1].behind is not None)


Connect = Callable[[Partner, RunRequest], contextlib.AbstractContextManager[Line]]
"""A line to a partner's firmware, which listens as long as the `with` block runs."""


@dataclass(frozen=True)
class Partners:
    """The programs that `poetfw build --apart` wrote and compiled.

    Attributes:
        folder: where it is.
        each: the partners, by their devices' names.
        messages: all messages, in their order.
    """

    folder: Path
    each: Mapping[str, Partner]
    messages: tuple[Message, ...]

    @property
    def evaluator(self) -> Partner:
        """The one that evaluates held-out samples."""
        first = next(iter(self.each.values()))
        return self.each[first.plan.evaluates]

    @property
    def program(self) -> Program:
        """The program that they train together."""
        return self.evaluator.project.stages.program

    def size_bytes(self, message: Message) -> int:
        """Bytes of a message."""
        return self.evaluator.project.tensors[message.tensor].size_bytes


def holds_partners(folder: Path) -> bool:
    """True if a folder is one that `poetfw build --apart` wrote."""
    return (folder / PROGRAMS).is_file()


def open_partners(
    folder: Path, emulator: str | None = None, ports: Mapping[str, str] | None = None
) -> Partners:
    """The partners' projects in a folder.

    Args:
        folder: where they are.
        emulator: which twin shall run each whose board has it; None for the first of each.
        ports: by a device's name, where its board is; twins run the others' programs.

    Raises:
        BoardError: no board of those on twins has such a twin.
        ConfigError: a port is given for a device that there is not.
        DeviceError: the storage image of one is missing, damaged, or of another build.
        OutputError: a project is missing, not compiled, or of another build than the others.
    """
    try:
        document = parse_json(read_bytes(folder / PROGRAMS))
        plan_ids = {str(each["name"]): str(each["plan_id"]) for each in document["devices"]}
        listed_messages = document["messages"]
        if not plan_ids or any(Path(name).name != name for name in plan_ids):
            raise ValueError("it names no devices")
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise OutputError(
            f"{folder / PROGRAMS} is malformed: {error}", "run `poetfw build` again"
        ) from error
    ports = ports or {}
    if unknown := [name for name in ports if name not in plan_ids]:
        raise ConfigError(
            f"--port is given for {unknown[0]!r:.200}, and {folder} has the devices "
            f"{listed([repr(name) for name in plan_ids])}"
        )
    projects = {name: open_project(folder / name, on_board=name in ports) for name in plan_ids}
    if emulator is not None:
        twins = {name: project for name, project in projects.items() if name not in ports}
        projects |= _on_twin(twins, emulator)
    partners = {}
    first = next(iter(projects.values()))
    for name, project in projects.items():
        plan = project.stages.training
        if (
            project.report.plan_id != plan_ids[name]
            or plan.memories != tuple(plan_ids)
            or plan != first.stages.training.of(name)
            or project.stages.program.to_json() != first.stages.program.to_json()
        ):
            raise _other_build(folder / name)
        messages = plan.messages(project.stages.program)
        if [message._asdict() for message in messages] != listed_messages:
            raise _other_build(folder / name)
        check_image(project.image, project.report.plan_id)
        own = [
            (place, message)
            for place, message in enumerate(messages)
            if name in (message.source, message.target)
        ]
        partners[name] = Partner(project, plan, tuple(own), ports.get(name))
    return Partners(folder, partners, messages)


def _other_build(folder: Path) -> OutputError:
    return OutputError(
        f"{folder} is of another build than its partners", "run `poetfw build` again"
    )


def _on_twin(projects: Mapping[str, BuiltProject], emulator: str) -> dict[str, BuiltProject]:
    if not any(emulator == twin.name for p in projects.values() for twin in p.board.twins):
        raise BoardError(
            f"no device's board has a twin {emulator!r}", "`poetfw boards` shows those there are"
        )
    chosen = {}
    for name, project in projects.items():
        has_it = any(emulator == twin.name for twin in project.board.twins)
        twin = project.board.twin(emulator) if has_it else project.twin
        twin = replace(twin, machine=replace(twin.machine, threads=None))
        chosen[name] = replace(project, twin=twin)
        if not chosen[name].runnable.is_file():
            raise OutputError(
                f"{chosen[name].runnable}, the compiled firmware, is gone",
                "run `poetfw build` again",
            )
    return chosen


def reach(partner: Partner, request: RunRequest) -> contextlib.AbstractContextManager[Line]:
    """A partner's firmware: its board's at its port, or its twin's.

    Raises:
        PortBusyError, PortError: the port cannot be used.
        BoardError, OutputError, ToolError: as of `on_a_twin`.
    """
    if partner.port is not None:
        return open_port(partner.port, partner.project.board.console_baud)
    return on_a_twin(partner.project, request)


@contextlib.contextmanager
def on_a_twin(project: BuiltProject, request: RunRequest) -> Iterator[Line]:
    """A partner's firmware on its twin, with a fresh storage image.

    Raises:
        BoardError: nothing can be said to firmware there.
        OutputError: the image cannot be written.
        ToolError: the emulator is missing.
    """
    machine, folder = project.twin.machine, project.folder / RUN_DIR
    emulator = emulator_of(machine)
    emulator.require()
    command = emulator.listening(machine, project.runnable)
    fresh_image(machine, project.image, folder, request)
    with piped(command, folder) as line:
        yield line


# A training ------------------------------------------------------------------------------------


def run_partners(
    partners: Partners,
    settings: RunSettings,
    progress: Progress,
    update: Update,
    connect: Connect = reach,
) -> PartnersReport:
    """Have partners train together, and verify that if asked to.

    Args:
        partners: what was built.
        settings: of the run.
        progress: called with what begins.
        update: called as the training goes on.
        connect: how each one's firmware is reached.

    Raises:
        ConfigError: the settings are not usable.
        DeviceError: a partner, or the line to it, fails; or partners do not agree.
    """
    request = make_request(partners.evaluator.project, settings)
    with contextlib.ExitStack() as stack:
        # It waits for its threads, and those for answers until their lines are closed.
        pool = stack.enter_context(ThreadPoolExecutor(len(partners.each)))
        desks = {
            name: Desk(
                Link(
                    stack.enter_context(connect(partner, request)),
                    random.randrange(1, 1 << 31),
                    settings.silence_s,
                )
            )
            for name, partner in partners.each.items()
        }
        together = _Together(partners, desks, pool, settings.timeout_s)
        log, trained = together.train(request, update)
        summaries = together.on_each(lambda name, desk: desk.summary())
        for desk in desks.values():
            desk.end_within(None)
        fetched = together.on_each(
            lambda name, desk: _fetch(partners.each[name], desk, settings.verify)
        )
    images = {
        name: write_trained(partner.project, request, fetched[name])
        for name, partner in partners.each.items()
    }
    values = _joined(partners, images)
    verification = None
    if settings.verify:
        run = Run(
            partners.evaluator.project,
            request,
            log,
            values,
            settings.timeout_s,
            settings.silence_s,
            begun=_joined(partners, {n: p.project.image for n, p in partners.each.items()}),
        )
        verification = verify(run, progress)
    kept = evaluate_log(partners.evaluator.project, request.steps, log)
    per_step = [m for m in partners.messages if m.behind is not None]
    return PartnersReport(
        steps=request.steps,
        loss=log.losses,
        accuracy=kept.accuracy,
        held_out_loss=kept.held_out_loss,
        messages=len(per_step),
        message_bytes=sum(map(partners.size_bytes, per_step)),
        planned_step_s=partners.evaluator.project.report.schedule.time_s,
        devices={
            name: _report(
                partners, name, trained[name], summaries[name], together.repeated[name], images
            )
            for name in partners.each
        },
        verify=verification,
    )


def _fetch(partner: Partner, desk: Desk, captures: bool) -> Mapping[int, bytes]:
    project = partner.project
    return fetch_trained(project, desk, captures, lambda done, of, text: None)


class _Mail:
    """The messages of one step, from the threads that take them to those that give them."""

    def __init__(self, count: int) -> None:
        self._boxes: list[SimpleQueue[bytes | None]] = [SimpleQueue() for _ in range(count)]

    def send(self, place: int, content: bytes) -> None:
        self._boxes[place].put(content)

    def wait_for(self, place: int) -> bytes:
        """A message, as soon as it was sent.

        Raises:
            _PartnerFailed: it never will be.
        """
        content = self._boxes[place].get()
        if content is _NEVER_CAME:
            raise _PartnerFailed
        return content

    def give_up(self) -> None:
        """Nothing more will come."""
        for box in self._boxes:
            box.put(_NEVER_CAME)


class _PartnerFailed(Exception):
    """A partner of the one that raises this failed, and says why itself."""


class _Together:
    """Partners that listen, and a thread for each."""

    def __init__(
        self,
        partners: Partners,
        desks: Mapping[str, Desk],
        pool: ThreadPoolExecutor,
        timeout_s: float,
    ) -> None:
        self._partners = partners
        self._desks = desks
        self._pool = pool
        self._timeout_s = timeout_s
        self._sent_again: dict[str, int] = {}

    def on_each(
        self,
        do: Callable[[str, Desk], _Result],
        failed: Callable[[], None] = lambda: None,
    ) -> dict[str, _Result]:
        """Do something with each partner, at once; `failed` is called as soon as one fails.

        Raises:
            DeviceError: a partner fails; the message names it. Others may not be done yet.
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
                    f"device {name!r}: its firmware stopped with an error: {error.message}"
                ) from error
            if isinstance(error, DeviceError):
                said = f"device {name!r}: {error.message}"
                raise DeviceError(said, *self._hints(name, error), said=error.said) from error
            if error is not None and not isinstance(error, _PartnerFailed):
                raise error
        return {name: future.result() for future, name in futures.items()}

    def _hints(self, name: str, error: DeviceError) -> tuple[str, ...]:
        """Advice: no command goes on where it stopped, and `flash` must know what to flash."""
        partner = self._partners.each[name]
        at = [] if partner.port is None else ["--port", partner.port]
        to_flash = shlex.join(["poetfw", "flash", "--out", str(partner.project.folder), *at])
        return tuple(
            hint.replace("poetfw flash", to_flash)
            for hint in error.try_next
            if "goes on where it stopped" not in hint
        )

    @property
    def repeated(self) -> Mapping[str, int]:
        """By device, how many commands had to be sent again since the training began."""
        return {name: desk.failures - self._sent_again[name] for name, desk in self._desks.items()}

    def train(
        self, request: RunRequest, update: Update
    ) -> tuple[RunLog, dict[str, Sequence[Trained]]]:
        """A whole training, and its evaluation; what all came to, and each one's steps.

        Raises:
            DeviceError: a partner fails, or begins elsewhere.
        """
        partners, steps = self._partners, request.steps
        update(0, steps, "starting")
        self.on_each(self._prepare)
        for desk in self._desks.values():
            desk.end_within(self._timeout_s)
        self.on_each(lambda name, desk: self._begin(desk, request))
        self._sent_again = {name: desk.failures for name, desk in self._desks.items()}
        trained: dict[str, list[Trained]] = {name: [] for name in self._desks}
        losses = []
        tells = _updaters(partners)[partners.program.loss.name]
        update(0, steps, "training")
        for step in range(1, steps + 1):
            for name, each in self._step(step).items():
                trained[name].append(each)
            losses.append(check_finite("loss", trained[tells][-1].loss))
            update(step, steps, f"loss {losses[-1]:.4f}")
        self._send_the_last()
        self.on_each(lambda name, desk: desk.save())
        metrics = self._evaluate()
        log = RunLog(
            losses=tuple(losses),
            metrics=metrics,
            ticks=0,
            tick_unit="",
            high_water_bytes=0,
            stack_high_water_bytes=0,
            storage_bytes_read=0,
            storage_bytes_written=0,
        )
        return log, dict(trained)

    def _prepare(self, name: str, desk: Desk) -> None:
        """Check that it is the right one, and that it begins with the initial weights."""
        partner = self._partners.each[name]
        if partner.port is None:
            check_board(partner.project, desk)
            desk.open_storage()
            return
        answering = desk.hello().plan_id
        for other, its in self._partners.each.items():
            if other != name and its.project.report.plan_id == answering:
                raise WrongBoardError(
                    f"the program that answers at {partner.port} is that of {other!r}",
                    "give each device its own --port",
                )
        prepare_board(partner.project, desk, False, lambda done, of, text: None)

    def _begin(self, desk: Desk, request: RunRequest) -> None:
        done = desk.begin(request.steps, _CAPTURE * request.capture)
        if done:
            raise DeviceError(f"it goes on after step {done}, although its storage is fresh")

    def _step(self, step: int) -> dict[str, Trained]:
        mail = _Mail(len(self._partners.messages))

        def part(name: str, desk: Desk) -> Trained:
            own = self._partners.each[name].of_a_step
            for number, (place, message) in enumerate(own, 1):
                desk.train_part(step, number)
                if message.source == name:
                    size = self._partners.size_bytes(message)
                    mail.send(place, desk.take_message(number, size))
                else:
                    desk.give_message(number, mail.wait_for(place))
            return desk.train_part(step, len(own) + 1)

        return self.on_each(part, mail.give_up)

    def _send_the_last(self) -> None:
        """Send the one that evaluates what it lacks."""
        mail = _Mail(len(self._partners.messages))

        def move(name: str, desk: Desk) -> None:
            own = self._partners.each[name].messages
            for number, (place, message) in enumerate(own, 1):
                if message.behind is None and message.source == name:
                    size = self._partners.size_bytes(message)
                    mail.send(place, desk.take_message(number, size))
            for number, (place, message) in enumerate(own, 1):
                if message.behind is None and message.target == name:
                    desk.give_message(number, mail.wait_for(place))

        self.on_each(move, mail.give_up)

    def _evaluate(self) -> tuple[float, ...]:
        evaluator = self._partners.evaluator

        def evaluate(name: str, desk: Desk) -> tuple[float, ...]:
            batches = evaluator.project.evaluations if name == evaluator.plan.here else 0
            return tuple(
                check_finite("metric", desk.evaluate(batch + 1)) for batch in range(batches)
            )

        return self.on_each(evaluate)[evaluator.plan.here]


# What it came to -------------------------------------------------------------------------------


def _updaters(partners: Partners) -> Mapping[str, str]:
    """By the name of each tensor that a training step updates, the device that does."""
    ops = {op.name: op for op in partners.program.training.ops}
    return {
        name: step.device
        for step in partners.evaluator.plan.steps
        if step.kind is StepKind.COMPUTE
        for name in ops[step.node].updates
    }


def _joined(partners: Partners, images: Mapping[str, Path]) -> SlotValues:
    """The slots of all partners together.

    Raises:
        DeviceError: an image is none of its partner, or two partners have different values.
    """
    updaters = _updaters(partners)
    program = partners.program
    own = {  # each of which only one device knows, although all have room for it
        program.loss.name: updaters[program.loss.name],
        program.metric.name: partners.evaluator.plan.here,
    }
    joined: dict[tuple[str, SlotPurpose], Array] = {}
    said_by: dict[tuple[str, SlotPurpose], str] = {}
    for name, partner in partners.each.items():
        project = partner.project
        values = read_slots(images[name], project.stages.slots, project.tensors)
        for key, value in values.items():
            if own.get(key[0], name) != name:
                continue
            if key in joined and joined[key].tobytes() != value.tobytes():
                raise DeviceError(
                    f"devices {said_by[key]!r} and {name!r} have different values of {key[0]!r}",
                    "build again, and run once more; if it happens again, it is a bug in poetfw",
                )
            joined.setdefault(key, value)
            said_by.setdefault(key, name)
    return joined


def _report(
    partners: Partners,
    name: str,
    trained: Sequence[Trained],
    summary: Summary,
    repeated: int,
    images: Mapping[str, Path],
) -> PartnerRun:
    partner = partners.each[name]
    project, plan = partner.project, partner.plan
    (arena,) = (part.arena for part in plan.own)
    sent = [m for _, m in partner.of_a_step if m.source == name]
    ticks = sum(each.ticks for each in trained)
    high_water_bytes = max(0, summary.high_water_bytes - arena.offset)
    ended = replace(summary, high_water_bytes=high_water_bytes)
    return PartnerRun(
        **vars(program_run(project, partner.port, images[name], len(trained), ticks, ended)),
        computed=sum(s.kind is StepKind.COMPUTE and s.device == name for s in plan.steps),
        sent_bytes=sum(map(partners.size_bytes, sent)),
        arena_bytes=arena.size_bytes,
        resident_bytes=arena.offset,
        ticks=ticks,
        tick_unit=summary.tick_unit,
        repeated_commands=repeated,
    )
