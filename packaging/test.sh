#!/usr/bin/env bash
# Packs a command and tests the package: what is in it, whether the command runs from it, and whether systemd can read the
# units.
#
#     packaging/test.sh target/debug/tidemill
set -euo pipefail
cd "$(dirname "$0")/.."
binary=$(realpath "${1:?give the path of a tidemill command}")
if ! command -v dpkg-deb >/dev/null; then
    echo "skipped: this is no Debian"
    exit 0
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

package=$(OUT="$folder" packaging/build-deb.sh "$binary")
dpkg-deb --info "$package" | sed -n '/^ Package/,/^ Depends/p'
for path in ./usr/bin/tidemill ./usr/lib/systemd/system/tidemill.service ./usr/lib/systemd/system/tidemill@.service \
    ./usr/share/doc/tidemill/copyright; do
    dpkg-deb --contents "$package" | awk -v path="$path" '$6 == path && $2 == "root/root" { found = 1 } END { exit !found }' ||
        { echo "$path is not in the package" >&2; exit 1; }
done
dpkg-deb -x "$package" "$folder/root"
answer=$("$folder/root/usr/bin/tidemill" sql --format csv -c 'SELECT 6 * 7 AS answer')
[ "$answer" = $'answer\n42' ] || { echo "the packed command answers: $answer" >&2; exit 1; }

if command -v systemd-analyze >/dev/null; then
    # It wants the command that a unit starts.
    for unit in tidemill.service tidemill@.service; do
        sed "s|/usr/bin/tidemill|$folder/root/usr/bin/tidemill|" "packaging/$unit" >"$folder/$unit"
    done
    cp "$folder/tidemill@.service" "$folder/tidemill@clicks.service"
    systemd-analyze verify --man=no "$folder/tidemill.service" "$folder/tidemill@clicks.service"
fi
echo "the package is right: $(du -h "$package" | cut -f1)"
