#!/usr/bin/env bash
# Output paths: tried before the work, rescued after it: output_files_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"
export TMPDIR=$work/tmp
mkdir "$TMPDIR" "$work/folder" "$work/clean"

# Before the first step: nothing is printed and nothing left behind.
refuses() { # refuses TEXT COMMAND...
  exits 1 "$@" && [ ! -s "$work/out" ] && [ -z "$(find "$work/clean" "$work/folder" "$TMPDIR" -mindepth 1)" ]
}
for option in --save --checkpoint --json; do
  check "$option in a missing folder" refuses "$option: $work/no/x.json: cannot write: No such file or directory" "$train" "${short[@]}" $option "$work/no/x.json"
  check "$option is a folder" refuses "$option: $work/folder: cannot write: Is a directory" "$train" "${short[@]}" $option "$work/folder"
done
for option in --save --save-float --save-calibrated --save-program --json; do
  check "train_autoencoder $option in a missing folder" refuses "$option: $work/no/x.json: cannot write: No such file or directory" "$autoencoder" --epochs 1000 $option "$work/no/x.json"
done
check "a later path fails" refuses "--json: $work/no/r.json: cannot write" "$train" "${short[@]}" --save "$work/clean/m.json" --checkpoint "$work/clean/c.json" --json "$work/no/r.json"
check "two options of one file" exits 2 "--json: $work/clean/../clean/m.json is already the file of --save" "$train" "${short[@]}" --save "$work/clean/m.json" --json "$work/clean/../clean/m.json"
"$train" "${short[@]}" --epochs 1 --checkpoint "$work/c.json" >/dev/null
check "a model over generated data" exits 2 "--save-data: $work/clean/d/train-images-idx3-ubyte is already the file of --save" bash -c 'mkdir "$1/d" && shift && exec "$@"' - "$work/clean" "$train" "${short[@]}" --save "$work/clean/d/train-images-idx3-ubyte" --save-data "$work/clean/d"
rm -r "$work/clean/d"
check "a report in a folder that is a file to write" exits 2 "--report: $work/clean/m.json is already the file of --save" "$train" "${short[@]}" --save "$work/clean/m.json" --report "$work/clean/m.json"
check "which is not made" test ! -e "$work/clean/m.json"
check "a model over the checkpoint that goes on" exits 2 "--checkpoint: $work/c.json is already the file of --save" "$train" --resume "$work/c.json" --save "$work/c.json"

# Data and teachers are not overwritten; the model may be.
"$train" "${short[@]}" --epochs 1 --save "$work/m.json" >/dev/null
mkdir "$work/mine" && cp "$digits"/*ubyte "$digits"/x.npy "$digits"/y.npy "$work/mine"
arrays=(--input "$work/mine/x.npy" --labels "$work/mine/y.npy")
check "answers over the inputs" exits 2 "--output: $work/mine/x.npy is the file to read" "$tool" replay "$work/m.json" "${arrays[@]}" -o "$work/mine/x.npy"
check "a model over the labels" exits 2 "--output: $work/mine/y.npy is the file to read" "$tool" calibrate "$work/m.json" "${arrays[@]}" -o "$work/mine/y.npy"
for option in --output --checkpoint; do
  check "$option over the teacher" exits 2 "$option: $work/m.json is the file to read" "$tool" train "$work/c.json" "${arrays[@]}" --teacher "$work/m.json" $option "$work/m.json"
  check "$option over the inputs" exits 2 "$option: $work/mine/x.npy is the file to read" "$tool" train "$work/c.json" "${arrays[@]}" $option "$work/mine/x.npy"
done
check "found bits over the inputs" exits 2 "--output: $work/mine/x.npy is the file to read" "$tool" search "$work/m.json" --budget 100000 "${arrays[@]}" -o "$work/mine/x.npy"
check "a model over the images" exits 2 "--save: $work/mine/train-images-idx3-ubyte is the file to read" "$train" --data "$work/mine" --save "$work/mine/train-images-idx3-ubyte"
unchanged() {
  local file
  for file in "$work"/mine/*; do cmp "$file" "$digits/${file##*/}" || return 1; done
}
check "nothing of them changed" unchanged
check "a file beside the images" "$train" --data "$work/mine" --layers 4 --epochs 1 --threads 1 --save "$work/mine/new.json" >/dev/null
check "again" "$train" --data "$work/mine" --layers 4 --epochs 1 --threads 1 --save "$work/mine/new.json" >/dev/null
check "standard output is no model" exits 2 '--save: expected a file, got -' "$train" "${short[@]}" --save -
check "an empty path" exits 2 '--save: expected a value, got an empty one' "$train" "${short[@]}" --save ""

# At the end: a device that is full only then.
check "a save that fails at the end" exits 1 "/dev/full: cannot write: No space left on device; saved as $TMPDIR/qtape-" "$train" "${short[@]}" --save /dev/full --json "$work/r.json"
check "the report is written all the same" test -s "$work/r.json"
rescued=$(sed -n 's/.* saved as \(.*\) instead$/\1/p' "$work/err")
check "the weights are in the file that the error names" same "$(field "$work/r.json" outputs_sha256)" "$(replayed "$rescued")"
check "a report that fails at the end" exits 1 "/dev/full: cannot write: No space left on device; saved as $TMPDIR/qtape-" "$train" "${short[@]}" --save "$work/m.json" --json /dev/full
check "the model is saved all the same" same "$(field "$work/r.json" outputs_sha256)" "$(replayed "$work/m.json")"
without_temporary() { (export TMPDIR=/proc; "$train" "${short[@]}" --save /dev/full); }
check "no temporary file either" exits 1 "/dev/full: cannot write: No space left on device; and " without_temporary
check "several saves that fail" exits 1 "/dev/full: cannot write: No space left on device; saved as" "$autoencoder" --samples 64 --test-samples 10 --epochs 1 --qat-epochs 1 --save /dev/full --save-float /dev/full --json "$work/a.json"
check "each is named" test "$(grep -o 'saved as' "$work/err" | wc -l)" = 2
check "the autoencoder's report is written all the same" test -s "$work/a.json"

# Standard output as a file.
"$train" "${short[@]}" --json - >"$work/stdout.json" 2>"$work/stderr.txt"
check "--json -: nothing else on standard output" diff <(grep -v step_us "$work/stdout.json") <(grep -v step_us "$work/r.json")
check "--json -: what is printed goes to standard error" test "$(grep -c '^epoch' "$work/stderr.txt")" = 2
"$tool" convert "$work/m.json" -o "$work/p.json" >/dev/null
"$tool" convert "$work/m.json" -o - 2>/dev/null | cmp - "$work/p.json"
check "convert -o - writes the program alone" test "${PIPESTATUS[*]}" = "0 0"
"$tool" quantizers "$work/m.json" --data "$digits" --images 250 --no-sensitivity --json - 2>/dev/null >"$work/q.json"
check "quantizers --json - writes JSON alone" grep -qx '{' <(head -n 1 "$work/q.json")
json_full() {
  local code=0
  "$train" "${short[@]}" --json - >/dev/full 2>"$work/messages" || code=$?
  tail -n 1 "$work/messages" >&2
  return $code
}
check "--json - on a full device" exits 1 'train_mlp: standard output: cannot write: No space left on device; saved as' json_full

finish
