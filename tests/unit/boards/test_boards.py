# SPDX-License-Identifier: Apache-2.0
import re
from pathlib import Path

import pytest

from poetfw.boards import list_boards, load_board
from poetfw.errors import BoardError
from poetfw.resources import boards_dir

NRF52840 = boards_dir() / "nrf52840.toml"


def test_every_shipped_board_is_listed_under_the_name_of_its_file():
    boards = list_boards()
    assert {"linux", "mkr1000", "nrf52840", "rpi4", "tx2"} <= {board.name for board in boards}
    assert all(board.path.stem == board.name for board in boards)


def test_every_figure_has_a_source():
    for board in list_boards():
        assert len(board.sources) == board.path.read_text().count("source = ")
        assert all(board.sources.values())


def test_nrf52840_has_the_figures_of_poets_chip_table():
    board = load_board("nrf52840")
    assert (board.ram_bytes, board.flash_bytes, board.clock_hz) == (262_144, 1_048_576, 64_000_000)
    assert board.compute.macs_per_s * 2 == 6.37e6
    assert board.power.active_w == pytest.approx(3.328e-3 * 3.3, rel=1e-3)
    assert board.storage is not None
    for transfer in (board.storage.page_in, board.storage.page_out):
        assert transfer.cost_j(512) == pytest.approx(0.33 * transfer.time_s(512), rel=1e-4)
    assert board.twin is not None
    assert board.twin.machine == "mps2-an386"


POETS_TABLE_2 = {
    "mkr1000": ("Cortex-M0+", 48_000_000, 32_768),
    "nrf52840": ("Cortex-M4F", 64_000_000, 262_144),
    "rpi4": ("Cortex-A72", 1_500_000_000, 2 * 2**30),
    "tx2": ("Cortex-A57", 2_000_000_000, 8 * 2**30),
}


@pytest.mark.parametrize("name", POETS_TABLE_2)
def test_boards_are_the_devices_of_poets_table_2(name: str):
    board = load_board(name)
    assert (board.core, board.clock_hz, board.ram_bytes) == POETS_TABLE_2[name]


@pytest.mark.parametrize(
    ("name", "flop_per_s", "active_w", "page_in", "page_out", "storage_w"),
    [
        ("mkr1000", 2000 / 0.012, 0.066, 4.61651e6, 4.44e6, 0.33),
        ("nrf52840", 6.37e6, 0.01098, 4.61651e6, 4.44e6, 0.33),
        ("rpi4", 2e9, 3.0, 45.5e6, 24.5e6, 0.15),
        ("tx2", 64e9, 2.524, 108.5e6, 94.37e6, 0.309),
    ],
)
def test_boards_have_the_figures_of_poets_chip_table(
    name: str, flop_per_s: float, active_w: float, page_in: float, page_out: float, storage_w: float
):
    """TX2's throughput is no figure of POET's: it is the peak of its four Cortex-A57."""
    board = load_board(name)
    assert board.compute.macs_per_s * 2 == pytest.approx(flop_per_s, rel=1e-4)
    assert board.power.active_w == pytest.approx(active_w, rel=1e-3)
    assert board.storage is not None
    for transfer, bandwidth in (
        (board.storage.page_in, page_in),
        (board.storage.page_out, page_out),
    ):
        assert transfer.bandwidth_bytes_per_s == pytest.approx(bandwidth, rel=2e-4)
        for size_bytes in (0, 512, 10**6):
            assert transfer.cost_j(size_bytes) == pytest.approx(
                storage_w * transfer.time_s(size_bytes), rel=2e-4
            )


def test_a_board_without_a_firmware_table_can_only_be_scheduled_for():
    assert [board.name for board in list_boards() if board.firmware is None] == [
        "mkr1000",
        "rpi4",
        "tx2",
    ]
    board = load_board("mkr1000")
    message = "board 'mkr1000' has no firmware support yet; `poetfw schedule` works"
    for use in (board.require_firmware, lambda: board.hal, lambda: board.platformio_env):
        with pytest.raises(BoardError, match=f"^{re.escape(message)}$") as caught:
            use()
        assert caught.value.exit_code == 1


def test_transfers_overlap_where_a_thread_can_wait_for_them():
    overlap = {board.name: board.storage.overlap for board in list_boards() if board.storage}
    assert overlap == {
        "linux": False,
        "mkr1000": False,
        "nrf52840": False,
        "rpi4": True,
        "tx2": True,
    }


def test_only_a_board_that_says_so_has_an_inductor(tmp_path: Path):
    assert load_board("nrf52840").require_firmware().dcdc_inductor is True
    assert load_board("linux").require_firmware().dcdc_inductor is False
    path = tmp_path / "bad.toml"
    path.write_text(NRF52840.read_text().replace("dcdc_inductor = true", "dcdc_inductor = 1"))
    with pytest.raises(BoardError, match="dcdc_inductor: input should be a valid boolean"):
        load_board(path)


def test_linux_is_its_own_twin():
    assert load_board("linux").twin is None


