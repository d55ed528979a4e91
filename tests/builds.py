# SPDX-License-Identifier: Apache-2.0
"""Stands in for PlatformIO and compilers in builds of tests, whose objects are nearly all known.

PlatformIO, SCons, shells and compilers start 270 processes for a build, however little is compiled.
The first build of an environment is PlatformIO's own; its commands are kept. Later builds with the
same settings run the same commands, each if its inputs are new; outputs are kept by their inputs'
content. Whatever a build does differently from what was kept is left to PlatformIO, as is the
message of one that fails.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mutants import marks

PLATFORMIO = "TESTS_RUN_PLATFORMIO"
"""Variable that has PlatformIO run every build."""
KEPT = Path(__file__).parents[1] / "build/objects"
_KEPT_S = 7 * 24 * 3600.0
_SUFFIXES = (".c", ".S", ".cpp")
_SYSTEM = ("/usr/", "/lib/")
_COMPILERS = ("gcc", "arm-none-eabi-gcc", "aarch64-linux-gnu-gcc")
_FLAGS = "PLATFORMIO_BUILD_FLAGS"
_WORD = re.compile(rb"\w+")
_COMMENT = re.compile(rb"/\*.*?\*/", re.DOTALL)
_NAMING = re.compile(rb"#define (\w+)\b.*[^\\]|extern [^;{}\"()]*?\b(\w+)\[\w*\];")
"""A macro of one line, or an array that is declared."""
_NOTE_HEADERS = "-MD"
"""Has a compiler write which headers it read, beside the object."""

Command = list[str]


def leave_out() -> None:
    """Have this process build by kept commands and objects."""
    from poetfw.tools import objects, platformio  # late, as in pictures.py

    objects.run_tool = _compiling(objects.run_tool)  # type: ignore[attr-defined]
    platformio.run_tool = building(platformio.run_tool)  # type: ignore[attr-defined]


def forget_old() -> None:
    """Delete what no test has used for a week."""
    for path in KEPT.glob("*/*"):
        if time.time() - path.stat().st_mtime > _KEPT_S:
            shutil.rmtree(path, ignore_errors=True)


def _is_off() -> bool:
    return PLATFORMIO in os.environ


def _compiling(run_tool: Any) -> Any:
    def run(command: Sequence[str], cwd: Path, *how: Any) -> str:
        if _is_off() or "-c" not in command:
            return run_tool(command, cwd, *how)
        try:
            compile_once(list(command), cwd)
        except (subprocess.CalledProcessError, OSError):
            return run_tool(command, cwd, *how)
        return ""

    return run


def building(run_tool: Any) -> Any:
    def run(
        command: Sequence[str], cwd: Path, timeout_s: float, environment: Mapping[str, str] = {}
    ) -> str:
        words = list(command)
        if _is_off() or words[1:4] != ["-m", "platformio", "run"] or "-t" in words:
            return run_tool(command, cwd, timeout_s, environment)
        names = [words[n + 1] for n, word in enumerate(words) if word == "-e"]
        rest = [w for n, w in enumerate(words) if w != "-e" and words[n - 1] != "-e"]
        for name in names:
            kept = _Kept(cwd, name)
            if not kept.replay():
                flags = f"{os.environ.get(_FLAGS, '')} {_NOTE_HEADERS}"
                noting = {**environment, _FLAGS: flags}
                kept.record(run_tool([*rest, "-e", name, "-v"], cwd, timeout_s, noting))
        return ""

    return run


class _Kept:
    """PlatformIO's commands for one environment of a project with certain settings."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._objects = f".pio/build/{name}"
        settings = (folder / "platformio.ini").read_bytes()
        platforms = (p for p in sorted((folder / "platforms").rglob("*")) if p.is_file())
        said = name, os.environ.get(_FLAGS), version("platformio"), [*map(_stamp, _COMPILERS)]
        parts = settings, repr(said).encode(), *map(Path.read_bytes, platforms)
        self._place = KEPT / "commands" / digest(parts)

    def replay(self) -> bool:
        """Run the kept commands; False if there are none, or if PlatformIO has to say why not."""
        file = self._place / "commands.json"
        if not file.exists():
            return False
        os.utime(self._place)
        kept = json.loads(file.read_text())
        try:
            for command in self._made(kept, self._sources(kept["filter"])):
                _run_once(command, self._folder)
        except (subprocess.CalledProcessError, OSError, LookupError):
            return False
        return True

    def record(self, said: str) -> None:
        """Keep what PlatformIO said it did, unless other commands would be made of that."""
        lines = [
            [word for word in shlex.split(line) if word != _NOTE_HEADERS]
            for line in said.splitlines()
            if re.match(r"\S*(gcc|g\+\+|objcopy) ", line)
        ]
        found = re.search(r"build_src_filter: ([^;)]+)", said)
        if not found or not lines:
            return
        patterns = found[1].split()
        sources = self._sources(patterns)
        kept: dict[str, Any] = {"filter": patterns, "compile": {}, "after": []}
        for line in lines:
            if "-c" in line:
                source, target = line[-1], _after(line, "-o")
                names = {source: "SOURCE", target: "TARGET"}
                kept["compile"][Path(source).suffix] = [names.get(word, word) for word in line]
            elif "objcopy" in line[0]:
                kept["after"].append(line)
            else:
                objects = [word for word in line if word.endswith(".o")]
                at = line.index(objects[0])
                kept["link"] = [*line[:at], "OBJECTS", *line[at + len(objects) :]]
        try:
            made = list(self._made(kept, sources))
        except LookupError:
            return
        if sorted(made) == sorted(lines):
            for line in lines:
                _keep_object(line, self._folder)
            self._place.mkdir(parents=True, exist_ok=True)
            write_whole(self._place / "commands.json", json.dumps(kept).encode())

    def _made(self, kept: dict[str, Any], sources: list[str]) -> Iterator[Command]:
        objects = []
        for source in sources:
            path = os.path.normpath(f"src/{source}")
            target = f"{self._objects}/{os.path.splitext(path)[0]}.o"
            objects.append(target)
            names = {"SOURCE": path, "TARGET": target}
            yield [names.get(word, word) for word in kept["compile"][Path(path).suffix]]
        link = kept["link"]
        at = link.index("OBJECTS")
        yield [*link[:at], *objects, *link[at + 1 :]]
        yield from kept["after"]

    def _sources(self, patterns: Iterable[str]) -> list[str]:
        """Sources that PlatformIO's filter leaves, relative to `src`, in its order."""
        top, chosen = self._folder / "src", set[str]()
        for word in patterns:
            pattern, files = word[2:-1], set[str]()
            from_ = top.parent if pattern.startswith("../") else top
            for path in from_.glob(pattern.removeprefix("../")):
                inside = path.rglob("*") if path.is_dir() else [path]
                files |= {os.path.relpath(p, top) for p in inside if p.suffix in _SUFFIXES}
            chosen = chosen | files if word[0] == "+" else chosen - files
        return sorted(chosen)


