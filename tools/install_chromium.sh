#!/usr/bin/env bash
# Puts Chromium where the tests of pages find it: Debian's package, when root and not there yet. With --optional a machine
# that does not get it is told so, and it is no failure.
set -euo pipefail

give_up() {
  echo "chromium: NO CHROMIUM: $1. The tests that open reports in a browser" >&2
  echo "chromium: will be skipped; install the package chromium (120 or newer) to run them" >&2
  [ "$2" = --optional ] || exit 1
  exit 0
}
for name in chromium chromium-browser google-chrome; do
  if command -v "$name" >/dev/null; then
    exit 0
  fi
done
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  give_up "it is not on the PATH, and only root on Debian gets it from here" "${1:-}"
fi
export DEBIAN_FRONTEND=noninteractive
if ! { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; }; then
  give_up "apt-get does not get it" "${1:-}"
fi
chromium --version 2>/dev/null || give_up "the package is there, the program is not" "${1:-}"
