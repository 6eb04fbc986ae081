#!/usr/bin/env bash
# Proves in fresh Debian 12 roots, where packages of this machine cannot hide a missing step, that
# scripts/quickstart and scripts/test need nothing else, and that both can be run again. Prints how long each
# took.
#
#   tests/install/fresh_debian.sh [ROOT]     ROOT: an empty or absent folder, next to which ROOT.test is made (default:
#                                            temporary folders, removed at the end)
#
# Needs root and debootstrap, and takes half an hour on 2 slow cores. Tests the commit that is checked out.
set -euo pipefail

source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=tests/install/debian_root.sh
source "$source/tests/install/debian_root.sh"

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

clean_up() {
  leave "$root"
  leave "$second"
  # Never into a file system that is still mounted there.
  [[ $keep == yes ]] || rm -rf --one-file-system "$root" "$second"
}
trap clean_up EXIT

make_root "$root"
git clone -q "file://$source" "$root/assay"
git -C "$root/assay" checkout -q "$(git -C "$source" rev-parse HEAD)"
cp -a --one-file-system "$root" "$second"

leaves_nothing() {
  inside "$1" /assay 'git status --porcelain' | (! grep .) || { echo "error: $2 left files that git does not ignore" >&2; exit 1; }
}
timed() { # timed ROOT COMMAND: and how long it took
  local since=$SECONDS
  say "$2"
  inside "$1" /assay "$2"
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
