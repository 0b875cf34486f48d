#!/usr/bin/env bash
# Makes a root of the newest stable Debian beside the machine's own, with the peers that are newer there, once for a user,
# into the user's cache; each clone has a link to it, build/bench/newest. bench/peers/programs.py says how it is used.
# Nothing is ever mounted where this machine sees it, so nothing is ever removed through a mount.
# A machine on which it cannot be made is no failure: why is said, and the machine's own peers are measured.
set -euo pipefail
cd "$(dirname "$0")/.."

suite=trixie
packages=(postgresql rabbitmq-server redis-server valkey-server)
link=build/bench/newest
# The link stands for a whole root: it comes after that.
rm -f "$link"

own_alone() {
  echo "peers: NO ROOT OF DEBIAN ${suite^^}: $1; what this machine has itself is measured" >&2
  exit 0
}
use() {
  mkdir -p "$(dirname "$link")"
  ln -sfn "$1" "$link"
  . "$1/etc/os-release"
  echo "peers: ${packages[*]} of $PRETTY_NAME in a root beside this machine's own"
  exit 0
}
# Who mounts has a view of the mounts for itself, and what is mounted in it ends with its last process.
apart() { unshare --mount --propagation private -- "$@"; }

[ "$(id -u)" -eq 0 ] || own_alone "only root makes one and runs programs in it"
apart mount -n -o bind,ro /usr /usr 2>/dev/null || own_alone "root may not mount here (a container needs CAP_SYS_ADMIN)"
command -v dpkg >/dev/null || own_alone "this is neither Debian nor Ubuntu"
[ "$(readlink -f /bin /lib | tr '\n' ' ')" = "/usr/bin /usr/lib " ] || own_alone "programs lie outside /usr here"
architecture=$(dpkg --print-architecture)
what=$(echo "${packages[@]}" | cksum | cut -d ' ' -f 1) # another list is another root
cache="${XDG_CACHE_HOME:-${HOME:-$PWD/build}/.cache}/tandemq"
root="$cache/debian-$suite-$architecture-$what"
[ ! -d "$root" ] || use "$root"

mkdir -p "$cache" 2>/dev/null && [ -w "$cache" ] || own_alone "$cache cannot be written"
exec 9>"$root.lock"
flock 9 # another clone may be making it
[ ! -d "$root" ] || use "$root"
rm -rf --one-file-system "$root".part.* # of one that was killed

export DEBIAN_FRONTEND=noninteractive
if ! command -v debootstrap >/dev/null; then
  apt-get update -qq && apt-get install -y -qq --no-install-recommends debootstrap debian-archive-keyring >/dev/null ||
    own_alone "apt-get does not get debootstrap"
fi
mirror_of_this_machine() {
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | awk 'NR == 1'
}
mirror=${TANDEMQ_DEBIAN_MIRROR:-$(mirror_of_this_machine)}
if [ -z "$mirror" ]; then # what apt knows of its sources, it knows from the lists
  apt-get update -qq || true
  mirror=$(mirror_of_this_machine)
fi
[ -n "$mirror" ] || own_alone "apt has no mirror of Debian among its sources; TANDEMQ_DEBIAN_MIRROR=... names one"
# debootstrap downloads with wget, which does not read what apt is configured with.
for scheme in http https; do
  name="${scheme}_proxy" found=""
  eval "$(apt-config shell found "Acquire::$scheme::Proxy")"
  if [ -z "${!name:-}" ] && [ -n "$found" ] && [ "$found" != DIRECT ]; then export "$name=$found"; fi
done

part="$root.part.$$"
trap 'rm -rf --one-file-system "$part"' EXIT
trap 'exit 130' INT TERM HUP
echo "peers: making a root of Debian $suite (850 MB, some minutes)"
(IFS=, && apart debootstrap --force-check-gpg --variant=minbase --include="${packages[*]}" "$suite" "$part" "$mirror") \
  >"$root.log" 2>&1 || own_alone "debootstrap failed, see $root.log: $(tail -n 1 "$root.log")"
rm -f "$part"/var/cache/apt/archives/*.deb
mv "$part" "$root"
use "$root"
