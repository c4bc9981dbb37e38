"""What is shipped: every folder with code is listed, and the three rooms keep apart."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tomli

import whyhang
from whyhang import signatures
from whyhang.signatures.frames import TABLE

ROOT = Path(__file__).parent.parent
ROOMS = ("analyzer", "collectors", "signatures")


@pytest.mark.repo
def test_every_folder_with_code_is_a_package() -> None:
    """A folder without __init__.py works in a checkout and is silently missing from the wheel."""
    folders = {
        path.parent
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        if "__pycache__" not in path.parts
    }

    assert [folder for folder in folders if not (folder / "__init__.py").is_file()] == []
    assert all((ROOT / ".pkg" / "whyhang" / room).samefile(ROOT / room) for room in ROOMS)


@pytest.mark.repo
def test_every_folder_with_tables_is_in_the_wheel() -> None:
    """TOML files of all rooms go into the wheel with the package they stand in."""
    table = tomli.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]

    folders = {
        "whyhang." + ".".join(path.parent.relative_to(ROOT).parts)
        for room in ("analyzer", "collectors", "signatures")
        for path in (ROOT / room).rglob("*.toml")
    }

    assert folders == {name for name, files in table["package-data"].items() if "*.toml" in files}


@pytest.mark.repo
def test_contributing_names_files_and_folders_that_are_there() -> None:
    """Its tables list every folder and file of a room, its walks lead through files that exist."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    walked = re.findall(r"`((?:analyzer|collectors|signatures)/[\w/.-]+\.(?:py|toml))`", text)
    listed = {
        room: re.search(rf"\| in `{room}/` \|(.*?)\n\n", text, re.DOTALL)[1]
        for room in ("analyzer", "collectors")
    }

    assert [name for name in walked if not (ROOT / name).is_file()] == []
    for room, table in listed.items():
        there = [
            path.name
            for path in sorted((ROOT / room).iterdir())
            if not path.name.startswith("__") and path.suffix in {"", ".py"}
        ]
        named = [f"`{name}`" if name.endswith(".py") else f"`{name}/`" for name in there]
        assert [name for name in named if name not in table] == []


@pytest.mark.repo
def test_what_benchmarks_import_of_the_product_is_there() -> None:
    """No test runs a benchmark, so a name that moved would be noticed by nobody."""
    imports = [
        (path.name, str(node.module), alias.name)
        for path in (ROOT / "benchmarks").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("whyhang")
        for alias in node.names
    ]

    assert len(imports) > 10
    for file, module, name in imports:
        names = vars(importlib.import_module(module))
        there = name in names or importlib.util.find_spec(f"{module}.{name}") is not None
        assert there, f"{file}: {module} has no {name}"


@pytest.mark.live
def test_a_zipped_package_has_its_signatures(tmp_path: Path) -> None:
    """Signatures, in modules and in TOML, and frames are found where the package is no folder."""
    package = tmp_path / "room" / "whyhang"
    package.mkdir(parents=True)
    shutil.copy(Path(whyhang.__file__), package)
    for name in ("analyzer", "signatures"):
        spec = importlib.util.find_spec(f"whyhang.{name}")
        assert spec is not None
        assert spec.submodule_search_locations is not None
        skip = shutil.ignore_patterns("__pycache__")
        shutil.copytree(spec.submodule_search_locations[0], package / name, ignore=skip)
    zipped = shutil.make_archive(str(tmp_path / "zipped"), "zip", tmp_path / "room")
    script = (
        "from whyhang import signatures; from whyhang.signatures.frames import TABLE;"
        "print(len(signatures.load()), len(TABLE))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": zipped}, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert done.stdout.split() == [str(len(signatures.load())), str(len(TABLE))]


WITHOUT = """
import sys
sys.modules |= dict.fromkeys(("hyperscan", "pynvml"))
from whyhang.collectors.hosts import far_side
from whyhang.analyzer.cli import main
sys.exit(main([sys.argv[1], "--format", "json"]))
"""


@pytest.mark.live
def test_what_not_every_machine_has_is_not_needed(tmp_path: Path) -> None:
    """There is no wheel of Hyperscan for musl, and a host of another Python is sent none."""
    (tmp_path / "rank0.log").write_text("[rank0]: torch.OutOfMemoryError: CUDA out of memory.\n")
    command = [sys.executable, "-c", WITHOUT, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert '"gpu-oom"' in done.stdout


@pytest.mark.repo
def test_collectors_and_signatures_never_meet() -> None:
    """The import contract holds, whoever imports what today."""
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as m; m()"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout


@pytest.mark.repo
def test_generic_names_are_imported_by_nobody() -> None:
    """``import analyzer`` would find another tool's package on a user's machine."""
    offenders = [
        str(path.relative_to(ROOT))
        for room in (*ROOMS, "tests", "samples", "benchmarks")
        for path in (ROOT / room).rglob("*.py")
        for line in path.read_text(errors="replace").splitlines()
        if line.startswith(tuple(f"{word} {room}" for word in ("from", "import") for room in ROOMS))
    ]

    assert offenders == []
