# SPDX-License-Identifier: Apache-2.0
import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from poetfw.boards import Arithmetic, Board, Machine, list_boards, load_board
from poetfw.cli.main import cli
from poetfw.common.errors import BoardError, DataError
from poetfw.common.resources import boards_dir, firmware_templates_dir
from poetfw.common.transfer import OverlapCosts
from poetfw.planning import BuildSettings
from poetfw.tools import emulator_of
from workloads import BOARDS

NRF52840 = boards_dir() / "nrf52840.toml"
LINUX = boards_dir() / "linux.toml"


def test_every_shipped_board_is_listed_under_the_name_of_its_file():
    boards = list_boards()
    assert {"linux", "mkr1000", "nrf52840", "rpi4", "tx2"} <= {board.name for board in boards}
    assert all(board.path.stem == board.name for board in boards)


def test_every_figure_has_a_source():
    for board in list_boards():
        assert len(board.sources) == board.path.read_text().count("source = ")
        assert all(board.sources.values())


def test_the_benchmarks_m4f_has_the_figures_of_poets_chip_table():
    board = load_board(BOARDS / "poet-m4f.toml")
    assert (board.ram_bytes, board.flash_bytes, board.clock_hz) == (262_144, 1_048_576, 64_000_000)
    assert board.compute.macs_per_s * 2 == 6.37e6
    assert board.power.active_w == pytest.approx(3.328e-3 * 3.3, rel=1e-3)
    assert board.storage is not None
    for transfer in (board.storage.page_in, board.storage.page_out):
        assert transfer.cost_j(512) == pytest.approx(0.33 * transfer.time_s(512), rel=1e-4)


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
        (BOARDS / "poet-mkr1000.toml", 2000 / 0.012, 0.066, 4.61651e6, 4.44e6, 0.33),
        (BOARDS / "poet-m4f.toml", 6.37e6, 0.01098, 4.61651e6, 4.44e6, 0.33),
        ("rpi4", 2e9, 3.0, 45.5e6, 24.5e6, 0.15),
        ("tx2", 64e9, 2.524, 108.5e6, 94.37e6, 0.309),
    ],
)
def test_boards_have_the_figures_of_poets_chip_table(
    name: str | Path,
    flop_per_s: float,
    active_w: float,
    page_in: float,
    page_out: float,
    storage_w: float,
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
    board = replace(load_board("tx2"), firmware=None, twins=())
    message = "board 'tx2' has no firmware support yet; `poetfw schedule` works"
    for use in (board.require_firmware, lambda: board.hal, lambda: board.platformio_env):
        with pytest.raises(BoardError, match=f"^{re.escape(message)}$") as caught:
            use()
        assert caught.value.exit_code == 1


def test_sums_are_exact_where_a_floating_point_unit_makes_them():
    assert [board.name for board in list_boards() if not board.compute.exact] == ["mkr1000"]


@pytest.mark.parametrize("name", ["linux", "rpi4", "tx2", "nrf52840", "mkr1000", "stm32f405"])
def test_products_are_fused_where_that_is_fast(tmp_path: Path, name: str):
    path = tmp_path / "board.toml"
    board = load_board(name)
    assert board.compute.exact == (board.compute.arithmetic is Arithmetic.SEPARATE)
    text = board.path.read_text().replace("exact = false", "")
    path.write_text(text.replace("[compute]", '[compute]\narithmetic = "fma"'))
    if board.toolchain.hosted:
        assert load_board(path).compute.arithmetic is Arithmetic.FMA
        path.write_text(text.replace("[compute]", '[compute]\narithmetic = "fused"'))
        with pytest.raises(BoardError, match=r"compute\.arithmetic: .*'separate' or 'fma'"):
            load_board(path)
    else:
        message = 'compute.arithmetic must be "separate": the core multiplies and adds in one'
        with pytest.raises(BoardError, match=message):
            load_board(path)


def test_threads_can_be_others_than_the_files():
    linux = load_board("linux")
    assert linux.with_threads(None) is linux
    assert linux.with_threads(3).compute.threads == 3
    assert linux.with_threads(3).with_threads(None).compute.threads == 3
    with pytest.raises(BoardError, match="'nrf52840' has no operating system: its kernels run on"):
        load_board("nrf52840").with_threads(2)


def test_threads_need_an_operating_system(tmp_path: Path):
    assert {board.compute.threads for board in list_boards()} == {1}
    path = tmp_path / "board.toml"
    for board, threads, message in (
        (LINUX, "4", None),
        (LINUX, "65", "compute.threads: 64 or less was expected"),
        (NRF52840, "1", None),
        (NRF52840, "2", "compute.threads must be 1: there is no operating system for more"),
    ):
        path.write_text(board.read_text().replace("[compute]", f"[compute]\nthreads = {threads}"))
        if message is None:
            assert load_board(path).compute.threads == int(threads)
        else:
            with pytest.raises(BoardError, match=re.escape(message)):
                load_board(path)


def test_transfers_overlap_where_a_thread_or_an_interrupt_can_move_them():
    overlap = {board.name: board.storage.overlap for board in list_boards() if board.storage}
    assert overlap == {
        "linux": False,
        "mkr1000": True,
        "nrf52840": True,
        "rpi4": True,
        "stm32f405": False,
        "tx2": True,
    }


def test_only_a_board_that_says_so_has_an_inductor(tmp_path: Path):
    assert load_board("nrf52840").require_firmware().dcdc_inductor is True
    assert load_board("linux").require_firmware().dcdc_inductor is False
    path = tmp_path / "bad.toml"
    path.write_text(NRF52840.read_text().replace("dcdc_inductor = true", "dcdc_inductor = 1"))
    with pytest.raises(BoardError, match="dcdc_inductor: true or false was expected"):
        load_board(path)


def test_the_twins_of_nrf52840():
    board = load_board("nrf52840")
    twin, ours, exact = board.twins
    assert twin == board.twin() == board.twin("qemu")
    itself = Machine(
        emulator="qemu-system-arm",
        machine="mps2-an386",
        cpu=None,
        options=("instruction-count", "semihosting"),
        hal="mps2",
        platformio_env="nrf52840-twin",
        ram_bytes=None,
    )
    assert twin.machine == itself
    roomy = {"platformio_env": "nrf52840-reference", "ram_bytes": 4 * 2**20}
    assert twin.reference == replace(itself, **roomy)
    assert ours == board.twin("mps2")
    without_qemu = replace(itself, emulator="unicorn", options=())
    assert ours.machine == without_qemu
    assert ours.reference == exact.reference == replace(without_qemu, **roomy)
    assert exact == board.twin("unicorn")
    assert (exact.machine.emulator, exact.machine.machine) == ("unicorn", "nrf52840")
    assert (exact.machine.hal, exact.machine.platformio_env) == ("nrf52840", None)


def test_a_board_may_have_several_storages():
    first, other = load_board("nrf52840"), load_board("nrf52840:qspi")
    assert first == load_board("nrf52840:sd-spi")
    assert first.storages == other.storages == ("sd-spi", "qspi")
    assert (first.label, other.label) == ("nrf52840", "nrf52840:qspi")
    assert first.name == other.name
    assert other == load_board(NRF52840, "qspi") == load_board(f"{NRF52840}:qspi")
    assert (first.hal, first.platformio_env) == ("nrf52840", "nrf52840")
    assert (other.hal, other.platformio_env) == ("nrf52840_qspi", "nrf52840-qspi")
    assert other.twin("qemu") == first.twin("qemu")
    assert [twin.name for twin in other.twins] == ["qemu", "mps2", "unicorn"]
    assert other.twin("unicorn").machine.machine == "nrf52840-qspi"
    assert other.require_firmware().dcdc_inductor
    assert other.storage is not None
    assert (other.storage.size_bytes, other.storage.erase_bytes) == (8 * 2**20, 4096)
    assert (other.erase_bytes, first.erase_bytes) == (4096, None)
    assert replace(other, storage=None).erase_bytes is None
    assert first.storage is not None
    written = tomllib.loads(first.path.read_text())["storage"]["page_in"]["beside"]
    figures = {name: figure["value"] for name, figure in written.items()}
    assert first.storage.page_in.beside == OverlapCosts(**figures)
    assert first.storage.page_out.beside != first.storage.page_in.beside
    waiting = load_board("stm32f405").storage
    assert waiting is not None
    assert waiting.page_in.beside is None


def test_an_image_must_fit_the_storage():
    card, flash = (load_board(f"nrf52840:{kind}").storage for kind in ("sd-spi", "qspi"))
    assert card is not None
    assert flash is not None
    card.require_room(2**33)
    flash.require_room(8 * 2**20)
    with pytest.raises(DataError, match="has 8,388,609 bytes, and the storage 'qspi' holds"):
        flash.require_room(8 * 2**20 + 1)


def test_the_converter_that_runs_decides_the_power(tmp_path: Path):
    """DC/DC where the firmware switches it on, which takes about half of the linear regulator's."""
    assert load_board("nrf52840").power.active_w == pytest.approx(3.3e-3 * 3)
    path = tmp_path / "bare.toml"
    path.write_text(NRF52840.read_text().replace("dcdc_inductor = true\n", ""))
    assert load_board(path).power.active_w == pytest.approx(6.3e-3 * 3)


def test_kernels_have_prices_where_they_were_counted():
    priced = {board.name for board in list_boards() if board.compute.cycles}
    assert priced == {"mkr1000", "nrf52840", "stm32f405"}
    assert load_board("nrf52840").compute.cycles == load_board("stm32f405").compute.cycles


@pytest.mark.parametrize("name", ["nrf52840:tape", "linux:qspi", f"{NRF52840}:tape"])
def test_a_storage_that_there_is_not(name: str):
    with pytest.raises(BoardError, match=r"^board '\w+' has no storage '\w+'$") as caught:
        load_board(name)
    assert caught.value.try_next in (("use one of: sd-spi, qspi",), ("use one of: file",))


TWO_OF_ONE_NAME = """[[other_storage.twin]]
name = "unicorn"
emulator = "unicorn"
machine = "nrf52840"
[[other_storage.twin]]"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kind = "qspi"', 'kind = "sd-spi"', "two storages are of the same kind"),
        ('hal = "nrf52840_qspi"', 'hal = "stm32f405"', "overlap must be false.*'stm32f405'"),
        ("[[other_storage.twin]]", TWO_OF_ONE_NAME, "two twins have the same name"),
        ('kind = "qspi"', 'kind = "q:spi"', "other_storage.0.kind: must be 1 to 40 lower-case"),
        ('platformio_env = "nrf52840-qspi"', "", "other_storage.0.platformio_env is missing"),
        ('value = 4_096, source = "MX25R, M', 'value = 100, source = "M', "erase_bytes.value"),
    ],
)
def test_other_storages_are_checked(tmp_path: Path, old: str, new: str, message: str):
    text = NRF52840.read_text()
    assert old in text
    path = tmp_path / "bad.toml"
    path.write_text(text.replace(old, new))
    with pytest.raises(BoardError, match=message):
        load_board(path)


def test_other_storages_need_a_first(tmp_path: Path):
    text = NRF52840.read_text()
    text = re.sub(r"\[storage\].*?\[\[twin\]\]", "[[twin]]", text, flags=re.DOTALL)
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(BoardError, match="other_storage needs the tables storage and firmware"):
        load_board(path)


def test_the_twins_of_mkr1000():
    twin, exact = load_board("mkr1000").twins
    assert (twin.name, twin.machine.machine, twin.machine.cpu) == (
        "qemu",
        "lm3s6965evb",
        "cortex-m0",
    )
    assert (exact.name, exact.machine.emulator, exact.machine.machine) == (
        "unicorn",
        "unicorn",
        "samd21",
    )
    assert (exact.machine.hal, exact.machine.platformio_env) == ("samd21", None)
    assert exact.reference == replace(twin.reference, emulator="unicorn", options=())


def test_linux_is_its_own_twin():
    board = load_board("linux")
    (twin,) = board.twins
    assert twin.machine == twin.reference
    assert (twin.name, twin.machine.hal) == ("native", board.hal)
    assert twin.machine.platformio_env is None


TWO_MORE_TWINS = """
[[twin]]
name = "exact"
emulator = "unicorn"

[[twin]]
name = "slow"
emulator = "qemu-system-arm"
machine = "lm3s6965evb"
cpu = "cortex-m0"
options = ["sd-card"]
hal = "mps2"
platformio_env = "nrf52840-twin"

[twin.reference]
emulator = "qemu-system-arm"
machine = "mps2-an386"
options = ["semihosting"]
hal = "mps2"
platformio_env = "nrf52840-reference"
ram_bytes = { value = 2_097_152, source = "chosen" }
"""


def test_a_board_may_have_several_twins(tmp_path: Path):
    path = tmp_path / "more.toml"
    path.write_text(NRF52840.read_text() + TWO_MORE_TWINS)
    board = load_board(path)
    assert [twin.name for twin in board.twins] == ["qemu", "mps2", "unicorn", "exact", "slow"]
    assert board.twin() is board.twins[0]
    exact, slow = board.twin("exact"), board.twin("slow")
    assert (exact.machine.hal, exact.machine.platformio_env) == ("nrf52840", None)
    assert exact.reference == exact.machine
    assert slow.machine.cpu == "cortex-m0"
    assert slow.reference == Machine(
        *("qemu-system-arm", "mps2-an386", None, ("semihosting",), "mps2", "nrf52840-reference"),
        2**21,
    )
    assert board.sources["twin.slow.reference.ram_bytes"] == "chosen"


def test_a_twin_that_is_not_there():
    with pytest.raises(BoardError, match=r"^board 'linux' has no emulator called 'qemu'$") as error:
        load_board("linux").twin("qemu")
    assert error.value.try_next == ("use one of: native",)
    with pytest.raises(BoardError, match="has no twin"):
        replace(load_board("linux"), twins=()).twin()
    with pytest.raises(BoardError, match="has no firmware support yet"):
        replace(load_board("tx2"), firmware=None, twins=()).twin("native")


def test_what_nrf52840_is_compiled_with():
    toolchain = load_board("nrf52840").toolchain
    assert (toolchain.compiler, toolchain.prefix) == ("arm-none-eabi-gcc", "arm-none-eabi-")
    assert toolchain.machine_flags == (
        *("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"),
    )
    assert not toolchain.hosted
    assert load_board("linux").toolchain.prefix == ""


def test_a_core_without_fpu(tmp_path: Path):
    assert with_toolchain(tmp_path, SOFT).toolchain.machine_flags == (
        *("-mcpu=cortex-m0plus", "-mthumb", "-mfloat-abi=soft"),
    )


def test_a_processor_with_an_operating_system(tmp_path: Path):
    keys = 'compiler = "aarch64-linux-gnu-gcc"\ncore = "cortex-a72"\nflags = ["-static"]\n'
    toolchain = with_toolchain(tmp_path, keys).toolchain
    assert toolchain.prefix == "aarch64-linux-gnu-"
    assert toolchain.machine_flags == ("-mcpu=cortex-a72", "-static")
    assert toolchain.hosted
    assert toolchain.shared_hal is None


SOFT = """\
compiler = "arm-none-eabi-gcc"
core = "cortex-m0plus"
flags = ["-mthumb"]
float_abi = "soft"
"""


def with_toolchain(folder: Path, keys: str) -> Board:
    """nRF52840 with another toolchain."""
    before, rest = NRF52840.read_text().split("[toolchain]\n")
    path = folder / "mine.toml"
    path.write_text(before + "[toolchain]\n" + keys + "\n" + rest.split("\n\n", 1)[1])
    return load_board(path)


HOSTILE = (
    "-fplugin=/tmp/evil.so",
    "@/etc/passwd",
    "cortex-m0plus -fplugin=/tmp/evil.so",
    "cortex-m0plus;reboot",
    "cortex-m0plus\\nextra_scripts = pre:/tmp/evil.py",
    "${sysenv.HOME}",
    "$(reboot)",
    "%(home)s",
    "../../bin/sh",
    "-mthumb ",
    "-Wl,-T,/etc/passwd",
    "CORTEX-M0PLUS",
    "",
)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize(
    ("key", "old"),
    [
        ("compiler", '"arm-none-eabi-gcc"'),
        ("core", '"cortex-m0plus"'),
        ("flags", '"-mthumb"'),
        ("float_abi", '"soft"'),
        ("fpu", '"soft"'),
    ],
)
def test_no_text_of_a_board_reaches_a_compiler_unless_allowed(
    tmp_path: Path, key: str, old: str, text: str
):
    hostile = SOFT.replace(old, f'"hard"\nfpu = "{text}"' if key == "fpu" else f'"{text}"')
    with pytest.raises(BoardError, match=rf"mine\.toml: toolchain: {key} must be one of ") as error:
        with_toolchain(tmp_path, hostile)
    assert "\n" not in error.value.message


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            'compiler = "arm-none-eabi-gcc"\n',
            "toolchain: core is missing: it must be one of cortex",
        ),
        (SOFT.replace("soft", "hard"), "toolchain: fpu is missing, which float_abi 'hard' needs"),
        (SOFT + 'linker = "ld"\n', "toolchain.linker is not a key"),
        (SOFT.replace('["-mthumb"]', '"-mthumb"'), "toolchain.flags: .*list"),
        (SOFT.replace('["-mthumb"]', "[1]"), "toolchain.flags.0: a text was expected"),
        ('compiler = "gcc"\ncore = "cortex-m4"\n', "core is nothing this compiler takes, not 'cor"),
        ('compiler = "gcc"\nfpu = "neon"\n', "fpu is nothing this compiler takes, not 'neon'"),
    ],
)
def test_a_toolchain_that_is_not_whole(tmp_path: Path, keys: str, message: str):
    with pytest.raises(BoardError, match=message):
        with_toolchain(tmp_path, keys)


def test_a_board_may_have_no_storage(tmp_path: Path):
    text = NRF52840.read_text()
    text = re.sub(r"\[storage\].*?\[\[twin\]\]", "[[twin]]", text, flags=re.DOTALL)
    text = text[: text.index("[[other_storage]]")]
    path = tmp_path / "bare.toml"
    path.write_text(text)
    assert load_board(str(path)).storage is None


def test_an_unknown_board_lists_the_known_ones():
    with pytest.raises(BoardError, match=r"^no board is called 'nrf9'$") as caught:
        load_board("nrf9")
    assert all(board.name in caught.value.try_next[0] for board in list_boards())


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder for boards, with `mine`."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "poetfw/boards"
    folder.mkdir(parents=True)
    text = NRF52840.read_text().replace('name = "nrf52840"', 'name = "mine"')
    (folder / "mine.toml").write_text(text)
    return folder


def test_a_users_boards_are_known_by_name(own: Path):
    assert load_board("mine").path == own / "mine.toml"
    assert "mine" in [board.name for board in list_boards()]
    with pytest.raises(BoardError) as caught:
        load_board("nrf9")
    assert "mine" in caught.value.try_next[0]


def test_boards_says_where_each_board_comes_from(own: Path, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["boards", "--json"], standalone_mode=False) == 0
    files = {
        board["name"]: board["file"] for board in json.loads(capsys.readouterr().out)["boards"]
    }
    assert files["mine"] == str(own / "mine.toml")
    assert files["linux"] == str(boards_dir() / "linux.toml")
    cli.main(["boards"], standalone_mode=False)
    listed = capsys.readouterr().out
    rows = {
        row[1]: row[-2]
        for row in (re.split(r" *│ *", line) for line in listed.splitlines())
        if row[1:]
    }
    assert (rows["mine"], rows["linux"]) == ("you", "poetfw")
    assert f"Yours are in {own}\n" in listed
    (own / "mine.toml").unlink()
    cli.main(["boards"], standalone_mode=False)
    assert "Yours" not in capsys.readouterr().out


@pytest.mark.parametrize("configured", ["", "relative/folder", None])
def test_where_a_users_boards_are(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configured: str | None
):
    """A relative path counts as none: XDG Base Directory Specification 0.8."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    if configured is None:
        monkeypatch.delenv("XDG_CONFIG_HOME")
    else:
        monkeypatch.setenv("XDG_CONFIG_HOME", configured)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BoardError, match="no board is called 'mine'"):
        load_board("mine")
    (tmp_path / "home/.config").mkdir(parents=True)
    (own.parent).rename(tmp_path / "home/.config/poetfw")
    assert load_board("mine").path == tmp_path / "home/.config/poetfw/boards/mine.toml"


