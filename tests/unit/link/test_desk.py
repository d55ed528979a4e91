# SPDX-License-Identifier: Apache-2.0
"""Storage and training over a line: without noise, with some, with much, and with other boards."""

from __future__ import annotations

import contextlib
import itertools
import math
from dataclasses import replace
from pathlib import Path
from random import Random
from zlib import crc32

import pytest
from link_device import BLOCK, Device, Noise, Simulated, run_at_desk, sample_image, sample_project

from emulator.firmware_tools import committed_set, set_offset
from poetfw.common.errors import (
    DeviceError,
    ForeignCardError,
    NoAnswerError,
    NoisyLineError,
    UnfinishedUploadError,
    WrongBoardError,
    WrongCardError,
)
from poetfw.firmware import PARTITION_BLOCK, UNFINISHED, Traffic, read_commit
from poetfw.report import RunReport
from poetfw.runs import on_board
from poetfw.runs.execution import BuiltProject
from poetfw.runs.observer import Reporting, RunObserver, StepDone
from poetfw.settings import RunSettings
from poetfw.tools.link import Desk, DeviceLink
from poetfw.tools.link.desk import Summary
from poetfw.tools.link.frames import encode_command

STEPS = 3


@pytest.fixture
def image(monkeypatch: pytest.MonkeyPatch) -> bytes:
    return sample_image(monkeypatch, steps=STEPS)


@pytest.fixture
def project(tmp_path: Path, image: bytes) -> BuiltProject:
    return sample_project(tmp_path, image)


def quiet(done: int, total: int, text: str) -> None:
    assert 0 <= done <= total


def desk_of(device: Device, noise: Noise | None = None) -> Desk:
    return Desk(DeviceLink(Simulated(device, noise)))


def flash(project: BuiltProject, desk: Desk, force: bool = False) -> on_board.Upload:
    return on_board.flash_storage(project, desk, force, quiet)


def run(
    project: BuiltProject,
    desk: Desk,
    steps: int = STEPS,
    every: int = 0,
    resume: bool = False,
    observer: RunObserver | None = None,
) -> RunReport:
    settings = RunSettings(steps, checkpoint_every=every, resume=resume)
    return run_at_desk(project, settings, desk, "here", observer or Reporting(quiet))


def test_what_is_there_is_not_sent_again(
    device: Device, project: BuiltProject, image: bytes
) -> None:
    blocks = len(image) // BLOCK
    blank = sum(not any(image[i : i + BLOCK]) for i in range(0, len(image), BLOCK))
    assert flash(project, desk_of(device)) == on_board.Upload(blocks, blocks - blank)
    assert device.storage[: len(image)] == image
    assert not any(device.storage[len(image) :])
    assert flash(project, desk_of(device)) == on_board.Upload(blocks, 0)
    changed = bytearray(image)
    changed[20 * BLOCK] ^= 1
    device.storage = bytes(changed)
    assert flash(project, desk_of(device)).sent == 1
    assert device.storage[: len(image)] == image


def test_a_run_starts_from_the_image_and_is_reported(
    device: Device, project: BuiltProject, image: bytes, tmp_path: Path
) -> None:
    flash(project, desk_of(device))
    report = run(project, desk_of(device))
    assert (report.port, report.emulator, report.emulated) == ("here", None, False)
    assert (report.steps, len(report.loss)) == (STEPS, STEPS)
    assert (report.planned_step_s, report.step_s) == (0.5, 1e-9)
    # As tests/unit/runtime/test_run.py counts.
    read = 5 + STEPS * (4 * 3 + 6) + 2 + 2 * 4 * 3
    assert report.storage_bytes_read == read * BLOCK
    assert report.storage_bytes_written == (STEPS * 6 + 2) * BLOCK
    assert report.step_traffic == report.planned_traffic
    assert report.step_traffic == Traffic(18, 18 * BLOCK, 6 * BLOCK) * STEPS
    assert report.blocks_written == STEPS * 6 + 2
    assert report.blocks_per_epoch == pytest.approx((STEPS * 6 + 2) / (STEPS * 4 / 10))
    assert report.high_water_bytes == 2968
    assert report.ticks > 0
    assert report.instructions is None  # its ticks are others
    trained = Path(report.trained).read_bytes()
    assert trained[:BLOCK] == image[:BLOCK]
    sets = len(image) - 16 * BLOCK
    assert trained[sets:] == device.storage[sets : len(image)]
    assert committed_set(device.storage) == 1
    assert trained[sets + 8 * BLOCK :][:4] not in (bytes(4), image[sets : sets + 4])
    again = run(project, desk_of(device))
    assert again.loss == report.loss  # the weights were put back before

    out = tmp_path / "pulled"
    on_board.pull(project, desk_of(device), out, quiet)
    assert out.read_bytes() == device.storage[: len(image)]


