#!/usr/bin/env bash
# Sees that toxiproxy-server is there for chaos runs: on the PATH, else built with Go, pinned, into the user's cache, from
# where each clone has it in its build/chaos.
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
mkdir -p build/chaos
cache="${XDG_CACHE_HOME:-${HOME:-$PWD/build}/.cache}/tandemq/toxiproxy-$version-$(uname -sm | tr ' ' -)"
kept="$cache/toxiproxy-server"
if ! "$kept" -version 2>/dev/null | grep -qF "$version"; then
  command -v go >/dev/null || give_up "neither toxiproxy-server nor Go is there" "${1:-}"
  echo "chaos-deps: building toxiproxy-server $version"
  GOBIN="$PWD/build/chaos" go install -ldflags "-s -w -X github.com/Shopify/toxiproxy/v2.Version=$version" \
    "github.com/Shopify/toxiproxy/v2/cmd/server@v$version" || give_up "it could not be built" "${1:-}"
  mv build/chaos/server "$built"
  "$built" -version
  # A rename, because two clones may come at the same time. A cache that cannot be written costs the next clone a build.
  mkdir -p "$cache" && cp "$built" "$kept.$$" && mv "$kept.$$" "$kept" || echo "chaos-deps: not kept in $cache" >&2
  exit 0
fi
cp "$kept" "$built.$$"
mv "$built.$$" "$built"
