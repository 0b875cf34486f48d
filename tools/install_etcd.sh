#!/usr/bin/env bash
# Puts etcd and etcdctl on PATH for the tests of the etcd authority: Debian's packages, when root and not there yet.
set -euo pipefail

if command -v etcd >/dev/null && command -v etcdctl >/dev/null; then
  exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "etcd: etcd or etcdctl is not on PATH, and only root on Debian or Ubuntu gets them from here;" >&2
  echo "etcd: install them (packages etcd-server and etcd-client, version 3.4.21 or newer) and run this again" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
# The package would start a server of its own on etcd's well-known port; the tests start theirs.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
  trap 'rm -f "$policy"' EXIT
fi
apt-get update -qq
apt-get install -y -qq --no-install-recommends etcd-server etcd-client >/dev/null
etcd --version | sed -n 1p # not head: it leaves early, and a writer that still writes would fail this script
