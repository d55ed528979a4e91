# SPDX-License-Identifier: Apache-2.0
"""A computer that OpenSSH's client reaches: a real server, real errors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from poetfw.common.errors import ConfigError, HostError, HostFullError, ToolError
from poetfw.tools.ssh import Host
from sshd import NAME, Computer, computer, needs_ssh


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Computer]:
    with computer(tmp_path_factory.mktemp("computer")) as found:
        yield found


@pytest.fixture
def reachable(there: Computer, monkeypatch: pytest.MonkeyPatch) -> Computer:
    monkeypatch.setenv("PATH", f"{there.path}:{os.environ['PATH']}")
    return there


@needs_ssh
def test_files_go_there_and_come_back(reachable: Computer, tmp_path: Path) -> None:
    host, file = Host(NAME), tmp_path / "file"
    file.write_bytes(bytes(range(256)) * 400)
    host.send(file, "a/b c", "it's", 0o755)
    arrived = reachable.home / "a/b c/it's"
    assert arrived.read_bytes() == file.read_bytes()
    assert arrived.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in arrived.parent.iterdir()] == ["it's"]
    back = tmp_path / "back"
    with back.open("wb") as target:
        host.fetch("a/b c/it's", target)
    assert back.read_bytes() == file.read_bytes()
    assert host.run("echo $((6 * 7)); pwd").split() == ["42", str(reachable.home)]


@needs_ssh
def test_a_full_disk_is_told_and_nothing_is_replaced(reachable: Computer, tmp_path: Path) -> None:
    file, folder = tmp_path / "file", reachable.home / "full"
    file.write_bytes(b"new" * 10_000)
    folder.mkdir()
    (folder / "it").write_bytes(b"old")
    (folder / "it.part").symlink_to("/dev/full")
    with pytest.raises(HostFullError, match=f"{NAME} has no room"):
        Host(NAME).send(file, "full", "it", 0o644)
    assert (folder / "it").read_bytes() == b"old"
    assert not (folder / "it.part").is_symlink()


@needs_ssh
def test_what_fails_there_is_told(reachable: Computer, tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as target, pytest.raises(HostError, match="exit code 1") as e:
        Host(NAME).fetch("nothing", target)
    assert "No such file" in "".join(e.value.said)


@needs_ssh
def test_a_host_that_is_not_there_or_denies(
    reachable: Computer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(HostError, match="nowhere cannot be reached") as error:
        Host("nowhere").run("true")
    assert "refused" in "".join(error.value.said)
    keys = reachable.keys.read_text()
    reachable.keys.write_text("")
    try:
        with pytest.raises(HostError, match="does not let you in") as error:
            Host(NAME).run("true")
    finally:
        reachable.keys.write_text(keys)
    assert "Permission denied" in "".join(error.value.said)


def test_without_a_client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match="no ssh client"):
        Host(NAME)


@pytest.mark.parametrize(
    "name",
    [
        "-oProxyCommand=touch x",
        "-F/tmp/x",
        "--",
        "",
        "a b",
        "user@-oProxyCommand=x",
        "-user@host",
        "host;touch x",
        "host$(touch x)",
        "ho`st",
        "host\nother",
        "user@host@other",
        "ssh://host",
        "hößt",
        "a" * 300,
    ],
)
def test_what_is_no_host_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="is not a host"):
        Host(name)


def test_a_host_is_never_an_option_or_a_script(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    client = tmp_path / "ssh"
    client.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    *_, dashes, host, script = Host("user@host").run("echo 'a b'").splitlines()
    assert (dashes, host) == ("--", "user@host")
    assert script == """exec sh -c 'LC_ALL=C; export LC_ALL; echo '"'"'a b'"'"''"""