def _run_once(command: Command, folder: Path) -> None:
    """Run a command of a build, or take its outputs from an earlier one."""
    if "-c" in command:
        compile_once(command, folder)
        return
    if "objcopy" in command[0]:
        inputs, output = [command[-2]], command[-1]
    else:
        scripts = (f"ld/{path.name}" for path in sorted((folder / "ld").glob("*")))
        inputs = [*(word for word in command if word.endswith(".o")), *scripts]
        output = _after(command, "-o")
    said = repr((_stamp(command[0]), command[1:])).encode()
    place = KEPT / "linked" / digest([said, *((folder / path).read_bytes() for path in inputs)])
    if not place.exists():
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        _keep(place, {"output": (folder / output).read_bytes()})
        shutil.copymode(folder / output, place / "output")
        return
    os.utime(place)
    shutil.copy(place / "output", folder / output)


def compile_once(command: Command, folder: Path) -> None:
    """Compile a source, or take object and stack usage from where the same was compiled.

    Folders of headers may differ if the headers that it read are found all the same.

    Raises:
        subprocess.CalledProcessError: the compiler failed.
    """
    place, target, source, includes = _place_of(command, folder)
    seen = cache(lambda paths: seen_of(paths, folder))
    for entry in place.glob("*/inputs.json") if place.exists() else ():
        if _is_same(json.loads(entry.read_text()), includes, folder, source, seen):
            os.utime(place)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(entry.parent / "object", target)
            if (entry.parent / "stack").exists():
                shutil.copy(entry.parent / "stack", target.with_suffix(".su"))
            _note_reached(command, folder / source)
            return
    target.parent.mkdir(parents=True, exist_ok=True)
    _run([command[0], _NOTE_HEADERS, *command[1:]], folder)
    _keep_object(command, folder)


def seen_of(paths: Sequence[str], folder: Path) -> dict[str, str]:
    """Digests of a source, which is the first, and of what it can see of each header it reads.

    A new network has other macros in a header that most sources include, and few use. So macros and
    arrays are left out that neither the source names nor what is left of the headers (or might by
    pasting names together), and comments and blank lines. Lines of headers in debug information are
    therefore those of whatever was compiled first.
    """
    source = (folder / paths[0]).read_bytes()
    texts = {path: _COMMENT.sub(b"", (folder / path).read_bytes()) for path in paths[1:]}
    lines = [(path, line.rstrip()) for path, text in texts.items() for line in text.splitlines()]
    pastes = any(b"##" in text for text in (source, *texts.values()))
    names = [None if pastes else _NAMING.fullmatch(line) for _, line in lines]
    left = {n for n, found in enumerate(names) if found is None}
    words = set(_WORD.findall(source)).union(*(_WORD.findall(lines[n][1]) for n in left))
    more: set[int] | None = None
    while more is None or more:
        more = {n for n, x in enumerate(names) if x and n not in left and {*x.groups()} & words}
        left |= more
        words.update(*(_WORD.findall(lines[n][1]) for n in more))
    seen: dict[str, list[bytes]] = {path: [] for path in texts}
    for n in sorted(left):
        seen[lines[n][0]] += [lines[n][1]] if lines[n][1] else []
    return {paths[0]: digest([source]), **{path: digest(kept) for path, kept in seen.items()}}


