# SPDX-License-Identifier: Apache-2.0
"""Exported libraries: names, two in one program, the rules of each format, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from poetfw.common.errors import ConfigError, OutputError
from poetfw.common.option_values import EXPORTS
from poetfw.exports.library import export_project
from poetfw.firmware.names import NAMES_HEADER, names_headers, rename_public
from poetfw.settings import ExportSettings
from unit.firmware.exported import archive, exported, external_symbols, project

TWO = """\
#include <stdio.h>
#include <string.h>
#include "left.h"
#include "right.h"

static float x[LEFT_BATCH][LEFT_X_BYTES / 4];
static left_target y[LEFT_BATCH];

static float left_loss(struct left *net)
{
    struct left_metrics metrics = {0};
    (void)left_metrics(net, &metrics);
    return metrics.loss;
}

static float right_loss(struct right *net)
{
    struct right_metrics metrics = {0};
    (void)right_metrics(net, &metrics);
    return metrics.loss;
}

int main(int argc, char **argv)
{
    static struct left left;
    static struct right right;
    const int turns = argc > 1 ? argv[1][0] : 'b';
    for (unsigned i = 0; i < LEFT_BATCH; i++) {
        y[i] = (left_target)(3 * i % 10);
        for (unsigned j = 0; j < LEFT_X_BYTES / 4; j++) {
            x[i][j] = (float)((7 * i + 3 * j) % 11) / 11.0f;
        }
    }
    if (left_reset(&left) != LEFT_OK || right_reset(&right) != RIGHT_OK) {
        return 2;
    }
    for (int step = 0; step < 5; step++) {
        if (turns != 'r' && left_train_on(&left, x[0], sizeof x, y, sizeof y) != LEFT_OK) {
            return 3;
        }
        if (turns != 'l' && right_train_on(&right, x[0], sizeof x, y, sizeof y) != RIGHT_OK) {
            return 4;
        }
    }
    printf("%a %a\\n", turns != 'r' ? (double)left_loss(&left) : 0.0,
           turns != 'l' ? (double)right_loss(&right) : 0.0);
    return 0;
}
"""

REFUSALS = """\
#include <stdio.h>
#include <string.h>
#include "net.h"

static float x[NET_BATCH][NET_X_BYTES / 4];
static net_target y[NET_BATCH];
static unsigned char disk[64 * 512];

static int blocks(void *argument, uint32_t *count)
{
    *count = argument == disk ? 64 : 0;
    return 0;
}

int net_poet_hal_storage_read_begin(uint32_t block, void *ram, uint32_t count);
int net_poet_hal_storage_write_begin(uint32_t block, const void *ram, uint32_t count);

static int reads(void *argument, uint32_t block, void *ram, uint32_t count)
{
    return argument == disk && ram != NULL ? -1000 - 10 * (int)block - (int)count : 0;
}

static int writes(void *argument, uint32_t block, const void *ram, uint32_t count)
{
    return argument == disk && ram != NULL ? -2000 - 10 * (int)block - (int)count : 0;
}

int main(void)
{
    static const struct net_storage storage = {disk, blocks, reads, writes, 0};
    struct net net = {0};
    int status = net_open(&net);
    printf("%d\\n", status);
    net_use_storage(&storage);
    printf("%d\\n", net_open(&net));
    printf("%d\\n", net_reset(&net));
    for (int label = -1; label <= 10; label++) {
        y[NET_BATCH - 1] = label;
        printf("%d ", net_train_on(&net, x[0], sizeof x, y, sizeof y));
    }
    printf("\\n%s\\n", net_status_text(status));
    printf("%d ", net_poet_hal_storage_read_begin(3, disk, 2));
    printf("%d\\n", net_poet_hal_storage_write_begin(4, disk, 5));
    return 0;
}
"""

PLUS_PLUS = """\
#include "net.h"
#include <cstdio>

