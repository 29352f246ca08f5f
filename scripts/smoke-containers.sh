#!/usr/bin/env bash
# Builds the image and runs the stack of docker-compose.yaml in Docker, under test
# (e2e/smoke, TestContainers). All of it is gone afterwards.
#
# Where no engine runs, root on Debian gets one for this run (docker.io), with
# folders of its own. Where an image cannot be pulled, a stand-in from Debian's
# packages takes its tag: that tries how the parts are put together, and not the
# public images. Grafana has no stand-in: without its image the stack runs without
# it.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
image=redis-stream-coordinator:local
max_image_mb=40
engine=
scratch=$(mktemp -d)

say() { echo "smoke-containers: $*"; }

fail() {
  say "$*" >&2
  exit 1
}

# finish stops the engine if it is ours, and takes away what it leaves behind.
finish() {
  local code=$?
  if [ -n "$engine" ]; then
    kill "$engine" 2>/dev/null || true
    wait "$engine" 2>/dev/null || true
    ip link delete docker0 2>/dev/null || true
    drop_rules
    echo "$forwarding" >/proc/sys/net/ipv4/ip_forward
  fi
  if [ $code -ne 0 ] && [ -s "$scratch/engine.log" ]; then
    tail -n 20 "$scratch/engine.log" >&2
  fi
  rm -rf "$scratch"
  exit $code
}
trap finish EXIT
trap 'exit 143' INT TERM

# drop_rules takes the engine's rules out of the firewall; there were none before.
drop_rules() {
  local table chain
  for table in filter nat; do
    # Rules that lead to the engine's chains, and those of its bridges.
    iptables-save -t $table 2>/dev/null | grep -E '^-A (FORWARD|PREROUTING|OUTPUT|POSTROUTING) .*(DOCKER|docker0|br-)' |
      sed 's/^-A/-D/' | while read -r rule; do
        # shellcheck disable=SC2086
        iptables -t $table $rule 2>/dev/null || true
      done
    for chain in $(iptables-save -t $table 2>/dev/null | sed -n 's/^:\(DOCKER[^ ]*\) .*/\1/p'); do
      iptables -t $table -F "$chain" 2>/dev/null || true
    done
    for chain in $(iptables-save -t $table 2>/dev/null | sed -n 's/^:\(DOCKER[^ ]*\) .*/\1/p'); do
      iptables -t $table -X "$chain" 2>/dev/null || true
    done
  done
  iptables -P FORWARD ACCEPT 2>/dev/null || true
}

