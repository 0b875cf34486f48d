#!/usr/bin/env bash
# Puts slapd (an LDAP server) and nsd (a DNS server) where the resolvers' tests find them: Debian's packages, when root and not there yet.
set -euo pipefail

export PATH="$PATH:/usr/sbin:/sbin"
missing=()
for program in slapd nsd; do
  command -v "$program" >/dev/null || missing+=("$program")
done
if [ "${#missing[@]}" -eq 0 ]; then
  exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "directories: ${missing[*]} not found, and only root on Debian or Ubuntu gets them from here; the tests that need them" >&2
  echo "directories: are skipped and say so. Install the packages slapd (2.5 or newer) and nsd (4.6 or newer) to run them" >&2
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
# The packages would start servers of their own on well-known ports; the tests start theirs.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
  trap 'rm -f "$policy"' EXIT
fi
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
echo "directories: installed ${missing[*]}"
