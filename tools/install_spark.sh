#!/usr/bin/env bash
# Puts PySpark and PyArrow, as locked, into the environment of the Python that is named, when Java 17 is there: 450 MB come,
# 660 MB stay. With --optional a machine without Java is told so, and it is no failure.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${1:?usage: install_spark.sh PYTHON [--optional]}
if ! answer=$("$python" -c 'from tandemq.spark import check_java; from tandemq.errors import Refused
try:
    check_java()
except Refused as problem:
    raise SystemExit(str(problem))' 2>&1); then
  echo "spark: NO SPARK: $answer" >&2
  echo "spark: The tests of the Spark data source will be skipped" >&2
  [ "${2:-}" = --optional ] || exit 1
  exit 0
fi
for name in pyspark pyarrow; do
  wanted=$(grep "^$name==" requirements.lock)
  "$python" -c "import importlib.metadata as m, sys; sys.exit('$name==' + m.version('$name') != '$wanted')" 2>/dev/null && continue
  "$python" -m pip install --quiet -c requirements.lock "$wanted"
done