def test_a_board_may_have_no_storage(tmp_path: Path):
    text = NRF52840.read_text()
    text = re.sub(r"\[storage\].*?\[twin\]", "[twin]", text, flags=re.DOTALL)
    path = tmp_path / "bare.toml"
    path.write_text(text)
    assert load_board(str(path)).storage is None


def test_an_unknown_board_lists_the_known_ones():
    with pytest.raises(BoardError, match=r"^no board is called 'nrf9'$") as caught:
        load_board("nrf9")
    assert all(board.name in caught.value.try_next[0] for board in list_boards())


@pytest.mark.parametrize("name", ["", "../nrf52840", "nrf52840\n", "NRF52840", "a\0b/c"])
def test_no_such_board(name: str):
    with pytest.raises(BoardError):
        load_board(name)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("value = 262_144", "value = -1", "memory.ram_bytes.value: .*greater than 0, not -1"),
        ("value = 262_144", "value = 0", "memory.ram_bytes.value: .*greater than 0, not 0"),
        ("value = 262_144", "value = 1e5", "memory.ram_bytes.value: .*valid integer"),
        ("value = 262_144", 'value = "256K"', "memory.ram_bytes.value: .*not '256K'"),
        ("value = 262_144", "value = true", "memory.ram_bytes.value"),
        ("value = 262_144", "value = 99999999999999999", "memory.ram_bytes.value"),
        ("value = 262_144", "value = 4096", "memory: .*leave nothing of ram_bytes"),
        ("value = 3.185e6", "value = nan", "compute.macs_per_s.value: .*finite"),
        ("value = 3.185e6", "value = inf", "compute.macs_per_s.value: .*finite"),
        ("value = 3.185e6", "value = 1e30", "compute.macs_per_s.value"),
        ("value = 10.98e-3", "value = 0.0", "power.active_w.value: .*greater than 0"),
        ("value = 10.98e-3", "value = 1e9", "power.active_w.value"),
        ("value = 0.109e-3", "value = -0.1", "storage.page_in.latency_s.value"),
        ("value = 512,", "value = 500,", "storage.block_bytes.value"),
        ("value = 512,", "value = 768,", "storage.block_bytes.value: .*multiple of 512"),
        ('value = 0, source = "no b', 'value = 258_048, source = "b', "memory: .*leave nothing"),
        ('hal = "nrf52840"', 'hal = "a/b"', "firmware.hal: "),
        ('hal = "nrf52840"', 'hal = ".."', "firmware.hal: "),
        ('hal = "nrf52840"', 'hal = "a.b"', "firmware.hal: "),
        (
            'kind = "sd-spi"',
            'kind = "sd-spi"\noverlap = true',
            "the file: storage.overlap must be false on a board with a firmware table",
        ),
        ('kind = "sd-spi"', 'kind = "sd-spi"\noverlap = 1', "storage.overlap: .*not 1"),
        ('kind = "sd-spi"', 'kind = "tape"', "storage.kind: .*'sd-spi' or 'file', not 'tape'"),
        ("stack_bytes =", "stack =", "memory.stack_bytes is missing; memory.stack is not a key"),
        ('name = "nrf52840"', 'name = "x\\"; system()"', "name: "),
        ('name = "nrf52840"', 'name = "a\\n"', "name: "),
        ("schema_version = 1", "schema_version = 2", "schema_version: "),
        ("{ value = 64_000_000, source = ", "64_000_000 # ", "cpu.clock_hz must be a table"),
        (', source = "PS, Memory" }', " }", "memory.flash_bytes.source is missing"),
        ('source = "PS, Memory"', 'source = ""', "memory.flash_bytes.source"),
        (
            '[firmware]\nhal = "nrf52840"\nplatformio_env = "nrf52840"\ndcdc_inductor = true\n',
            "",
            "the file: a board with a twin needs a firmware table",
        ),
        ("[cpu]", "[cpu", "not a TOML file"),
        ("[cpu]", "[cpu]\n[cpu]", "not a TOML file"),
    ],
)
def test_a_malformed_file_is_refused(tmp_path: Path, old: str, new: str, message: str):
    text = NRF52840.read_text()
    assert old in text
    path = tmp_path / "bad.toml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(BoardError, match=message) as caught:
        load_board(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe", b"\0", b"x = " + b"[" * 5000, b"a = 1\n" * 100_000],
    ids=["empty", "not-utf8", "nul", "deep", "huge"],
)
def test_a_file_that_is_no_board_is_refused(tmp_path: Path, content: bytes):
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(BoardError, match=re.escape(str(path))):
        load_board(path)


def test_no_board_is_as_long_as_that(tmp_path: Path):
    path = tmp_path / "long.toml"
    path.write_text(NRF52840.read_text() + "# and so on\n" * 30_000)
    with pytest.raises(BoardError, match="which no board needs"):
        load_board(path)


def test_a_folder_is_refused(tmp_path: Path):
    with pytest.raises(BoardError, match="there is no such file"):
        load_board(tmp_path)