def test_a_run_is_resumed_at_the_last_checkpoint(
    device: Device, project: BuiltProject, image: bytes
) -> None:
    """Pulled out at any command; and a new run, which is not resumed, finds nothing of the old."""
    flash(project, desk_of(device))
    whole = run(project, desk_of(device), every=1)
    trained = Path(whole.trained).read_bytes()
    assert whole.resumed_from == 0
    found = set()
    for stops in range(12, 60, 2):
        device.storage = image
        line = Simulated(device)
        line.dead_after = stops
        with contextlib.suppress(NoAnswerError):
            run(project, Desk(DeviceLink(line)), every=1)
        device.reset()
        report = run(project, desk_of(device), every=1, resume=True)
        assert report.loss == whole.loss[report.resumed_from :]
        assert Path(report.trained).read_bytes() == trained
        assert report.step_traffic == report.planned_traffic
        found.add(report.resumed_from)
    assert found == set(range(STEPS + 1))
    fewer = run(project, desk_of(device), steps=1, resume=True)
    assert (fewer.steps, fewer.resumed_from, fewer.loss) == (STEPS, STEPS, ())
    assert run(project, desk_of(device), every=1).loss == whole.loss


def test_a_commit_that_is_not_whole_is_not_fetched(device: Device, project: BuiltProject) -> None:
    """The board ends right, and its storage then damages a slot: the commit before is taken."""
    flash(project, desk_of(device))
    whole = run(project, desk_of(device), every=1)
    last = set_offset(device.storage, committed_set(device.storage))
    desk = desk_of(device)
    summary = desk.summary

    def damage() -> Summary:
        content = bytearray(device.storage)
        content[last] ^= 1
        device.storage = bytes(content)
        return summary()

    desk.summary = damage  # type: ignore[method-assign]
    report = run(project, desk, every=1)
    commit = read_commit(Path(report.trained), project.stages.slots)
    assert report.loss == whole.loss
    assert commit.step == STEPS - 1


def test_erases_before_a_training_are_not_its_own(device: Device, project: BuiltProject) -> None:
    flash(project, desk_of(device))
    assert run(project, desk_of(device)).storage_erases is None
    device.set("test_erases", 7)
    assert run(project, desk_of(device)).storage_erases == 0


def test_a_storage_without_a_whole_commit_is_told(device: Device, project: BuiltProject) -> None:
    flash(project, desk_of(device))
    run(project, desk_of(device))
    kept = set_offset(device.storage, 0)
    device.storage = device.storage[:kept] + bytes(len(device.storage) - kept)
    with pytest.raises(DeviceError, match="holds no commit that is whole"):
        on_board.fetch_trained(project, desk_of(device), False, quiet)


def test_a_block_is_put_without_those_behind_it(device: Device, project: BuiltProject) -> None:
    """A slot that failed to be written has told the flash to forget it; a host puts its first."""
    flash(project, desk_of(device))
    storage = device.storage
    first = set_offset(storage, 0) // BLOCK
    device.forget(first, 2)
    desk_of(device).write_block(first, b"\x11" * BLOCK)
    assert device.storage[first * BLOCK :][:BLOCK] == b"\x11" * BLOCK
    assert device.storage[(first + 1) * BLOCK :] == storage[(first + 1) * BLOCK :]


