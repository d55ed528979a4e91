# SPDX-License-Identifier: Apache-2.0
"""The `poetfw` command: subcommands, and exit codes of errors."""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import FrameType

import click
from click.core import ParameterSource

from poetfw.cli import output
from poetfw.cli.command import Command
from poetfw.cli.config import FILE, has_config, read_config
from poetfw.common.errors import ConfigError, PoetfwError, ToolError, is_out_of_memory
from poetfw.common.interrupts import EXIT_INTERRUPTED, leave
from poetfw.common.system import process_start_s, require_memory
from poetfw.common.version import __version__

EXIT_USAGE = 2
EXIT_INTERNAL = 70
_START_BYTES = 96 * 2**20  # address space of NumPy, which ends the process without it


_MODULES = {
    "boards": "listing",
    "build": "build",
    "check": "check",
    "compare": "compare",
    "costs": "costs",
    "demo": "demo",
    "doctor": "doctor",
    "export": "export",
    "export-weights": "weights",
    "flash": "desk",
    "init": "init",
    "models": "listing",
    "monitor": "desk",
    "place": "place",
    "plan-update": "plan_update",
    "profile": "profile",
    "pull": "desk",
    "push": "desk",
    "report": "report",
    "run": "run",
    "schedule": "schedule",
    "sweep": "sweep",
}
"""Module of each command; the command is a function of the same name."""


class _Commands(Mapping[str, Command]):
    """Commands by name; a lookup imports only the module of this command."""

    def __getitem__(self, name: str) -> Command:
        module = import_module(f"poetfw.cli.{_MODULES[name]}")
        command: Command = getattr(module, name.replace("-", "_"))
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


class _Group(click.Group):
    """Group whose commands are imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return COMMANDS.get(cmd_name)


COMMANDS = _Commands()


@click.group(
    cls=_Group,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example:  poetfw build --board nrf52840 && poetfw run --board nrf52840",
)
@click.version_option(__version__, prog_name="poetfw")
@click.pass_context
def cli(context: click.Context) -> None:
    """Train neural networks on microcontrollers that cannot hold the training.

    A setting comes from its flag, else from its environment variable (POETFW_BOARD for --board),
    else from poetfw.toml in this folder, else from board and model.

    Exit codes: 0 ok, 1 bad input, 2 usage, 3 build or tool failed, 4 device, link or verification,
    5 infeasible, 6 a limit of `check` is not kept, 70 internal error, 130 interrupted.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        return
    if not has_config(Path()):
        return
    settings = read_config(Path(), {name: command.keys for name, command in COMMANDS.items()})
    context.default_map = {
        name: {
            option.name: (values[key],) if option.multiple else values[key]
            for flag, option in COMMANDS[name].options.items()
            if option.name and (key := flag.lstrip("-")) in values
        }
        for name, values in settings.items()
    }


def main() -> None:
    """Run the command line and end the process with the documented exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
            )  # the terminal's encoding may lack characters
    code = _run()
    output.flush()
    if code == EXIT_INTERRUPTED:
        # An interrupted solver may still run in its thread; ending the interpreter normally would
        # abort the process.
        os._exit(code)
    sys.exit(code)


def _run() -> int:
    as_json = "--json" in sys.argv[1:]
    try:
        signal.signal(signal.SIGTERM, _interrupt)  # handled like Ctrl-C
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, _interrupt)
        require_memory(_START_BYTES)
        result = cli.main(standalone_mode=False, prog_name="poetfw", obj=process_start_s())
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.UsageError as error:
        return _refuse_usage(error, as_json)
    except PoetfwError as error:
        output.print_error(error, as_json)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        if as_json:
            output.print_json_error("interrupted", EXIT_INTERRUPTED)
        output.messages.print("interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output is gone.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if is_out_of_memory(error):
            short = ToolError("memory ran out", "free some of this computer's memory")
            output.print_error(short, as_json)
            return short.exit_code
        if as_json:
            output.print_json_error(f"internal error: {error!r}", EXIT_INTERNAL)
        traceback.print_exc()
        output.messages.print("This is a bug in poetfw. Please report it with the lines above.")
        return EXIT_INTERNAL


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Interrupt a command; during its imports, end the process at once."""
    while frame is not None and not output.began:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            leave()
        frame = frame.f_back
    raise KeyboardInterrupt


def _refuse_usage(error: click.UsageError, as_json: bool) -> int:
    """Print a usage error, and the source of the value if it was not typed."""
    message, source = error.format_message(), None
    if isinstance(error, click.BadParameter) and error.ctx and error.param and error.param.name:
        source = error.ctx.get_parameter_source(error.param.name)
        if source is ParameterSource.ENVIRONMENT:
            message += f" (from the environment variable {error.param.envvar})"
        elif source is ParameterSource.DEFAULT_MAP:
            wrong = ConfigError(f"{FILE}: {message}")
            output.print_error(wrong, as_json)
            return wrong.exit_code
    if as_json:
        output.print_json_error(message, EXIT_USAGE)
    output.messages.print(f"[bold red]error:[/] {output.escaped(message)}")
    if error.ctx is not None:
        for line in error.ctx.get_usage().splitlines():
            output.messages.print(output.escaped(line))
        output.messages.print(f"Help:  {error.ctx.command_path} --help")
    return EXIT_USAGE


if __name__ == "__main__":
    main()
