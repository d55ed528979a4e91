# SPDX-License-Identifier: Apache-2.0
"""An operator's workspace, from its declaration to the running C.

No operator needs one yet. Here ReLU is given one, and a kernel that overwrites all of it before it
reads its input: what else lay there would be lost, and training would take another way.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from poetfw.firmware import Project, RunRequest, set_request, write_project
from poetfw.ir import Graph, Op
from poetfw.ops.base import Kernel
from poetfw.ops.relu import Relu
from poetfw.pipeline import plan_build
from poetfw.planning import Build, BuildSettings
from poetfw.tools import build_environments, run_firmware

BYTES = 4000
GREEDY = f"""
#include <string.h>
void poet_relu_greedy_f32(const struct poet_relu *op, const float *x, float *y, void *workspace)
{{
    memset(workspace, 0xab, {BYTES});
    poet_relu_forward_f32(op, x, y);
}}
"""
PROTOTYPE = "void poet_relu_greedy_f32(const struct poet_relu *, const float *, float *, void *);\n"


def plan(ram_bytes: int) -> Build:
    settings = BuildSettings(board="linux", batch=4, ram_bytes=ram_bytes, scheduler="dtr")
    return plan_build(settings, progress=lambda text: None)


def losses(project: Project, folder: Path) -> tuple[float, ...]:
    write_project(project, folder)
    elf = build_environments(folder, ["linux"])["linux"]
    set_request(folder / "storage.img", RunRequest(steps=3, capture=False))
    log = run_firmware([str(elf.resolve())], folder, timeout_s=60, steps=3, evaluations=90)
    return log.losses


def test_a_workspace_is_placed_passed_and_disjoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = plan(64_000)
    kernel = Relu.kernel

    def greedy(self: Relu, op: Op, graph: Graph) -> Kernel:
        return replace(
            kernel(self, op, graph), function="poet_relu_greedy_f32", workspace_bytes=BYTES
        )

    monkeypatch.setattr(Relu, "kernel", greedy)
    build = plan(64_000)
    placed = [a for a in build.plan.memory.training if a.workspace]
    assert placed
    assert {a.size_bytes for a in placed} == {BYTES}

    files = dict(build.project.files)
    files["lib/poetfw/kernels/relu.c"] += GREEDY.encode()
    files["lib/poetfw/kernels/relu.h"] = files["lib/poetfw/kernels/relu.h"].replace(
        b"#endif", PROTOTYPE.encode() + b"#endif"
    )
    step = files["lib/poetfw/generated/train_step.c"]
    calls = re.findall(rb"poet_relu_greedy_f32\((.*)\);", step)
    assert len(calls) == len(placed)
    assert all(re.search(rb", W\d{4}(_\d)?$", call) for call in calls)
    assert losses(Project(files), tmp_path / "greedy") == losses(plain.project, tmp_path / "plain")
