# SPDX-License-Identifier: Apache-2.0
"""Formats of data: what they are read into, and what is refused where."""

from __future__ import annotations

import builtins
import struct
import wave
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.fft
import scipy.signal

from poetfw.common.errors import DataError, ToolError
from poetfw.importers import load_data
from poetfw.importers.spectra import Spectra
from poetfw.ir import Dtype
from poetfw.models import GraphBuilder, Model, build_model
from poetfw.models.layers import Layers
from poetfw.ops.class_losses import ClassOptions

MLP = build_model("mlp", batch=2)
RANDOM = np.random.default_rng(3)


def classifier(*shape: int, classes: int = 3) -> Model:
    layers = Layers("net", (2, *shape), 0)
    output = layers.linear("logits", layers.flatten("flat", layers.input), classes)
    return Model(*layers.build(output), loss="softmax_cross_entropy", description="")


def line(outputs: int) -> Model:
    builder = GraphBuilder("line", "x", (2, 2))
    weight = builder.parameter("w", np.ones((outputs, 2), np.float32))
    graph, weights = builder.build(builder.op("linear", "y", (builder.input, weight)))
    return Model(graph, weights, "mse", "")


def all_of(model: Model, path: Path, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """Every sample, those to train with first."""
    data = load_data(path, model, **options)
    x, y = (
        np.concatenate(pair) for pair in ((data.x_train, data.x_test), (data.y_train, data.y_test))
    )
    return x, y


# NPY ---------------------------------------------------------------------------------------------


def test_npy_files_are_read_as_the_arrays_of_an_npz_file(tmp_path: Path):
    x = RANDOM.standard_normal((20, 64)).astype(np.float32)
    y = np.arange(20) % 10
    np.savez(tmp_path / "data.npz", x=x, y=y)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    for one, other in zip(all_of(MLP, tmp_path), all_of(MLP, tmp_path / "data.npz"), strict=True):
        np.testing.assert_array_equal(one, other)
    np.save(tmp_path / "x_test.npy", x[:3])
    with pytest.raises(DataError, match="x_test and y_test must come together"):
        load_data(tmp_path, MLP)
    np.save(tmp_path / "y_test.npy", y[:3])
    np.testing.assert_array_equal(load_data(tmp_path, MLP).x_test, x[:3])


def test_npy_files_are_not_trusted(tmp_path: Path):
    np.save(tmp_path / "x.npy", np.zeros((20, 64), np.float32))
    with pytest.raises(DataError, match=r"y\.npy: there is no such file"):
        load_data(tmp_path, MLP)
    (tmp_path / "y.npy").symlink_to("/etc/hostname")
    with pytest.raises(DataError, match=r"y\.npy: it is a link"):
        load_data(tmp_path, MLP)
    (tmp_path / "y.npy").unlink()
    np.save(tmp_path / "y.npy", np.array([object()] * 20), allow_pickle=True)
    with pytest.raises(DataError, match="holds Python objects"):
        load_data(tmp_path, MLP)
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000, 64)}\n"
    raw = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
    (tmp_path / "y.npy").write_bytes(raw)
    with pytest.raises(DataError, match=r"which its .* bytes do not hold"):
        load_data(tmp_path, MLP)
    (tmp_path / "y.npy").write_bytes(raw[:20])
    with pytest.raises(DataError, match="not an NPY file, or damaged"):
        load_data(tmp_path, MLP)


@pytest.mark.parametrize("ending", ["npz", "csv"])
def test_the_label_to_ignore_trains_and_is_not_held_out(tmp_path: Path, ending: str):
    x, y = RANDOM.standard_normal((20, 2)).astype(np.float32), np.arange(20) % 3
    y[::4] = -100
    np.savez(tmp_path / "data.npz", x=x, y=y)
    rows = (f"{a},{b},{label}" for (a, b), label in zip(x, y, strict=True))
    (tmp_path / "data.csv").write_text("\n".join(rows))
    path = tmp_path / f"data.{ending}"
    with pytest.raises(DataError, match="-100"):
        load_data(path, classifier(2))
    data = load_data(path, replace(classifier(2), loss_options=ClassOptions(ignore_index=-100)))
    assert -100 in data.y_train
    assert len(data.y_test) == len(data.x_test)
    assert set(data.y_test) == {0, 1, 2}
    with pytest.raises(DataError, match="-100"):
        load_data(path, replace(classifier(2), loss_options=ClassOptions(ignore_index=-99)))
    np.savez(tmp_path / "data.npz", x=x, y=y, x_test=x[::4], y_test=y[::4])
    ignoring = replace(classifier(2), loss_options=ClassOptions(ignore_index=-100))
    with pytest.raises(DataError, match="the label of every held-out sample is the ignored -100"):
        load_data(tmp_path / "data.npz", ignoring)


