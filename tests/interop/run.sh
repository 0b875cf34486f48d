#!/usr/bin/env bash
# Clients in other languages against a fresh pair, the master killed once between sending and receiving.
# Names of languages as arguments run only these. A missing toolchain is said aloud and never counts as passed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec python -m tests.interop.run "$@"
