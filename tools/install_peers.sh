#!/usr/bin/env bash
# Obtains what bench/peers measures beside Tandemq: Debian's packages when root, newer ones of them beside, a current NATS server through its Go module,
# the peers' Python clients in an environment of their own, and their load tools (pgbench, redis-benchmark and `artemis perf`
# come with their servers). What cannot be had is named; its peers are left out of a run.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${1:?usage: install_peers.sh PYTHON}
nats=github.com/nats-io/nats-server/v2@v2.15.2
natscli=github.com/nats-io/natscli/nats@v0.5.1
artemis=2.40.0
perf_test=2.22.1 # RabbitMQ's
go_minor_min=26 # of Go 1.x, which that version asks for

export PATH="$PATH:/usr/sbin:/sbin"
packages=(redis-server rabbitmq-server nats-server beanstalkd postgresql strace util-linux)
programs=(redis-server /usr/lib/rabbitmq/bin/rabbitmq-server nats-server beanstalkd /usr/lib/postgresql strace setpriv)
missing=()
for place in "${!packages[@]}"; do
  program=${programs[$place]}
  [ -e "$program" ] || command -v "$program" >/dev/null || missing+=("${packages[$place]}")
done
if [ "${#missing[@]}" -gt 0 ]; then
  if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "peers: ${missing[*]} not found, and only root on Debian or Ubuntu gets them from here" >&2
    exit 1
  fi
  export DEBIAN_FRONTEND=noninteractive
  # The packages would start servers of their own on well-known ports; the benchmark starts its own elsewhere.
  policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' EXIT
  fi
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  echo "peers: installed ${missing[*]}"
fi

tools/install_newest_peers.sh

mkdir -p build/bench
if [ ! -x build/bench/venv/bin/python ]; then
  # Without ensurepip, because some distributions leave it out.
  "$python" -m venv --without-pip build/bench/venv
fi
"$python" -m pip --python build/bench/venv/bin/python install --quiet -r bench/peers/requirements.txt

if [ ! -x build/bench/bin/nats-server ] || [ ! -x build/bench/bin/nats ]; then
  if command -v go >/dev/null && [ "$(go env GOVERSION | sed -E 's/^go1\.([0-9]+).*/\1/')" -ge "$go_minor_min" ]; then
    GOBIN="$PWD/build/bench/bin" go install -trimpath "$nats"
    GOBIN="$PWD/build/bench/bin" go install -trimpath "$natscli"
  else
    echo "peers: no Go 1.$go_minor_min or newer on PATH: the current NATS server and its load tool are not built and their rows are left out" >&2
  fi
fi
if [ ! -x build/bench/artemis/bin/artemis ]; then
  if command -v mvn >/dev/null && command -v java >/dev/null; then
    mvn -q -B dependency:copy -Dartifact="org.apache.activemq:apache-artemis:$artemis:zip:bin" -DoutputDirectory="$PWD/build/bench"
    rm -rf build/bench/artemis "build/bench/apache-artemis-$artemis"
    "$python" -m zipfile -e "build/bench/apache-artemis-$artemis-bin.zip" build/bench
    chmod +x "build/bench/apache-artemis-$artemis/bin/artemis" # which Python's zipfile does not keep
    mv "build/bench/apache-artemis-$artemis" build/bench/artemis
  else
    echo "peers: no mvn and java (17 or newer) on PATH: Artemis is not there and its row is left out" >&2
  fi
fi
perf_folder=build/bench/perftest
if [ ! -e "$perf_folder/lib/perf-test-$perf_test.jar" ]; then
  if command -v mvn >/dev/null && command -v java >/dev/null; then
    rm -rf "$perf_folder"
    mkdir -p "$perf_folder"
    cat >"$perf_folder/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>bench</groupId><artifactId>perf-test-and-what-it-needs</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>com.rabbitmq</groupId><artifactId>perf-test</artifactId><version>$perf_test</version></dependency>
  </dependencies>
</project>
POM
    mvn -q -B -f "$perf_folder/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$PWD/$perf_folder/lib"
  else
    echo "peers: no mvn and java (17 or newer) on PATH: RabbitMQ's PerfTest is not there and its rows of bench-native are left out" >&2
  fi
fi
echo "peers: ready; make bench-quick, make bench-peers"
