# SPDX-License-Identifier: Apache-2.0
"""Every bad input ends in its own clear error, in its exit code, and with nothing written."""

from __future__ import annotations

import pytest

from invalid import (
    boards,
    data,
    device_files,
    folders,
    limits,
    machine,
    models,
    placements,
    problems,
    runs,
    settings,
)
from invalid.case import Case, Result, Sandbox, only_document

CASES: tuple[Case, ...] = (
    *settings.CASES,
    *models.CASES,
    *boards.CASES,
    *data.CASES,
    *limits.CASES,
    *folders.CASES,
    *placements.CASES,
    *device_files.CASES,
    *problems.CASES,
    *machine.CASES,
    *runs.CASES,
)


def test_there_are_enough_cases_and_no_two_of_one_name() -> None:
    assert len(CASES) >= 60
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bad_input(
    case: Case,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    if case.built:  # first, as building begins processes that outlive a sandbox
        request.getfixturevalue("compiled")
    sandbox: Sandbox = request.getfixturevalue("sandbox")
    if case.built:
        request.getfixturevalue("built")
    case.make(sandbox.work)
    for name, value in case.environment.items():
        monkeypatch.setenv(name, value.replace("{folder}", str(sandbox.work)))
    before = sandbox.tree()

    plain = sandbox.run(case.command, capsys)
    assert plain.stdout == ""
    check(case, plain)
    assert sandbox.tree() == before

    as_json = sandbox.run(f"{case.command} --json", capsys)
    check(case, as_json)
    assert sandbox.tree() == before
    error = only_document(as_json.stdout)["error"]
    assert error["exit_code"] == case.code
    assert error["message"]
    assert isinstance(error["try_next"], list)

    assert sandbox.processes_left() == []


def check(case: Case, result: Result) -> None:
    assert "Traceback" not in result.stderr, result.stderr
    assert result.code == case.code, result.stderr
    for fragment in case.says:
        assert fragment in result.stderr
