#!/usr/bin/env bash
# Brings what the tests need onto this machine: a C compiler for the race
# detector is only looked for; servers are installed where that is ours to do
# (root on Debian and its kin). Tests start servers of their own on free ports of
# 127.0.0.1, so an installed but stopped one is enough. The newer servers are
# fetched beside it, see fetch-servers.sh.
#
# Without a program the tests that need it skip and say so; with CI=true that is
# an error, here already.
set -euo pipefail

# What is needed, and the package that has it.
wanted=(
  redis-server=redis-server
  redis-cli=redis-tools
  prometheus=prometheus
  promtool=prometheus
  haproxy=haproxy
  pg_ctlcluster=postgresql
  mariadbd=mariadb-server
)

# refuse explains what is missing. Only in CI does it end the run.
refuse() {
  echo "test-setup: $1" >&2
  if [ "${CI:-}" = true ]; then
    exit 1
  fi
  echo "test-setup: tests that need it will be skipped" >&2
}

# missing sets what is not here: programs, and the packages that have them.
missing() {
  local one
  programs=() packages=()
  for one in "${wanted[@]}"; do
    if ! command -v "${one%=*}" >/dev/null; then
      programs+=("${one%=*}")
      packages+=("${one#*=}")
    fi
  done
}

if [ "$(go env CGO_ENABLED)" != 1 ] || ! command -v "$(go env CC)" >/dev/null; then
  echo "test-setup: go test -race needs cgo and a C compiler (on Debian: apt-get install gcc libc6-dev)" >&2
  exit 1
fi

missing
if [ ${#programs[@]} -eq 0 ]; then
  : # all are here
elif ! command -v apt-get >/dev/null; then
  refuse "${programs[*]}: not in PATH, and there is no apt-get to install them with"
elif [ "$(id -u)" -ne 0 ]; then
  refuse "${programs[*]}: not in PATH, and only root may install them: sudo apt-get install --no-install-recommends ${packages[*]}"
else
  echo "test-setup: installing ${packages[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=120 "${packages[@]}" >/dev/null
  missing
  [ ${#programs[@]} -eq 0 ] || refuse "${programs[*]}: installed, but not in PATH"
fi
if command -v redis-server >/dev/null; then
  echo "test-setup: $(redis-server --version)"
fi
exec "$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/fetch-servers.sh"
