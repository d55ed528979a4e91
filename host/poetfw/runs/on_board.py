# SPDX-License-Identifier: Apache-2.0
"""Firmware and storage of a board on a serial line."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from zlib import crc32

from poetfw.common.errors import (
    DeviceError,
    ForeignCardError,
    OutputError,
    UnfinishedUploadError,
    WrongBoardError,
    WrongCardError,
)
from poetfw.common.output_file import replace_file
from poetfw.firmware import (
    BLOCK_BYTES,
    IMAGE,
    PARTITION_BLOCK,
    UNFINISHED,
    Commit,
    Places,
    RunRequest,
    SlotPurpose,
    StorageContent,
    holds,
    image_blocks,
    image_identity,
    is_whole,
    places,
    plan_of,
    read_ring,
    set_request,
)
from poetfw.firmware.project import RUN_DIR
from poetfw.runs.execution import BuiltProject
from poetfw.runs.observer import Update
from poetfw.runs.ring_files import new_blocks, region_of, write_samples
from poetfw.tools.link import Desk

_AT_ONCE = 64  # blocks per progress update
_FLASH_STORAGE = "poetfw flash --storage"


@dataclass(frozen=True, slots=True)
class Upload:
    """Blocks transferred with an image.

    Attributes:
        blocks: size of the image in blocks.
        sent: number of blocks that differed and were transferred.
    """

    blocks: int
    sent: int


def flash_storage(project: BuiltProject, desk: Desk, force: bool, update: Update) -> Upload:
    """Write the project's image to the board's storage; blocks that are already there are not sent.

    Args:
        project: project of the image.
        desk: the board.
        force: True to overwrite content that is not poetfw's.
        update: called with the progress.

    Raises:
        DeviceError: The board, its storage or the line fails.
        ForeignCardError: The storage holds content that is not poetfw's.
        WrongBoardError: The board runs other firmware.
    """
    check_board(project, desk)
    content = _read_image(project)
    _check_size(project, desk, len(content))
    held = holds(desk.read_block(0))
    if held is StorageContent.FOREIGN and not force:
        raise ForeignCardError(
            "the board's storage holds what is not poetfw's: another partition table, or a file "
            "system without one",
            "look at what is on the card",
            f"{_FLASH_STORAGE} --force overwrites it",
        )
    wrong = _different(desk, content, _but_kept(project, len(content)), update)
    _replace(desk, content, wrong, update, "sending the storage image")
    return Upload(len(content), len(wrong))


def prepare_board(project: BuiltProject, desk: Desk, resume: bool, update: Update) -> None:
    """Check that a board can train a project, and restore what an earlier training overwrote.

    Args:
        project: the project, whose image must be in the board's storage.
        desk: the board.
        resume: True to continue from the storage's last commit: nothing is restored.
        update: called with the progress.

    Raises:
        DeviceError: The board, its storage or the line fails.
        UnfinishedUploadError, WrongBoardError, WrongCardError, ForeignCardError: The board or its
            storage does not hold the project.
    """
    check_board(project, desk)
    content = _read_image(project)
    _check_card(project, desk, len(content))
    where = places(project.image, project.stages.slots)
    restored = set() if resume else _written_blocks(project, where)
    samples = range(where.samples_end)
    wrong = _different(desk, content, sorted({*samples, *restored}), update)
    if set(wrong) - restored:
        raise WrongCardError(
            "the board's storage holds other samples than this build's image", _FLASH_STORAGE
        )
    _replace(desk, content, wrong, update, "restoring the initial weights")


def pull(project: BuiltProject, desk: Desk, out: Path, update: Update) -> Upload:
    """Write the image in the board's storage to a file, atomically.

    Raises:
        DeviceError: The board, its storage or the line fails.
        OutputError: The file cannot be written.
        UnfinishedUploadError, WrongBoardError, WrongCardError, ForeignCardError: The board or its
            storage does not hold the project.
    """
    check_board(project, desk)
    content = _read_image(project)
    _check_card(project, desk, len(content))
    different = _different(desk, content, _but_kept(project, len(content)), update)
    fetched = _read(desk, different, update, "fetching the storage image")
    replace_file(out, b"".join(fetched.get(i, block) for i, block in enumerate(content)))
    return Upload(len(content), len(fetched))


def pull_ring(project: BuiltProject, desk: Desk, out: Path, update: Update) -> int:
    """Write the samples recorded on the board to an NPZ file; returns their number.

    Raises:
        ConfigError: The build has no ring.
        DeviceError: The board, its storage or the line fails.
        OutputError: The file cannot be written.
        UnfinishedUploadError, WrongBoardError, WrongCardError, ForeignCardError: The board or its
            storage does not hold the project.
    """
    region = region_of(project)
    check_board(project, desk)
    _check_card(project, desk, image_blocks(project.image))
    update(0, region.samples, "fetching samples")
    return write_samples(project, read_ring(region, desk.read_block), out)


def push_ring(project: BuiltProject, desk: Desk, file: Path, update: Update) -> int:
    """Append the samples of an NPZ file to the board's ring; returns their number.

    Raises:
        ConfigError: The build has no ring.
        DataError: The file is malformed, or its samples do not fit the network.
        DeviceError: The board, its storage or the line fails.
        UnfinishedUploadError, WrongBoardError, WrongCardError, ForeignCardError: The board or its
            storage does not hold the project.
    """
    region = region_of(project)
    check_board(project, desk)
    _check_card(project, desk, image_blocks(project.image))
    where = places(project.image, project.stages.slots)
    samples, blocks = new_blocks(project, region, where, file, desk.read_block)
    for done, (block, content) in enumerate(blocks.items()):
        update(done, len(blocks), "sending samples")
        desk.write_block(block, content)
    return samples


def check_board(project: BuiltProject, desk: Desk) -> None:
    """Check that a board runs a project's firmware.

    Raises:
        DeviceError: The board or the line fails.
        WrongBoardError: The board runs other firmware.
    """
    found = desk.hello()
    if found.board != project.board.name:
        raise WrongBoardError(
            f"the board that answers is {found.board!r}, not {project.board.name!r}",
            "name its port with --port",
            "or name its build with --board or --out",
        )
    if found.plan_id != project.report.plan_id:
        raise WrongBoardError(
            f"the firmware on the board is of another build (plan {found.plan_id}) than the one in "
            f"{project.folder} (plan {project.report.plan_id})",
            "flash this build's: `poetfw flash`",
        )


def _check_size(project: BuiltProject, desk: Desk, blocks: int) -> None:
    there = desk.open_storage()
    if there < blocks:
        raise DeviceError(
            f"the board's storage has {there * BLOCK_BYTES:,} bytes, and {project.image} "
            f"{blocks * BLOCK_BYTES:,}",
            "use a larger card",
        )


def _check_card(project: BuiltProject, desk: Desk, blocks: int) -> None:
    """Check that the storage holds an image of the project's plan."""
    _check_size(project, desk, blocks)
    held = holds(desk.read_block(0))
    if held is StorageContent.FOREIGN:
        raise ForeignCardError(
            "the board's storage holds what is not poetfw's", "use another card", _FLASH_STORAGE
        )
    superblock = desk.read_block(PARTITION_BLOCK)
    if superblock == UNFINISHED:
        raise UnfinishedUploadError(
            "the board's storage holds a part of an image: sending it was not finished",
            f"{_FLASH_STORAGE} goes on where it stopped",
        )
    plan_id = plan_of(superblock)
    if plan_id is None:
        raise WrongCardError("the board's storage holds no image, or a damaged one", _FLASH_STORAGE)
    if plan_id != project.report.plan_id:
        raise WrongCardError(
            f"the board's storage holds the image of another plan ({plan_id}) than the one in "
            f"{project.folder} ({project.report.plan_id})",
            _FLASH_STORAGE,
        )


