# SPDX-License-Identifier: Apache-2.0
"""The `poetfw` command: its subcommands, and how errors become exit codes."""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import click
from click.core import ParameterSource

from poetfw import __version__
from poetfw.cli import (
    build,
    compare,
    costs,
    desk,
    doctor,
    export,
    listing,
    output,
    place,
    plan_update,
    profile,
    run,
    schedule,
    sweep,
    weights,
)
from poetfw.cli.entry import EXIT_INTERRUPTED
from poetfw.cli.options import variable
from poetfw.config import FILE, read_config
from poetfw.errors import ConfigError, PoetfwError
from poetfw.limits import process_start_s

EXIT_USAGE = 2
EXIT_INTERNAL = 70


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example:  poetfw build --board nrf52840 && poetfw run --board nrf52840",
)
@click.version_option(__version__, prog_name="poetfw")
@click.pass_context
def cli(context: click.Context) -> None:
    """Train neural networks on microcontrollers that cannot hold the training.

    Settings are taken from a flag, else from an environment variable (POETFW_BOARD for --board),
    else from poetfw.toml in this folder, else from the board and model.

    Exit codes: 0 ok, 1 bad input, 2 usage, 3 build or tool failed, 4 device, link or
    verification, 5 infeasible, 70 internal error, 130 interrupted.
    """
    options = {name: _options(command.params) for name, command in cli.commands.items()}
    settings = read_config(Path(), options)
    context.default_map = {
        name: {
            parameter.name: (values[key],) if parameter.multiple else values[key]
            for parameter in cli.commands[name].params
            for key in (option.lstrip("-") for option in parameter.opts)
            if parameter.name is not None and key in values
        }
        for name, values in settings.items()
    }


def _options(parameters: Sequence[click.Parameter]) -> dict[str, bool]:
    """The options by their names, and whether each means the same in all commands."""
    return {
        flag.lstrip("-"): parameter.envvar in (None, variable(flag))
        for parameter in parameters
        for flag in parameter.opts
        if flag.startswith("--")
    }


cli.add_command(build.build)
cli.add_command(run.run)
cli.add_command(desk.flash)
cli.add_command(desk.monitor)
cli.add_command(desk.pull)
cli.add_command(profile.profile)
cli.add_command(desk.push)
cli.add_command(export.export)
cli.add_command(weights.export_weights)
cli.add_command(schedule.schedule)
cli.add_command(compare.compare)
cli.add_command(sweep.sweep)
cli.add_command(costs.costs)
cli.add_command(place.place)
cli.add_command(plan_update.plan_update)
cli.add_command(listing.boards)
cli.add_command(listing.models)
cli.add_command(doctor.doctor)


def main() -> None:
    """Run the command line and end the process with the documented exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # not every terminal knows every letter
    code = _run()
    output.flush()
    if code == EXIT_INTERRUPTED:
        # A solver that was left behind is still running in its thread; to end the interpreter
        # under it would abort the process.
        os._exit(code)
    sys.exit(code)


def _run() -> int:
    as_json = "--json" in sys.argv[1:]
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as Ctrl-C does
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
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
        # Whoever read our output is gone; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if as_json:
            output.print_json_error(f"internal error: {error!r}", EXIT_INTERNAL)
        traceback.print_exc()
        output.messages.print("This is a bug in poetfw. Please report it with the lines above.")
        return EXIT_INTERNAL


def _refuse_usage(error: click.UsageError, as_json: bool) -> int:
    """Say what is wrong with a command, and where the setting comes from if nobody typed it."""
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
