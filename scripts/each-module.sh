#!/usr/bin/env bash
# Runs a command in the folder of every module of the workspace, with the
# workspace switched off, so that each module shows what it is worth alone.
# Stops at the first module in which the command fails, and names it.
#
#   scripts/each-module.sh go vet ./...
set -euo pipefail

if [ $# -eq 0 ]; then
  echo "usage: scripts/each-module.sh COMMAND [ARGUMENT...]" >&2
  exit 2
fi

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folders=$(cd "$root" && go list -m -f '{{.Dir}}')

while IFS= read -r folder; do
  name=${folder#"$root"/}
  echo "== $name: $*"
  if ! (cd "$folder" && GOWORK=off "$@" </dev/null); then
    echo "each-module: '$*' fails in $name" >&2
    exit 1
  fi
done <<<"$folders"