def _read_image(project: BuiltProject) -> list[bytes]:
    """Read the project's image in blocks."""
    size = image_blocks(project.image) * BLOCK_BYTES
    content = project.image.read_bytes()[:size]
    return [content[at : at + BLOCK_BYTES] for at in range(0, size, BLOCK_BYTES)]


def _but_kept(project: BuiltProject, blocks: int) -> list[int]:
    """Block numbers of an image without kept features: the board calculates those it lacks."""
    where = places(project.image, project.stages.slots)
    return [*range(where.samples_end), *range(where.slots_block, blocks)]


def _slot_blocks(project: BuiltProject, first: int, purpose: SlotPurpose) -> Iterator[range]:
    """Blocks of each slot of a purpose, given the first block of the slots."""
    for slot in project.stages.slots:
        if slot.purpose is purpose:
            start = first + slot.first_block
            yield range(start, start + slot.blocks)


def _written_blocks(project: BuiltProject, where: Places) -> set[int]:
    """Blocks of an earlier training to reset: commits, captured gradients and pages.

    Of a page its last block, which holds the trailer, is enough; of the commit sets other than the
    first, their records.
    """
    return {
        *chain(*_slot_blocks(project, where.set_blocks[0], SlotPurpose.PERSISTENT)),
        *where.record_blocks,
        *chain(*_slot_blocks(project, where.slots_block, SlotPurpose.CAPTURE)),
        *(slot[-1] for slot in _slot_blocks(project, where.slots_block, SlotPurpose.PAGE)),
    }


