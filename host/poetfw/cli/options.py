# SPDX-License-Identifier: Apache-2.0
"""Options that several commands share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import Field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from poetfw.cli.command import Setting, grouped
from poetfw.cli.completion import BY_OPTION
from poetfw.cli.sizes import parse_bytes
from poetfw.common.errors import OutputError, listed
from poetfw.common.limits import TIME_LIMIT_S, WORK_LIMIT, Deadline
from poetfw.common.option_values import (
    COSTS,
    DEFAULT_BATCH,
    FEATURES,
    LARGEST_BYTES,
    LARGEST_COST,
    LOSSES,
    SCHEDULERS,
)
from poetfw.common.output_file import check_output_file
from poetfw.optimizers import LARGEST_COUNT, OPTIMIZERS
from poetfw.settings import BuildSettings

if TYPE_CHECKING:
    from poetfw.boards import Board

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Bytes(click.IntRange):
    """A number of bytes that a machine may have, as 262144 or 256K."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number.

        Raises:
            BadParameter: it is not a number, or out of range.
        """
        if isinstance(value, str) and not value.startswith("-"):
            try:
                value = parse_bytes(value)
            except ValueError as error:
                self.fail(f"{error}.", param, ctx)
        number = int(super().convert(value, param, ctx))
        if number > LARGEST_BYTES:
            self.fail(f"{value} is more than {LARGEST_BYTES}, which no machine has.", param, ctx)
        return number


class Positive(click.FloatRange):
    """A finite number above 0, and below overflow. In click's own range there is room for NaN."""

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number.

        Raises:
            BadParameter: it is not a finite number above 0, or beyond `LARGEST_COST`.
        """
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        if number > LARGEST_COST:
            self.fail(f"{value} is more than {LARGEST_COST:g}.", param, ctx)
        return number


class OutputFile(click.Path):
    """The path of a file that is written at the end: that it can be is found at the beginning."""

    def __init__(self, *endings: str) -> None:
        """A file whose name has one of two endings, or any where none are given."""
        super().__init__(path_type=Path, dir_okay=False)
        self._endings = endings

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path.

        Raises:
            BadParameter: it is a folder, or its name has none of the endings.
            OutputError: it cannot be written.
        """
        path = Path(str(super().convert(value, param, ctx)))
        check_output_file(path)
        if self._endings and path.suffix not in self._endings:
            self.fail(f"{path} ends in neither {' nor '.join(self._endings)}.", param, ctx)
        return path


class Folder(click.Path):
    """A folder's path; an empty one is refused, which Python would take for the current folder."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, file_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The path.

        Raises:
            BadParameter: it is empty, or a file's.
        """
        if value == "":
            self.fail("the path is empty; the current folder is `.`", param, ctx)
        return Path(str(super().convert(value, param, ctx)))


def split_at_commas(
    context: click.Context, parameter: click.Parameter, values: Sequence[str]
) -> tuple[str, ...]:
    """Callback of an option that may be given repeatedly, each time with one value or several."""
    return tuple(part.strip() for value in values for part in value.split(","))


def _number(text: str) -> float:
    """A number in ASCII, without the underscores and foreign digits that Python's `float` reads.

    Raises:
        ValueError: it is not a number.
    """
    if not text.isascii() or "_" in text:
        raise ValueError(text)
    return float(text)


class _Numbers(click.ParamType[Any]):
    """Numbers with commas between them; as many as a setting has, where that is known."""

    name = "numbers"

    def __init__(self, count: int | None = None) -> None:
        self.count = count

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        """The numbers.

        Raises:
            BadParameter: they are none, or not as many.
        """
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(_number(part) for part in str(value).split(","))
        except ValueError:
            numbers = ()
        if not numbers or self.count not in (None, len(numbers)):
            count = "" if self.count is None else f"{self.count} "
            self.fail(f"{value!r} is not {count}numbers with commas between.", param, ctx)
        return numbers


def _settings_of_optimizers() -> dict[str, tuple[Field[Any], tuple[str, ...]]]:
    """The settings that not all optimizers have, by name, and the names of those that do."""
    known: dict[str, tuple[Field[Any], tuple[str, ...]]] = {}
    for kind, settings in sorted(OPTIMIZERS.items()):
        for setting in fields(settings):
            if "help" in setting.metadata:
                _, others = known.get(setting.name, (setting, ()))
                known[setting.name] = (setting, (*others, kind))
    return known


