# SPDX-License-Identifier: Apache-2.0
"""Reads folders of WAV files into features of their sounds."""

from __future__ import annotations

import struct
import wave
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from poetfw.errors import DataError
from poetfw.importers.class_folders import list_classes
from poetfw.importers.samples import Samples
from poetfw.importers.spectra import KINDS, Spectra
from poetfw.models import Model

SUFFIXES = (".wav",)
_RATES = range(4_000, 192_001)
_MOST_CHANNELS = 8
_MOST_FRAMES = 10_000


def read_sounds(path: Path, model: Model, kind: str) -> Samples:
    """The sounds of a folder, as features that fill the model's input.

    A clip is as long as the input's frames; a longer file is cut, a shorter one is followed by
    silence. Channels are averaged. All files have the sample rate of the first one.

    Raises:
        DataError: the model does not read frames of coefficients, a file is no WAV file of PCM or
            of another sample rate, or as `list_classes`.
    """
    shape = model.input.shape[1:]
    if kind not in KINDS:
        raise DataError(f"{kind!r} is no kind of features", "use one of: " + ", ".join(KINDS))
    if not (len(shape) == 2 or (len(shape) == 3 and shape[0] == 1)) or shape[-2] > _MOST_FRAMES:
        raise DataError(
            f"{path}: model {model.name!r} reads {list(shape)}, but sounds need an input of "
            f"[frames, coefficients] or [1, frames, coefficients], of at most {_MOST_FRAMES:,} "
            "frames"
        )
    folders = list_classes(path, SUFFIXES)
    rate, _ = _read_wave(folders.first, 0)
    spectra = Spectra.of(kind, rate, shape[-2], shape[-1])
    if spectra.coefficients > spectra.bands:
        raise DataError(
            f"{path}: model {model.name!r} reads {spectra.coefficients} coefficients, more than "
            f"the {spectra.bands} bands they are made of",
            "use --features log-mel",
        )

    def read(file: Path) -> NDArray[np.float32]:
        own_rate, clip = _read_wave(file, spectra.samples)
        if own_rate != rate:
            raise DataError(
                f"{file}: it has {own_rate:,} samples a second, but {folders.first} has {rate:,}"
            )
        return spectra.features(np.pad(clip, (0, spectra.samples - len(clip))))

    return folders.read(model, read, {"features": spectra.to_json()})


def _read_wave(path: Path, most: int) -> tuple[int, NDArray[np.float64]]:
    """Samples a second, and the first samples, at most so many, from -1 to 1."""
    try:
        with path.open("rb") as stream, wave.open(stream) as file:
            rate, channels, width = file.getframerate(), file.getnchannels(), file.getsampwidth()
            if rate not in _RATES:
                raise DataError(
                    f"{path}: it has {rate:,} samples a second, not {_RATES[0]:,} to {_RATES[-1]:,}"
                )
            if not 1 <= channels <= _MOST_CHANNELS or not 1 <= width <= 4:
                raise DataError(
                    f"{path}: it has {channels} channels of {8 * width} bits; up to "
                    f"{_MOST_CHANNELS} channels of 8, 16, 24 or 32 bits are read"
                )
            content = file.readframes(min(file.getnframes(), most))
            if not file.getnframes() or len(content) != min(file.getnframes(), most) * (
                channels * width
            ):
                raise DataError(f"{path}: it holds fewer samples than it declares, or none")
    except (wave.Error, EOFError, struct.error, ValueError, RuntimeError, OverflowError) as error:
        raise DataError(
            f"{path}: no WAV file of PCM, or damaged: {error}",
            "save it as PCM of 16 bits; extensible headers (format 65534) take Python 3.12",
        ) from error
    return rate, _decoded(content, width).reshape(-1, channels).mean(axis=1)


def _decoded(content: bytes, width: int) -> NDArray[np.float64]:
    """PCM of little-endian integers, of 8 bits unsigned, as numbers from -1 to 1."""
    raw = np.frombuffer(content, np.uint8).reshape(-1, width)
    wide = np.zeros((len(raw), 4), np.uint8)
    wide[:, 4 - width :] = raw  # in the upper bytes, so that the sign is in its place
    if width == 1:
        wide[:, 3] ^= 0x80
    return wide.view("<i4")[:, 0] / 2**31
