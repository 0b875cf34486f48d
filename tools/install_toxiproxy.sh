#!/usr/bin/env bash
# Sees that toxiproxy-server is there for chaos runs: on the PATH, else built with Go, pinned, into build/chaos.
# With --optional a machine without Go is told so, and it is no failure.
set -euo pipefail
cd "$(dirname "$0")/.."

version=2.12.0
built=build/chaos/toxiproxy-server
give_up() {
  echo "chaos-deps: NO TOXIPROXY: $1. Chaos tests will be skipped;" >&2
  echo "chaos-deps: put toxiproxy-server $version or Go 1.23 on the PATH and run \`make chaos-deps\`" >&2
  [ "$2" = --optional ] || exit 1
  exit 0
}
if command -v toxiproxy-server >/dev/null || [ -x "$built" ]; then
  exit 0
fi
command -v go >/dev/null || give_up "neither toxiproxy-server nor Go is there" "${1:-}"
echo "chaos-deps: building toxiproxy-server $version"
mkdir -p build/chaos
GOBIN="$PWD/build/chaos" go install -ldflags "-s -w -X github.com/Shopify/toxiproxy/v2.Version=$version" \
  "github.com/Shopify/toxiproxy/v2/cmd/server@v$version" || give_up "it could not be built" "${1:-}"
mv build/chaos/server "$built"
"$built" -version