def test_a_card_that_keeps_an_old_commit_is_told(device: Device, project: BuiltProject) -> None:
    flash(project, desk_of(device))
    run(project, desk_of(device))
    held = device.storage
    desk = desk_of(device)
    begin = desk.begin

    def forget(steps: int, flags: int) -> int:
        device.storage = held
        return begin(steps, flags)

    desk.begin = forget  # type: ignore[method-assign]
    with pytest.raises(DeviceError, match="goes on after step 3, although"):
        run(project, desk)


@pytest.mark.parametrize(("timeout_s", "steps"), [(0.02, 1000), (5.0, 1)])
def test_a_training_ends_with_its_time(
    device: Device, project: BuiltProject, timeout_s: float, steps: int
) -> None:
    """While each step is quick, and when one is not answered at all."""
    line = Simulated(device)
    desk = Desk(DeviceLink(line))
    flash(project, desk)
    settings = RunSettings(steps, timeout_s=timeout_s)
    trained: list[float] = []

    def update(done: int, total: int, text: str) -> None:
        if text == "training":
            trained.append(line.now_s())
            line.dead_after = math.inf if steps > 1 else line.writes

    with pytest.raises(DeviceError, match=f"did not end within {timeout_s:g} s") as caught:
        run_at_desk(project, settings, desk, "here", Reporting(update))
    assert "--timeout" in caught.value.try_next[0]
    assert 0 <= line.now_s() - trained[0] <= timeout_s + 0.01


