#!/usr/bin/env bash
# Builds a Debian package of the command, with units for systemd.
#
#     packaging/build-deb.sh                    builds the release first
#     packaging/build-deb.sh target/x/tidemill  packs this command
#     OUT=/tmp packaging/build-deb.sh           where the package goes; by default target/
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
binary=${1:-$target/release/tidemill}
out=${OUT:-$target}
if [ $# = 0 ]; then
    cargo build --release --locked -p tidemill-cli
fi
[ -x "$binary" ] || { echo "there is no command at '$binary'; build it, or give its path" >&2; exit 2; }

version=$("$binary" --version | awk '{ print $2 }')
architecture=$(dpkg --print-architecture)
staging=$(mktemp -d)
trap 'rm -rf "$staging"' EXIT
# mktemp makes it readable for its owner only, and the package would keep that for the root folder.
chmod 755 "$staging"

install -D -m 755 "$binary" "$staging/usr/bin/tidemill"
# A build with its symbols would be several times as large.
strip --strip-unneeded "$staging/usr/bin/tidemill" 2>/dev/null || true
install -D -m 644 packaging/tidemill.service "$staging/usr/lib/systemd/system/tidemill.service"
install -D -m 644 packaging/tidemill@.service "$staging/usr/lib/systemd/system/tidemill@.service"
install -D -m 644 packaging/copyright "$staging/usr/share/doc/tidemill/copyright"
install -D -m 644 README.md "$staging/usr/share/doc/tidemill/README.md"
gzip -9 -n -c CHANGELOG.md >"$staging/usr/share/doc/tidemill/changelog.gz"
install -d -m 755 "$staging/etc/tidemill"

# The libraries that the command names, as packages.
depends() {
    if command -v dpkg-shlibdeps >/dev/null; then
        local folder found
        folder=$(mktemp -d)
        mkdir "$folder/debian"
        printf 'Source: tidemill\n\nPackage: tidemill\nArchitecture: any\nDescription: x\n' >"$folder/debian/control"
        found=$(cd "$folder" && dpkg-shlibdeps -O "$staging/usr/bin/tidemill" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
        rm -rf "$folder"
        [ -n "$found" ] && { echo "$found"; return; }
    fi
    echo "libc6, libgcc-s1"
}

install -d -m 755 "$staging/DEBIAN"
cat >"$staging/DEBIAN/control" <<CONTROL
Package: tidemill
Version: $version
Architecture: $architecture
Section: database
Priority: optional
Maintainer: The Tidemill authors <tidemill@localhost>
Installed-Size: $(du -sk --exclude=DEBIAN "$staging" | cut -f1)
Depends: $(depends)
Description: stream processor: continuous queries in SQL
 Tidemill runs continuous queries over files, sockets, HTTP and generators, and
 writes the results to files, sockets and PostgreSQL. Everything moves in cycles,
 which are computed and committed as a whole.
CONTROL
cat >"$staging/DEBIAN/postinst" <<'POSTINST'
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
POSTINST
cp "$staging/DEBIAN/postinst" "$staging/DEBIAN/postrm"
# Services end before the command goes.
cat >"$staging/DEBIAN/prerm" <<'PRERM'
#!/bin/sh
set -e
if [ -d /run/systemd/system ] && [ "$1" = remove ]; then
    systemctl stop tidemill.service 'tidemill@*.service' || true
fi
PRERM
chmod 755 "$staging"/DEBIAN/p*

mkdir -p "$out"
package="$out/tidemill_${version}_$architecture.deb"
dpkg-deb --root-owner-group --build "$staging" "$package" >/dev/null
echo "$package"
