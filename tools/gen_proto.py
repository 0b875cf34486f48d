"""Makes the Python stubs from proto/ and says whether the committed ones still match; never edits a .proto.

The generator is older than the libraries we run on, on purpose: generated code refuses any runtime older than its
generator, so the generator's version is the lowest version that a user may have. It needs an older protobuf than
we install, therefore it lives in an environment of its own.

    gen_proto.py write    generate into tandemq/
    gen_proto.py check    generate elsewhere, compare, exit 1 on any difference
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTO_ROOT = ROOT / "proto"
VENV = ROOT / ".venv-proto"
# grpcio-tools writes the floors `grpcio>=1.76` and `protobuf>=6.31.1` of pyproject.toml: change both or neither.
GENERATORS = (
    "grpcio-tools==1.76.0",
    "grpcio==1.76.0",
    "protobuf==6.33.6",
    "mypy-protobuf==3.7.0",
    "setuptools==80.9.0",
)
# One generated package per folder; anything else under tandemq/ is written by hand and not ours to touch.
PACKAGES = ("tandemq/v1", "tandemq/peer/v1", "tandemq/witness/v1", "tandemq/etcd/v1")
GENERATED_SUFFIXES = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi")
INIT_TEXT = '"""Generated from proto/ by `make proto`; do not edit."""\n'


def generator_python() -> Path:
    """The interpreter that has the pinned generator, installed on first use and whenever the pins change."""
    python = VENV / "bin" / "python"
    stamp = VENV / ".installed"
    if not (stamp.exists() and stamp.read_text() == "\n".join(GENERATORS)):
        print(f"installing {GENERATORS[0]} into {VENV.name}", flush=True)
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(VENV)], check=True)
        # The lock holds what we run on; the generator deliberately wants older.
        environment = {name: value for name, value in os.environ.items() if not name.endswith("_CONSTRAINT")}
        pip = [sys.executable, "-m", "pip", "--python", str(python)]
        subprocess.run([*pip, "install", "--quiet", *GENERATORS], check=True, env=environment)
        stamp.write_text("\n".join(GENERATORS))
    return python


def proto_files() -> list[str]:
    return sorted(
        path.relative_to(PROTO_ROOT).as_posix()
        for package in PACKAGES
        for path in (PROTO_ROOT / package).glob("*.proto")
    )


def generate(target: Path, protos: list[str]) -> None:
    python = generator_python()
    environment = {**os.environ, "PATH": f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    subprocess.run(
        [
            str(python),
            *("-m", "grpc_tools.protoc", f"--proto_path={PROTO_ROOT}"),
            *(f"--python_out={target}", f"--pyi_out={target}"),
            *(f"--grpc_python_out={target}", f"--mypy_grpc_out=quiet:{target}"),
            *protos,
        ],
        check=True,
        env=environment,
    )
    for path in sorted(target.rglob("*_pb2_grpc.py")):
        # A file without a service has nothing to call: no stub module for it.
        if not re.search(r"^class ", path.read_text(), re.MULTILINE):
            path.unlink()
            path.with_suffix(".pyi").unlink()
    for proto in protos:
        folder = (target / proto).parent
        while folder.name != "tandemq":
            (folder / "__init__.py").write_text(INIT_TEXT)
            folder = folder.parent


def generated_files(base: Path) -> dict[str, str]:
    """Name and content of every file under `base` that is, or claims to be, generated."""
    found: dict[str, str] = {}
    for package in PACKAGES:
        for path in sorted((base / package).glob("*.py*")):
            if path.name.endswith(GENERATED_SUFFIXES):
                found[path.relative_to(base).as_posix()] = path.read_text()
        folder = Path(package)
        while folder.name != "tandemq":
            init = base / folder / "__init__.py"
            if init.exists():
                found[(folder / "__init__.py").as_posix()] = init.read_text()
            folder = folder.parent
    return found


def write(fresh: dict[str, str]) -> None:
    committed = generated_files(ROOT)
    for name in committed.keys() - fresh.keys():
        (ROOT / name).unlink()
    for name, text in fresh.items():
        if committed.get(name) != text:
            (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / name).write_text(text)
    print(f"{len(fresh)} generated files in tandemq/")


def check(fresh: dict[str, str]) -> int:
    committed = generated_files(ROOT)
    differing = sorted(name for name in fresh.keys() | committed.keys() if fresh.get(name) != committed.get(name))
    for name in differing:
        state = (
            "missing" if name not in committed else "not made by proto/ any more" if name not in fresh else "differs"
        )
        print(f"{name}: {state}")
    if differing:
        print("the committed stubs are not what proto/ says: run `make proto` and commit the result", file=sys.stderr)
        return 1
    print(f"{len(fresh)} generated files match proto/")
    return 0


def main(arguments: list[str]) -> int:
    if arguments not in (["write"], ["check"]):
        print(__doc__, file=sys.stderr)
        return 2
    protos = proto_files()
    if not protos:
        print("proto/ holds no contract yet: nothing generated, nothing compared", file=sys.stderr)
        return 0
    with tempfile.TemporaryDirectory(prefix="tandemq-proto-") as directory:
        target = Path(directory)
        generate(target, protos)
        fresh = generated_files(target)
    if arguments == ["write"]:
        write(fresh)
        return 0
    return check(fresh)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
