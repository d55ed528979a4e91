"""The `poetfw` command: its subcommands, and how errors become exit codes."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

import click

from poetfw import __version__
from poetfw.cli import build, doctor, listing, output, place, run, schedule
from poetfw.config import read_config
from poetfw.errors import PoetfwError

EXIT_USAGE = 2
EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130


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

    Exit codes: 0 ok, 1 bad input, 2 usage, 3 build or tool failed, 4 device or link,
    5 infeasible, 70 internal error, 130 interrupted.
    """
    options = {
        name: frozenset(
            option.lstrip("-")
            for parameter in command.params
            for option in parameter.opts
            if option.startswith("--")
        )
        for name, command in cli.commands.items()
    }
    settings = read_config(Path.cwd(), options)
    context.default_map = {
        name: {
            parameter.name: values[key]
            for parameter in cli.commands[name].params
            for key in (option.lstrip("-") for option in parameter.opts)
            if parameter.name is not None and key in values
        }
        for name, values in settings.items()
    }


cli.add_command(build.build)
cli.add_command(run.run)
cli.add_command(schedule.schedule)
cli.add_command(place.place)
cli.add_command(listing.boards)
cli.add_command(listing.models)
cli.add_command(doctor.doctor)


def main() -> None:
    """Run the command line and end the process with the documented exit code."""
    code = _run()
    output.flush()
    sys.exit(code)


def _run() -> int:
    as_json = "--json" in sys.argv[1:]
    try:
        result = cli.main(standalone_mode=False, prog_name="poetfw")
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.UsageError as error:
        if as_json:
            output.print_json(
                {"error": {"message": error.format_message(), "exit_code": EXIT_USAGE}}
            )
        error.show()
        return EXIT_USAGE
    except PoetfwError as error:
        output.print_error(error, as_json)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        output.messages.print("interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output is gone; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception:
        traceback.print_exc()
        output.messages.print("This is a bug in poetfw. Please report it with the lines above.")
        return EXIT_INTERNAL


if __name__ == "__main__":
    main()
