#!/usr/bin/env bash
# Proves in fresh Debian 12 roots, where packages of this machine cannot hide a missing step, that
# scripts/quickstart and scripts/test need nothing else, and that both can be run again. Prints how long each
# took.
#
#   tests/install/fresh_debian.sh [ROOT]     ROOT: an empty or absent folder, next to which ROOT.test is made (default:
#                                            temporary folders, removed at the end)
#
# Needs root and debootstrap, and takes half an hour on 2 slow cores. Tests the commit that is checked out.
# Packages come from the same sources as on this machine: its mirror, proxies, certificates and pip
# configuration.
set -euo pipefail

source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
((EUID == 0)) || { echo "error: only root can make a root; run it with sudo" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "error: debootstrap is missing: apt-get install debootstrap" >&2; exit 2; }

keep=yes
if (($#)); then
  root=$1
  mkdir -p "$root"
  [[ -z $(ls -A "$root") ]] || { echo "error: $root is not empty" >&2; exit 2; }
else
  keep=no
  root=$(mktemp -d)
fi
root=$(cd "$root" && pwd)

second=$root.test # scripts/test has a separate root: packages of the quick start must not hide a missing one
[[ ! -e $second ]] || { echo "error: $second already exists" >&2; exit 2; }

enter() {
  mount -t proc proc "$1/proc"
  mount -t sysfs -o ro sysfs "$1/sys"
  mount --bind /dev "$1/dev"
  mountpoint -q "$1/dev/shm" || mount -t tmpfs tmpfs "$1/dev/shm"
}
leave() {
  for place in dev/shm dev sys proc; do
    if mountpoint -q "$1/$place"; then umount --lazy "$1/$place"; fi
  done
}
clean_up() {
  leave "$root"
  leave "$second"
  # Never into a file system that is still mounted there.
  [[ $keep == yes ]] || rm -rf --one-file-system "$root" "$second"
}
trap clean_up EXIT

say() { printf '\n#### %s (%s s)\n' "$*" "$SECONDS"; }

# shellcheck disable=SC2016  # apt's own variable
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 2>/dev/null | grep -m1 -v security || true)
mirror=${mirror:-http://deb.debian.org/debian}
say "A fresh Debian 12 in $root, from $mirror"
log=$(mktemp)
debootstrap --variant=minbase bookworm "$root" "$mirror" >"$log" 2>&1 || { tail -20 "$log" >&2; exit 1; }
rm -f "$log"

cp /etc/resolv.conf "$root/etc/resolv.conf"
if grep -q bookworm /etc/os-release; then
  rm -f "$root/etc/apt/sources.list"
  cp -r /etc/apt/sources.list /etc/apt/sources.list.d "$root/etc/apt/" 2>/dev/null || true
fi
apt-config dump Acquire | grep '"' >"$root/etc/apt/apt.conf.d/90host" || true
if compgen -G '/usr/local/share/ca-certificates/*.crt' >/dev/null; then
  mkdir -p "$root/usr/local/share/ca-certificates"
  cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/"
fi
[[ ! -f /etc/pip.conf ]] || cp /etc/pip.conf "$root/etc/pip.conf"
environment=(HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8)
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY SSL_CERT_FILE \
  PIP_CERT PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_DEFAULT_TIMEOUT UV_DEFAULT_INDEX UV_INDEX_URL; do
  [[ -z ${!name:-} ]] || environment+=("$name=${!name}")
done

git clone -q "file://$source" "$root/assay"
git -C "$root/assay" checkout -q "$(git -C "$source" rev-parse HEAD)"
cp -a --one-file-system "$root" "$second"

inside() { chroot "$1" env -i "${environment[@]}" bash -c "cd /assay && $2"; }
leaves_nothing() {
  inside "$1" 'git status --porcelain' | (! grep .) || { echo "error: $2 left files that git does not ignore" >&2; exit 1; }
}
timed() { # timed ROOT COMMAND: and how long it took
  local since=$SECONDS
  say "$2"
  inside "$1" "$2"
  took+=("$2: $((SECONDS - since)) s")
  leaves_nothing "$1" "$2"
}
took=()
enter "$root"
timed "$root" scripts/quickstart
timed "$root" scripts/quickstart
leave "$root"
enter "$second"
timed "$second" scripts/test
timed "$second" scripts/test
say 'A fresh Debian 12 needs nothing else'
printf '%s\n' "${took[@]}"