int main()
{
    net context{};
    std::printf("%d %u\\n", net_reset(&context), (unsigned)net_plan()->batch);
}
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project(tmp_path_factory.mktemp("small") / "project")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same network with other weights, which are trained otherwise."""
    return project(tmp_path_factory.mktemp("other") / "project", seed=1, momentum=0.9)


@pytest.fixture(scope="module")
def net(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of the name `net`."""
    return archive(exported(small, tmp_path_factory.mktemp("net") / "net", name="net"))


def _linked(folder: Path, source: str, *libraries: Path, compiler: str = "gcc") -> Path:
    file = folder / f"main.{'cpp' if compiler == 'g++' else 'c'}"
    file.write_text(source)
    includes = [f"-I{library.parents[1] / 'src'}" for library in libraries]
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    command = [compiler, *warnings, *includes, str(file), *map(str, libraries)]
    subprocess.run([*command, "-o", str(folder / "program")], check=True, timeout=60)
    return folder / "program"


def _said(program: Path, *arguments: str) -> list[str]:
    command = [str(program), *arguments]
    result = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return result.stdout.split("\n")


def test_two_libraries_in_one_program_both_train(small: Path, other: Path, tmp_path: Path) -> None:
    left = archive(exported(small, tmp_path / "left", name="left"))
    right = archive(exported(other, tmp_path / "right", name="right"))
    for library, name in ((left, "left"), (right, "right")):
        symbols = external_symbols(library)
        assert f"{name}_open" in symbols
        assert f"{name}_poet_arena" in symbols
        assert {symbol for symbol in symbols if not symbol.startswith(f"{name}_")} == set()
    program = _linked(tmp_path, TWO, left, right)
    both, alone = _said(program)[0].split(), (_said(program, "l"), _said(program, "r"))
    assert both == [alone[0][0].split()[0], alone[1][0].split()[1]]
    assert both[0] != both[1]
    assert all(re.fullmatch(r"0x1\.[0-9a-f]+p[+-]\d+", loss) for loss in both)


def test_without_a_name_every_symbol_is_poets(small: Path, tmp_path: Path) -> None:
    library = archive(exported(small, tmp_path / "plain", weights="none"))
    symbols = external_symbols(library)
    assert "poetfw_open" in symbols
    assert {symbol for symbol in symbols if not symbol.startswith(("poet_", "poetfw_"))} == set()
    program = PLUS_PLUS.replace("net.h", "poetfw.h").replace("net_", "poetfw_")
    program = program.replace("net context", "poetfw context")
    said = _said(_linked(tmp_path, program, library, compiler="g++"))
    assert said[0] == "-131 4"  # without weights there is nothing to begin from


def test_the_header_defines_nothing_that_is_not_the_librarys(net: Path, tmp_path: Path) -> None:
    command = ["gcc", "-E", "-dM", "-nostdinc", "-isystem", str(tmp_path), "-xc"]
    (tmp_path / "stdint.h").touch()
    header = str(net.parents[1] / "src/net.h")
    without = subprocess.run(
        [*command, "/dev/null"], check=True, capture_output=True, text=True
    ).stdout
    macros = subprocess.run([*command, header], check=True, capture_output=True, text=True).stdout
    new = {line.split()[1] for line in set(macros.splitlines()) - set(without.splitlines())}
    assert "NET_BATCH" in new
    assert {name for name in new if not name.startswith("NET_")} == set()


def test_what_is_wrong_is_said(net: Path, tmp_path: Path) -> None:
    said = _said(_linked(tmp_path, REFUSALS, net))
    assert said[:3] == ["-132", "-1001", "0"]  # without a storage; its own status
    assert said[3].split() == ["-130", *["0"] * 10, "-130"]
    assert said[4] == "the application gave the library no storage"
    assert said[5] == "-1032 -2045"


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_a_program_in_cpp_uses_it(net: Path, tmp_path: Path) -> None:
    assert _said(_linked(tmp_path, PLUS_PLUS, net, compiler="g++"))[0] == "0 4"


