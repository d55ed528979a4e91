# SPDX-License-Identifier: Apache-2.0
"""Linux computers reached by OpenSSH's client, with the user's settings and keys."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

from poetfw.common.errors import ConfigError, HostError, HostFullError, ToolError
from poetfw.tools.process import Files, TimedOut, last_lines, started

_CLIENT = "ssh"
_OPTIONS = ("-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
_NAME = re.compile(r"(?:[A-Za-z_][\w.-]{0,31}@)?[A-Za-z0-9][A-Za-z0-9._:-]{0,252}", re.ASCII)
_CONNECTION_FAILED = 255
_TIMEOUT_S = 600.0
_PRINTED_BYTES = 1 << 16
_FULL = re.compile(rb"No space left on device|Disk quota exceeded|File too large")


class Host:
    """A remote computer that needs no password.

    Attributes:
        name: host as ssh takes it: `user@host`, or a name in the user's ssh settings.
    """

    def __init__(self, name: str) -> None:
        """Check the name; no connection is made yet.

        Raises:
            ConfigError: The name is not a valid host.
            ToolError: There is no ssh client.
        """
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{name!r:.200} is not a host: it must be USER@HOST, or HOST",
                "give a port or a key a name in ~/.ssh/config, and use that name",
            )
        if shutil.which(_CLIENT) is None:
            raise ToolError(
                "there is no ssh client on this computer",
                "on Debian or Ubuntu: sudo apt-get install openssh-client",
            )
        self.name = name

    def command(self, script: str) -> list[str]:
        """Command that runs a script in a shell on the host."""
        there = f"LC_ALL=C; export LC_ALL; {script}"
        return [_CLIENT, *_OPTIONS, "--", self.name, f"exec sh -c {shlex.quote(there)}"]

    def run(
        self, script: str, source: BinaryIO | None = None, target: BinaryIO | None = None
    ) -> str:
        """Run a script on the host to its end; returns its standard output.

        Args:
            script: script for a POSIX shell, which starts in the user's home.
            source: standard input; None for an empty one.
            target: file for standard output; None to return the output.

        Raises:
            HostError: The host cannot be reached, or the script fails.
            HostFullError: The host has no space left for what the script writes.
        """
        with TemporaryFile() as printed:
            self._run(script, Files(source, target or printed))
            printed.seek(0)
            return printed.read(_PRINTED_BYTES).decode(errors="replace")

    def _run(self, script: str, files: Files) -> None:
        said: list[bytes] = []
        with started(self.command(script), Path.cwd(), None, files) as process:
            try:
                said.extend(process.lines(_TIMEOUT_S))
                code = process.wait(_TIMEOUT_S)
            except TimedOut:
                raise HostError(
                    f"{self.name} did not answer for {_TIMEOUT_S:.0f} s", said=last_lines(said)
                ) from None
        if code == _CONNECTION_FAILED:
            raise HostError(
                f"{self.name} cannot be reached, or does not let you in",
                f"try it: ssh {shlex.quote(self.name)}",
                f"a key instead of a password: ssh-copy-id {shlex.quote(self.name)}",
                said=last_lines(said, 5),
            )
        if code != 0:
            if any(_FULL.search(line) for line in said):
                raise HostFullError(
                    f"{self.name} has no room for what is copied there",
                    "make room there: df -h",
                    said=last_lines(said, 5),
                )
            raise HostError(
                f"{self.name}: what was to be done there failed with exit code {code}",
                said=last_lines(said, 5),
            )

    def send(self, file: Path, folder: str, name: str, mode: int) -> None:
        """Copy a file to the host; replaces the target atomically.

        Args:
            file: file to copy.
            folder: target folder, relative to the user's home; created if missing.
            name: target name.
            mode: permissions of the target.

        Raises:
            HostError: The host cannot be reached, or the copy fails.
            HostFullError: The host has no space left for the file.
        """
        part, whole = (shlex.quote(text) for text in (f"{name}.part", name))
        script = (
            f"mkdir -p {shlex.quote(folder)} && cd {shlex.quote(folder)} && cat > {part} && "
            f'[ "$(wc -c < {part})" -eq {file.stat().st_size} ] && chmod {mode:o} {part} && '
            f"mv -f {part} {whole} || {{ rm -f {part}; exit 1; }}"
        )
        with file.open("rb") as source:
            self.run(script, source=source)

    def fetch(self, path: str, target: BinaryIO) -> None:
        """Copy a file of the host, given relative to the user's home, into an open file.

        Raises:
            HostError: The host cannot be reached, or the file cannot be read.
        """
        self.run(f"cat -- {shlex.quote(path)}", target=target)