# CSV ---------------------------------------------------------------------------------------------


def csv(folder: Path, *lines: str) -> Path:
    path = folder / "data.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


LINES = [f"{i},{-i / 4}, {i % 3}" for i in range(10)]


@pytest.mark.parametrize("header", [[], ["\ufeffa,b,class"], ['"a, in m","b ""x""",y']])
def test_a_csv_file_holds_features_and_then_the_class(tmp_path: Path, header: list[str]):
    x, y = all_of(classifier(2), csv(tmp_path, *header, *LINES, ""))
    assert (x.dtype, y.dtype) == (np.float32, np.int32)
    assert {(*row, c) for row, c in zip(x.tolist(), y.tolist(), strict=True)} == {
        (i, -i / 4, i % 3) for i in range(10)
    }


def test_a_mark_of_utf_8_is_no_part_of_the_first_number(tmp_path: Path):
    x, _ = all_of(classifier(2), csv(tmp_path, "\ufeff7,8,0", *LINES))
    assert [7, 8] in x.tolist()


def test_a_first_line_with_a_single_number_is_no_header(tmp_path: Path):
    with pytest.raises(DataError, match="line 1, column 1: 'a' is not a number"):
        load_data(csv(tmp_path, "a,2,0", *LINES), classifier(2))


def test_a_csv_file_holds_features_and_then_the_targets(tmp_path: Path):
    x, y = all_of(line(3), csv(tmp_path, *(f"{i},{i},1,2,{i}e-1" for i in range(10))))
    np.testing.assert_allclose(y[:, 2], x[:, 0] / 10, rtol=1e-6)
    assert y.shape == (10, 3)


def test_a_csv_file_may_hold_ids(tmp_path: Path):
    builder = GraphBuilder("ids", "ids", (2, 3), Dtype.I32)
    table = builder.parameter("table", np.ones((4, 2), np.float32))
    rows = builder.op("embedding", "rows", (builder.input, table))
    flat = builder.op("reshape", "flat", (rows,), {"shape": (2, 6)})
    model = Model(*builder.build(flat), loss="softmax_cross_entropy", description="")
    x, _ = all_of(model, csv(tmp_path, *("0,3,1,5" for _ in range(5))))
    assert x.dtype == np.int32
    assert x.tolist() == [[0, 3, 1]] * 5
    with pytest.raises(DataError, match="line 1, column 2: 4 is not an integer from 0 to 3"):
        load_data(csv(tmp_path, "0,4,1,5"), model)


@pytest.mark.parametrize(
    ("third", "message"),
    [
        (
            "1,2",
            r"line 3: there are 2 columns, but model 'net' needs 3: 2 features, then the class",
        ),
        ("1,2,0,0", "line 3: there are 4 columns"),
        ("1,,0", "line 3, column 2: '' is not a number"),
        ("1,x,0", "line 3, column 2: 'x' is not a number"),
        ("1,1_0,0", "line 3, column 2: '1_0' is not a number"),
        ("nan,1,0", "line 3, column 1: nan is NaN, infinity or a number beyond float32"),
        ("1,-inf,0", "line 3, column 2: -inf is NaN"),
        ("1,1e39,0", "line 3, column 2: 1e39 is NaN"),
        ("1,1,3", "line 3, column 3: 3 is not an integer from 0 to 2"),
        ("1,1,-1", "line 3, column 3: -1 is not an integer"),
        ("1,1,0.5", "line 3, column 3: 0.5 is not an integer"),
        ("1,1,nan", "line 3, column 3: nan is not an integer"),
        ("1,1,inf", "line 3, column 3: inf is not an integer"),
        ('1,"1,0', "line 3: not CSV: unexpected end of data"),
        ("1," + "1" * 400 + ",0", "line 3: it has more than"),
        ("1," + "1" * 65 + ",0", r"line 3, column 2: '1+…1+' is not a number"),
    ],
)
def test_a_line_of_csv_that_is_wrong_is_named(tmp_path: Path, third: str, message: str):
    with pytest.raises(DataError, match=message) as caught:
        load_data(csv(tmp_path, "a,b,c", "1,2,0", third), classifier(2))
    assert len(str(caught.value)) < 300 + len(str(tmp_path))


