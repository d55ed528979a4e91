# SPDX-License-Identifier: Apache-2.0
"""Entry point of the `poetfw` command, which ends cleanly if it cannot even load or say why."""

from __future__ import annotations

import signal

from poetfw.common.interrupts import end, leave

_EXIT_TOOL_FAILED = 3


def main() -> None:
    """Import the command line and run it."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # ignored in a shell's background jobs
            signal.signal(number, leave)
    try:
        from poetfw.cli import main as command

        command.main()
    except MemoryError:
        end("memory ran out: free some of this computer's memory", _EXIT_TOOL_FAILED, "error: ")


if __name__ == "__main__":
    main()
