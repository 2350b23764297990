#!/usr/bin/env bash
# Records of training runs and the page that shows them: report_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"

"$train" "${short[@]}" --save "$work/m.json" >/dev/null
"$build/tests/write_data" "$work"
of_data=(--input "$work/x.npy" --labels "$work/y.npy" --test-input "$work/x-test.npy" --test-labels "$work/y-test.npy" --threads 1)

"$tool" train "$work/m.json" "${of_data[@]}" --epochs 2 -o "$work/plain.json" >/dev/null
check "a run with a report" "$tool" train "$work/m.json" "${of_data[@]}" --epochs 2 --report "$work/runs/a" -o "$work/a.json" >/dev/null
check "has the same bits" same "$(sha256sum <"$work/plain.json")" "$(sha256sum <"$work/a.json")"
check "and a record" grep -q '"state":"Finished","step"' "$work/runs/a/run.json"
check "train_mlp has one" "$train" "${short[@]}" --report "$work/runs/b" >/dev/null
check "a page of one" "$tool" report "$work/runs/a" -o "$work/a.html" >/dev/null
check "a page of two" "$tool" report "$work/runs/a" "$work/runs/b" -o "$work/ab.html" >/dev/null
check "which is HTML" test "$(head -n 1 "$work/ab.html")" = '<!doctype html>'
check "with both runs" test "$(grep -o '"name":"[ab]"' "$work/ab.html" | sort | tr -d '\n')" = '"name":"a""name":"b"'
check "standard output" test "$("$tool" report "$work/runs/a" -o - | sha256sum)" = "$(sha256sum <"$work/a.html")"

# What is read is not written.
check "the page over a record" exits 2 "qtape: --output: $work/runs/a/run.json is the file to read" "$tool" report "$work/runs/a" -o "$work/runs/a/run.json"
check "numbers over data" exits 2 "qtape: --json: $work/x.npy is the file to read" "$tool" train "$work/m.json" "${of_data[@]}" --json "$work/x.npy"
check "numbers over the record to come" exits 2 "qtape: --json: $work/runs/c/run.json is already the file of --report" "$tool" train "$work/m.json" "${of_data[@]}" --report "$work/runs/c" --json "$work/runs/c/run.json"
mkdir -p "$work/runs/d" && cp -r "$work/runs/a" "$work/runs/d/a"
check "runs of one name" test "$("$tool" report "$work/runs/a" "$work/runs/d/a" -o "$work/n.html" | grep -c "^$work/runs/.*: Finished")" = 2
rm "$work/n.html"

# A killed run leaves a record that can be read.
check "killed" kill_after "$work/runs/k/run.json" "$tool" train "$work/m.json" "${of_data[@]}" --epochs 1000 --report "$work/runs/k" -o "$work/k.json"
check "its record is whole" "$tool" report "$work/runs/k" -o "$work/k.html" >/dev/null

# Wrong input and disks that are full.
check "no folder" exits 1 'none: cannot open' "$tool" report "$work/none" -o "$work/n.html"
check "a folder without a run" exits 1 "qtape: $work/runs: the folder holds no record of a run, run.json; training writes one with --report" "$tool" report "$work/runs" -o "$work/n.html"
check "no record" exits 1 'm.json: /format: expected "qtape-run"' "$tool" report "$work/m.json" -o "$work/n.html"
check "no page was written" test ! -e "$work/n.html"
check "a report that is a file" exits 1 'cannot create this folder' "$tool" train "$work/m.json" "${of_data[@]}" --report "$work/m.json"
if [ -c /dev/full ]; then
  mkdir "$work/runs/f" && ln -s /dev/full "$work/runs/f/run.json"
  check "a full disk" exits 1 'runs/f/run.json: cannot write: No space left on device' "$tool" train "$work/m.json" "${of_data[@]}" --epochs 2 --report "$work/runs/f" -o "$work/f.json"
  check "loses no model" cmp "$work/plain.json" "$work/f.json"
  check "a full disk for the page" exits 1 '/dev/full' "$tool" report "$work/runs/a" -o /dev/full
fi

finish
