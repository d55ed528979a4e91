# SPDX-License-Identifier: Apache-2.0
"""Features of sound in C: the bits of the host's, and close to what float64 comes to."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.signal

from poetfw.common.resources import firmware_templates_dir
from poetfw.firmware import render_features
from poetfw.importers.spectra import Spectra, _log

RATE = 16_000
RANDOM = np.random.default_rng(5)
SETTINGS = {
    "keywords": Spectra.of("mfcc", RATE, 6, 10),
    "log-mel": Spectra.of("log-mel", RATE, 6, 32),
    "telephone": Spectra.of("mfcc", 8_000, 5, 40),
    "fine": Spectra.of("log-mel", 44_100, 3, 64),
    "coarse": Spectra.of("log-mel", 4_000, 4, 90),
}
Features = Callable[[np.ndarray], np.ndarray]


@pytest.fixture(scope="module", params=SETTINGS)
def spectra(request: pytest.FixtureRequest) -> Spectra:
    return SETTINGS[request.param]


@pytest.fixture(scope="module")
def on_device(spectra: Spectra, tmp_path_factory: pytest.TempPathFactory) -> Features:
    """`poetfw_features`, compiled for this computer as it is for a device."""
    folder = tmp_path_factory.mktemp("features")
    sources = [firmware_templates_dir() / "runtime" / "poet_math.c"]
    for path, content in render_features(spectra).items():
        file = folder / Path(path).name
        file.write_bytes(content)
        sources += [file] if file.suffix == ".c" else []
    library = folder / "features.so"
    flags = "-std=c11 -O2 -Wall -Wextra -Wconversion -Wpedantic -Werror -ffp-contract=off".split()
    flags += ["-fno-math-errno", "-shared", "-fPIC", f"-I{folder}", f"-I{sources[0].parent}"]
    subprocess.run(["gcc", *flags, *map(str, sources), "-o", str(library)], check=True)
    function = ctypes.CDLL(str(library)).poetfw_features
    function.restype = None
    assert f"POETFW_CLIP {spectra.samples}u" in (folder / "poetfw_features.h").read_text()

    def features(samples: np.ndarray) -> np.ndarray:
        x = np.full((spectra.frames, spectra.coefficients), np.nan, np.float32)
        work = np.full(spectra.fft + spectra.fft // 2 + 1, 7, np.float32)
        given = np.ascontiguousarray(samples, np.int16)
        function(*(ctypes.c_void_p(array.ctypes.data) for array in (given, x, work)))
        assert work[-1] == 7, "it wrote beyond its scratch"
        return x

    return features


def sounds(spectra: Spectra) -> dict[str, np.ndarray]:
    """Clips as a microphone gives them: noise, a chirp as vowels have it, silence, and the ends."""
    n, rate = spectra.samples, spectra.sample_rate_hz
    seconds = np.arange(n) / rate
    voice = sum(
        scipy.signal.chirp(seconds, 120 * k, seconds[-1], 180 * k, "quadratic") / k
        for k in range(1, 9)
    )
    voice *= np.exp(-8 * (seconds - seconds.mean()) ** 2)
    breath = RANDOM.standard_normal(n)
    return {
        "noise": RANDOM.integers(-(2**15), 2**15, n),
        "voice": np.round(6000 * voice + 40 * breath),
        "hum": np.round(3 * breath),
        "silence": np.zeros(n),
        "square": np.where(np.arange(n) // 17 % 2, 2**15 - 1, -(2**15)),
    }


def test_a_device_has_the_bits_of_the_host(spectra: Spectra, on_device: Features) -> None:
    for name, samples in sounds(spectra).items():
        host = spectra.features(samples / 2**15)
        assert host.dtype == np.float32
        assert host.shape == (spectra.frames, spectra.coefficients)
        assert host.tobytes() == on_device(samples).tobytes(), name


def test_they_are_those_of_a_transform_in_float64(spectra: Spectra, on_device: Features) -> None:
    """By the definition of a discrete Fourier transform, as a product with a matrix."""
    angles = np.outer(np.arange(spectra.window), np.arange(spectra.fft // 2 + 1)) * 2 * np.pi
    waves = np.exp(-1j * angles / spectra.fft)
    hann = scipy.signal.get_window("hann", spectra.window, fftbins=True)
    bands = np.arange(spectra.bands)
    for name, samples in sounds(spectra).items():
        starts = np.arange(spectra.frames)[:, None] * spectra.stride
        frames = (samples / 2**15)[starts + np.arange(spectra.window)]
        expected = np.log(np.abs((frames * hann) @ waves) @ spectra.triangles() + spectra.floor)
        if name == "square":
            if spectra.kind == "log-mel":  # what float32 loses is in proportion to the loudest
                loudest = np.abs((frames * hann) @ waves).max()
                ours, theirs = np.exp(on_device(samples)), np.exp(expected)
                np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7 * loudest)
            continue
        if spectra.kind == "mfcc":
            rows = np.outer(np.arange(spectra.coefficients), bands + 0.5) * np.pi / spectra.bands
            expected = expected @ np.cos(rows).T * np.sqrt(2 / spectra.bands)
        np.testing.assert_allclose(on_device(samples), expected, rtol=1e-4, atol=1e-4, err_msg=name)


def test_logarithms_are_the_devices(tmp_path: Path) -> None:
    library = tmp_path / "math.so"
    source = firmware_templates_dir() / "runtime" / "poet_math.c"
    flags = ["-std=c11", "-O2", "-ffp-contract=off", "-fno-math-errno", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, str(source), "-o", str(library)], check=True)
    function = ctypes.CDLL(str(library)).poet_logf
    function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float]
    x = np.exp(RANDOM.uniform(-14, 8, 5000)).astype(np.float32)
    x = np.concatenate([x, np.float32([1e-6, 0.5, np.sqrt(0.5), 1, np.sqrt(2), 2])])
    np.testing.assert_array_equal(_log(x), np.float32([function(float(value)) for value in x]))
