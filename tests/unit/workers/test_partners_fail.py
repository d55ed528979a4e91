# SPDX-License-Identifier: Apache-2.0
"""What a run of several programs does when one of them fails, and whose ports are whose."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from poetfw.api.firmware import ports_of
from poetfw.common.errors import ConfigError, DeviceError, PortLostError
from poetfw.firmware import check_image
from poetfw.memory import ONLY
from poetfw.runs.desks import _Desks, _Mail
from poetfw.runs.observer import RunObserver
from poetfw.tools.link import StatusError
from unit.link.link_device import sample_image


@contextmanager
def pair(**ports: str) -> Iterator[_Desks]:
    """Two partners without any program."""
    projects = {name: SimpleNamespace(folder=Path("two words") / name) for name in "ab"}
    desks: Any = dict.fromkeys("ab")
    build: Any = SimpleNamespace(projects=projects)
    with ThreadPoolExecutor(2) as pool:
        yield _Desks(build, ports, desks, pool, RunObserver())


def test_who_fails_is_told_at_once_while_another_is_busy() -> None:
    may_end = threading.Event()

    def work(name: str, desk: object) -> None:
        if name == "a":
            may_end.wait(60)
        else:
            raise PortLostError("gone", "repeat it: it goes on where it stopped", "plug it in")

    with pair() as both:
        begun = time.monotonic()
        with pytest.raises(DeviceError, match=r"^device 'b': gone$") as caught:
            both.on_each(work)
        assert time.monotonic() - begun < 10
        assert caught.value.try_next == ("plug it in",)
        may_end.set()


def test_who_waits_for_the_one_that_fails_is_not_blamed() -> None:
    mail = _Mail(1)

    def work(name: str, desk: object) -> None:
        if name == "a":
            mail.wait_for(0)
        else:
            time.sleep(0.1)
            raise StatusError(-5, "the storage failed")

    def failed() -> None:
        mail.give_up()
        time.sleep(0.3)  # so the one that waited is done first

    with pair() as both:
        with pytest.raises(DeviceError, match="device 'b': the firmware stopped with an error"):
            both.on_each(work, failed)


@pytest.mark.parametrize(
    ("ports", "said"),
    [
        ({}, "poetfw flash --out 'two words/b' --storage"),
        ({"b": "/dev/ttyACM0"}, "poetfw flash --out 'two words/b' --port /dev/ttyACM0 --storage"),
    ],
)
def test_what_to_flash_is_said_as_it_is_typed(ports: dict[str, str], said: str) -> None:
    def work(name: str, desk: object) -> None:
        if name == "b":
            raise DeviceError("it holds no image", "poetfw flash --storage")

    with pair(**ports) as both:
        with pytest.raises(DeviceError) as caught:
            both.on_each(work)
    assert caught.value.try_next == (said,)


def test_ports_by_program() -> None:
    assert ports_of(["a", "b"], ()) == {}
    named = ports_of(["a", "b"], ("a=/dev/by-id/x=y", "b=socket://[::1]:5"))
    assert named == {"a": "/dev/by-id/x=y", "b": "socket://[::1]:5"}
    assert ports_of([ONLY], ("/dev/by-id/x=y",)) == {ONLY: "/dev/by-id/x=y"}
    for programs, wrong, said in (
        (["a", "b"], ("/dev/ttyACM0",), "is not DEVICE=PORT"),
        (["a", "b"], ("c=x",), "with a device of the build: 'a', 'b'"),
        (["a", "b"], ("a=",), "is not DEVICE=PORT"),
        (["a", "b"], ("=x",), "is not DEVICE=PORT"),
        (["a", "b"], ("a=x", "a=y"), "twice for device 'a'"),
        (["a", "b"], ("a=x", "b=x"), "'x' is given for two devices"),
        ([ONLY], ("x", "y"), "twice for the board"),
    ):
        with pytest.raises(ConfigError, match=said):
            ports_of(programs, wrong)


def test_an_image_of_another_plan_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = tmp_path / "storage.img"
    image.write_bytes(sample_image(monkeypatch))
    check_image(image, "5a3b1e00")
    with pytest.raises(DeviceError, match=r"another build or device \(plan 5a3b1e00, not 5a3b1e01"):
        check_image(image, "5a3b1e01")
    image.unlink()
    with pytest.raises(DeviceError, match="cannot be used: No such file"):
        check_image(image, "5a3b1e00")
