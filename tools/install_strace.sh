#!/usr/bin/env bash
# Puts strace on PATH for the crash images and sees that it may trace: Debian's package, when root and not there yet.
set -euo pipefail

if ! command -v strace >/dev/null; then
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "strace: strace is not on PATH, and only root on Debian or Ubuntu gets it from here;" >&2
    echo "strace: install it (package strace, version 5.3 or newer) and run this again" >&2
    exit 1
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends strace >/dev/null
fi
if ! refusal=$(strace -f --seccomp-bpf -o /dev/null true 2>&1); then
  echo "strace: strace cannot trace its own child here: ${refusal}" >&2
  echo "strace: it must be 5.3 or newer; in a container it needs the capability SYS_PTRACE" >&2
  exit 1
fi