def test_each_number_of_a_line_may_be_as_long_as_one(tmp_path: Path):
    line = ",".join([*("1.5".ljust(64, "0"),) * 40, "2".zfill(64)])
    x, y = all_of(classifier(40), csv(tmp_path, *[line] * 10))
    assert (x == 1.5).all()
    assert y.tolist() == [2] * 10


def test_a_csv_file_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = csv(tmp_path, *LINES)
    with pytest.raises(DataError, match="it holds no samples"):
        load_data(csv(tmp_path, "a,b,c"), classifier(2))
    path.write_bytes(b"\xff\xfe1,2,0\n")
    with pytest.raises(DataError, match="it is not UTF-8 text"):
        load_data(path, classifier(2))
    path.write_bytes(b"1,\x002,0\n")
    with pytest.raises(DataError, match=r"data\.csv, line 1"):
        load_data(path, classifier(2))
    with pytest.raises(DataError, match="cannot be read: No such file"):
        load_data(tmp_path / "none.csv", classifier(2))
    monkeypatch.setattr("poetfw.importers.csv_table.LARGEST_BYTES", 100)
    with pytest.raises(DataError, match="has 108 bytes, unpacked and as 32-bit numbers"):
        load_data(csv(tmp_path, *LINES), classifier(2))


# Folders of classes ------------------------------------------------------------------------------


