#!/usr/bin/env bash
# Brings what the tests need onto this machine: a C compiler for the race
# detector is only looked for; redis-server is installed where that is ours to
# do (root on Debian and its kin). Tests start servers of their own on free
# ports of 127.0.0.1, so an installed but stopped redis-server is enough. The
# newer servers are fetched beside it, see fetch-servers.sh.
#
# Without redis-server the tests that need it skip and say so; with CI=true
# that is an error, here already.
set -euo pipefail

packages=(redis-server redis-tools)

# refuse explains what is missing. Only in CI does it end the run.
refuse() {
  echo "test-setup: $1" >&2
  if [ "${CI:-}" = true ]; then
    exit 1
  fi
  echo "test-setup: tests that need it will be skipped" >&2
  exit 0
}

if [ "$(go env CGO_ENABLED)" != 1 ] || ! command -v "$(go env CC)" >/dev/null; then
  echo "test-setup: go test -race needs cgo and a C compiler (on Debian: apt-get install gcc libc6-dev)" >&2
  exit 1
fi

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if command -v redis-server >/dev/null; then
  echo "test-setup: $(redis-server --version)"
  exec "$scripts/fetch-servers.sh"
fi
if ! command -v apt-get >/dev/null; then
  refuse "redis-server is not in PATH and there is no apt-get to install it with: install Redis 7 or later"
fi
if [ "$(id -u)" -ne 0 ]; then
  refuse "redis-server is not in PATH and only root may install it: sudo apt-get install --no-install-recommends ${packages[*]}"
fi

echo "test-setup: installing ${packages[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=120 "${packages[@]}" >/dev/null
command -v redis-server >/dev/null || refuse "redis-server was installed but is not in PATH"
echo "test-setup: $(redis-server --version)"
exec "$scripts/fetch-servers.sh"
