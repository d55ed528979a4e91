# SPDX-License-Identifier: Apache-2.0
"""The code poetfw writes, as plain folders to review: a refactoring changes none of it.

`pytest tests/golden --update-golden` writes the folders again; the diff is then to be reviewed.
"""

from __future__ import annotations

import shutil
from difflib import unified_diff
from pathlib import Path

import pytest

from emulator.firmware_tools import SAMPLE
from poetfw.firmware import GENERATED
from poetfw.firmware.library import HEADER, statuses
from poetfw.firmware.project import template_environment
from poetfw.firmware.views import Define
from poetfw.pipeline import plan_build
from poetfw.planning import BuildSettings

HERE = Path(__file__).parent

PROJECTS = {
    "mlp-keep-everything": BuildSettings(
        board="nrf52840", model="mlp", batch=4, ram_bytes=200_000, scheduler="checkpoint-all"
    ),
    "digits-cnn-paged": BuildSettings(
        board="nrf52840", batch=4, ram_bytes=48_000, scheduler="poet-remat-off"
    ),
}


@pytest.mark.parametrize("name", PROJECTS)
def test_generated_code_is_as_reviewed(name: str, request: pytest.FixtureRequest) -> None:
    build = plan_build(PROJECTS[name], progress=lambda text: None)
    written = {
        path: content.decode()
        for path, content in build.project.files.items()
        if path.startswith((f"{GENERATED}/", "ld/")) or path in (HEADER, "platformio.ini")
    }
    folder = HERE / name
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
    changed = {path for path, text in written.items() if text != reviewed[path]}
    # pytest's own comparison of long texts takes minutes.
    assert not changed, "\n".join(
        line
        for path in sorted(changed)
        for line in unified_diff(
            reviewed[path].splitlines(), written[path].splitlines(), path, path, lineterm=""
        )
    )


@pytest.mark.parametrize("name", ["poetfw.h", "status_text.c"])
def test_the_sample_projects_library_has_the_interface_of_all(
    name: str, request: pytest.FixtureRequest
) -> None:
    sizes = {"X_BYTES": 600, "Y_BYTES": 4, "OUTPUT_BYTES": 4, "ARENA_BYTES": 4096}
    facts = {"PLAN_ID": "0x5a3b1e00u", "BOARD": '"sample"', "BATCH": "4u", "CLASSES": "0"}
    facts |= {"PAGES": "4", **{key: f"{size}u" for key, size in sizes.items()}}
    project = {
        "title": "the sample project",
        "poetfw_version": "0.0.0",
        "plan_id": "5a3b1e00",
        "facts": [Define(key, value) for key, value in facts.items()],
        "slices": False,
        "ring": False,
        "image_words": 18,
        "target_type": "float",
        "target_comment": "the output wanted",
        "metric_comment": "mean squared error",
    }
    written = (
        template_environment()
        .get_template(f"generated/{name}.j2")
        .render(project=project, file_name=name, statuses=statuses())
    )
    file = SAMPLE / "src/generated" / name
    if request.config.getoption("--update-golden"):
        file.write_text(written)
    assert file.read_text() == written
