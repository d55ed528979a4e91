# SPDX-License-Identifier: Apache-2.0
"""A board at a serial port, some of whose answers are not what a board would say.

Most lies have a right CRC: they come as far as what reads them. The line has no clock but its own.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from random import Random
from zlib import crc32

from fuzz import mutate
from poetfw.tools.link.desk import PROTOCOL
from poetfw.tools.link.frames import decode_data, encode_data

BLOCK = 512


class Board:
    """A board that does what it is told, and then says something else.

    Args:
        script: a JSON file with `seed`, `plan`, `board`, the `lies` by the answers' numbers, and
            whether the storage is `blank`.
        image: the storage image, which is on it unless it is blank.
    """

    def __init__(self, script: Path, image: Path) -> None:
        said = json.loads(script.read_text())
        self._random = Random(said["seed"])
        self._greeting = f"{PROTOCOL} {said['plan']} {said['board']}"
        self._lies = set(said["lies"])
        content = image.read_bytes()
        blocks = len(content) // BLOCK + 9
        self._storage = bytearray(
            blocks * BLOCK if said["blank"] else content.ljust(blocks * BLOCK)
        )
        self._buffer = bytearray(BLOCK)
        self._rest = self._arrived = b""
        self._answers = 0
        self._now_s = 0.0

    def write(self, data: bytes) -> None:
        """Take commands, and answer them."""
        *commands, self._rest = (self._rest + data).split(b"%")
        for command in commands:
            if command.strip():
                self._arrived += self._reply(command.decode().split())

    def read(self, timeout_s: float) -> bytes:
        """What was answered."""
        arrived, self._arrived = self._arrived, b""
        self._now_s += 0.001 if arrived else max(0.001, timeout_s)
        return arrived

    def now_s(self) -> float:
        """Time goes on by what is waited for."""
        return self._now_s

    def _reply(self, words: list[str]) -> bytes:
        sequence, word, *arguments, _ = words
        values = self._do(word, arguments)
        lies = self._answers in self._lies
        self._answers += 1
        if lies and self._random.random() < 0.8:
            values = self._other(values)
        answer = f"m-[{sequence} {word} {values}"
        raw = f"{answer} {crc32(answer.encode()):08x}]\r\nm-ready\r\n".encode(errors="replace")
        if lies and self._random.random() < 0.4:
            raw = self._random.choice((
                mutate.content(self._random, raw, 2),
                raw * 2,
                b"",
                self._random.randbytes(5000),
                raw.replace(sequence.encode(), b"99999999999", 1),
                b"@done\r\n" + raw,
            ))  # fmt: skip
        return raw

    def _other(self, values: str) -> str:
        choices, texts = self._random, values.split(" ")
        at = choices.randrange(len(texts))
        match choices.randrange(6):
            case 0:
                texts[0] = choices.choice(("-1", "-4", "-99", "-1000", "0", "1e3", "7fc00000"))
            case 1:
                texts[at] = str(choices.choice(mutate.INTEGERS))
            case 2:
                texts[at] = ":" + encode_data(choices.randbytes(choices.choice((0, 1, 512, 600))))
            case 3:
                del texts[at]
            case 4:
                texts.insert(at, texts[at])
            case _:
                texts[at] = mutate.text(choices)
        return " ".join(texts)

    def _do(self, word: str, arguments: list[str]) -> str:
        numbers = [int(text) for text in arguments if not text.startswith(":")]
        data = decode_data(arguments[-1][1:]) if arguments and arguments[-1][:1] == ":" else None
        match word:
            case "hello":
                return self._greeting
            case "card":
                return f"0 {len(self._storage) // BLOCK}"
            case "sums":
                return " ".join(str(crc32(self._block(numbers[0] + i))) for i in range(numbers[1]))
            case "read":
                block, offset, size = numbers
                return "0 :" + encode_data(self._block(block)[offset : offset + size])
            case "fill" | "put":
                offset = numbers[0]
                self._buffer[offset:] = (data or b"").ljust(BLOCK - offset, b"\0")
                if word == "fill":
                    return "0"
                self._storage[numbers[1] * BLOCK : (numbers[1] + 1) * BLOCK] = self._buffer
                return f"0 {crc32(self._buffer)}"
            case "begin":
                return "0 0"
            case "step":
                return "0 3f800000 1000"
            case "eval":
                return "0 40000000"
            case "done":
                return "ns 100 100 512 512"
        return "0"

    def _block(self, number: int) -> bytes:
        return bytes(self._storage[number * BLOCK : (number + 1) * BLOCK])


@contextlib.contextmanager
def open_scripted(name: str, baud: int) -> Iterator[Board]:
    """In place of a port: the board that a file describes, beside whose script its image is."""
    script = Path(name)
    board = Board(script, script.with_name("storage.img"))
    random.seed(script.read_bytes())  # what numbers the commands, so that a case can be replayed
    yield board
