# SPDX-License-Identifier: Apache-2.0
"""What a command started does not outlive it, however it ends."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import pytest


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux's kernel does it")
def test_a_killed_command_leaves_no_child_behind() -> None:
    """The child holds a pipe open for as long as it lives."""
    readable, writable = os.pipe()
    child = (
        "import os, signal\n"
        "from pathlib import Path\n"
        "import subprocess\n"
        "import poetfw.tools.process as process\n"
        "start = subprocess.Popen\n"
        f"subprocess.Popen = lambda *a, **k: start(*a, **k, pass_fds=[{writable}])\n"
        "process.Process(['sleep', '60'], Path('.'))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", child], pass_fds=[writable], timeout=60)
    os.close(writable)
    assert ended.returncode == -signal.SIGKILL
    ready, _, _ = select.select([readable], [], [], 20)
    assert ready, "the child is still there"
    assert os.read(readable, 1) == b""
    os.close(readable)
