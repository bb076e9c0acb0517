#!/usr/bin/env bash
# The commands of the README on a machine that has nothing: Debian's base system with Python, git and make.
#
#   tests/fresh.sh [install] [demo] [test] [docs]     all four steps by default
#
# install: the README's installation, literally. demo: make demo. test: make test. docs: every session of README and docs.
# The commit HEAD is tried, in a folder that debootstrap fills (FRESH_ROOT, a new one by default; an existing one is used
# again). The folder gets this machine's resolver, its configuration of pip and its CA certificates, nothing else.
# debootstrap and chroot need root. Without root, an empty home and an empty cache are tried instead, and it says so.
set -euo pipefail
repository=$(cd "$(dirname "$0")/.." && pwd)
steps=${*:-install demo test docs}

if [ "${1:-}" = --help ]; then
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"
  exit
fi

step() { # runs in the clone; $1 is its name
  case $1 in
    install) python3 -m venv .venv && . .venv/bin/activate && pip install . && neardup --help >/dev/null &&
             neardup dedup docs/examples/news.jsonl >/dev/null; deactivate; rm -rf .venv ;;
    demo) make demo ;;
    test) make test ;;
    docs) # the pages' sessions, the examples, and the HTTP and Python sections of the README
      make .venv/.installed && .venv/bin/python -m pytest -n 2 tests/workers/commands/test_documents.py \
        tests/workers/http/test_service_examples.py tests/project/test_examples.py tests/project/test_wheel.py ;;
    *) echo "no step $1: install, demo, test or docs" >&2; return 2 ;;
  esac
}

if [ "${FRESH_INSIDE:-}" ]; then
  cd "$FRESH_INSIDE"
  for name in $steps; do
    echo "== $name"
    step "$name"
    echo "== $name: done"
  done
  exit
fi

if [ "$(id -u)" != 0 ]; then
  echo "not root: no debootstrap and no chroot; an empty home and an empty cache are tried on this machine instead"
  room=$(mktemp -d)
  trap 'rm -rf "$room"' EXIT
  git clone --quiet "$repository" "$room/clone"
  mkdir "$room/home"
  env -i HOME="$room/home" PATH="$PATH" LANG=C.UTF-8 FRESH_INSIDE="$room/clone" bash "$room/clone/tests/fresh.sh" $steps
  exit
fi

command -v debootstrap >/dev/null || { echo "debootstrap is missing: apt-get install debootstrap" >&2; exit 1; }
# Mounts live in a namespace of a child, and this process removes the folder after it: what removes never sees a mount.
# A removal through the mount of a folder of the same file system would remove the folder itself.
if [ -z "${FRESH_MOUNTS:-}" ]; then
  root=${FRESH_ROOT:-}
  if [ -z "$root" ]; then
    root=$(mktemp -d)
    trap 'rm -rf --one-file-system "$root"' EXIT
  fi
  FRESH_MOUNTS=1 FRESH_ROOT=$root unshare --mount --propagation private bash "$0" $steps
  exit
fi
root=$FRESH_ROOT
if [ ! -x "$root/bin/bash" ]; then
  . /etc/os-release
  debootstrap --variant=minbase --include=python3,python3-venv,git,make,ca-certificates "$VERSION_CODENAME" "$root"
fi
for folder in proc dev sys; do mount --rbind "/$folder" "$root/$folder"; done
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
[ ! -f /etc/pip.conf ] || cp -L /etc/pip.conf "$root/etc/"
mkdir -p "$root/root/.config/pip"
for file in "$HOME/.config/pip/pip.conf" "$HOME/.pip/pip.conf"; do
  [ ! -f "$file" ] || cp -L "$file" "$root/root/.config/pip/"
done
rm -rf "$root/root/clone" "$root/root/.cache"
git clone --quiet --no-hardlinks "$repository" "$root/root/clone"
[ ! -d "$repository/../shared" ] || { mkdir -p "$root/root/shared" && mount --bind -o ro "$repository/../shared" "$root/root/shared"; }
chroot "$root" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
  SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt FRESH_INSIDE=/root/clone bash /root/clone/tests/fresh.sh $steps
