# SPDX-License-Identifier: Apache-2.0
"""Features of sound in C: the tables of their settings, and what reads them."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from poetfw.common.resources import firmware_templates_dir
from poetfw.common.version import __version__
from poetfw.firmware.c_text import literal, table
from poetfw.firmware.library import FEATURES_HEADER, GENERATED, LIBRARY
from poetfw.firmware.project import template_environment
from poetfw.importers.spectra import Spectra


def render_features(spectra: Spectra) -> Mapping[str, bytes]:
    """The files by which a project's library calculates features, by path."""
    tables = {
        "hann": table(spectra.hann),
        "turns": table(spectra.turns.reshape(-1)),
        "triangles": table(weight for _, weights in spectra.bins for weight in weights),
    }
    if spectra.kind == "mfcc":
        tables["cosines"] = table(spectra.cosines.reshape(-1))
    bins = ", ".join(f"{first}, {len(weights)}" for first, weights in spectra.bins)
    views = [
        {"type": "float", "name": name.upper(), "numbers": numbers}
        for name, numbers in tables.items()
    ]
    indent = " " * 8
    bins = textwrap.fill(bins, 100, initial_indent=indent, subsequent_indent=indent)
    views.append({"type": "int16_t", "name": "BINS", "numbers": bins})
    context = {
        "version": __version__,
        "kind": {"mfcc": "mel-frequency cepstral coefficients", "log-mel": "log-mel energies"}[
            spectra.kind
        ],
        "rate": spectra.sample_rate_hz,
        "samples": spectra.samples,
        "frames": spectra.frames,
        "window": spectra.window,
        "stride": spectra.stride,
        "coefficients": spectra.coefficients,
        "work": spectra.fft + spectra.fft // 2,
        "tables": views,
        "fields": [
            *(
                (name, getattr(spectra, name))
                for name in ("coefficients", "bands", "window", "fft")
            ),
            ("floor", literal(spectra.floor)),
            *((name, name.upper()) for name in ("hann", "turns", "bins", "triangles")),
            ("cosines", "COSINES" if "cosines" in tables else "NULL"),
        ],
    }
    environment = template_environment()
    templates = {FEATURES_HEADER: "poetfw_features.h", f"{GENERATED}/features.c": "features.c"}
    files = {
        path: environment.get_template(f"features/{name}.j2").render(context).encode()
        for path, name in templates.items()
    }
    for name in ("spectra.c", "spectra.h"):
        source = firmware_templates_dir() / "features" / name
        files[f"{LIBRARY}/runtime/{name}"] = source.read_bytes()
    return files
