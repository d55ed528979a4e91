# SPDX-License-Identifier: Apache-2.0
"""Settings in `poetfw.toml`, for options given neither as flag nor in the environment."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from poetfw.common.errors import ConfigError
from poetfw.common.reading import read_bytes

FILE = "poetfw.toml"

_LARGEST_FILE_BYTES = 256 * 1024


def has_config(folder: Path) -> bool:
    """True if a folder has a `poetfw.toml`, readable or not."""
    return os.path.lexists(folder / FILE)


def read_config(
    folder: Path, options: Mapping[str, Mapping[str, bool]]
) -> dict[str, dict[str, str]]:
    """Settings of a folder's `poetfw.toml` by command; empty if there is no such file.

    A top-level key applies to all commands in which the option has the same meaning; a key in a
    table named after a command applies to this command. Keys are flags without leading dashes.
    Values are returned as text, as if typed behind the flag.

    Args:
        folder: folder of the file.
        options: option names of each command; False for options specific to the command.

    Raises:
        ConfigError: The file is malformed, or a key is not an option of any command.
    """
    path = folder / FILE
    try:
        document = tomllib.loads(read_bytes(path, _LARGEST_FILE_BYTES).decode())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    settings: dict[str, dict[str, str]] = {command: {} for command in options}
    for key, value in document.items():
        if isinstance(value, dict):
            if key not in options:
                raise ConfigError(
                    f"{path}: [{key}] is not a command of poetfw",
                    "use one of: " + ", ".join(sorted(options)),
                )
            for inner, setting in value.items():
                if inner not in options[key]:
                    raise _unknown(path, f"{key}.{inner}", options[key])
                settings[key][inner] = _text(path, f"{key}.{inner}", setting)
            continue
        commands = [command for command, known in options.items() if known.get(key)]
        if not commands:
            shared = {name for known in options.values() for name in known if known[name]}
            raise _unknown(path, key, shared)
        for command in commands:
            settings[command].setdefault(key, _text(path, key, value))
    return settings


def _text(path: Path, key: str, value: object) -> str:
    if not isinstance(value, str | int | float | bool):
        raise ConfigError(
            f"{path}: {key} must be a text, a number or true or false, not {value!r:.80}"
        )
    text = str(value)
    if "\0" in text:  # a flag cannot hold it either
        raise ConfigError(f"{path}: {key} holds a NUL character: {text!r:.80}")
    return text


def _unknown(path: Path, key: str, known: Iterable[str]) -> ConfigError:
    return ConfigError(
        f"{path}: {key} is not a setting of poetfw", "use one of: " + ", ".join(sorted(known))
    )
