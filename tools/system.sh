#!/bin/sh
# Installs what the tests need and Python can't bring: Chromium, a monospaced font, PostgreSQL's server.
set -u
shell=chromium-headless-shell # draws no window around a page, which costs a quarter of the time; where there is none, any other does
wished="" missing=""
has() { command -v "$1" >/dev/null; }
has chromium || has chromium-browser || has google-chrome || missing="chromium"
has fc-list && fc-list 2>/dev/null | grep -qi 'dejavu.*mono' || missing="$missing fontconfig fonts-dejavu-core"
has initdb || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
if ! has $shell; then # that it can be had is known beforehand, or comes to light where something is installed anyway
    if [ -n "$missing" ] || apt-cache show $shell >/dev/null 2>&1; then wished=$shell; fi
fi
[ -z "$wished$missing" ] && exit 0
sudo=""
[ "$(id -u)" = 0 ] || sudo="sudo -n"
if has apt-get && { [ -z "$sudo" ] || $sudo true 2>/dev/null; }; then
    echo "Installing with apt-get: $wished $missing"
    $sudo apt-get update -qq >/dev/null
    # shellcheck disable=SC2086  # a list of words is meant, or none
    [ -z "$wished" ] || DEBIAN_FRONTEND=noninteractive timeout 120 $sudo apt-get install -y -qq --no-install-recommends $wished >/dev/null 2>&1
    # shellcheck disable=SC2086
    [ -z "$missing" ] || DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null && exit 0
fi
[ -z "$missing" ] && exit 0
echo "Please install:$missing (the tests drive a headless Chromium and a PostgreSQL server), then run make test again." >&2
exit 1