def test_the_arena_is_where_the_application_wants_it(net: Path, tmp_path: Path) -> None:
    place = '-DNET_ARENA=__attribute__((section(".sdram")))'
    command = ["gcc", "-c", place, f"-I{net.parents[1] / 'src'}"]
    plan, object_file = net.parents[1] / "src/net/plan.c", tmp_path / "plan.o"
    subprocess.run([*command, str(plan), "-o", str(object_file)], check=True)
    symbols = ["objdump", "-t", str(object_file)]
    table = subprocess.run(symbols, check=True, capture_output=True, text=True).stdout
    (line,) = (line for line in table.splitlines() if line.endswith(" net_poet_arena"))
    assert ".sdram" in line


def test_cmake_compiles_assembly_as_c_and_nothing_else(small: Path, tmp_path: Path) -> None:
    folder = exported(small, tmp_path / "net", "cmake", name="net")
    assembly = sorted(p.relative_to(folder).as_posix() for p in (folder / "src").rglob("*.S"))
    (block,) = re.findall(
        r"set_source_files_properties\(\n(.*?)PROPERTIES LANGUAGE C",
        (folder / "CMakeLists.txt").read_text(),
        re.DOTALL,
    ) or [""]
    assert block.split() == assembly


@pytest.mark.parametrize("form", EXPORTS)
def test_every_format_has_the_sources_and_says_how_it_is_used(
    form: str, small: Path, tmp_path: Path
) -> None:
    folder = exported(small, tmp_path / "net", form, name="net")
    readme = (folder / "README.md").read_text()
    assert readme.startswith("# net\n")
    assert ("Not compiled by poetfw" in readme) is (form in NOT_COMPILED)
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {"src/net.h", "src/net/train_step.c", "src/net/port.c"} <= files
    assert not any(path.endswith(("sd.c", "main.c")) for path in files if "/net/" in path)
    texts = [
        path.read_text()
        for path in folder.rglob("*")
        if path.name != "README.md" and path.is_file() and path.parent.name != "net"
    ]
    assert not any("{{ " in text or "{%" in text for text in texts)
    named = re.compile(r"\b(?:poetfw_|POETFW_|struct poetfw)\w*")
    assert [word for text in texts for word in named.findall(text)] == []


NOT_COMPILED = {"arduino-lib", "zephyr-module", "esp-idf-component"}


def test_an_arduino_library_keeps_the_rules(small: Path, tmp_path: Path) -> None:
    """Arduino's library specification, "library.properties file format" and "Layout of folders"."""
    folder = exported(small, tmp_path / "net", "arduino-lib", name="net")
    lines = (folder / "library.properties").read_text().splitlines()
    keys = dict(line.split("=", 1) for line in lines)
    required = {"name", "version", "author", "maintainer", "sentence", "paragraph", "category"}
    assert required | {"url", "architectures"} <= set(keys)
    assert keys["category"] in (
        "Display",
        "Communication",
        "Signal Input/Output",
        "Sensors",
        "Device Control",
        "Timing",
        "Data Storage",
        "Data Processing",
        "Other",
    )
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_ .-]*", keys["name"])
    assert len(keys["name"]) <= 63
    assert re.fullmatch(r"\d+\.\d+\.\d+", keys["version"])
    assert keys["includes"] == "net.h"
    assert (folder / "src" / keys["includes"]).is_file()
    for example in (folder / "examples").iterdir():
        assert (example / f"{example.name}.ino").is_file()
        assert "void setup()" in (example / f"{example.name}.ino").read_text()
    # Nothing but src is searched for headers: each is beside who includes it, or is the public one.
    for source in (folder / "src/net").iterdir():
        for name in re.findall(r'#include "(.+)"', source.read_text()):
            assert (folder / "src/net" / name).is_file()


@pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="needs arm-none-eabi-gcc")
def test_an_arduino_library_rounds_each_operation_whatever_the_compiler_is_told(
    small: Path, tmp_path: Path
) -> None:
    """Arduino gives a library no flags, and GCC's default for GNU C is to contract."""
    used = {}
    for form in ("arduino-lib", "zephyr-module"):
        folder = exported(small, tmp_path / form, form, name="net")
        core = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"]
        command = ["arm-none-eabi-gcc", "-std=gnu11", "-Os", *core, f"-I{folder / 'src'}", "-S"]
        source = folder / "src/net/sgd.c"
        subprocess.run([*command, str(source), "-o", f"{tmp_path}/{form}.s"], check=True)
        used[form] = (tmp_path / f"{form}.s").read_text()
    assert "vfma" in used["zephyr-module"]  # which passes -ffp-contract=off as a flag
    assert "vfma" not in used["arduino-lib"]


def test_a_zephyr_module_keeps_the_rules(small: Path, tmp_path: Path) -> None:
    """Zephyr's "Modules (External projects)": module.yml's keys, and what they name exists."""
    folder = exported(small, tmp_path / "net", "zephyr-module", name="net")
    module = yaml.safe_load((folder / "zephyr/module.yml").read_text())
    assert set(module) <= {"name", "build", "tests", "samples", "boards"}
    assert set(module["build"]) <= {"cmake", "kconfig", "depends", "settings"}
    assert (folder / module["build"]["cmake"] / "CMakeLists.txt").is_file()
    assert "config NET\n" in (folder / module["build"]["kconfig"]).read_text()
    _check_sources(folder, folder / "zephyr/CMakeLists.txt", folder / "zephyr")
    assert "CONFIG_NET=y" in (folder / "samples/predict/prj.conf").read_text()


def test_an_esp_idf_component_keeps_the_rules(small: Path, tmp_path: Path) -> None:
    """ESP-IDF's "Build System" and the component manager's "Manifest File Format"."""
    folder = exported(small, tmp_path / "net", "esp-idf-component", name="net")
    manifest = yaml.safe_load((folder / "idf_component.yml").read_text())
    assert re.fullmatch(r"\d+\.\d+\.\d+", manifest["version"])
    assert set(manifest) <= {"version", "description", "url", "license", "dependencies"}
    text = (folder / "CMakeLists.txt").read_text()
    assert "idf_component_register(" in text
    assert 'INCLUDE_DIRS "src"' in text
    _check_sources(folder, folder / "CMakeLists.txt", folder)
    main = folder / "examples/predict/main"
    override = yaml.safe_load((main / "idf_component.yml").read_text())["dependencies"]["net"]
    assert (main / override["override_path"]).resolve() == folder.resolve()


def _check_sources(folder: Path, listing: Path, base: Path) -> None:
    """Every source is listed, once, and is there."""
    text = listing.read_text().replace("${CMAKE_CURRENT_LIST_DIR}", str(base))
    listed = [Path(base, name).resolve() for name in re.findall(r'[^\s"]+\.[cS]\b', text)]
    assert sorted(listed) == sorted(path.resolve() for path in (folder / "src").rglob("*.[cS]"))


def test_a_platformio_library_keeps_the_rules(small: Path, tmp_path: Path) -> None:
    folder = exported(small, tmp_path / "net", "platformio-lib", name="net")
    manifest = json.loads((folder / "library.json").read_text())
    assert manifest["name"] == "net"
    assert (folder / manifest["build"]["srcDir"] / manifest["headers"]).is_file()


