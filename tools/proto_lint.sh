#!/usr/bin/env bash
# Lints proto/ and compares it with the contract that was last released; needs buf on PATH, never the network.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! find proto -name '*.proto' -print -quit 2>/dev/null | grep -q .; then
  echo "proto-lint: proto/ holds no contract yet" >&2
  exit 0
fi

buf lint
echo "proto-lint: lint holds"

if [ -f proto/released.binpb ]; then
  buf breaking --against proto/released.binpb
  echo "proto-lint: nothing breaks what was released"
else
  echo "=== proto-lint: NO RELEASED CONTRACT (proto/released.binpb): breaking changes are NOT checked. ===" >&2
  echo "=== \`make proto-release\` writes it; commit it with the release.                              ===" >&2
fi
