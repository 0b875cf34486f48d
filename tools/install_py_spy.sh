#!/usr/bin/env bash
# Puts py-spy into build/bench/py-spy, for make bench-budget and make flamegraph; nothing else needs it.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${1:?usage: install_py_spy.sh PYTHON}
version=0.4.3
[ -x build/bench/py-spy/bin/py-spy ] && build/bench/py-spy/bin/py-spy --version | grep -q "$version" && exit 0
PIP_CONSTRAINT='' PIP_BUILD_CONSTRAINT='' "$python" -m pip install --quiet --target build/bench/py-spy "py-spy==$version"
