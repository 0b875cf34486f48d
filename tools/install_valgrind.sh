#!/usr/bin/env bash
# Puts valgrind on PATH for the guard: Debian's package, when root and not there yet. --optional: to lack it is no failure.
set -euo pipefail

command -v valgrind >/dev/null && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "valgrind: valgrind is not on PATH, and only root on Debian or Ubuntu gets it from here;" >&2
  echo "valgrind: install it (package valgrind) and run this again" >&2
  [ "${1:-}" = --optional ] && exit 0
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends valgrind >/dev/null