@pytest.mark.parametrize(
    "name",
    [
        *("", "Net", "n-1", "1net", "n__1", "_net", "net_", "n" * 31, "net\n", "nét"),
        *("poet", "int", "class", "main", "stdio"),
    ],
)
def test_a_name_that_c_cannot_have_is_refused(name: str, small: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be a library's name"):
        export_project(small, tmp_path / "net", ExportSettings("cmake", name))
    assert not (tmp_path / "net").exists()


def test_a_folder_of_others_and_weights_that_are_not_there_are_refused(
    small: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(OutputError, match="holds no project of poetfw"):
        exported(small, tmp_path)
    with pytest.raises(OutputError, match=r"run/storage\.img does not exist"):
        export_project(small, tmp_path / "net", ExportSettings("cmake", weights="trained"))
    with pytest.raises(OutputError, match="there is no build in"):
        exported(tmp_path, tmp_path / "net")


@pytest.mark.parametrize(
    ("path", "content", "said"),
    [
        ("lib/poetfw/kernels/plan.c", b"", "two files called plan.c"),
        ("lib/poetfw/mine.c", b"\xff", "mine.c is not text in UTF-8"),
        ("lib/poetfw/poetfw.h", None, "lib/poetfw/poetfw.h is missing"),
    ],
)
def test_sources_that_cannot_be_taken_along_are_named(
    path: str, content: bytes | None, said: str, small: Path, tmp_path: Path
) -> None:
    changed = Path(shutil.copytree(small, tmp_path / "project"))
    if content is None:
        (changed / path).unlink()
    else:
        (changed / path).write_bytes(content)
    with pytest.raises(OutputError, match=re.escape(said)):
        exported(changed, tmp_path / "net")
    assert not (tmp_path / "net").exists()


def test_an_export_over_an_export_keeps_what_the_user_added(small: Path, tmp_path: Path) -> None:
    folder = exported(small, tmp_path / "net", name="net")
    (folder / "build").mkdir()
    (folder / "build/object.o").write_bytes(b"mine")
    exported(small, folder, "platformio-lib", name="other")
    assert (folder / "build/object.o").read_bytes() == b"mine"
    assert not (folder / "CMakeLists.txt").exists()
    assert (folder / "src/other.h").is_file()


def test_a_project_is_not_replaced_by_its_export(small: Path) -> None:
    before = sorted(small.rglob("*"))
    with pytest.raises(OutputError, match="holds a project of `poetfw build`"):
        export_project(small, small, ExportSettings("cmake"))
    assert sorted(small.rglob("*")) == before


def test_sources_are_the_projects_and_begin_with_their_names(small: Path, tmp_path: Path) -> None:
    """What is renamed is so by the preprocessor: no source is rewritten."""
    folder = exported(small, tmp_path / "net", name="net")
    project = {path.name: path.read_text() for path in (small / "lib/poetfw").rglob("*.[chS]")}
    shown = {NAMES_HEADER, "poetfw.h"}
    sources = [path for path in (folder / "src/net").iterdir() if path.name not in shown]
    assert {path.suffix for path in sources} == {".c", ".h", ".S"}
    for path in sources:
        names = "" if path.suffix == ".h" else f'#include "{NAMES_HEADER}"\n'
        text = path.read_text()
        assert text.count(names) == 1 or not names, path
        if path.name != "initial_weights.c":  # which are the export's
            assert text.replace(names, "", 1) == project[path.name], path


def test_whole_words_are_renamed_where_an_application_reads_them() -> None:
    text = 'poetfw_open POETFW_OK "poetfw.h" struct poetfw net; poet_a repoet_c poetfw build'
    assert rename_public(text, "kw") == (
        'kw_open KW_OK "kw.h" struct kw net; kw_poet_a repoet_c poetfw build'
    )
    assert rename_public("-DPOETFW_ARENA", "kw") == "-DKW_ARENA"
    assert rename_public(text, "poetfw") == text


def test_the_preprocessor_renames_what_stands_whole_in_sources() -> None:
    sources = (
        '#include "poet_x.h"\n#define poet_own(x) x\nstruct poetfw; poet_##name##_f32 poet_a',
        "   b.w poet_strips /* poet_said */\n   _\\way\\()_strip",
        "#ifndef POETFW_ARENA\n#define POETFW_ARENA\n#endif\nPOETFW_ARENA int x = POETFW_OK;",
    )
    made = names_headers(sources, ["poetfw.h"], "kw")
    assert made["poetfw.h"].endswith('#include "../kw.h"\n')
    assert re.findall(r"#define (?!KW_NAMES_H).*|#if.*", made[NAMES_HEADER])[1:] == [
        "#define POETFW_OK KW_OK",
        "#define poet_a kw_poet_a",
        "#define poet_strips kw_poet_strips",
        "#define poetfw kw",
        "#ifdef KW_ARENA",
        "#define POETFW_ARENA KW_ARENA",
    ]