class Recorder(RunObserver):
    """Observer that keeps what it is told."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.traffic: list[Traffic] = []
        self.checkpoints: list[int] = []
        self.sent_again = 0
        self.used: dict[str, tuple[int, int]] = {}

    def step(self, step: StepDone) -> None:
        self.losses.append(step.loss)

    def moved(self, traffic: Traffic) -> None:
        self.traffic.append(traffic)

    def checkpoint(self, step: int) -> None:
        self.checkpoints.append(step)

    def repeated(self, commands: int) -> None:
        self.sent_again = commands

    def memory(self, name: str, arena_bytes: int, stack_bytes: int) -> None:
        self.used[name] = arena_bytes, stack_bytes


def test_an_observer_is_told_what_happens(device: Device, project: BuiltProject) -> None:
    flash(project, desk_of(device))
    seen = Recorder()
    report = run(project, desk_of(device, Noise(0.001, Random(3))), every=2, observer=seen)
    assert seen.losses == list(report.loss)
    assert seen.traffic == [Traffic(18, 18 * BLOCK, 6 * BLOCK)] * STEPS
    assert seen.checkpoints == [*range(2, STEPS, 2), STEPS]
    assert 0 < seen.sent_again <= report.repeated_commands
    assert seen.used == {"": (report.high_water_bytes, report.stack_high_water_bytes)}


def test_a_step_whose_answer_is_lost_is_not_trained_again(
    device: Device, project: BuiltProject
) -> None:
    flash(project, desk_of(device))
    desk = desk_of(device)
    desk.begin(2, 0)
    assert desk.train(1) == desk.train(1)
    assert device.get("test_steps") == 1
    with pytest.raises(DeviceError, match="it was reset"):
        desk.train(3)
    desk.train(2)
    with pytest.raises(DeviceError, match="it was reset"):
        desk.train(3)  # there are two
    with pytest.raises(DeviceError, match="it was reset"):
        desk.evaluate(0)
    desk.begin(3, 0)
    desk.train(1)
    with pytest.raises(DeviceError, match="it was reset"):
        desk.train(3)  # without the second
    blocks = device.get("test_blocks")
    device.set("test_blocks", 1)
    with pytest.raises(DeviceError, match="status -9"):
        desk.begin(3, 0)
    device.set("test_blocks", blocks)
    with pytest.raises(DeviceError, match="it was reset"):
        desk.train(1)
    device.reset()
    for ask in (lambda: desk.train(3), desk.save, lambda: desk.evaluate(1)):
        with pytest.raises(DeviceError, match="it was reset"):
            ask()
    assert device.get("test_steps") == 3


def test_a_board_that_is_reset_between_two_parts_of_a_block(device: Device) -> None:
    desk = desk_of(device)
    block = Random(1).randbytes(BLOCK)
    told, resets = device.tell, itertools.count()

    def tell(text: bytes) -> bytes:
        if b" put " in text and next(resets) == 0:
            device.reset()
        return told(text)

    device.tell = tell  # type: ignore[method-assign]
    desk.write_block(5, block)
    assert device.storage[5 * BLOCK : 6 * BLOCK] == block


# Noise -----------------------------------------------------------------------------------------


def session(firmware: Path, project: BuiltProject, image: bytes, rate: float, seed: int) -> bool:
    """Flash, train and pull over a noisy line; whether it came to its end, and then it is right."""
    reference = Device(firmware)
    reference.storage = image
    report = run(project, desk_of(reference), 2)

    device, noise = Device(firmware), Noise(rate, Random(seed))
    before = Random(seed).randbytes(BLOCK) * 128 if seed % 2 else bytes(128 * BLOCK)
    device.storage = before
    desk, out = desk_of(device, noise), project.folder / f"{seed}.img"
    try:
        flash(project, desk, force=True)
        assert device.storage[: len(image)] == image
        noisy = run(project, desk, 2)
        on_board.pull(project, desk, out, quiet)
    except (NoisyLineError, NoAnswerError):
        assert not out.exists()
        for i in range(128):  # no block holds anything but what it may
            held = device.storage[i * BLOCK :][:BLOCK]
            slots = len(image) // BLOCK - 23
            allowed = (before[i * BLOCK :][:BLOCK], image[i * BLOCK :][:BLOCK], UNFINISHED)
            trained = slots <= i < slots + 23
            assert held in allowed or trained, i
        return False
    assert noisy.loss == report.loss
    assert noisy.held_out_loss == report.held_out_loss
    assert device.get("test_steps") == 2  # repeated commands train nothing twice
    assert out.read_bytes() == device.storage[: len(image)] == reference.storage[: len(image)]
    assert noise.faults > 0 or not rate
    return True


@pytest.mark.parametrize("seed", range(12))
def test_a_noisy_line_costs_time_only(
    firmware: Path, project: BuiltProject, image: bytes, seed: int
) -> None:
    assert session(firmware, project, image, 1e-3, seed)


@pytest.mark.parametrize("seed", range(4))
def test_a_line_too_noisy_is_right_or_given_up(
    firmware: Path, project: BuiltProject, image: bytes, seed: int
) -> None:
    session(firmware, project, image, 1e-2, seed)


@pytest.mark.slow
def test_a_thousand_noisy_sessions(firmware: Path, project: BuiltProject, image: bytes) -> None:
    ended = [session(firmware, project, image, 1e-3, seed) for seed in range(100, 1000)]
    assert all(ended)
    much = [session(firmware, project, image, 1e-2, seed) for seed in range(1000, 1100)]
    print(f"{sum(much)} of {len(much)} at 1e-2")


def test_a_line_of_nothing_but_noise_is_given_up(device: Device) -> None:
    with pytest.raises(NoisyLineError, match="the line is too noisy"):
        desk_of(device, Noise(0.3, Random(1))).hello()


class Chatter(Simulated):
    """A line on which something else talks, too, for some seconds."""

    def __init__(self, device: Device, said: bytes, until_s: float = math.inf) -> None:
        super().__init__(device)
        self._said_else, self._until_s = said, until_s

    def read(self, timeout_s: float) -> bytes:
        arrived = super().read(timeout_s)
        return self._said_else + arrived if self.now_s() < self._until_s else arrived


@pytest.mark.parametrize(
    "said", [b"\xff\x00 $GPGGA,1\r\n", b"\xfe\x80\x66" * 20], ids=["lines", "bytes"]
)
def test_what_talks_but_never_answers_is_given_up_soon(device: Device, said: bytes) -> None:
    line = Chatter(device, said)
    line.dead_after = 0
    with pytest.raises(NoisyLineError, match="no whole answer came to the command 'hello'"):
        Desk(DeviceLink(line)).hello()
    assert 5 <= line.now_s() < 7


@pytest.mark.parametrize(
    ("said", "until_s", "answers_s"),
    [(b"booting\n", 4, 4), (b"rest of a line\n", 1, 20), (b"@step 1\n~\n", 20, 20)],
    ids=str,
)
def test_a_board_may_talk_before_it_answers(
    device: Device, said: bytes, until_s: float, answers_s: float
) -> None:
    """What is no answer for some seconds only, and its console for as long as it trains."""
    line = Chatter(device, said, until_s)
    tell = device.tell
    device.tell = lambda text: tell(text) if line.now_s() > answers_s else b""  # type: ignore[method-assign]
    assert Desk(DeviceLink(line)).hello()
    assert answers_s < line.now_s() < answers_s + 1


def test_a_board_that_says_nothing_is_given_up(device: Device) -> None:
    line = Simulated(device)
    line.dead_after = 0
    with pytest.raises(NoAnswerError, match="the board does not answer"):
        Desk(DeviceLink(line)).hello()
    assert 20 < line.now_s() < 40
    assert line.writes < 800
    line.dead_after = line.writes + 1
    desk = Desk(DeviceLink(line))
    desk.hello()
    before_s = line.now_s()
    with pytest.raises(NoAnswerError):
        desk.train(1)
    assert 100 < line.now_s() - before_s < 150
    assert line.writes < 800 + 10


def test_how_long_a_board_may_say_nothing_can_be_said(device: Device) -> None:
    """Of what may take it long; who asks for it is told what to raise, and nobody else."""
    for silence_s, most_s in ((None, 120), (7.0, 7), (1000.0, 1000)):
        line = Simulated(device)
        line.dead_after = 1
        desk = Desk(DeviceLink(line, silence_s=silence_s))
        desk.hello()
        before_s = line.now_s()
        with pytest.raises(NoAnswerError, match=f"it said nothing for {most_s} s") as caught:
            desk.train(1)
        assert line.now_s() - before_s == pytest.approx(most_s, abs=1)
        hints = " ".join(caught.value.try_next)
        assert ("raise --silence" in hints) == (silence_s is not None)
        with pytest.raises(NoAnswerError, match="it said nothing for 30 s") as caught:
            desk.hello()
        assert "--silence" not in " ".join(caught.value.try_next)


def test_what_is_left_of_a_command_does_not_spoil_the_next(device: Device) -> None:
    told = device.tell
    device.tell = lambda text: told(text[:-1] if text[:1] != b"%" else text)  # type: ignore[method-assign]
    line = Simulated(device)
    link = DeviceLink(line)
    Desk(link).hello()
    assert (line.writes, link.failures) == (2, 1)


def test_late_answers_are_not_taken_for_others(device: Device) -> None:
    told = device.tell
    late = device.tell(encode_command(3, "sums", 0, 1))
    device.storage = b"x" * BLOCK
    device.tell = lambda text: late + told(text)  # type: ignore[method-assign]
    link = DeviceLink(Simulated(device), first=4)
    assert Desk(link).checksums(0, 1) == [crc32(b"x" * BLOCK)]
    assert link.failures == 0


def test_a_command_that_the_firmware_does_not_know(device: Device) -> None:
    with pytest.raises(DeviceError, match="does not know the command 'nothing'"):
        DeviceLink(Simulated(device)).ask("nothing")
    answer = DeviceLink(Scripted("0"), first=4)
    with pytest.raises(DeviceError, match="is not valid"):
        Desk(answer).evaluate(1)


def test_zeros_are_not_sent(device: Device) -> None:
    line = Simulated(device)
    Desk(DeviceLink(line)).write_block(3, bytes(BLOCK))
    assert line.writes == 1
    Desk(DeviceLink(line)).write_block(3, b"x" * 264 + bytes(BLOCK - 264))
    assert line.writes == 2
    Desk(DeviceLink(line)).write_block(3, b"x" * 265 + bytes(BLOCK - 265))
    assert line.writes == 4


# What is not the project's ---------------------------------------------------------------------


def test_every_interrupted_upload_is_resumed_and_never_trained_on(
    device: Device, project: BuiltProject, image: bytes
) -> None:
    """Ctrl-C, or the plug pulled, at any command."""
    old = bytearray(image)
    old[15 * BLOCK : 40 * BLOCK] = Random(3).randbytes(25 * BLOCK)
    for stops in itertools.count(5, 7):
        device.storage = bytes(old)
        line = Simulated(device)
        line.dead_after = stops
        try:
            flash(project, Desk(DeviceLink(line)))
            break
        except NoAnswerError:
            pass
        if device.storage[: len(image)] != bytes(old):
            with pytest.raises(UnfinishedUploadError, match="was not finished"):
                run(project, desk_of(device))
            left = device.storage
            upload = flash(project, desk_of(device))
            wrong = [i for i in range(len(image) // BLOCK)
                     if left[i * BLOCK :][:BLOCK] != image[i * BLOCK :][:BLOCK]]  # fmt: skip
            assert upload.sent == len(wrong)
            assert device.storage[: len(image)] == image
    assert stops > 40


def test_weights_that_were_put_back_in_part_are_not_trained_on(
    device: Device, project: BuiltProject, image: bytes
) -> None:
    flash(project, desk_of(device))
    run(project, desk_of(device))
    trained = device.storage
    line = Simulated(device)
    line.dead_after = 11
    with pytest.raises(NoAnswerError):
        run(project, Desk(DeviceLink(line)))
    assert device.storage != trained
    for resume in (False, True):
        with pytest.raises(UnfinishedUploadError):
            run(project, desk_of(device), resume=resume)
    flash(project, desk_of(device))
    assert device.storage[: len(image)] == image


def test_other_boards_and_builds_are_told(device: Device, project: BuiltProject) -> None:
    project.board.name = "other"  # type: ignore[misc]
    with pytest.raises(WrongBoardError, match="the board that answers is 'sample', not 'other'"):
        flash(project, desk_of(device))
    project.board.name = "sample"  # type: ignore[misc]
    project.report.plan_id = "00000001"  # type: ignore[misc]
    with pytest.raises(WrongBoardError, match="of another build"):
        on_board.prepare_board(project, desk_of(device), False, quiet)
    with pytest.raises(DeviceError, match="is the storage image of another build"):
        run(project, desk_of(device))
    assert not any(device.storage)


FAT = bytes(446) + b"\x80\0\0\0\x0c\0\0\0" + bytes(56) + b"\x55\xaa"
TWO = bytes(450) + b"\xda" + bytes(15) + b"\x0c" + bytes(43) + b"\x55\xaa"
NO_TABLE = b"\xeb\x3c\x90MSDOS5.0".ljust(510, b"\0") + b"\x55\xaa"


@pytest.mark.parametrize("first", [FAT, TWO, NO_TABLE, b"x".ljust(512, b"\0")])
def test_a_card_of_somebody_elses_is_not_overwritten(
    device: Device, project: BuiltProject, image: bytes, first: bytes
) -> None:
    assert len(first) == BLOCK
    device.storage = first
    before = device.storage
    with pytest.raises(ForeignCardError, match="what is not poetfw's") as error:
        flash(project, desk_of(device))
    assert any("--force" in hint for hint in error.value.try_next)
    with pytest.raises(ForeignCardError):
        run(project, desk_of(device))
    assert device.storage == before
    flash(project, desk_of(device), force=True)
    assert device.storage[: len(image)] == image


@pytest.mark.parametrize("byte", [0x00, 0xFF])
def test_an_erased_card_is_taken(device: Device, project: BuiltProject, byte: int) -> None:
    device.storage = bytes([byte]) * (128 * BLOCK)
    flash(project, desk_of(device))
    run(project, desk_of(device))


def test_a_card_from_another_plan_is_told(
    device: Device, project: BuiltProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    device.storage = sample_image(monkeypatch, plan_id=0x12345678)
    with pytest.raises(WrongCardError, match="of another plan \\(12345678\\)"):
        run(project, desk_of(device))
    damaged = bytearray(device.storage)
    damaged[PARTITION_BLOCK * BLOCK + 30] ^= 1
    device.storage = bytes(damaged)
    with pytest.raises(WrongCardError, match="no image, or a damaged one"):
        on_board.pull(project, desk_of(device), project.folder / "out", quiet)


def test_other_samples_are_told(device: Device, project: BuiltProject, image: bytes) -> None:
    changed = bytearray(image)
    changed[12 * BLOCK] ^= 1
    device.storage = bytes(changed)
    with pytest.raises(WrongCardError, match="other samples"):
        run(project, desk_of(device))
    assert device.get("test_steps") == 0


def test_a_card_that_is_too_small_or_fails(device: Device, project: BuiltProject) -> None:
    device.set("test_blocks", 20)
    with pytest.raises(DeviceError, match="has 10,240 bytes"):
        flash(project, desk_of(device))
    device.set("test_blocks", 128)
    device.set("test_stuck_block", 12)
    with pytest.raises(DeviceError, match="does not keep what is written to block 12"):
        flash(project, desk_of(device))


def test_a_card_that_does_not_answer(device: Device, project: BuiltProject) -> None:
    device.set("test_open_status", 2**32 - 16)
    with pytest.raises(DeviceError, match="status -16: nothing answers as a card does"):
        flash(project, desk_of(device))
    assert not any(device.storage)


class Scripted:
    """A device whose answers are given."""

    def __init__(self, *values: str) -> None:
        self._values = iter(values)
        self._said = b""
        self._now_s = 0.0

    def write(self, data: bytes) -> None:
        from test_frames import framed

        sequence, word, *_ = data.lstrip(b"%").decode().split(" ")
        self._said = framed(f"{sequence} {word} {next(self._values)}".rstrip()) + b"\r\n"

    def read(self, timeout_s: float) -> bytes:
        said, self._said = self._said, b""
        self._now_s += 0.01 if said else timeout_s
        return said

    def now_s(self) -> float:
        return self._now_s


@pytest.mark.parametrize(
    ("method", "arguments", "values"),
    [
        ("hello", (), "1 5a3b1e00"),
        ("hello", (), "3 5a3b1e0g sample"),
        ("hello", (), "3 5a3b1e00 ../../etc"),
        ("open_storage", (), "0 -1"),
        ("open_storage", (), "1 20"),
        ("open_storage", (), "-0 20"),
        ("checksums", (0, 2), "1"),
        ("checksums", (0, 2), "1 2 3"),
        ("checksums", (0, 1), "nan"),
        ("checksums", (0, 1), "99999999999999999999999"),
        ("read_block", (0,), "0"),
        ("read_block", (0,), "0 :AAAA"),
        ("write_block", (0, b"x" * 512), "0 1 2"),
        ("begin", (1, 0), "0"),
        ("begin", (1, 0), "0 -1"),
        ("train", (1,), "0 nan 1"),
        ("train", (1,), "0 3f800000 -1"),
        ("train", (1,), "0 3f800000 18446744073709551616"),
        ("train", (1,), "0 3f80000 1"),
        ("evaluate", (1,), "0"),
        ("evaluate", (1,), ""),
        ("summary", (), "joules 1 2 3 4"),
        ("summary", (), "ns 1 2 3"),
        ("summary", (), "ns 1 2 3 -4"),
    ],
)
def test_nonsense_in_a_whole_frame_is_refused(
    method: str, arguments: tuple[object, ...], values: str
) -> None:
    desk = Desk(DeviceLink(Scripted(values)))
    with pytest.raises(DeviceError, match="is not valid"):
        getattr(desk, method)(*arguments)


def test_another_protocol_is_told() -> None:
    with pytest.raises(WrongBoardError, match="version '1'"):
        Desk(DeviceLink(Scripted("1 5a3b1e00 sample"))).hello()


def test_a_loss_that_is_none_ends_the_run(device: Device, project: BuiltProject) -> None:
    flash(project, desk_of(device))
    desk = desk_of(device)
    train = desk.train
    desk.train = lambda step: replace(train(step), loss=float("nan"))  # type: ignore[method-assign]
    with pytest.raises(DeviceError, match="training diverged"):
        run(project, desk)
