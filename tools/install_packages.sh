#!/usr/bin/env bash
# Puts programs of the system where the tests find them: Debian's packages, as root, all that are missing in one go.
# usage: install_packages.sh NAME...  of etcd, strace, directories, chromium, valgrind. With a question mark behind it
# (chromium?) a program may be missing: that is told and is no failure.
set -euo pipefail
export PATH="$PATH:/usr/sbin:/sbin"

usage() {
  echo "usage: install_packages.sh NAME[?]...  of etcd, strace, directories, chromium, valgrind" >&2
  exit 2
}
packages_of() {
  case "$1" in
    etcd) echo etcd-server etcd-client ;;
    strace) echo strace ;;
    directories) echo slapd nsd ;;
    chromium) echo chromium fonts-dejavu-core ;;
    valgrind) echo valgrind ;;
    *) return 1 ;;
  esac
}
# What it is for, and from which version on it will do.
purpose_of() {
  case "$1" in
    etcd) echo "the tests of the etcd authority need packages etcd-server and etcd-client, 3.4.21 or newer" ;;
    strace) echo "crash images need package strace, 5.3 or newer" ;;
    directories) echo "the tests of resolvers need packages slapd, 2.5 or newer, and nsd, 4.6 or newer" ;;
    chromium) echo "the tests of pages need package chromium, 120 or newer" ;;
    valgrind) echo "the guard needs package valgrind" ;;
  esac
}
is_there() {
  case "$1" in
    etcd) command -v etcd && command -v etcdctl ;;
    directories) command -v slapd && command -v nsd ;;
    chromium) # a package may be there, and its program only say where to get it
      chromium --version || chromium-browser --version || google-chrome --version ;;
    *) command -v "$1" ;;
  esac >/dev/null 2>&1
}
install() {
  # Some packages would start servers of their own on well-known ports; the tests start theirs.
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' EXIT
  fi
  apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

[ "$#" -gt 0 ] || usage
policy=/usr/sbin/policy-rc.d
missing=() packages=()
for given in "$@"; do
  found=$(packages_of "${given%\?}") || usage
  if ! is_there "${given%\?}"; then
    missing+=("${given%\?}")
    read -ra more <<<"$found"
    packages+=("${more[@]}")
  fi
done
why="only root on Debian or Ubuntu gets it from here"
if [ "${#missing[@]}" -gt 0 ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  why="apt-get does not get it"
  if apt-get update -qq && ! install "${packages[@]}"; then
    for name in "${missing[@]}"; do # one that this system does not have takes none of the others with it
      read -ra more <<<"$(packages_of "$name")"
      install "${more[@]}" || true
    done
  fi
fi
failed=0
for given in "$@"; do
  name=${given%\?}
  if is_there "$name"; then
    if [ "$name" = strace ] && ! refusal=$(strace -f --seccomp-bpf -o /dev/null true 2>&1); then
      echo "packages: strace cannot trace its own child here: $refusal" >&2
      echo "packages: it must be 5.3 or newer; in a container it needs the capability SYS_PTRACE" >&2
      failed=1
    fi
    continue
  fi
  echo "packages: NO ${name^^}: $why; $(purpose_of "$name")" >&2
  [ "$given" != "$name" ] || failed=1
done
exit "$failed"