def png(pixels: np.ndarray, depth: int = 8) -> bytes:
    """A PNG file of pixels [height, width] or [height, width, 3], written apart from Pillow."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        body = kind + content
        return len(content).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")

    height, width, *channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, depth, 2 if channels else 0, 0, 0, 0)
    big = pixels.astype(">u2" if depth == 16 else "u1")
    rows = b"".join(b"\0" + row.tobytes() for row in big)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def images(folder: Path, pixels: np.ndarray, classes: int = 3, each: int = 4) -> Path:
    for number in range(classes):
        (folder / f"class{number}").mkdir(parents=True)
        for index in range(each):
            (folder / f"class{number}" / f"{index}.png").write_bytes(png(pixels + 10 * number))
    return folder


GREY = np.arange(64).reshape(8, 8)
pillow = pytest.importorskip("PIL.Image")


def test_a_folder_of_images_has_a_class_in_each_folder(tmp_path: Path):
    (tmp_path / "README.txt").write_text("what these are")
    (tmp_path / ".hidden").mkdir()
    images(tmp_path, GREY)
    model = classifier(1, 8, 8)
    x, y = all_of(model, tmp_path)
    for image, number in zip(x, y, strict=True):
        np.testing.assert_allclose(image[0], (GREY + 10 * number) / 127.5 - 1, rtol=1e-6)
    assert sorted(y) == [0] * 4 + [1] * 4 + [2] * 4
    data = load_data(tmp_path, model)
    assert sorted(data.y_test) == [0, 1, 2]
    assert data.record["classes"] == ["class0", "class1", "class2"]
    assert data.record["images"]["scaling"] == "pixel / 127.5 - 1"


def test_images_are_resized_and_coloured(tmp_path: Path):
    colours = np.stack([GREY, GREY + 50, GREY + 100], axis=2).repeat(2, axis=0).repeat(2, axis=1)
    images(tmp_path, colours)
    x, y = all_of(classifier(3, 8, 8), tmp_path)
    means = x.mean(axis=(2, 3))[y == 0]
    np.testing.assert_allclose(
        means, [[31.5 / 127.5 - 1, 81.5 / 127.5 - 1, 131.5 / 127.5 - 1]] * 4, atol=4e-3
    )
    grey, _ = all_of(classifier(1, 16, 16), tmp_path)
    assert grey.shape == (12, 1, 16, 16)


def test_folders_named_train_and_test_say_what_is_held_out(tmp_path: Path):
    images(tmp_path / "train", GREY)
    images(tmp_path / "test", GREY, classes=2, each=3)
    data = load_data(tmp_path, classifier(1, 8, 8))
    assert (len(data.x_train), sorted(data.y_test)) == (12, [0, 0, 0, 1, 1, 1])
    (tmp_path / "test" / "what").mkdir()
    with pytest.raises(DataError, match="class 'what' is not in"):
        load_data(tmp_path, classifier(1, 8, 8))


def refused(folder: Path, model: Model, message: str, **options: Any) -> None:
    with pytest.raises(DataError, match=message):
        load_data(folder, model, **options)


def test_folders_are_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    model = classifier(1, 8, 8)
    refused(tmp_path, model, "there are no files in folders of classes")
    images(tmp_path, GREY)
    refused(tmp_path, classifier(1, 8, 8, classes=2), "3 classes .*, but model 'net' has 2")
    refused(tmp_path, classifier(2, 8, 8), r"images need an input of \[1, height, width\]")
    refused(tmp_path, classifier(64), "images need an input of")
    for link, target in ((tmp_path / "z", "/etc"), (tmp_path / "class1" / "z.png", "/etc/passwd")):
        link.symlink_to(target)
        refused(tmp_path, model, f"{link.name}: it is a link, which is not followed")
        link.unlink()
    extra = tmp_path / "class1" / "note.txt"
    extra.write_text("")
    refused(tmp_path, model, r"note\.txt: it is not a file that ends in \.png")
    extra.unlink()
    monkeypatch.setattr("poetfw.importers.images._LARGEST_FILE_BYTES", 10)
    refused(tmp_path, model, r"0\.png: it has more than 10 bytes")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no image of PNG, JPEG"),
        (b"GIF89a" + bytes(40), "no image of PNG, JPEG"),
        (png(GREY)[:-30], "damaged"),
        (png(GREY).replace(b"IDAT", b"IDAX"), "damaged"),
        (png(np.zeros((6000, 6000))), "it has 6000 x 6000 pixels, more than the 33,554,432"),
        (png(GREY)[:16] + struct.pack(">II", 2**31 - 1, 2**31 - 1) + png(GREY)[24:], r"2\.png: "),
        (png(GREY, depth=16), "its pixels have other than 8 bits"),
    ],
    ids=range(7),
)
def test_an_image_that_is_none_is_named(tmp_path: Path, content: bytes, message: str):
    images(tmp_path, GREY)
    (tmp_path / "class1" / "2.png").write_bytes(content)
    refused(tmp_path, classifier(1, 8, 8), rf"class1/2\.png: .*{message}|{message}")


def test_an_image_of_another_format_is_refused_though_pillow_reads_it(tmp_path: Path):
    images(tmp_path, GREY)
    pillow.fromarray(GREY.astype(np.uint8)).save(tmp_path / "class1" / "2.png", "GIF")
    refused(tmp_path, classifier(1, 8, 8), r"class1/2\.png: no image of PNG, JPEG")


def test_without_pillow_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    real = builtins.__import__

    def without(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "PIL":
            raise ImportError(name)
        return real(name, *arguments, **options)

    images(tmp_path, GREY)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ToolError, match="images are read with Pillow") as caught:
        load_data(tmp_path, classifier(1, 8, 8))
    assert caught.value.try_next == ("pip install 'poetfw[images]'",)


# Sounds ------------------------------------------------------------------------------------------

RATE = 16_000


def write_wave(
    path: Path, clip: np.ndarray, rate: int = RATE, width: int = 2, channels: int = 1
) -> None:
    """Write numbers from -1 to 1, [samples] or [samples, channels], as PCM."""
    whole = np.round(clip * (2 ** (8 * width - 1) - 1)).astype(np.int64).reshape(-1)
    if width == 1:
        whole += 128
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate)
        file.writeframes(
            b"".join(int(n).to_bytes(width, "little", signed=width > 1) for n in whole)
        )


def tone(hertz: float, seconds: float = 0.1, rate: int = RATE) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * hertz * np.arange(int(seconds * rate)) / rate)


def sounds(folder: Path) -> Path:
    for number, hertz in enumerate((300, 800, 2000)):
        for index in range(4):
            write_wave(folder / f"tone{number}" / f"{index}.wav", tone(hertz + 10 * index))
    return folder


@pytest.mark.parametrize(("kind", "coefficients"), [("mfcc", 10), ("log-mel", 20)])
def test_features_are_what_scipys_transforms_come_to(kind: str, coefficients: int):
    """Frames, window and spectra from scipy.signal, the cosine transform from scipy.fft.

    The triangles are drawn frequency by frequency, as their definition says.
    """
    clip = RANDOM.uniform(-1, 1, 480 + 3 * 320)
    spectra = Spectra.of(kind, RATE, 4, coefficients)
    assert (spectra.window, spectra.stride, spectra.fft, spectra.samples) == (480, 320, 512, 1440)
    frames = np.stack([clip[320 * i : 320 * i + 480] for i in range(4)])
    window = scipy.signal.get_window("hann", 480, fftbins=True)
    magnitudes = np.abs(scipy.fft.rfft(frames * window, 512))
    bands = 40 if kind == "mfcc" else coefficients

    def mel(hertz: float) -> float:
        return 2595 * np.log10(1 + hertz / 700) / 2595 * 1127 * np.log(10)

    edges = np.linspace(mel(20), mel(4000), bands + 2)
    energies = np.zeros((4, bands))
    for band in range(bands):
        low, centre, high = edges[band : band + 3]
        for bin_ in range(1, 257):
            at = mel(bin_ * RATE / 512)
            if low < at <= centre:
                energies[:, band] += magnitudes[:, bin_] * (at - low) / (centre - low)
            elif centre < at < high:
                energies[:, band] += magnitudes[:, bin_] * (high - at) / (high - centre)
    expected = np.log(energies + 1e-6)
    if kind == "mfcc":
        # scipy's orthonormal transform has the first coefficient smaller by √2
        expected = scipy.fft.dct(expected, type=2, norm="ortho")[:, :coefficients]
        expected[:, 0] *= np.sqrt(2)
    np.testing.assert_allclose(spectra.features(clip), expected, rtol=1e-4, atol=1e-4)


def test_a_folder_of_sounds_becomes_features(tmp_path: Path):
    model = classifier(1, 4, 10)
    data = load_data(sounds(tmp_path), model)
    assert data.x_train.shape == (9, 1, 4, 10)
    assert data.record["classes"] == ["tone0", "tone1", "tone2"]
    features = data.record["features"]
    assert (features["kind"], features["sample_rate_hz"], features["bands"]) == ("mfcc", RATE, 40)
    x, y = all_of(classifier(4, 40), tmp_path, features="log-mel")
    loudest = x.mean(axis=1).argmax(axis=1)
    assert loudest[y == 0].max() < loudest[y == 1].min() < loudest[y == 2].min()
    spectra = Spectra(**features)
    expected = spectra.features(np.round(tone(310) * 32767)[: spectra.samples] / 32768)
    assert any(np.allclose(expected, sample[0], atol=1e-4) for sample in data.x_train)


@pytest.mark.parametrize(("width", "channels"), [(1, 1), (2, 2), (3, 1), (4, 8)])
def test_widths_and_channels_come_to_the_same(tmp_path: Path, width: int, channels: int):
    for folder, bytes_, many in (("a", 2, 1), ("b", width, channels)):
        for index in range(10):
            noise = np.random.default_rng(index).uniform(-0.9, 0.9, 1600)
            clip = np.repeat(noise[:, None], many, axis=1)
            write_wave(tmp_path / folder / "one" / f"{index}.wav", clip, RATE, bytes_, many)
    wanted, got = (all_of(classifier(4, 10), tmp_path / name)[0] for name in ("a", "b"))
    np.testing.assert_allclose(got, wanted, atol=0.3 if width == 1 else 3e-3)


def test_a_short_sound_is_followed_by_silence_and_a_long_one_is_cut(tmp_path: Path):
    silence = np.zeros(RATE)
    for index in range(10):
        end = 700 if index % 2 else RATE
        clip = np.concatenate([tone(500)[:700], silence])[:end]
        write_wave(tmp_path / "one" / f"{index}.wav", clip)
    x, _ = all_of(classifier(4, 10), tmp_path)
    assert (x == x[0]).all()


def test_sounds_are_not_trusted(tmp_path: Path):
    sounds(tmp_path)
    model = classifier(4, 10)
    refused(tmp_path, classifier(40), "sounds need an input of")
    refused(tmp_path, classifier(2, 4, 10), "sounds need an input of")
    refused(tmp_path, classifier(4, 41), "reads 41 coefficients, more than the 40 bands")
    refused(tmp_path, model, "'chroma' is not a kind of features", features="chroma")
    odd = tmp_path / "tone1" / "odd.wav"
    write_wave(odd, tone(300), rate=8000)
    refused(tmp_path, model, r"odd\.wav: it has 8,000 samples a second, but .* has 16,000")
    write_wave(odd, tone(300), rate=300)
    refused(tmp_path, model, "it has 300 samples a second, not 4,000 to 192,000")
    write_wave(odd, np.zeros((10, 9)), channels=9)
    refused(tmp_path, model, "it has 9 channels of 16 bits")
    write_wave(odd, np.zeros(0))
    refused(tmp_path, model, "it holds fewer samples than it declares, or none")
    write_wave(odd, tone(300))
    whole = odd.read_bytes()
    for content in (
        b"",
        whole[:30],
        whole[:200],
        whole[:36],
        b"RIFX" + whole[4:],
        whole[:12] + whole[36:],
        whole.replace(b"\x01\x00\x01\x00", b"\x03\0\1\0", 1),
        extensible(whole, 3),
        extensible(whole).replace(GUID, bytes(14)),
        extensible(whole)[:50],
    ):
        odd.write_bytes(content)
        refused(tmp_path, model, r"odd\.wav: ")


GUID = bytes.fromhex("000000001000800000aa00389b71")


def extensible(whole: bytes, encoding: int = 1) -> bytes:
    """The same samples behind the header that Windows' tools write, and a chunk of odd length."""
    form = b"\xfe\xff" + whole[22:36] + struct.pack("<HHIH", 22, 16, 4, encoding) + GUID
    chunks = b"LIST" + struct.pack("<I", 3) + b"abc\0" + b"fmt " + struct.pack("<I", 40) + form
    return (
        b"RIFF" + struct.pack("<I", len(chunks) + len(whole) - 32) + b"WAVE" + chunks + whole[36:]
    )


