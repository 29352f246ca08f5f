#!/usr/bin/env bash
# Checks the form of everything: gofmt, golangci-lint in each module with the
# one configuration at the root, and shellcheck on the scripts where it is
# installed. The linter's version is fixed here, so that every machine finds
# the same; when it is missing it is built into .cache/bin.
set -euo pipefail

version=2.15.0
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

# has_version says whether $1 is a golangci-lint of the version we want.
has_version() {
  [ -x "$1" ] && [ "$("$1" version --short 2>/dev/null)" = "$version" ]
}

# linter prints the path of the linter and builds it first when it has to.
linter() {
  local candidate
  for candidate in \
    "$root/.cache/bin/golangci-lint" \
    "$(command -v golangci-lint || true)" \
    "$(go env GOPATH)/bin/golangci-lint"; do
    if has_version "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  echo "lint: building golangci-lint v$version into .cache/bin (a minute or two, once)" >&2
  GOWORK=off GOFLAGS='' GOBIN="$root/.cache/bin" \
    go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$version" >&2
  echo "$root/.cache/bin/golangci-lint"
}

folders=()
while IFS= read -r folder; do folders+=("$folder"); done < <(go list -m -f '{{.Dir}}')

unformatted=$(gofmt -l "${folders[@]}")
if [ -n "$unformatted" ]; then
  printf 'lint: not formatted (make fmt mends it):\n%s\n' "$unformatted" >&2
  exit 1
fi

if command -v shellcheck >/dev/null; then
  shellcheck .ci/run scripts/*.sh
else
  echo "lint: shellcheck is not installed, so the scripts are not checked"
fi

golangci=$(linter)
scripts/each-module.sh "$golangci" run --config "$root/.golangci.yml" --allow-parallel-runners ./...
echo "lint: ok"