def _run(command: Command, folder: Path) -> str:
    """Run a compiler itself, as what ccache would keep is kept here; but that mutations note."""
    path = os.environ.get("PATH", os.defpath)
    own = path if marks.COMPILED in os.environ else _without_ccache(path)
    how: Any = {"cwd": folder, "env": {**os.environ, "PATH": own}, "check": True}
    return subprocess.run(command, capture_output=True, text=True, **how).stdout


def _note_reached(command: Command, source: Path) -> None:
    """Note the mark of a source for mutation testing, as its compilers do where one runs."""
    if marks.COMPILED in os.environ:
        found = re.match(r"/\* mark (\d+) (\d+) \*/\n", source.read_text())
        if found:
            is_own = "-" not in os.path.basename(command[0])
            with open(os.environ[marks.COMPILED], "a") as file:
                file.write(f"{found[1] if is_own else found[2]}\n")


def _place_of(command: Command, folder: Path) -> tuple[Path, Path, str, list[str]]:
    """Folder of what a compilation made, its object, source and folders of headers."""
    target = _after(command, "-o")
    source = next(word for word in command if word.endswith(_SUFFIXES))
    includes = [word[2:] for word in command if word.startswith("-I")]
    words = [word for word in command[1:] if not word.startswith("-I") and word != target]
    place = KEPT / "compiled" / digest([repr((_stamp(command[0]), words)).encode()])
    return place, folder / target, source, includes


def _keep_object(command: Command, folder: Path) -> None:
    """Keep what a compilation made, if it noted what it read."""
    if "-c" not in command:
        return
    place, target, _, includes = _place_of(command, folder)
    note, stack = target.with_suffix(".d"), target.with_suffix(".su")
    if not note.exists():
        return
    read = note.read_text().replace("\\\n", " ").partition(":")[2].split()
    own = [path for path in read if not path.startswith(_SYSTEM)]
    inputs = {"includes": includes, "digests": seen_of(own, folder)}
    kept = {"object": target.read_bytes(), "inputs.json": json.dumps(inputs).encode()}
    if stack.exists():
        kept["stack"] = stack.read_bytes()
    _keep(place / digest([kept["inputs.json"]]), kept)
    note.unlink()


def _is_same(
    inputs: dict[str, Any],
    includes: list[str],
    folder: Path,
    source: str,
    seen: Callable[[tuple[str, ...]], dict[str, str]],
) -> bool:
    if includes != inputs["includes"]:
        given = [os.path.join(folder, path) for path in (*includes, os.path.dirname(source))]
        headers = [os.path.join(folder, path) for path in inputs["digests"] if path != source]
        names = {os.path.basename(path) for path in headers}
        new = [path for path in includes if path not in inputs["includes"]]
        if any(names & {file.name for file in (folder / path).rglob("*")} for path in new):
            return False
        if not all(path.startswith(tuple(given)) for path in headers):
            return False
    paths = tuple(inputs["digests"])
    return all((folder / path).exists() for path in paths) and seen(paths) == inputs["digests"]


def _after(command: Command, option: str) -> str:
    return command[command.index(option) + 1]


def digest(parts: Iterable[bytes]) -> str:
    """Name for what depends on these parts."""
    found = hashlib.sha256()
    for part in parts:
        found.update(hashlib.sha256(part).digest())
    return found.hexdigest()[:32]


def _stamp(compiler: str) -> str:
    """Path and age of a compiler, which tell it from another version of it."""
    return _stamp_on(compiler, os.environ.get("PATH", os.defpath))


@cache
def _stamp_on(compiler: str, path: str) -> str:
    own = _without_ccache(path)
    found = shutil.which(os.path.basename(compiler) if "ccache" in compiler else compiler, path=own)
    return "" if found is None else f"{found} {os.path.getmtime(found)}"


def _without_ccache(path: str) -> str:
    return os.pathsep.join(folder for folder in path.split(os.pathsep) if "ccache" not in folder)


def _keep(place: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder at once, or leave it to whoever was first."""
    place.parent.mkdir(parents=True, exist_ok=True)
    folder = tempfile.mkdtemp(dir=place.parent, prefix=".")
    for name, content in files.items():
        Path(folder, name).write_bytes(content)
    try:
        os.rename(folder, place)
    except OSError:
        shutil.rmtree(folder)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that is there as a whole, or not at all."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    os.replace(file.name, path)