def test_a_users_board_does_not_hide_one_of_poetfws(own: Path):
    (own / "linux.toml").write_text((boards_dir() / "linux.toml").read_text())
    for use in (lambda: load_board("linux"), list_boards):
        with pytest.raises(BoardError, match=r"linux\.toml: poetfw has a board 'linux' of its"):
            use()
    assert load_board("mine").name == "mine"
    assert load_board(own / "linux.toml").name == "linux"


@pytest.mark.parametrize(("family", "file"), [("mps2", "guard.c"), ("lm3s6965", "board.c")])
def test_machines_have_the_memory_that_their_drivers_assert(family: str, file: str):
    folder = firmware_templates_dir() / "hal" / family
    asserted = re.findall(r"the emulated machine has (\d+) ([KM])B", (folder / file).read_text())
    said = tomllib.loads((folder / "hal.toml").read_text())
    units = {"K": 1 << 10, "M": 1 << 20}
    assert [said["ram_bytes"], said["flash_bytes"]] == [int(n) * units[u] for n, u in asserted]


def test_a_users_board_is_called_what_its_file_is(own: Path):
    (own / "mine.toml").rename(own / "nrf9.toml")
    for use in (lambda: load_board("nrf9"), list_boards):
        with pytest.raises(BoardError, match=r"nrf9\.toml: the board in it is called 'mine', and"):
            use()
    with pytest.raises(BoardError, match="no board is called 'mine'"):
        load_board("mine")


