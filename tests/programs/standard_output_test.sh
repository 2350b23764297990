#!/usr/bin/env bash
# A standard output that fails is exit 1 and one line: standard_output_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"
cd "$work" || exit 1  # xor writes where it is

"$train" "${short[@]}" --epochs 1 --save m.json >/dev/null
"$tool" convert m.json -o p.json >/dev/null
full() { "$@" >/dev/full; }
# A pipe whose reader is gone before anything is written.
mkfifo pipe
closed() {
  exec 8<>pipe 9>pipe 8<&-
  local code=0
  "$@" >&9 9>&- || code=$?
  exec 9>&-
  return $code
}
none() { "$@" >&-; }

programs=(
  "$build/examples/xor"
  "$build/examples/deploy m.json d.json"
  "$build/tools/write_ops_page"
  "$train --help"
  "$train --version"
  "$train --samples 64 --layers 8 --epochs 1 --threads 1"
  "$autoencoder --samples 64 --test-samples 10 --epochs 1 --qat-epochs 1"
  "$tool --help"
  "$tool inspect m.json"
  "$tool lint m.json"
  "$tool replay m.json --data digits"
  "$tool convert m.json -o p2.json"
  "$tool verify m.json --data digits --requantization FloatMultiply"
  "$tool quantizers m.json --data digits --images 250 --no-sensitivity"
  "$tool calibrate m.json --data digits --images 250"
)
for program in "${programs[@]}"; do
  check "full: $program" exits 1 'standard output: cannot write: No space left on device' full $program
  check "closed: $program" exits 1 'standard output: cannot write: Broken pipe' closed $program
  check "none: $program" exits 1 'standard output: cannot write: Bad file descriptor' none $program
done

# Training does not depend on anyone reading.
for output in full closed none; do
  rm -f s.json
  check "$output: the run is finished" exits 1 'standard output: cannot write' $output "$train" "${short[@]}" --epochs 1 --save s.json --json r.json
  check "$output: and saved" cmp m.json s.json
  check "$output: and reported" test -s r.json
  rm -f r.json
done

# Files that cannot be written, also by root.
mkdir -p folder/xor.json
check "xor where its file is a folder" exits 1 'xor: xor.json: cannot replace: Is a directory' env -C folder "$build/examples/xor"
check "xor in a folder without files" exits 1 'xor: xor.json: cannot write: ' env -C /proc "$build/examples/xor"

finish