def write_trained(project: BuiltProject, request: RunRequest, fetched: Mapping[int, bytes]) -> Path:
    """Write fetched blocks into a copy of the project's image, in the folder of runs.

    Raises:
        OutputError: The copy cannot be written.
    """
    trained = project.folder / RUN_DIR / IMAGE
    try:
        trained.parent.mkdir(exist_ok=True)
        trained.unlink(missing_ok=True)  # a link must not redirect the copy
        shutil.copyfile(project.image, trained)
        with trained.open("r+b") as file:
            for block, data in fetched.items():
                file.seek(block * BLOCK_BYTES)
                file.write(data)
    except OSError as error:
        raise OutputError(f"{trained} cannot be written: {error.strerror or error}") from error
    set_request(trained, request)
    return trained


def fetch_trained(
    project: BuiltProject, desk: Desk, captures: bool, update: Update
) -> Mapping[int, bytes]:
    """Read commit records, slots of the last intact commit and, if wanted, captured gradients.

    Raises:
        DeviceError: No commit is intact.
    """
    where = places(project.image, project.stages.slots)
    records = {block: desk.read_block(block) for block in where.record_blocks}
    identity = image_identity(project.image)
    found = [Commit.unpack(block, identity) for block in records.values()]
    commits = [
        (c, first) for c, first in zip(found, where.set_blocks, strict=True) if c is not None
    ]
    slots = project.stages.slots
    for commit, first in sorted(commits, key=lambda pair: -pair[0].sequence):
        wanted = list(chain(*_slot_blocks(project, first, SlotPurpose.PERSISTENT)))
        read = _read(desk, wanted, update, "fetching the trained weights")
        content = (read.get(block, bytes(BLOCK_BYTES)) for block in range(first, wanted[-1] + 1))
        if is_whole(b"".join(content), slots, commit):
            break
    else:
        raise DeviceError("the board's storage holds no commit that is whole", "use another card")
    if captures:
        wanted = list(chain(*_slot_blocks(project, where.slots_block, SlotPurpose.CAPTURE)))
        read = {**read, **_read(desk, wanted, update, "fetching the gradients")}
    return {**records, **read}


def _different(
    desk: Desk, content: list[bytes], blocks: Iterable[int], update: Update
) -> list[int]:
    """Blocks whose content in the storage differs, in ascending order."""
    wanted = list(blocks)
    different: list[int] = []
    done = 0
    update(0, len(wanted), "comparing what is there")
    for run in _runs(wanted):
        sums = desk.checksums(run.start, len(run))
        different += [
            block for block, crc in zip(run, sums, strict=True) if crc != crc32(content[block])
        ]
        done += len(run)
        update(done, len(wanted), "comparing what is there")
    return different


def _runs(blocks: list[int]) -> Iterator[range]:
    """Split ascending numbers into contiguous ranges of at most `_AT_ONCE`."""
    start = 0
    for i in range(1, len(blocks) + 1):
        whole = i < len(blocks) and blocks[i] == blocks[i - 1] + 1 and i - start < _AT_ONCE
        if not whole:
            yield range(blocks[start], blocks[i - 1] + 1)
            start = i


def _replace(
    desk: Desk, content: list[bytes], blocks: list[int], update: Update, text: str
) -> None:
    """Write blocks, the superblock last: a partial upload is never taken for an image."""
    if not blocks:
        return
    last = PARTITION_BLOCK
    desk.write_block(last, UNFINISHED)
    order = [*(block for block in blocks if block != last), last]
    update(0, len(order), text)
    for done, block in enumerate(order, 1):
        desk.write_block(block, content[block])
        update(done, len(order), text)


def _read(desk: Desk, blocks: list[int], update: Update, text: str) -> Mapping[int, bytes]:
    read = {}
    update(0, len(blocks), text)
    for done, block in enumerate(blocks, 1):
        read[block] = desk.read_block(block)
        update(done, len(blocks), text)
    return read