def test_a_board_of_another_boards_name_is_told_to_change_it(own: Path):
    (own / "mine.toml").write_text(NRF52840.read_text())
    with pytest.raises(BoardError, match="the board in it is called 'nrf52840'") as caught:
        load_board("mine")
    assert caught.value.try_next == (
        "change the name in it to 'mine': 'nrf52840' is another board's",
    )
    (own / "mine.toml").write_text(NRF52840.read_text().replace('"nrf52840"', '"free"', 1))
    with pytest.raises(BoardError) as caught:
        load_board("mine")
    assert caught.value.try_next[1] == "or rename the file: free.toml"


def test_boards_lists_the_others_beside_one_that_is_malformed(
    own: Path, capsys: pytest.CaptureFixture[str]
):
    (own / "bad.toml").write_text("[")
    assert cli.main(["boards"], standalone_mode=False) == 1
    said = capsys.readouterr()
    assert "mine" in said.out
    assert "linux" in said.out
    assert "bad.toml: not a TOML file" in said.err
    assert cli.main(["boards", "--json"], standalone_mode=False) == 1
    document = json.loads(capsys.readouterr().out)
    assert "mine" in {board["name"] for board in document["boards"]}
    assert "bad.toml: not a TOML file" in document["refused"][0]
    assert cli.main(["models", "mlp"], standalone_mode=False) is None
    assert "bad.toml: not a TOML file" in capsys.readouterr().err