def test_an_extensible_header_changes_nothing(tmp_path: Path):
    wanted, _ = all_of(classifier(4, 10), sounds(tmp_path))
    for path in tmp_path.glob("*/*.wav"):
        path.write_bytes(extensible(path.read_bytes()))
    got, _ = all_of(classifier(4, 10), tmp_path)
    np.testing.assert_array_equal(got, wanted)


def test_a_class_without_samples_is_refused(tmp_path: Path):
    """In `test` it may have none."""
    sounds(tmp_path / "whole")
    (tmp_path / "whole" / "tone1x").mkdir()
    model = classifier(4, 10, classes=4)
    refused(tmp_path / "whole", model, "nothing to train with in the folder of class 'tone1x'")
    for part in ("train", "test"):
        sounds(tmp_path / "parts" / part)
    for file in (tmp_path / "parts" / "test" / "tone1").iterdir():
        file.unlink()
    assert set(load_data(tmp_path / "parts", model).y_test) == {0, 2}
    for file in (tmp_path / "parts" / "train" / "tone0").iterdir():
        file.unlink()
    refused(tmp_path / "parts", model, "in the folder of class 'tone0'")


def test_features_are_of_sounds(tmp_path: Path):
    np.savez(tmp_path / "data.npz", x=np.zeros((20, 4, 10)), y=np.zeros(20, int))
    for data in (tmp_path / "data.npz", "synthetic"):
        refused(data, classifier(4, 10), "no sounds to calculate mfcc of", features="mfcc")