def optimizer_options(command: _Command) -> _Command:
    """An option for each setting that not all optimizers have."""
    for name, (setting, kinds) in reversed(_settings_of_optimizers().items()):
        text = f"{', '.join(kinds)}: {setting.metadata['help']}"
        flag = "--" + name.replace("_", "-")
        if isinstance(setting.default, bool):
            command = option(flag, is_flag=True, default=None, help=text)(command)
        elif isinstance(setting.default, tuple):
            numbers = _Numbers(len(setting.default))
            command = option(flag, type=numbers, metavar="NUMBER,...", help=text)(command)
        else:
            command = option(flag, type=float, help=text)(command)
    return command


def settings_of_optimizer(options: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Take what `optimizer_options` were given out of a command's options; momentum stays.

    It may also be a board's default, and is therefore a setting of every build.
    """
    names = [name for name in _settings_of_optimizers() if name != "momentum"]
    given = [(name, options.pop(name)) for name in names]
    return tuple((name, value) for name, value in given if value is not None)


def option(
    flag: str, *more: str, command: str | None = None, **settings: Any
) -> Callable[[_Command], _Command]:
    """A click option that may also be set by an environment variable: POETFW_BOARD for --board.

    Args:
        flag: the option, with its dashes.
        more: further names, as click takes them.
        command: where the option means something else than in other commands, the command; the
            variable is then POETFW_PLACE_OUT, and no key at the top of poetfw.toml sets it.
        settings: as click takes them.
    """
    if "type" not in settings:
        settings["shell_complete"] = BY_OPTION.get(flag)
    return click.option(flag, *more, cls=Setting, envvar=variable(flag, command), **settings)


def variable(flag: str, command: str | None = None) -> str:
    """The environment variable of an option, of all commands or of one."""
    words = (flag.lstrip("-"),) if command is None else (command, flag.lstrip("-"))
    return "_".join(("poetfw", *words)).replace("-", "_").upper()


def typed_options() -> dict[str, str]:
    """The options on the command line, by the names of their parameters: how each is spelled."""
    context = click.get_current_context()
    return {
        parameter.name: parameter.opts[0]
        for parameter in context.command.params
        if parameter.name is not None
        and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    }


def network_options(command: _Command) -> _Command:
    """Options that select the network, its weights and its data."""
    return grouped(
        "Network and data",
        [
            option(
                "--model",
                first=True,
                default=BuildSettings.model,
                show_default=True,
                metavar="NAME|FILE",
                help="A built-in model (`poetfw models`), or a .pt2 or .onnx file.",
            ),
            option(
                "--weights",
                first=True,
                metavar="FILE",
                help="Start from the weights in a .npz or .safetensors file.  "
                "[default: the model's own]",
            ),
            option(
                "--data",
                first=True,
                default=BuildSettings.data,
                show_default=True,
                metavar="NAME|PATH",
                help="A built-in data set, an .npz or .csv file, or a folder of images, sounds or "
                ".npy files.",
            ),
            option(
                "--features",
                type=click.Choice(FEATURES),
                help=f"What is calculated of sounds.  [default: {FEATURES[0]}]",
            ),
        ],
        command,
    )


def batch_options(command: _Command) -> _Command:
    """--batch and --micro-batch."""
    return grouped(
        "Training",
        [
            option(
                "--batch",
                first=True,
                type=click.IntRange(1),
                metavar="N",
                help=f"Samples in a batch.  [default: the board's, or {DEFAULT_BATCH}]",
            ),
            option(
                "--micro-batch",
                type=click.IntRange(1),
                metavar="SAMPLES",
                help="Add up the gradients of so many samples at a time, until a batch is "
                "complete: activations take less RAM, and a training step is a micro-batch.  "
                "[default: whole batches]",
            ),
        ],
        command,
    )


def training_options(command: _Command) -> _Command:
    """Options of training: beside the model and the batch, all that decides a step's ops."""
    return grouped(
        "Training",
        [
            option("--loss", type=click.Choice(LOSSES), help="The loss.  [default: the model's]"),
            option(
                "--class-weights",
                type=_Numbers(),
                default=(),
                metavar="W,W,...",
                help="How much each class counts in a classifier's loss.  [default: all alike]",
            ),
            option(
                "--label-smoothing",
                type=float,
                default=0.0,
                metavar="SHARE",
                help="The part of a label that is spread over all classes.  [default: 0]",
            ),
            option(
                "--ignore-index",
                type=int,
                metavar="LABEL",
                help="Samples of this label do not count in the loss.  [default: all count]",
            ),
            option(
                "--optimizer",
                first=True,
                type=click.Choice(sorted(OPTIMIZERS)),
                metavar="NAME",
                help=f"{', '.join(sorted(OPTIMIZERS))}, with PyTorch's defaults.  "
                "[default: the model's]",
            ),
            option(
                "--learning-rate",
                type=float,
                help="Step size.  [default: the optimizer's]",
            ),
            option("--weight-decay", type=float, help="L2 penalty.  [default: the optimizer's]"),
            optimizer_options,
            option(
                "--schedule",
                metavar="SHAPE:STEPS",
                help="How the learning rate changes: constant, cosine:STEPS and linear:STEPS fall "
                "to 0, step:STEPS:FACTOR is multiplied.  [default: constant]",
            ),
            option(
                "--warm-up",
                type=click.IntRange(0, LARGEST_COUNT),
                metavar="STEPS",
                help="Steps in which the learning rate rises, before the schedule.  [default: 0]",
            ),
            option(
                "--no-decay",
                multiple=True,
                callback=split_at_commas,
                metavar="PATTERN,...",
                help="The weights of the parameters of these names do not decay, e.g. bias,norm.",
            ),
            option(
                "--clip-norm",
                type=float,
                metavar="NORM",
                help="Scale gradients down where their global norm is larger.  [default: never]",
            ),
            option(
                "--clip-value",
                type=float,
                metavar="VALUE",
                help="Clip each element of the gradients to this magnitude.  [default: never]",
            ),
            option(
                "--train",
                first=True,
                multiple=True,
                callback=split_at_commas,
                metavar="PATTERN,...",
                help="Train nothing but the parameters of these names, e.g. bias, or last:2.",
            ),
            option(
                "--freeze",
                multiple=True,
                callback=split_at_commas,
                metavar="PATTERN,...",
                help="Do not train the parameters of these names, e.g. 'conv1*'. May be given "
                "repeatedly.",
            ),
        ],
        command,
    )


def json_option(command: _Command) -> _Command:
    """--json: one JSON document on stdout, and nothing else there."""
    return click.option(
        "--json",
        "as_json",
        cls=Setting,
        group="Output",
        first=True,
        is_flag=True,
        help="Print one JSON document on stdout.",
    )(command)


def verbose_option(command: _Command) -> _Command:
    """--verbose."""
    return option(
        "--verbose", group="Output", is_flag=True, help="Show all rows: phases, costs and checks."
    )(command)


def model_as_option(command: _Command) -> _Command:
    """--model-as."""
    return option(
        "--model-as",
        group="Search",
        type=click.Choice(["device", "poet"]),
        default="device",
        show_default=True,
        help="What counts: all that the device does, or only what POET's paper models.",
    )(command)


def cost_options(command: _Command) -> _Command:
    """--costs and --db."""
    command = db_option(command)
    return option(
        "--costs",
        group="Costs",
        type=click.Choice(COSTS),
        help="Which costs to plan with.  [default: measured, if there are any of the board]",
    )(command)


def db_option(command: _Command) -> _Command:
    """--db."""
    return option(
        "--db",
        group="Costs",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="The database of measured costs.  [default: poetfw/costs.sqlite in your data folder]",
    )(command)


def solver_option(command: _Command) -> _Command:
    """--solver."""
    return option(
        "--solver",
        group="Search",
        default="HIGHS",
        show_default=True,
        help="A solver that cvxpy finds installed.",
    )(command)


def limit_options(
    work: float = WORK_LIMIT, each: str = "", time: str = "for the whole command"
) -> Callable[[_Command], _Command]:
    """--work-limit and --time-limit.

    Args:
        work: the default of --work-limit.
        each: for what each there is so much work, as a phrase; empty for the whole command.
        time: what the time limit is for.
    """

    def decorate(command: _Command) -> _Command:
        command = option(
            "--time-limit",
            group="Search",
            type=Positive(),
            default=TIME_LIMIT_S,
            show_default=True,
            metavar="SECONDS",
            help=f"Safety limit {time}; where it ends a search, another run may differ.",
        )(command)
        return option(
            "--work-limit",
            group="Search",
            type=Positive(),
            default=work,
            show_default=True,
            metavar="UNITS",
            help=f"How much to search{each}: a unit is about a second of one core, at any load.",
        )(command)

    return decorate


def command_deadline(time_limit_s: float) -> Deadline:
    """The time limit of the command that runs: from when its process began, if it has its own."""
    return Deadline(time_limit_s, began_s=click.get_current_context().obj)


def parse_names(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[str, ...] | None:
    """Callback of an option that takes names with commas between them."""
    return None if value is None else tuple(part.strip() for part in value.split(","))


def parse_fractions(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[float, ...] | None:
    """Callback of an option that takes positive numbers with commas between them.

    Raises:
        BadParameter: one of them is invalid.
    """
    names = parse_names(context, parameter, value)
    if names is None:
        return None
    return tuple(Positive().convert(name, parameter, context) for name in names)


def scheduler_option(command: _Command) -> _Command:
    """--scheduler."""
    return option(
        "--scheduler",
        group="Search",
        type=click.Choice(SCHEDULERS),
        metavar="NAME",
        default="poet",
        show_default=True,
        help="How to schedule recomputing and paging: `poetfw compare` has them all.",
    )(command)


def parse_schedulers(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[str, ...] | None:
    """Callback of an option that takes names of schedulers with commas between them.

    Raises:
        BadParameter: there is no such scheduler.
    """
    known = click.Choice(SCHEDULERS)
    names = parse_names(context, parameter, value)
    return names and tuple(known.convert(name, parameter, context) for name in names)


def schedulers_option(command: _Command) -> _Command:
    """--schedulers."""
    return option(
        "--schedulers",
        group="Search",
        callback=parse_schedulers,
        metavar="NAME,...",
        help="Which schedulers.  [default: all but poet-algorithm-1]",
    )(command)


def board_option(command: _Command) -> _Command:
    """--board."""
    return option(
        "--board",
        group="Board",
        first=True,
        required=True,
        metavar="NAME|FILE.toml[:STORAGE]",
        help="The board, and which of its storages; `poetfw boards` lists what is known.",
    )(command)


def built_board_option(command: _Command) -> _Command:
    """--board of a command that finds it by what was built."""
    return option(
        "--board",
        group="Board",
        first=True,
        metavar="NAME|FILE.toml[:STORAGE]",
        help="The board.  [default: that of the only build in build/]",
    )(command)


def port_option(command: _Command) -> _Command:
    """--port."""
    return option(
        "--port",
        group="Board",
        first=True,
        metavar="DEVICE|socket://HOST:PORT",
        help="The board's serial port.  [default: the only one on USB]",
    )(command)


def ports_option(command: _Command) -> _Command:
    """--port, which may be given for each of several devices."""
    return option(
        "--port",
        "ports",
        group="Board",
        first=True,
        multiple=True,
        metavar="[DEVICE=]PORT",
        help="The board's serial port, or socket://HOST:PORT. For a build with --apart, that of a "
        "device; may be given for each.  [default: the only one on USB]",
    )(command)


def threads_option(default: str) -> Callable[[_Command], _Command]:
    """--threads, whose help ends with what holds without it."""
    return option(
        "--threads",
        group="Board",
        type=click.IntRange(1, 64),
        help="Threads that kernels divide their results among, on a board with an operating "
        f"system; bits stay the same.  {default}",
    )


def host_option(command: _Command) -> _Command:
    """--host."""
    return option(
        "--host",
        excludes=("--port",),
        group="Board",
        first=True,
        metavar="USER@HOST",
        help="A board that ssh reaches, as ssh calls it.",
    )(command)


def out_option(command: _Command) -> _Command:
    """--out, of commands that write or run a project."""
    return out_folder_option("The project's folder.  [default: build/BOARD]")(command)


def out_folder_option(text: str) -> Callable[[_Command], _Command]:
    """--out, of what the help's text says."""
    return option(
        "--out", group="Output", first=True, type=Folder(), default=None, metavar="DIR", help=text
    )


def built_folder(out: Path | None, board: str | None) -> tuple[Path, str | None]:
    """The folder of a project that is built, and the name of its board where that was given.

    Raises:
        OutputError: neither folder nor board was given, and there is not one build alone in build/.
    """
    if board is not None:
        from poetfw.boards import load_board

        known = load_board(board)
        return out_folder(out, known), known.label
    if out is not None:
        return out, None
    from poetfw.firmware.project import MANIFEST

    builds = sorted(path.parent for path in Path("build").glob(f"*/{MANIFEST}"))
    if len(builds) == 1:
        return builds[0], None
    if builds:
        raise OutputError(
            f"there are several builds: {listed([path.name for path in builds])}",
            "name the board with --board",
        )
    raise OutputError("there is no build in build/", "run `poetfw build`, or name one with --out")


def out_folder(out: Path | None, board: Board) -> Path:
    """The project's folder: what was asked for, or the board's default."""
    return out if out is not None else Path("build") / board.label.replace(":", "-")