def test_a_users_board_that_is_malformed_keeps_the_others_known(own: Path):
    (own / "bad.toml").write_text("[")
    assert load_board("mine").name == "mine"
    assert load_board("linux").name == "linux"
    for use in (lambda: load_board("bad"), list_boards):
        with pytest.raises(BoardError, match=r"bad\.toml: not a TOML file"):
            use()


@pytest.mark.parametrize("name", ["", "../nrf52840", "nrf52840\n", "NRF52840", "a\0b/c"])
def test_no_such_board(name: str):
    with pytest.raises(BoardError):
        load_board(name)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "value = 262_144",
            "value = -1",
            "memory.ram_bytes.value: a number above 0 was expected, not -1",
        ),
        (
            "value = 262_144",
            "value = 0",
            "memory.ram_bytes.value: a number above 0 was expected, not 0",
        ),
        (
            "value = 262_144",
            "value = 1e5",
            "memory.ram_bytes.value: an integer was expected, not 100000.0",
        ),
        ("value = 262_144", 'value = "256K"', "memory.ram_bytes.value: .*not '256K'"),
        ("value = 262_144", "value = true", "memory.ram_bytes.value"),
        ("value = 262_144", "value = 99999999999999999", "memory.ram_bytes.value"),
        (
            "value = 262_144",
            "value = 1_073_741_824",
            "the file: memory.ram_bytes must be at most 4194304, .* 'mps2' has, not 1073741824",
        ),
        ("value = 1_048_576", "value = 4_194_305", "the file: memory.flash_bytes must be at most"),
        ("value = 262_144", "value = 4096", "memory: .*leave nothing of ram_bytes"),
        ("value = 3.185e6", "value = nan", "compute.macs_per_s.value: .*finite"),
        ("value = 3.185e6", "value = inf", "compute.macs_per_s.value: .*finite"),
        ("value = 3.185e6", "value = 1e30", "compute.macs_per_s.value"),
        ("value = 18.9e-3", "value = 0.0", "power.active_w.value: a number above 0 was expected"),
        ("value = 18.9e-3", "value = 1e9", "power.active_w.value"),
        ("value = 0.515e-3", "value = -0.1", "storage.page_in.latency_s.value"),
        ("value = 512,", "value = 500,", "storage.block_bytes.value"),
        ("value = 512,", "value = 768,", "storage.block_bytes.value: .*multiple of 512"),
        ('value = 0, source = "no b', 'value = 258_048, source = "b', "memory: .*leave nothing"),
        ('hal = "nrf52840"', 'hal = "a/b"', "firmware.hal: "),
        ('hal = "nrf52840"', 'hal = ".."', "firmware.hal: "),
        ('hal = "nrf52840"', 'hal = "a.b"', "firmware.hal: "),
        (
            'hal = "nrf52840"',
            'hal = "nrf52999"',
            "firmware.hal: must be a HAL family .*, one of .*nrf52840.*, not 'nrf52999'",
        ),
        (
            'hal = "mps2"',
            'hal = "mps"',
            "twin.0.hal: must be a HAL family that poetfw has, one of .*mps2.*, not 'mps'",
        ),
        (
            'platformio_env = "nrf52840-twin"',
            'platformio_env = "nope"',
            "twin.0.platformio_env: must be an environment of .*, one of .*, not 'nope'",
        ),
        ("overlap = true", "overlap = 1", "storage.overlap: .*not 1"),
        (
            'prices = "cortex-m4f"',
            'prices = "m9"',
            "compute.prices: must be a core whose prices poetfw has, one of .*, not 'm9'",
        ),
        ('prices = "cortex-m4f"', 'prices = "../nrf52840"', "compute.prices: must be a core whose"),
        ("[compute]", "[compute]\nexact = 0", "compute.exact: .*not 0"),
        ("[compute]", "[compute]\nexact = false", "the file: compute.exact must be true: sums in"),
        ('kind = "sd-spi"', 'kind = "a tape"', "storage.kind: .*not 'a tape'"),
        (
            'flash_bytes = { value = 1_048_576, source = "PS, Memory" }',
            'flash_bytes = { value = 8192, source = "PS" }\n'
            'reserved_flash_bytes = { value = 8192, source = "a bootloader" }',
            r"memory: reserved_flash_bytes \(8192\) leave nothing of flash_bytes \(8192\)",
        ),
        ('name = "qemu"', 'name = "-h"', "twin.0.name: .*not '-h'"),
        ('name = "qemu"\n', "", "twin.0.name is missing"),
        ('emulator = "qemu-system-arm"', 'emulator = "sh -c"', "twin.0.emulator: .*not 'sh -c'"),
        ('"mps2-an386"', '"mps2-an386,firmware=x"', "twin.0.machine: "),
        ('"mps2-an386"', '"mps2-an386"\ncpu = "max,pmu=on"', "twin.0.cpu: "),
        ('"semihosting"]', '"-monitor"]', "twin.0.options.1: .*not '-monitor'"),
        ('"semihosting"]', '"a\\nb"]', "twin.0.options.1: "),
        ('platformio_env = "nrf52840-twin"', 'platformio_env = "a]\\n[b"', "twin.0.platformio_env"),
        (
            "ram_bytes = { value = 4_194_304, source",
            "ram_bytes = 1 # ",
            "reference.ram_bytes must be a",
        ),
        (
            "[twin.reference]",
            '[twin.reference]\nhal = "posix"\nmachine = "x"',
            "twin.0.reference: emulator is missing: with hal, machine this is another machine",
        ),
        (
            "[twin.reference]",
            '[[twin]]\nname = "qemu"\nemulator = "x"\n[twin.reference]',
            "the file: two twins have the same name",
        ),
        ("stack_bytes =", "stack =", "memory.stack_bytes is missing; memory.stack is not a key"),
        ('name = "nrf52840"', 'name = "x\\"; system()"', "name: "),
        ('name = "nrf52840"', 'name = "a\\n"', "name: "),
        ("schema_version = 1", "schema_version = 2", "schema_version: "),
        ("{ value = 64_000_000, source = ", "64_000_000 # ", "cpu.clock_hz must be a table"),
        (', source = "PS, Memory" }', " }", "memory.flash_bytes.source is missing"),
        ('source = "PS, Memory"', 'source = ""', "memory.flash_bytes.source"),
        (
            '[toolchain]\ncompiler = "arm-none-eabi-gcc"\ncore = "cortex-m4"\nflags = ["-mthumb"]\n'
            'float_abi = "hard"\nfpu = "fpv4-sp-d16"\n',
            "",
            "the file: the tables firmware and toolchain need each other",
        ),
        (
            '[firmware]\nhal = "nrf52840"\nplatformio_env = "nrf52840"\ndcdc_inductor = true\n'
            "console_baud = 1_000_000\n",
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


def test_twins_are_a_list(tmp_path: Path):
    path = tmp_path / "bad.toml"
    path.write_text((boards_dir() / "linux.toml").read_text().replace("[[twin]]", "[twin]"))
    message = r"twin must be a list of tables, each written \[\[twin\]\]"
    with pytest.raises(BoardError, match=message):
        load_board(path)


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


def test_a_board_says_what_builds_for_it_train_with(tmp_path: Path):
    board = load_board("mkr1000")
    assert (board.training.batch, board.training.momentum) == (4, 0.0)
    chosen = BuildSettings("mkr1000").on(board)
    assert (chosen.batch, chosen.momentum) == (4, 0.0)
    told = BuildSettings("mkr1000", batch=2, momentum=0.5)
    assert told.on(board) == told
    assert BuildSettings("linux").on(load_board("linux")) == BuildSettings("linux")


@pytest.mark.parametrize("line", ["batch = 0", "batch = 1.5", "momentum = 1.0", "momentum = -0.1"])
def test_what_nobody_can_train_with_is_refused(tmp_path: Path, line: str):
    path = tmp_path / "bad.toml"
    path.write_text(NRF52840.read_text().replace("[toolchain]", f"[training]\n{line}\n[toolchain]"))
    with pytest.raises(BoardError, match="training." + line.split()[0]):
        load_board(path)


def test_all_that_is_wrong_with_a_file_is_said_at_once(tmp_path: Path) -> None:
    """In its keys, its toolchain, between its tables, and of what its twins run on."""
    text = (boards_dir() / "nrf52840.toml").read_text()
    for old, new in {
        'name = "nrf52840"': 'name = "nRF5340"',
        "clock_hz =": "clock_mhz =",
        'prices = "cortex-m4f"': 'prices = "cortex-m33"',
        'platformio_env = "nrf52840"': 'platformio_env = "nrf5340dk"',
        'core = "cortex-m4"': 'core = "cortex-m35"',
        'fpu = "fpv4-sp-d16"': 'fpu = "none"',
        'machine = "nrf52840-qspi"': 'machine = "nrf5340"',
        'kind = "qspi"': 'kind = "sd-spi"',
    }.items():
        assert old in text, old
        text = text.replace(old, new, 1)
    path = tmp_path / "nrf5340.toml"
    path.write_text(text)
    with pytest.raises(BoardError) as caught:
        load_board(path, check_machine=emulator_of)
    for flaw in (
        "name: must be 1 to 40 lower-case letters, digits, - and _, not 'nRF5340'",
        "cpu.clock_hz is missing",
        "cpu.clock_mhz is not a key of a board file",
        "compute.prices: must be a core whose prices poetfw has",
        "firmware.platformio_env: must be an environment of platformio.ini",
        "toolchain: core must be one of",
        "fpu must be one of fpv4-sp-d16, fpv5-sp-d16, fpv5-d16, not 'none'",
        "other_storage.0.twin.1: the emulator 'unicorn' has no machine 'nrf5340'",
    ):
        assert flaw in caught.value.message
    path.write_text(text.replace('core = "cortex-m35"', 'core = "cortex-m4"'))
    with pytest.raises(BoardError, match=r"compute\.prices: .*toolchain: fpu must be"):
        load_board(path)


def test_what_tables_have_in_common_is_said_with_what_is_wrong_in_others(tmp_path: Path) -> None:
    text = (boards_dir() / "nrf52840.toml").read_text()
    text = text.replace("clock_hz =", "clock_mhz =").replace('kind = "qspi"', 'kind = "sd-spi"')
    text = text.replace("value = 262_144", "value = 1_073_741_824")
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(BoardError) as caught:
        load_board(path)
    for flaw in (
        "cpu.clock_hz is missing",
        "the file: two storages are of the same kind",
        "the file: memory.ram_bytes must be at most 4194304",
    ):
        assert flaw in caught.value.message
