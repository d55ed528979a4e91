# SPDX-License-Identifier: Apache-2.0
"""A computer that ssh reaches: a server of the test's own, which knows nothing of ~/.ssh."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

SERVER = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
CLIENT = shutil.which("ssh")
NAME = "board"
"""What ssh calls the computer here."""

needs_ssh = pytest.mark.skipif(
    SERVER is None or CLIENT is None, reason="needs openssh-server and openssh-client"
)


@dataclass(frozen=True)
class Computer:
    """The computer.

    Attributes:
        home: its user's home.
        path: the client's folder, to be the first in PATH: it knows the computer by its name.
        keys: the public keys that may log in, which a test may change.
    """

    home: Path
    path: Path
    keys: Path


@contextmanager
def computer(folder: Path) -> Iterator[Computer]:
    """Start a server that lets in the client in the folder."""
    assert SERVER is not None
    home, bin_folder = folder / "home", folder / "bin"
    home.mkdir()
    bin_folder.mkdir()
    for name in ("host", "user"):
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name]
        subprocess.run(make, check=True)
    entry = folder / "enter"
    entry.write_text(
        f'#!/bin/sh\nHOME="{home}"; export HOME\ncd\nexec sh -c "$SSH_ORIGINAL_COMMAND"\n'
    )
    entry.chmod(0o755)
    keys = folder / "keys"
    keys.write_text(f'command="{entry}" {(folder / "user.pub").read_text()}')
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = folder / "sshd_config"
    settings.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder / 'host'}\nPidFile none\n"
        f"AuthorizedKeysFile {keys}\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
        "KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n"
    )
    (folder / "ssh_config").write_text(
        f"Host {NAME}\n HostName 127.0.0.1\n Port {port}\n User {getpass.getuser()}\n"
        f" IdentityFile {folder / 'user'}\n IdentitiesOnly yes\n"
        f" UserKnownHostsFile {folder / 'known'}\n StrictHostKeyChecking accept-new\n"
        "Host nowhere\n HostName 127.0.0.1\n Port 1\n"
    )
    client = bin_folder / "ssh"
    client.write_text(f'#!/bin/sh\nexec {CLIENT} -F {folder / "ssh_config"} "$@"\n')
    client.chmod(0o755)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # which the server wants to be there
    server = subprocess.Popen([SERVER, "-D", "-e", "-f", settings], stderr=subprocess.DEVNULL)
    try:
        while True:  # until it is there; a hang ends with the test's time
            assert server.poll() is None
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.01)
        yield Computer(home, bin_folder, keys)
    finally:
        server.terminate()
        server.wait()
