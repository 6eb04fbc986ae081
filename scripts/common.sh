# Sourced by the other scripts: paths, and functions for messages and builds.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
share=${XDG_DATA_HOME:-$HOME/.local/share}/assay
# shellcheck disable=SC2034  # used by the scripts that source this
tools=$share/tools
# The variables of the same names reach CMake and the program.
export ASSAY_ONEDNN_ROOT=${ASSAY_ONEDNN_ROOT:-$share/onednn}
export ASSAY_CUDNN_FRONTEND_ROOT=${ASSAY_CUDNN_FRONTEND_ROOT:-$share/cudnn_frontend}
export ASSAY_NCCL_ROOT=${ASSAY_NCCL_ROOT:-$share/nccl}
export ASSAY_ENVIRONMENTS=${ASSAY_ENVIRONMENTS:-$share/environments}
# ccache: checkouts share compiled files.
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$root} CCACHE_NOHASHDIR=1
cores=$(nproc)

say() { printf '\n== %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# 90 for an H100; fails without a GPU.
gpu_architecture() { nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .; }

build() { # build PRESET [CMake options]
  local preset=$1
  shift
  say "Building the preset $preset (${cores} jobs)"
  (cd "$root" && cmake --preset "$preset" "$@" && cmake --build --preset "$preset" -j "$cores")
}
