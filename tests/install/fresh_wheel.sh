#!/usr/bin/env bash
# Installs a wheel in a fresh Debian 12 that has Python and no compiler, and measures LeNet-5 with --quick on the backends of
# the wheel: everything must be `ok` within 90 seconds.
#
#   tests/install/fresh_wheel.sh WHEEL
#
# Needs root and debootstrap. scripts/wheel --test calls it.
set -euo pipefail

source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if (($# != 1)) || [[ ! -f $1 ]]; then
  echo "error: name a wheel; scripts/wheel builds one" >&2
  exit 2
fi
wheel=$1
# shellcheck source=tests/install/debian_root.sh
source "$source/tests/install/debian_root.sh"

root=$(mktemp -d)
clean_up() {
  leave "$root"
  rm -rf --one-file-system "$root"
}
trap clean_up EXIT

make_root "$root" python3,python3-venv,ca-certificates,dataset-fashion-mnist
enter "$root"
cp "$wheel" "$root/root/"

run() { # run COMMAND: in the root
  say "$1"
  inside "$root" /root "$1"
}
# shellcheck disable=SC2016  # expanded in the root
run 'for tool in cc gcc g++ c++ clang make cmake ninja; do ! command -v $tool || exit 1; done'
run "python3 -m venv assay && assay/bin/pip install -q --disable-pip-version-check /root/$(basename "$wheel")"
run 'assay/bin/assay --version && assay/bin/assay list backends'
run 'assay/bin/assay setup --dry-run torch,jax'
since=$SECONDS
run 'assay/bin/assay run --workload lenet5 --backend reference,onednn --quick --out lenet5.json'
took=$((SECONDS - since))
run 'assay/bin/assay validate lenet5.json && assay/bin/assay-plot lenet5.json --only throughput --format svg'
say "lenet5 --quick on the backends of the wheel took $took s"
((took <= 90)) || { echo "error: that is more than 90 s" >&2; exit 1; }
