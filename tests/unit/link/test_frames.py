# SPDX-License-Identifier: Apache-2.0
"""The format of what goes over the line, from both sides, and what neither side takes."""

from __future__ import annotations

import re
from base64 import b64encode
from random import Random
from zlib import crc32

import pytest
from link_device import Device

from emulator.firmware_tools import TEMPLATES
from poetfw.common.errors import DeviceError
from poetfw.tools.link.frames import LARGEST_DATA_BYTES, AnswerFrame, decode_answer, encode_command
from poetfw.tools.link.values import integer


def framed(text: str, kind: str = "m") -> bytes:
    """An answer, written down anew."""
    start = f"{kind}-[{text}"
    return f"{start} {crc32(start.encode()):08x}]".encode()


def asked(text: str) -> bytes:
    """A command, written down anew."""
    return f"{text} {crc32(text.encode()):08x}%".encode()


def test_a_command_is_as_the_page_says() -> None:
    data = bytes(range(5))
    plain = b64encode(data).decode().rstrip("=")
    assert encode_command(7, "put", 0, 9, 4294967295, data=data) == asked(
        f"7 put 0 9 4294967295 :{plain}"
    )
    assert encode_command(1, "fill", 0, data=b"") == asked("1 fill 0 :")


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (framed("7 hello 1 5a3b1e00 sample"), ("hello", ("1", "5a3b1e00", "sample"), None)),
        (framed("7 read 0 :AAEC"), ("read", ("0",), b"\0\1\2")),
        (framed("7 read 0 :AAE"), ("read", ("0",), b"\0\1")),
        (b"xx" + framed("7 save 0") + b"m-ready", ("save", ("0",), None)),
    ],
)
def test_answers_are_read(line: bytes, answer: tuple[str, tuple[str, ...], bytes | None]) -> None:
    assert decode_answer(line) == AnswerFrame(False, 7, *answer)


def test_a_refusal_is_read() -> None:
    refused = decode_answer(framed("0 damaged", "e"))
    assert refused == AnswerFrame(True, 0, "damaged", (), None)
    assert refused.is_damaged
    assert not decode_answer(framed("7 unknown", "e")).is_damaged  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"m-ready",
        b"@step 1 loss=00000000 ticks=1",
        framed("7 save 0")[:-1],
        framed("7 save 0").replace(b"save", b"sbve"),
        framed("7 save 0").replace(b"m-", b"x-"),
        framed("7 save 0").replace(b"m-", b"e-"),
        framed("7  save 0"),
        framed("-7 save 0"),
        framed("4294967296 save 0"),
        framed("7 SAVE 0"),
        framed("7 save 0\t"),
        framed("7 read 0 :A"),
        framed("7 read 0 :A*=="),
        framed("7 read 0 :AA*AA"),
        framed("7 read 0 :" + "A" * 2000),
    ],
)
def test_what_is_no_whole_answer_is_none(line: bytes) -> None:
    assert decode_answer(line) is None


def test_a_count_is_below_two_to_the_64() -> None:
    answer = AnswerFrame(False, 7, "train", (), None)
    assert integer(answer, "18446744073709551615") == 2**64 - 1
    with pytest.raises(DeviceError):
        integer(answer, "18446744073709551616")


def test_the_page_shows_whole_frames(device: Device) -> None:
    page = (TEMPLATES.parent / "docs/serial-line.md").read_text()
    (command,) = re.findall(r"host +(\d+ .*%)", page)
    (answer,) = re.findall(r"board +(m-\[\d+ .*\])", page)
    assert encode_command(7, "read", 9, 0, 3) == command.encode()
    device.storage = bytes(9 * 512) + b"\0\1\2"
    assert device.tell(command.encode()).startswith(answer.encode())


# The firmware ----------------------------------------------------------------------------------

DAMAGED = framed("0 damaged", "e") + b"\r\nm-ready\r\n"


def test_the_harness_asks_for_the_name(device: Device) -> None:
    assert device.tell(b"name%") == b"m-name-dut-[poetfw]\r\nm-ready\r\n"
    assert device.tell(b"\r\nname%") == b"m-name-dut-[poetfw]\r\nm-ready\r\n"
    assert device.tell(b"%") == b""


def test_the_firmware_answers_in_a_frame(device: Device) -> None:
    expected = framed("4294967295 hello 3 5a3b1e00 sample") + b"\r\nm-ready\r\n"
    assert device.tell(asked("4294967295 hello")) == expected
    assert device.tell(asked("5 sums 0 0")) == framed("5 sums") + b"\r\nm-ready\r\n"


