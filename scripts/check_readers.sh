#!/usr/bin/env bash
# Reads GGUF files with two independent readers and holds what they see against ours: gguf-py (header, metadata,
# tensor table, and every tensor decoded, bit for bit) and @huggingface/gguf (all but the values). Prints PASS
# or FAIL for each; docs/independent_readers.md has the results. Fetches the readers at first use (peer/peer.sh).
#
#   scripts/check_readers.sh [--bin DIR] FILE.gguf..       --bin: where our dump_tensors is, build/release/bin
#
# Exit: 0 all equal, 1 some difference, 2 a program is missing or the command line is wrong.
set -euo pipefail

root=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")
peer=$root/scripts/peer
bin=$root/build/release/bin
if [ "${1:-}" = --bin ]; then bin=${2:?--bin DIR}; shift 2; fi
[ $# -gt 0 ] || { sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2; }
[ -x "$bin/dump_tensors" ] || { echo "check_readers: no $bin/dump_tensors: make build, or give --bin" >&2; exit 2; }

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
"$peer/peer.sh" versions
failed=0
for file in "$@"; do
  name=$(basename "$file" .gguf)
  "$bin/dump_tensors" "$file" > "$tmp/ours"
  if "$peer/peer.sh" python "$peer/dump_tensors.py" "$file" > "$tmp/python"; then
    "$peer/peer.sh" python "$peer/compare_dumps.py" "$name gguf-py" "$tmp/ours" "$tmp/python" || failed=1
  else
    echo "FAIL $name gguf-py: cannot read the file"; failed=1
  fi
  if "$peer/peer.sh" node "$peer/dump_header.mjs" "$file" > "$tmp/node"; then
    "$peer/peer.sh" python "$peer/compare_dumps.py" "$name huggingface" "$tmp/ours" "$tmp/node" || failed=1
  else
    echo "FAIL $name huggingface: cannot read the file"; failed=1
  fi
done
exit $failed
