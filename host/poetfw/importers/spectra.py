# SPDX-License-Identifier: Apache-2.0
"""Log-mel energies and mel-frequency cepstral coefficients of sounds.

MFCCs follow MLPerf Tiny's reference implementation: frames under a periodic Hann window,
zero-padded to a power of two; magnitudes of their Fourier transform; sums under triangles evenly
spaced on HTK's mel scale, 1127 · ln(1 + f / 700); logarithms; and for MFCCs a type II discrete
cosine transform. Nothing is normalised. Tables are computed in float64 and rounded once.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

_WINDOW_S, _STRIDE_S = 0.030, 0.020
_LOW_HZ, _HIGH_HZ = 20.0, 4000.0
_MFCC_BANDS = 40
_FLOOR = 1e-6


@dataclass(frozen=True)
class Spectra:
    """Settings of sound features.

    Attributes:
        kind: one of `poetfw.common.option_values.FEATURES`.
        sample_rate_hz: sample rate of the sounds.
        frames: number of frames in a clip.
        coefficients: number of coefficients per frame.
        bands: number of mel bands.
        window, stride: samples in a frame, and between the begins of two frames.
        fft: length of the Fourier transform in samples.
        low_hz, high_hz: lower end of the first band and upper end of the last.
        floor: constant added before the logarithm.
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
        """Settings for 30 ms frames every 20 ms; 40 bands for MFCCs, else one per coefficient."""
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
        """Number of samples in a clip."""
        return self.window + (self.frames - 1) * self.stride

    def to_json(self) -> dict[str, Any]:
        """Settings as plain JSON values."""
        return asdict(self)

    def features(self, clip: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
        """Features [frames, coefficients] of a clip of `samples` numbers in [-1, 1].

        All operations are in float32, rounded one by one and ordered as in `features/spectra.c`, so
        that a device computes the same bits.
        """
        starts = np.arange(self.frames)[:, None] * self.stride
        frames = np.zeros((self.frames, self.fft), np.float32)
        frames[:, : self.window] = (
            clip.astype(np.float32)[starts + np.arange(self.window)] * self.hann
        )
        magnitudes = self._magnitudes(frames)
        logarithms = np.empty((self.frames, self.bands), np.float32)
        for band, (first, weights) in enumerate(self.bins):
            sums = np.zeros(self.frames, np.float32)
            for number, weight in enumerate(weights, first):
                sums += weight * magnitudes[:, number]
            logarithms[:, band] = _log(sums + np.float32(self.floor))
        if self.kind == "log-mel":
            return logarithms
        coefficients = np.zeros((self.frames, self.coefficients), np.float32)
        for band, cosines in enumerate(self.cosines):
            coefficients += cosines * logarithms[:, band, None]
        return coefficients

    def _magnitudes(self, frames: NDArray[np.float32]) -> NDArray[np.float32]:
        """Magnitudes [N, fft / 2] of the Fourier transform of real rows [N, fft], without Nyquist.

        Pairs are transformed as complex numbers by decimation in time (Cooley and Tukey, 1965),
        then separated.
        """
        count = self.fft // 2
        turns = self.turns
        order = _bits_reversed(count)
        real, imaginary = frames[:, 0::2][:, order], frames[:, 1::2][:, order]
        half = 1
        while half < count:
            cos, sin = turns[:: count // half][:half].T
            shape = (len(frames), count // (2 * half), 2, half)
            (a, b), (c, d) = (np.moveaxis(part.reshape(shape), 2, 0) for part in (real, imaginary))
            by_real, by_imaginary = cos * b - sin * d, cos * d + sin * b
            real = np.stack([a + by_real, a - by_real], 2).reshape(len(frames), count)
            imaginary = np.stack([c + by_imaginary, c - by_imaginary], 2).reshape(real.shape)
            half *= 2
        other = -np.arange(count) % count
        half_ = np.float32(0.5)
        even = half_ * (real + real[:, other]), half_ * (imaginary - imaginary[:, other])
        odd = half_ * (imaginary + imaginary[:, other]), half_ * (real[:, other] - real)
        cos, sin = turns.T
        x = even[0] + (cos * odd[0] - sin * odd[1])
        y = even[1] + (cos * odd[1] + sin * odd[0])
        magnitudes: NDArray[np.float32] = np.sqrt(x * x + y * y)
        return magnitudes

    @cached_property
    def hann(self) -> NDArray[np.float32]:
        """Periodic Hann window, [window]."""
        angles = 2 * np.pi * np.arange(self.window) / self.window
        return (0.5 - 0.5 * np.cos(angles)).astype(np.float32)

    @cached_property
    def turns(self) -> NDArray[np.float32]:
        """Twiddle factors e^(-2πik/fft), real and imaginary parts, [fft / 2, 2]."""
        angles = 2 * np.pi * np.arange(self.fft // 2) / self.fft
        return np.stack([np.cos(angles), -np.sin(angles)], 1).astype(np.float32)

    @cached_property
    def bins(self) -> list[tuple[int, NDArray[np.float32]]]:
        """First frequency bin of each band, and the weights of the bins from there on."""
        found = []
        for weights in self.triangles().astype(np.float32).T:
            (inside,) = weights.nonzero()
            first, end = (int(inside[0]), int(inside[-1]) + 1) if len(inside) else (0, 0)
            found.append((first, weights[first:end]))
        return found

    def triangles(self) -> NDArray[np.float64]:
        """Weight of each frequency bin in each band, [fft / 2 + 1, bands]; 0 at both ends."""
        hertz = np.arange(self.fft // 2 + 1) * self.sample_rate_hz / self.fft
        edges = np.linspace(_mel(self.low_hz), _mel(self.high_hz), self.bands + 2)
        mels = 1127 * np.log1p(hertz / 700)[:, None]
        low, centre, high = edges[:-2], edges[1:-1], edges[2:]
        rising, falling = (mels - low) / (centre - low), (high - mels) / (high - centre)
        weights: NDArray[np.float64] = np.maximum(0, np.minimum(rising, falling))
        weights[[0, -1]] = 0
        return weights

    @cached_property
    def cosines(self) -> NDArray[np.float32]:
        """DCT matrix [bands, coefficients]: √(2 / bands) · cos(π / bands · (b + 1/2) · c)."""
        bands = np.arange(self.bands)[:, None] + 0.5
        angles = np.pi / self.bands * bands * np.arange(self.coefficients)
        cosines: NDArray[np.float64] = math.sqrt(2 / self.bands) * np.cos(angles)
        return cosines.astype(np.float32)


def _mel(hertz: float) -> float:
    return 1127 * math.log1p(hertz / 700)


def _bits_reversed(count: int) -> NDArray[np.intp]:
    """Bit-reversed indices below a power of two."""
    order = np.zeros(1, np.intp)
    while len(order) < count:
        order = np.concatenate([2 * order, 2 * order + 1])
    return order


def _log(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Logarithms of positive normal numbers, with the bits of `poet_logf`."""
    f32 = np.float32
    root_half = np.uint32(0x3F3504F3)
    bits = x.view(np.uint32) + (np.uint32(0x3F800000) - root_half)
    k = ((bits >> np.uint32(23)).astype(np.int32) - 127).astype(f32)
    f = ((bits & np.uint32(0x007FFFFF)) + root_half).view(f32) - f32(1)
    s = f / (f32(2) + f)
    z = s * s
    p = np.full_like(z, float.fromhex("0x1.831e20p-4"))
    for coefficient in ("0x1.2c6a08p-2", "0x1.9976a2p-2", "0x1.55556cp-1"):
        p = p * z + f32(float.fromhex(coefficient))
    half_square = f32(0.5) * f * f
    low, high = f32(float.fromhex("0x1.7f7d1cp-20")), f32(float.fromhex("0x1.62e4p-1"))
    y: NDArray[np.float32] = s * (half_square + z * p) + k * low - half_square + f + k * high
    return y
