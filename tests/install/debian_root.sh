# Sourced by the tests of this folder: fresh Debian 12 roots to install into. Where packages come from is taken over from this
# machine: its mirror, proxies, certificates and pip configuration.
# shellcheck shell=bash

((EUID == 0)) || { echo "error: only root can make a root; run it with sudo" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "error: debootstrap is missing: apt-get install debootstrap" >&2; exit 2; }

say() { printf '\n#### %s (%s s)\n' "$*" "$SECONDS"; }

# What commands in a root get of the environment.
environment=(HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8)
for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY SSL_CERT_FILE \
  PIP_CERT PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_DEFAULT_TIMEOUT UV_DEFAULT_INDEX UV_INDEX_URL; do
  [[ -z ${!name:-} ]] || environment+=("$name=${!name}")
done

make_root() { # make_root ROOT [PACKAGE,...]: the root is an empty folder
  local root=$1 log mirror
  # shellcheck disable=SC2016  # apt's own variable
  mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 2>/dev/null | grep -m1 -v security || true)
  mirror=${mirror:-http://deb.debian.org/debian}
  say "A fresh Debian 12 in $root, from $mirror"
  log=$(mktemp)
  debootstrap --variant=minbase ${2:+--include="$2"} bookworm "$root" "$mirror" >"$log" 2>&1 || { tail -20 "$log" >&2; exit 1; }
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
  # A certificate may also have been added to the bundle by hand.
  if [[ -f /etc/ssl/certs/ca-certificates.crt ]]; then
    mkdir -p "$root/etc/ssl/certs"
    cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  fi
  [[ ! -f /etc/pip.conf ]] || cp /etc/pip.conf "$root/etc/pip.conf"
}

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

inside() { # inside ROOT FOLDER COMMAND
  chroot "$1" env -i "${environment[@]}" bash -c "cd $2 && $3"
}
