# SPDX-License-Identifier: Apache-2.0
"""Log-mel energies and mel-frequency cepstral coefficients of sounds.

As MLPerf Tiny's reference implementation calculates its MFCCs: frames under a periodic Hann window;
magnitudes of their Fourier transform, padded with zeros to a power of two; sums of these under
triangles that are evenly spaced on HTK's mel scale, 1127 · ln(1 + f / 700); logarithms; and for
MFCCs a discrete cosine transform of type II. Nothing is normalised.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

KINDS = ("mfcc", "log-mel")

_WINDOW_S, _STRIDE_S = 0.030, 0.020
_LOW_HZ, _HIGH_HZ = 20.0, 4000.0
_MFCC_BANDS = 40
_FLOOR = 1e-6


@dataclass(frozen=True)
class Spectra:
    """How features are calculated.

    Attributes:
        kind: one of `KINDS`.
        sample_rate_hz: of the sounds.
        frames: in a clip.
        coefficients: of each frame.
        bands: triangles on the mel scale.
        window, stride: samples in a frame, and from one to the next.
        fft: samples that are transformed.
        low_hz, high_hz: where the first triangle begins and the last one ends.
        floor: what is added before the logarithm.
    """

    kind: str
    sample_rate_hz: int
    frames: int
    coefficients: int
    bands: int
    window: int
    stride: int
    fft: int
    low_hz: float = _LOW_HZ
    high_hz: float = _HIGH_HZ
    floor: float = _FLOOR

    @classmethod
    def of(cls, kind: str, sample_rate_hz: int, frames: int, coefficients: int) -> Spectra:
        """Frames of 30 ms every 20 ms; 40 bands for MFCCs, else one for each coefficient."""
        window = int(sample_rate_hz * _WINDOW_S)
        return cls(
            kind,
            sample_rate_hz,
            frames,
            coefficients,
            _MFCC_BANDS if kind == "mfcc" else coefficients,
            window,
            int(sample_rate_hz * _STRIDE_S),
            1 << (window - 1).bit_length(),
            high_hz=min(_HIGH_HZ, sample_rate_hz / 2),
        )

    @property
    def samples(self) -> int:
        """Samples in a clip."""
        return self.window + (self.frames - 1) * self.stride

    def to_json(self) -> dict[str, Any]:
        """The settings as plain JSON values."""
        return asdict(self)

    def features(self, clip: NDArray[np.float64]) -> NDArray[np.float32]:
        """Of a clip of `samples` numbers between -1 and 1, [frames, coefficients]."""
        starts = np.arange(self.frames)[:, None] * self.stride
        hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(self.window) / self.window)
        magnitudes = np.abs(np.fft.rfft(clip[starts + np.arange(self.window)] * hann, self.fft))
        logarithms = np.log(magnitudes @ self.triangles() + self.floor)
        if self.kind == "log-mel":
            return logarithms.astype(np.float32)
        return (logarithms @ self.cosines()).astype(np.float32)

    def triangles(self) -> NDArray[np.float64]:
        """[fft / 2 + 1, bands]: what each frequency counts in each band; the first one nowhere."""
        hertz = np.arange(self.fft // 2 + 1) * self.sample_rate_hz / self.fft
        edges = np.linspace(_mel(self.low_hz), _mel(self.high_hz), self.bands + 2)
        mels = 1127 * np.log1p(hertz / 700)[:, None]
        low, centre, high = edges[:-2], edges[1:-1], edges[2:]
        rising, falling = (mels - low) / (centre - low), (high - mels) / (high - centre)
        weights: NDArray[np.float64] = np.maximum(0, np.minimum(rising, falling))
        weights[0] = 0
        return weights

    def cosines(self) -> NDArray[np.float64]:
        """[bands, coefficients]: √(2 / bands) · cos(π / bands · (band + 1/2) · coefficient)."""
        bands = np.arange(self.bands)[:, None] + 0.5
        angles = np.pi / self.bands * bands * np.arange(self.coefficients)
        cosines: NDArray[np.float64] = math.sqrt(2 / self.bands) * np.cos(angles)
        return cosines


def _mel(hertz: float) -> float:
    return 1127 * math.log1p(hertz / 700)
