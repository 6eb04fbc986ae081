#!/usr/bin/env bash
# Installs a build into a separate folder, and builds and runs a worker with the installed files.
#   tests/install/consumer.sh SOURCE BUILD
set -euo pipefail

source=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"
cmake -S "$source/tests/install/consumer" -B "$work/consumer" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/log"
cmake --build "$work/consumer"

# The headers of the contract and those that they include are installed, and no other; each compiles by itself.
compile() { "${CXX:-c++}" -std=c++20 -I"$work/prefix/include/assay" -x c++ "$@" -; }
printf '#include <harness/%s>\n' worker/backend.hpp graph/{graph,program,op}.hpp core/{tensor,error,domain}.hpp batch/c_api.h |
  compile -MM | grep -o "$work/prefix/include/[^ ]*" | sort >"$work/included"
find "$work/prefix/include" -type f | sort | diff "$work/included" - ||
  { echo "the installed headers are not those that a worker includes" >&2; exit 1; }
while read -r header; do
  echo "#include <$header>" | compile -fsyntax-only || { echo "$header does not compile by itself" >&2; exit 1; }
done <"$work/included"

"$work/consumer/batch_from_c"

mkdir "$work/cell"
echo '{"protocol": 1, "backend": "idle", "workload": "mlp", "task": "train", "mode": "none", "precision": "fp32",
       "batch": 2, "threads": 1}' >"$work/cell/request.json"
cd "$work/cell"
"$work/consumer/assay-worker-idle" "$work/cell" 3< <(echo '{"command": "quit"}') 4>"$work/events"
grep '"hello"' "$work/events" | grep '"idle"'
grep '"bye"' "$work/events"

# The installed program finds its backends by its own path.
"$work/prefix/bin/assay" list backends | tee "$work/list"
grep -q reference "$work/list"
if grep -q "$build" "$work/list"; then
  echo "the installed program looks into the build folder" >&2
  exit 1
fi
ASSAY_ENVIRONMENTS=$work/none "$work/prefix/bin/assay" setup --dry-run torch | grep torch==
[[ -f $work/prefix/libexec/assay/backends/python/make_environment.py ]]
for command in '' $("$work/prefix/bin/assay" __complete); do pages+=("man/man1/assay${command:+-$command}.1"); done
grep -q 'workload.* NAME' "$work/prefix/share/man/man1/assay-run.1"
grep -q '3 regression' "$work/prefix/share/man/man1/assay.1"
for file in "${pages[@]}" bash-completion/completions/assay doc/assay/LICENSE; do
  [[ -s $work/prefix/share/$file ]] || { echo "share/$file is not installed, or empty" >&2; exit 1; }
done
for worker in "$work"/prefix/libexec/assay/backends/*/assay-worker-*; do
  ldd "$worker" | grep libassay_batch | grep "$work/prefix/"
done