@pytest.mark.parametrize(
    "command",
    [
        b"names%",
        f"5 hello_{crc32(b'5 hello'):08x}%".encode(),
        b"hello%",
        asked("5 hello").replace(b"5", b"6"),
        asked("5 hello").replace(b" ", b"  ", 1),
        asked("x hello"),
        asked("4294967296 hello"),
        asked(" hello"),
        asked("-5 hello"),
        asked("5 fill 1 2 3 4 :AAAA"),
        asked("5 fill 0x10 :AAAA"),
        asked("5 fill 00000000000000000099999999999 :AAAA"),
        asked("5 fill 0 :A"),
        asked("5 fill 0 :AAA="),
        asked("5 fill 0 :" + "A" * 400),
        b"A" * 100_000 + b"%",
        asked("5 hello")[:-1] + b"0%",
        asked("5 hello").replace(b" ", b"_"),
        b" 00000000%",
        b"        %",
    ],
)
def test_the_firmware_refuses_what_is_no_frame(device: Device, command: bytes) -> None:
    assert device.tell(command) == DAMAGED
    assert device.tell(b"name%").startswith(b"m-name")


@pytest.mark.parametrize(
    "command", ["hi", "helloo", "", "hello 1", "read 0 0", "fill :AAAA", "put 1 :AAAA"]
)
def test_the_firmware_refuses_what_it_does_not_know(device: Device, command: str) -> None:
    answer = device.tell(asked(f"5 {command}"))
    assert answer == framed("5 unknown", "e") + b"\r\nm-ready\r\n"


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("read 0 513 0", "read -4"),
        ("read 0 0 513", "read -4"),
        ("read 0 512 1", "read -4"),
        ("read 0 1 4294967295", "read -4"),
        ("read 128 0 1", "read -3"),
        ("read 0 512 0", "read 0 :"),
        ("sums 127 2", None),
        ("fill 513 :", "fill -4"),
        ("fill 511 :AAAA", "fill -4"),
        ("fill 4294967295 :AAAA", "fill -4"),
        ("step 1", "step -4"),
        ("save", "save -4"),
        ("eval 1", "eval -4"),
        ("card", "card 0 128"),
    ],
)
def test_the_firmware_refuses_what_cannot_be(
    device: Device, command: str, answer: str | None
) -> None:
    if answer is None:
        answer = f"sums {crc32(bytes(512))} -3"
    assert device.tell(asked(f"5 {command}")) == framed(f"5 {answer}") + b"\r\nm-ready\r\n"


def test_a_block_of_another_content_is_not_written(device: Device) -> None:
    block = b"abc".ljust(512, b"\0")
    said = device.tell(encode_command(5, "put", 0, 3, crc32(block) ^ 1, data=b"abc"))
    assert decode_answer(said) == AnswerFrame(False, 5, "put", ("-4", str(crc32(block))), None)
    assert not any(device.storage)


def test_an_answer_has_its_end(device: Device) -> None:
    answer = decode_answer(device.tell(encode_command(5, "sums", 0, 65)))
    assert answer is not None
    assert answer.values == (str(crc32(bytes(512))),) * 64


def test_a_command_may_fill_the_room_for_it_and_no_more(device: Device) -> None:
    def padded(characters: int) -> bytes:
        digits = characters - len("5 fill  :AAAA 01234567")
        return asked(f"5 fill {0:0{digits}} :AAAA")

    longest = padded(400)
    assert len(longest) == 401  # with its end
    assert device.tell(longest) == framed("5 fill 0") + b"\r\nm-ready\r\n"
    assert device.tell(padded(401)) == DAMAGED
    assert device.tell(longest[:-1] + b"x%") == DAMAGED


def test_any_data_survives_both_ways(device: Device) -> None:
    random = Random(1)
    for size in (0, 1, 2, 3, 47, 48, 49, 96, LARGEST_DATA_BYTES):
        data = random.randbytes(size)
        offset = random.randrange(512 - size)
        block = bytes(offset) + data + bytes(512 - offset - size)
        device.tell(encode_command(1, "fill", 0, data=b""))
        said = device.tell(encode_command(2, "put", offset, 3, crc32(block), data=data))
        assert decode_answer(said) == AnswerFrame(False, 2, "put", ("0", str(crc32(block))), None)
        said = device.tell(encode_command(3, "read", 3, offset, size))
        assert decode_answer(said) == AnswerFrame(False, 3, "read", ("0",), data)
        assert device.storage[3 * 512 : 4 * 512] == block


def test_random_bytes_do_nothing(device: Device) -> None:
    """Bytes, and changed commands: whatever is answered, nothing is written and nothing trained."""
    random = Random(2)
    before = device.storage
    alphabet = b"%: 0123456789abcdefput \r\n"
    for _ in range(3000):
        if random.random() < 0.5:
            text = bytes(random.choices(alphabet, k=random.randrange(600)))
        else:
            good = encode_command(1, "put", 0, 1, random.randrange(2**32), data=b"abc")
            at = random.randrange(len(good) - 1)
            text = good[:at] + random.randbytes(1) + good[at + 1 :]
            if text == good:
                continue
        device.tell(text + b"%")
    assert device.storage == before
    assert device.tell(b"%name%").endswith(b"m-name-dut-[poetfw]\r\nm-ready\r\n")
