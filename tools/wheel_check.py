"""Builds sdist and wheel and looks at the wheel as a stranger gets it; never imports anything from the checkout.

wheel_check.py [--demo]
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "build" / "dist"
DEMO_SECONDS_MAX = 300


def expect(condition: bool, complaint: str) -> None:
    if not condition:
        sys.exit(f"wheel-check: {complaint}")


def server_folders() -> dict[str, str]:
    """Folder in the checkout to folder in the wheel, as pyproject.toml says."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    sources: dict[str, str] = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["sources"]
    return sources


def build() -> tuple[Path, Path]:
    shutil.rmtree(DIST, ignore_errors=True)
    # The wheel is made from the sdist: one that misses a file cannot give a complete wheel.
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(DIST), str(ROOT)], check=True, stdout=subprocess.DEVNULL
    )
    (wheel,) = DIST.glob("*.whl")
    (sdist,) = DIST.glob("*.tar.gz")
    return wheel, sdist


def tracked_files(folder: str) -> set[str]:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return {name for name in listing.stdout.splitlines() if (ROOT / name).exists()}


def check_contents(wheel: Path, sdist: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    top = {name.split("/")[0] for name in names}
    strangers = {name for name in top if name != "tandemq" and not re.fullmatch(r"tandemq-.*\.dist-info", name)}
    expect(not strangers, f"the wheel puts {sorted(strangers)} into site-packages")
    for folder, home in {"tandemq": "tandemq", **server_folders()}.items():
        missing = {f"{home}{name.removeprefix(folder)}" for name in tracked_files(folder)} - names
        expect(not missing, f"the wheel misses {sorted(missing)}")
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    for folder in ("proto", "tests"):
        missing = tracked_files(folder) - inside
        expect(not missing, f"the sdist misses {sorted(missing)}")
    print(f"wheel-check: {wheel.name}: {len(names)} files, top level {sorted(top)}")


def check_installed(wheel: Path, demo: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="tandemq-wheel-") as directory:
        here = Path(directory)
        python = here / "venv" / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(here / "venv")], check=True)
        pip = [sys.executable, "-m", "pip", "--python", str(python)]
        constraints = ["-c", str(ROOT / "requirements.lock")]
        subprocess.run([*pip, "install", "--quiet", *constraints, str(wheel)], check=True)

        for name in server_folders():
            command = [str(python), "-I", "-c", f"import {name}"]
            found = subprocess.run(command, cwd=here, capture_output=True, check=False)
            expect(found.returncode != 0, f"`import {name}` works where only the wheel is installed")
        subprocess.run([str(python), "-I", "-c", "import tandemq"], cwd=here, check=True)
        print("wheel-check: tandemq can be imported, the server's folders cannot")

        tandemq = str(here / "venv" / "bin" / "tandemq")
        subprocess.run([tandemq, "--help"], cwd=here, check=True, stdout=subprocess.DEVNULL)
        subprocess.run([tandemq, "classifier", "schema"], cwd=here, check=True, stdout=subprocess.DEVNULL)
        print("wheel-check: tandemq --help runs, and the server's data files are found")
        if demo:
            subprocess.run([tandemq, "demo"], cwd=here, check=True, timeout=DEMO_SECONDS_MAX)
            print("wheel-check: tandemq demo runs from the wheel alone")


def main(arguments: list[str]) -> None:
    if arguments not in ([], ["--demo"]):
        sys.exit(__doc__)
    wheel, sdist = build()
    check_contents(wheel, sdist)
    check_installed(wheel, demo=arguments == ["--demo"])


if __name__ == "__main__":
    main(sys.argv[1:])
