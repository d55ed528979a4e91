# SPDX-License-Identifier: Apache-2.0
"""Where the `poetfw` command begins: whoever stops it while it is still loading ends it cleanly."""

from __future__ import annotations

import os
import signal
import sys

EXIT_INTERRUPTED = 130


def main() -> None:
    """Load the command line, and run it."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as where a shell runs it beside itself
            signal.signal(number, leave)
    from poetfw.cli import main as command

    command.main()


def leave(*_: object) -> None:
    """End at once: nothing was begun, and an exception could get lost in what is being imported."""
    if "--json" in sys.argv[1:]:
        said = '{"error": {"message": "interrupted", "exit_code": %d, "try_next": [], "said": []}}'
        os.write(1, (said % EXIT_INTERRUPTED).encode() + b"\n")
    os.write(2, b"interrupted\n")
    os._exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
