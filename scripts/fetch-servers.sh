#!/usr/bin/env bash
# Fetches the servers that the distribution's stable release does not have, for
# the suites that run over several of them: Redis 8.0 from Debian trixie and
# Valkey 9 from Debian sid. The packages are unpacked into a cache folder of
# their own (RSC_SERVERS, by default rsc-servers in the user's cache folder)
# together with the C library they were built for, so the system stays as it is
# and nothing of it has to be root's. What is there already is not fetched again.
#
# Each server gets one program that starts it: $RSC_SERVERS/redis-8.0/server and
# $RSC_SERVERS/valkey-9/server.
#
# Where a server cannot be had, the tests on it skip and say so; with CI=true
# that is an error, here already.
set -euo pipefail

servers=${RSC_SERVERS:-${XDG_CACHE_HOME:-$HOME/.cache}/rsc-servers}
# What the two servers load besides themselves.
libraries=(libc6 libssl3t64 libjemalloc2 liblzf1 libatomic1 libstdc++6 libsystemd0 libgcc-s1 libzstd1 libcap2
  libgcrypt20 libgpg-error0 liblz4-1 liblzma5 zlib1g)

# refuse explains what is missing. Only in CI does it end the run.
refuse() {
  echo "fetch-servers: $1" >&2
  if [ "${CI:-}" = true ]; then
    exit 1
  fi
  echo "fetch-servers: tests on the servers that are missing will be skipped" >&2
  exit 0
}

# mirror prints where this system gets Debian from.
mirror() {
  # The $(…) are apt's, not the shell's.
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(REPO_URI)' 'Label: Debian' | head -n 1
}

# fetch NAME SUITE PROGRAM BINARY PACKAGE... unpacks the packages of a suite and
# writes the program that starts PROGRAM, whose code is in BINARY.
fetch() {
  local name=$1 suite=$2 program=$3 binary=$4 target start=$SECONDS
  shift 4
  target=$servers/$name
  if "$target/server" --version >/dev/null 2>&1; then
    echo "fetch-servers: $name: $("$target/server" --version)"
    return
  fi
  echo "fetch-servers: $name: fetching it from Debian $suite"
  # Unpacked aside and moved, so that nobody meets half of it. The path is short:
  # it ends up in that of a socket.
  local new
  new=$(mktemp -d "$servers/new.XXXXXX")
  # shellcheck disable=SC2064
  trap "rm -rf '$new'" RETURN
  mkdir -p "$new/apt/lists/partial" "$new/apt/cache/archives/partial" "$new/packages" "$new/root"
  printf 'deb [signed-by=%s] %s %s main\n' "$keyring" "$(mirror)" "$suite" >"$new/apt/sources.list"
  local apt=(apt-get -qq
    -o Dir::Etc::SourceList="$new/apt/sources.list" -o Dir::Etc::SourceParts=-
    -o Dir::State::Lists="$new/apt/lists" -o Dir::Cache="$new/apt/cache"
    -o Acquire::Languages=none -o Acquire::Retries=3
    -o APT::Sandbox::User=root)
  "${apt[@]}" update || return 1
  (cd "$new/packages" && "${apt[@]}" download "$@") || return 1
  local package
  for package in "$new"/packages/*.deb; do
    dpkg -x "$package" "$new/root" || return 1
  done
  rm -rf "$new/apt" "$new/packages"

  local loader
  loader=$(find "$new/root" -name 'ld-linux*.so.*' -print -quit)
  [ -n "$loader" ] || return 1
  # exec, so that the process that was started is the server itself. A server
  # looks at its first argument to know what it is.
  cat >"$new/server" <<SERVER
#!/bin/sh
root=\$(dirname "\$0")/root
libraries=\$(echo "\$root"/usr/lib/*-linux-gnu)
exec "\$root/${loader#"$new/root/"}" --library-path "\$libraries" --argv0 $program "\$root/usr/bin/$binary" "\$@"
SERVER
  chmod 755 "$new/server" "$new"
  "$new/server" --version >/dev/null || return 1
  rm -rf "$target"
  # Two runs at a time: whoever is first has it.
  mv -T "$new" "$target" 2>/dev/null || [ -x "$target/server" ] || return 1
  echo "fetch-servers: $name: $("$target/server" --version), $((SECONDS - start)) s"
}

for tool in apt-get dpkg; do
  command -v "$tool" >/dev/null || refuse "there is no $tool here, and only Debian's packages of the newer servers are known to it"
done
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -r "$keyring" ] || refuse "$keyring is missing, so nothing that is fetched could be trusted: install debian-archive-keyring"
[ -n "$(mirror)" ] || refuse "this system does not get its packages from Debian"
mkdir -p "$servers"

fetch redis-8.0 trixie redis-server redis-check-rdb redis-server redis-tools "${libraries[@]}" ||
  refuse "Redis 8.0 could not be fetched"
fetch valkey-9 sid valkey-server valkey-check-rdb valkey-server valkey-tools "${libraries[@]}" ||
  refuse "Valkey 9 could not be fetched"
