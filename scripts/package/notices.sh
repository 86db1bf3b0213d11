#!/usr/bin/env bash
# Prints the licence of each crate that the program is linked with: its name, its texts and its notices. deny.toml says which
# licences may be there at all.
set -euo pipefail
cd "$(dirname "$0")/../.."

# The crates in the program, without those that only build or test it.
linked=$(cargo tree --locked --package pmdns --edges normal --prefix none --format '{p}' | sed 's/ (.*//; s/ v/ /' | sort -u)
echo "pmdns is linked with the crates below. Each has the licence that stands behind its name; its texts follow."
declare -A printed=()
while IFS=$'\t' read -r name version licence manifest; do
    grep -qx "$name $version" <<< "$linked" || continue
    printf '\n%s\n%s %s: %s\n' "$(printf '=%.0s' {1..80})" "$name" "$version" "$licence"
    while IFS= read -r -d '' text; do
        digest=$(sha256sum < "$text")
        printf '\n--- %s\n\n' "$(basename "$text")"
        if [[ -n ${printed[$digest]-} ]]; then
            echo "The same text as ${printed[$digest]}."
        else
            printed[$digest]="$(basename "$text") of $name $version"
            cat "$text"
        fi
    done < <(find "$(dirname "$manifest")" -maxdepth 1 -type f \
        \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' -o -iname 'copyright*' \) -print0 | sort -z)
done < <(cargo metadata --locked --format-version 1 |
    jq -r '.packages[] | select(.source) | [.name, .version, .license // "see its text", .manifest_path] | @tsv')