# install PROGRAM=PACKAGE... installs what is missing, where that is ours to do.
install() {
  local one packages=()
  for one in "$@"; do
    command -v "${one%=*}" >/dev/null || packages+=("${one#*=}")
  done
  [ ${#packages[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    fail "needs Docker: an engine that runs, and docker compose. Only root on Debian gets them from here (${packages[*]})"
  fi
  say "installing ${packages[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=120 "${packages[@]}" >/dev/null
}

# need_engine finds an engine, or starts one.
need_engine() {
  if docker version >/dev/null 2>&1; then
    return
  fi
  # The firewall and the network are whose engine they are: with another one there,
  # this is not the place to clean up.
  [ ! -e /sys/class/net/docker0 ] || fail "there is a docker0 of another engine, which does not answer"
  install dockerd=docker.io docker=docker.io iptables=iptables ip=iproute2
  forwarding=$(cat /proc/sys/net/ipv4/ip_forward)
  export DOCKER_HOST=unix://$scratch/docker.sock
  dockerd --data-root "$scratch/data" --exec-root "$scratch/exec" -H "$DOCKER_HOST" --pidfile "$scratch/pid" >"$scratch/engine.log" 2>&1 &
  engine=$!
  for _ in $(seq 150); do
    if docker version >/dev/null 2>&1; then
      say "an engine of this run: $(docker version --format '{{.Server.Version}}')"
      return
    fi
    kill -0 "$engine" 2>/dev/null || fail "the engine ended"
    sleep 0.2
  done
  fail "the engine does not answer"
}

# need_compose sets compose to what runs compose files here.
need_compose() {
  if docker compose version >/dev/null 2>&1; then
    compose="docker compose"
    return
  fi
  install docker-compose=docker-compose
  compose=docker-compose
}

# have IMAGE reports whether the image is here, or can be pulled.
have() {
  docker image inspect "$1" >/dev/null 2>&1 || timeout 60 docker pull -q "$1" >/dev/null 2>&1
}

# stand_in IMAGE [PROGRAM] gives a tag to the packages that the services need;
# the image runs the program when it is not told what to run.
stand_in() {
  if [ ! -e "$scratch/root.tar" ]; then
    install mmdebstrap=mmdebstrap
    mmdebstrap --quiet --mode=root --variant=minbase --include=redis-server,redis-tools,prometheus,haproxy,ca-certificates \
      bookworm "$scratch/root.tar"
    docker import "$scratch/root.tar" rsc-stand-in:base >/dev/null
  fi
  if [ -n "${2:-}" ]; then
    printf 'FROM rsc-stand-in:base\nENTRYPOINT ["%s"]\n' "$2" | docker build -q -t "$1" - >/dev/null
  else
    docker tag rsc-stand-in:base "$1"
  fi
  say "$1: a stand-in from Debian's packages"
}

# go_stand_in IMAGE is the same for the compiler: the one that is here, with the
# modules that the command needs.
go_stand_in() {
  local cache
  cache=$(go env GOMODCACHE)
  mkdir -p "$scratch/go" "$scratch/fetched"
  (cd coordinator && GOWORK=off go mod download)
  (cd coordinator && GOWORK=off GOPROXY="file://$cache/cache/download" GONOSUMDB='*' GOFLAGS=-modcacherw GOMODCACHE="$scratch/fetched" go mod download)
  cat >"$scratch/go/Dockerfile" <<DOCKERFILE
FROM rsc-stand-in:base
COPY go /usr/local/go
COPY modules /modules
ENV PATH=/usr/local/go/bin:/usr/sbin:/usr/bin:/sbin:/bin GOPROXY=file:///modules GONOSUMDB=* GOTOOLCHAIN=local
DOCKERFILE
  cp -r "$(go env GOROOT)" "$scratch/go/go"
  mv "$scratch/fetched/cache/download" "$scratch/go/modules"
  stand_in rsc-stand-in:go # for the base
  docker build -q -t "$1" "$scratch/go" >/dev/null
  say "$1: with the Go that is here, $(go env GOVERSION)"
}

need_engine
need_compose
if ! docker buildx version >/dev/null 2>&1; then
  export DOCKER_BUILDKIT=0
fi

began=$SECONDS
export RSC_SMOKE_SERVICES="redis coordinator-1 coordinator-2 balancer consumer-1 consumer-2 producer prometheus"
while read -r one; do
  have "$one" && continue
  case $one in
    redis:*) stand_in "$one" ;;
    haproxy:*) stand_in "$one" ;;
    prom/prometheus:*) stand_in "$one" /usr/bin/prometheus ;;
    grafana/*) say "$one cannot be pulled and has no stand-in: GRAFANA DOES NOT RUN" ;;
    *) fail "$one cannot be pulled" ;;
  esac
done < <(sed -n 's/^ *image: *//p' docker-compose.yaml | grep -v "^$image\$" | sort -u)
if docker image inspect "$(sed -n 's/^ *image: *\(grafana.*\)/\1/p' docker-compose.yaml)" >/dev/null 2>&1; then
  RSC_SMOKE_SERVICES+=" grafana"
fi
builder=golang:$(sed -n 's/^ARG GO_VERSION=//p' Dockerfile)
have "$builder" || go_stand_in "$builder"
say "base images: $((SECONDS - began)) s"

began=$SECONDS
docker build -q --build-arg VERSION="$(git describe --tags --match 'coordinator/v*' --always --dirty)" -t "$image" . >/dev/null
size=$(docker image inspect --format '{{.Size}}' "$image")
say "$image: $((size / 1000000)) MB, built in $((SECONDS - began)) s"
[ "$size" -le $((max_image_mb * 1000000)) ] || fail "the image is larger than $max_image_mb MB"

cd e2e
RSC_SMOKE=containers RSC_SMOKE_COMPOSE=$compose go test -count=1 -v -timeout 15m -run '^TestContainers$' ./smoke
