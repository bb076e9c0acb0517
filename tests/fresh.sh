#!/usr/bin/env bash
# The commands of the README on a machine that has nothing: Debian's base system with Python, git and make.
#
#   tests/fresh.sh [--as user|root] [--data yes|no] [--java yes|no] [install] [demo] [dist] [test] [docs]
#
# install: the README's installation, literally. demo: make demo. dist: make dist, and each of its files installed.
# test: make test. docs: every session of README and docs. All five steps by default.
#
# --as: who types them. --data: with ../shared/data next to the clone, if it is there. --java: with Java, Maven, curl and jq,
# which the script installs from Debian's packages.
#
# With none of the three options there are two runs, which have each value once: as an ordinary user without data and with
# Java; then as root with data and without Java. An option that is left out is that of the first run.
#
# The commit HEAD is tried, in a folder that debootstrap fills: one for a machine with Java and one for a machine without, in
# FRESH_ROOT (a new folder by default; machines of an existing one are used again). A machine gets this one's resolver, its
# configuration of pip and Maven and its CA certificates, nothing else.
# debootstrap and chroot need root. Without root, an empty home and an empty cache are tried instead, and it says so.
set -euo pipefail
repository=$(cd "$(dirname "$0")/.." && pwd)

usage() {
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$repository/tests/fresh.sh"
}

step() { # runs in the clone; $1 is its name
  case $1 in
    install) # a line each: the shell goes on after a failure within a list of commands
      python3 -m venv .venv
      . .venv/bin/activate
      pip install '.[jit]'
      neardup --help >/dev/null
      neardup dedup docs/examples/news.jsonl >/dev/null
      deactivate
      rm -rf .venv ;;
    demo) make demo ;;
    dist) # without the clone, by the pip that comes with Python
      clone=$PWD
      make dist && (cd / && for file in "$clone"/dist/*; do
        python3 -m venv "$HOME/from-dist" && "$HOME/from-dist/bin/pip" install --quiet "$file[jit]" &&
          "$HOME/from-dist/bin/neardup" dedup --quiet "$clone/docs/examples/news.jsonl" | wc -l | grep -qx 3 &&
          rm -rf "$HOME/from-dist" || exit 1
      done) ;;
    test) make test ;;
    docs) # the pages' sessions, the examples, and the HTTP and Python sections of the README
      make .venv/.installed && .venv/bin/python -m pytest -n 2 tests/workers/commands/test_documents.py \
        tests/workers/http/test_service_examples.py tests/project/test_examples.py tests/project/test_wheel.py ;;
  esac
}

if [ "${FRESH_INSIDE:-}" ]; then
  cd "$FRESH_INSIDE"
  unset FRESH_INSIDE  # a test of this script starts it, too
  for name in "$@"; do
    echo "== $name, as $(id -un) in $PWD"
    step "$name"
    echo "== $name: done"
  done
  exit
fi

as=user data=no java=yes is_one_run= steps=()
while [ $# -gt 0 ]; do
  case "$1 ${2:-}" in
    "--help "*) usage; exit ;;
    "--as user" | "--as root") as=$2 is_one_run=yes; shift 2 ;;
    "--data yes" | "--data no") data=$2 is_one_run=yes; shift 2 ;;
    "--java yes" | "--java no") java=$2 is_one_run=yes; shift 2 ;;
    "install "* | "demo "* | "dist "* | "test "* | "docs "*) steps+=("$1"); shift ;;
    *) echo "tests/fresh.sh has no argument '$1${2:+ $2}'. Its arguments are:" >&2; usage >&2; exit 2 ;;
  esac
done
[ ${#steps[@]} -gt 0 ] || steps=(install demo dist test docs)

if [ "$(id -u)" != 0 ]; then
  echo "not root: no debootstrap and no chroot; an empty home and an empty cache are tried on this machine instead, without data"
  room=$(mktemp -d)
  trap 'rm -rf "$room"' EXIT
  git clone --quiet "$repository" "$room/clone"
  mkdir "$room/home"
  env -i HOME="$room/home" PATH="$PATH" LANG=C.UTF-8 FRESH_INSIDE="$room/clone" bash "$room/clone/tests/fresh.sh" "${steps[@]}"
  exit
fi

command -v debootstrap >/dev/null || { echo "debootstrap is missing: apt-get install debootstrap" >&2; exit 1; }
# Mounts live in a namespace of a child, and this process removes the folder after it: what removes never sees a mount.
# A removal through the mount of a folder of the same file system would remove the folder itself.
if [ -z "${FRESH_MOUNTS:-}" ]; then
  room=${FRESH_ROOT:-}
  if [ -z "$room" ]; then
    room=$(mktemp -d)
    trap 'rm -rf --one-file-system "$room"' EXIT
  fi
  run() { # who, data, Java
    echo "== as $1, data: $2, Java: $3"
    FRESH_MOUNTS=1 FRESH_ROOT=$room/java-$3 \
      unshare --mount --propagation private bash "$0" --as "$1" --data "$2" --java "$3" "${steps[@]}"
  }
  code=0
  run "$as" "$data" "$java" || code=$?
  [ "$is_one_run" ] || run root yes no || code=$?
  exit $code
fi
root=$FRESH_ROOT
inside() { # the environment of a new login, and the certificates
  local user=$1 home=$2 && shift 2
  chroot --userspec="$user" "$root" env -i HOME="$home" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt "$@"
}
if [ ! -x "$root/bin/bash" ]; then
  . /etc/os-release
  mkdir -p "$root"
  debootstrap --variant=minbase --include=python3,python3-venv,git,make,ca-certificates "$VERSION_CODENAME" "$root"
fi
for folder in proc dev sys; do mount --rbind "/$folder" "$root/$folder"; done
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
[ ! -f /etc/pip.conf ] || cp -L /etc/pip.conf "$root/etc/"
if [ "$java" = yes ] && [ ! -x "$root/usr/bin/mvn" ]; then
  inside root /root apt-get --quiet update
  inside root /root apt-get --quiet --yes --no-install-recommends install default-jre-headless maven curl jq
  [ ! -f /etc/ssl/certs/java/cacerts ] || cp -L /etc/ssl/certs/java/cacerts "$root/etc/ssl/certs/java/"
fi
home=/root
if [ "$as" = user ]; then
  home=/home/user
  [ -d "$root$home" ] || inside root /root useradd --create-home --shell /bin/bash user
fi
rm -rf "$root$home/clone" "$root$home/.cache" "$root$home/.m2"
mkdir -p "$root$home/.config/pip" "$root$home/.m2"
for file in .config/pip/pip.conf .pip/pip.conf; do
  [ ! -f "$HOME/$file" ] || cp -L "$HOME/$file" "$root$home/.config/pip/"
done
[ ! -f "$HOME/.m2/settings.xml" ] || cp -L "$HOME/.m2/settings.xml" "$root$home/.m2/"
git clone --quiet --no-hardlinks "$repository" "$root$home/clone"
inside root /root chown -R "$as:" "$home"
if [ "$data" = yes ] && [ ! -d "$repository/../shared" ]; then
  echo "there is no folder ../shared next to the clone: this run is without data"
elif [ "$data" = yes ]; then
  mkdir -p "$root$home/shared" && mount --bind -o ro "$repository/../shared" "$root$home/shared"
elif [ -d "$root$home/shared" ]; then
  rmdir "$root$home/shared"  # where an earlier run mounted the data
fi
inside "$as" "$home" FRESH_INSIDE="$home/clone" bash "$home/clone/tests/fresh.sh" "${steps[@]}"
