# SPDX-License-Identifier: Apache-2.0
"""The code poetfw writes, as plain folders to review: a refactoring changes none of it.

`pytest tests/golden --update-golden` writes the folders again; the diff is then to be reviewed. A
project that is much like another one is kept as its difference to that, and of assembly an outline:
tests on emulated cores say what it calculates, docs/kernels.md what it looks like.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from itertools import chain
from zlib import crc32

import pytest

from golden.patches import HERE, differences, kept, whole
from poetfw.firmware import GENERATED
from poetfw.firmware.library import BLOCKS, HEADER
from poetfw.pipeline import plan_build
from poetfw.planning import BuildSettings, DevicesSettings
from poetfw.schedule.several import DevicesAnswer
from unit.workers.device_plans import PAIR, any_plan, case_of

Files = Mapping[str, bytes]


def written(settings: BuildSettings) -> Files:
    return plan_build(settings, progress=lambda text: None).project.files


def on_two(**settings: bool) -> Files:
    """A plan that computes again and copies both ways, whatever a search would find."""
    case = case_of("mlp")
    plan = any_plan(case.problem, 6)
    answer = DevicesAnswer(plan, case.problem.tensor_bytes)
    devices = DevicesSettings(PAIR, followed=answer, **settings)
    return written(BuildSettings(board="", model="mlp", batch=4, devices=devices))


PROJECTS: dict[str, Callable[[], Files]] = {
    "mlp-keep-everything": lambda: written(
        BuildSettings(
            board="nrf52840", model="mlp", batch=4, ram_bytes=200_000, scheduler="checkpoint-all"
        )
    ),
    "digits-cnn-paged": lambda: written(
        BuildSettings(board="nrf52840", batch=4, ram_bytes=48_000, scheduler="poet-remat-off")
    ),
    "mlp-paged-and-recomputed": lambda: written(
        BuildSettings(board="nrf52840", model="mlp", batch=4, ram_bytes=55_300, work_limit=0.5)
    ),
    "mlp-threads-in-turn": on_two,
    "mlp-threads-at-once": lambda: on_two(parallel=True),
    "mlp-apart": lambda: on_two(apart=True),
}
WHOLE = ("mlp-keep-everything", "digits-cnn-paged")
"""Of the other projects, only what differs by the plan, and the headers to compile it with."""


def is_pinned(path: str, whole: bool) -> bool:
    own = path.removeprefix("linux-big/").removeprefix("linux-small/")
    if not whole:
        folder, _, file = own.rpartition("/")
        return folder == GENERATED and (file.endswith(".h") or file in ("plan.c", "train_step.c"))
    return own.startswith((f"{GENERATED}/", "ld/")) or own in (HEADER, "platformio.ini")


def outline(assembly: str) -> str:
    """Name, lines and CRC-32 of each function, after what comes before the first."""
    head, *functions = re.split(r"^   function ", assembly, flags=re.MULTILINE)
    return head.partition("\n\n")[0] + "".join(
        f"\n{text.split()[0]}: {text.count(chr(10))} lines, {crc32(text.encode()):08x}"
        for text in functions
    )


@pytest.mark.parametrize("name", PROJECTS)
def test_generated_code_is_as_reviewed(name: str, request: pytest.FixtureRequest) -> None:
    written = {
        path: outline(content.decode()) if path == BLOCKS else content.decode()
        for path, content in PROJECTS[name]().items()
        if is_pinned(path, name in WHOLE)
    }
    folder, whole_files = HERE / name, dict(written)
    written = kept(written, name)
    if request.config.getoption("--update-golden"):
        shutil.rmtree(folder, ignore_errors=True)
        for path, text in written.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
    reviewed = {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }
    assert sorted(written) == sorted(reviewed)
    changed = [differences(reviewed[path], text, path) for path, text in written.items()]
    assert not any(changed), "\n".join(chain(*changed))
    assert whole(name) == whole_files


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("mlp-paged-and-recomputed", ("poet_page_out_begin(", "poet_page_in_begin(", "(again)")),
        ("mlp-threads-in-turn", ("poet_copy(", "poet_wait_for(", "(again)")),
        ("mlp-threads-at-once", ("poet_wait_for(",)),
        ("mlp-apart", ("POET_STOP_FOR(", "to linux-", "from linux-")),
    ],
)
def test_the_reviewed_code_has_what_it_is_there_for(name: str, texts: tuple[str, ...]) -> None:
    code = "".join(path.read_text() for path in (HERE / name).rglob("train_step.c*"))
    assert [text for text in texts if text not in code] == []
