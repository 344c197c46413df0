#!/bin/sh
# Installs what the tests need and Python can't bring: Chromium, a monospaced font, PostgreSQL's server.
set -u
wished="" missing=""
command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || missing="chromium"
command -v fc-list >/dev/null && fc-list 2>/dev/null | grep -qi 'dejavu.*mono' || missing="$missing fontconfig fonts-dejavu-core"
command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
# a Chromium that draws no window costs a page a quarter of the time; where none is to be had, any other does
command -v chromium-headless-shell >/dev/null || { [ -z "$missing" ] && ! apt-cache show chromium-headless-shell >/dev/null 2>&1; } || wished="chromium-headless-shell"
[ -z "$wished$missing" ] && exit 0
sudo=""
[ "$(id -u)" = 0 ] || sudo="sudo -n"
if command -v apt-get >/dev/null && { [ -z "$sudo" ] || $sudo true 2>/dev/null; }; then
    echo "Installing with apt-get:$missing $wished"
    timeout 120 $sudo apt-get update -qq >/dev/null
    [ -z "$wished" ] || DEBIAN_FRONTEND=noninteractive timeout 120 $sudo apt-get install -y -qq --no-install-recommends $wished >/dev/null 2>&1
    [ -z "$missing" ] && exit 0
    # shellcheck disable=SC2086  # a list of words is meant
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null && exit 0
fi
[ -z "$missing" ] && exit 0
echo "Please install:$missing (the tests drive a headless Chromium and a PostgreSQL server), then run make test again." >&2
exit 1
