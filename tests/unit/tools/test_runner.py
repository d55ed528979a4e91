# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from poetfw.common.errors import DeviceError
from poetfw.common.option_values import SILENCE_S
from poetfw.firmware import Traffic
from poetfw.tools import MeterEnergy, RunLog, run_firmware


def hang(script: str, folder: Path, timeout_s: float, silence_s: float = SILENCE_S) -> DeviceError:
    command = ["/bin/sh", "-c", script]
    with pytest.raises(DeviceError) as caught:
        run_firmware(command, folder, timeout_s, steps=1, evaluations=0, silence_s=silence_s)
    return caught.value


def test_a_firmware_that_falls_silent(tmp_path: Path) -> None:
    error = hang("echo '@boot 1 plan=0'; sleep 60", tmp_path, timeout_s=30.0, silence_s=0.2)
    assert error.message.startswith("the firmware hangs: it said nothing for 0.2 s; the last it")
    assert "--timeout" not in " ".join(error.try_next)
    assert error.try_next[0] == "raise --silence if a step just takes longer"


@pytest.mark.parametrize("script", ["sleep 60", "exec >/dev/null 2>&1; sleep 60"])
def test_a_firmware_that_takes_too_long(script: str, tmp_path: Path) -> None:
    error = hang(script, tmp_path, timeout_s=0.2)
    assert error.message.startswith("the firmware hangs: it did not end within 0.2 s; the last it")
    assert error.try_next[0] == "raise --timeout if the run is just long"


def test_a_fault_after_the_report_is_a_fault(tmp_path: Path) -> None:
    """As a twin that has no memory protection finds at its end."""
    done = "@done ticks=1 tick_unit=ns high_water=1 stack_high_water=1 read=0 written=0"
    fault = "@fault cfsr=00000000 address=20008000 pc=00000000"
    script = f"echo '@step 1 loss=00000000 ticks=1'; echo '{done}'; echo '{fault}'; exit 99"
    assert hang(script, tmp_path, timeout_s=30.0).message == (
        "the processor faulted: cfsr=00000000 address=20008000 pc=00000000 (exit code 99)"
    )


DONE = "@done ticks=1 tick_unit=ns high_water=1 stack_high_water=0 read=0 written=0"

STEP = "@step 1 loss=3f800000 ticks=1"


@pytest.mark.parametrize(
    ("storage", "understood"),
    [("file=direct", "direct"), ("file=cached", "cached"), ("file=rm", None), ("", None)],
)
def test_how_a_file_was_used(tmp_path: Path, storage: str, understood: str | None) -> None:
    assert report(tmp_path, f"@storage {storage}", STEP, DONE).storage_file == understood


def test_energy_comes_behind_the_report(tmp_path: Path) -> None:
    assert report(tmp_path, STEP, DONE).energy is None
    energy = report(tmp_path, STEP, DONE, "@energy microjoules=1500000 source=rapl").energy
    assert energy == MeterEnergy(1.5, "rapl")
    with pytest.raises(DeviceError, match=r"@energy line has no number 'microjoules': '-1'"):
        report(tmp_path, STEP, DONE, "@energy microjoules=-1 source=rapl")


def test_transfers_of_steps_are_counted_apart_from_those_of_commits(tmp_path: Path) -> None:
    moved = "@transfers requests={} read={} written={}"
    begun = ("@train steps=3 batch=4 done=0", moved.format(9, 4096, 0))
    first = (STEP, moved.format(12, 5632, 512), "@commit 1 set=1", moved.format(20, 9728, 2048))
    rest = (f"@step {n} loss=3f800000 ticks=1" for n in (2, 3))
    lines = (next(rest), moved.format(23, 11264, 2560), next(rest), moved.format(26, 12800, 3072))
    found = resumed(tmp_path, *begun, *first, *lines, DONE, resume=False)
    assert found.step_traffic == Traffic(3, 1536, 512) * 3
    assert report(tmp_path, STEP, DONE).step_traffic is None
    with pytest.raises(DeviceError, match=r"@transfers line has no number 'written': ''"):
        report(tmp_path, "@transfers requests=9 read=512", STEP, DONE)


def report(folder: Path, *lines: str) -> RunLog:
    script = "".join(f"echo '{line}'\n" for line in lines)
    return run_firmware(["/bin/sh", "-c", script], folder, 30.0, steps=1, evaluations=0)


def resumed(folder: Path, *lines: str, resume: bool = True) -> RunLog:
    script = "".join(f"echo '{line}'\n" for line in lines)
    command = ["/bin/sh", "-c", script]
    return run_firmware(command, folder, 30.0, steps=3, evaluations=0, resume=resume)


def test_a_training_that_goes_on(tmp_path: Path) -> None:
    """Its steps are those behind the ones that were done; of a new one, none may have been."""
    train, last = "@train steps=3 batch=4 done=2", "@step 3 loss=40000000 ticks=1"
    log = resumed(tmp_path, train, last, DONE)
    assert (log.resumed_from, log.losses) == (2, (2.0,))
    assert resumed(tmp_path, train.replace("=2", "=3"), DONE).losses == ()
    assert resumed(tmp_path, train.replace("=2", "=5"), DONE).resumed_from == 5
    for lines in ((train, STEP, DONE), (last, DONE)):
        with pytest.raises(DeviceError, match="came before it"):
            resumed(tmp_path, *lines)
    with pytest.raises(DeviceError, match="after @step 2 of 3"):
        resumed(tmp_path, train, DONE)
    with pytest.raises(DeviceError, match="the device reports @step 3, but 0 of 3"):
        resumed(tmp_path, train, last, DONE, resume=False)
