#!/usr/bin/env bash
# The small examples: examples_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"

write_digits
(cd "$work" && "$build/examples/digits" . >digits.txt)
check "digits trains, saves, loads and converts" test "$(tail -n 1 "$work/digits.txt")" = '0 mismatches'
check "it learns" awk '/% right/ { exit !($1 > 75) }' "$work/digits.txt"
check "its program is what its model converts to" "$tool" verify "$work/digits.json" --data "$work" --requantization SingleRounding --program "$work/digits-integers.json" >/dev/null
check "digits needs data" exits 1 'digits: data/mnist/train-images-idx3-ubyte: not found, neither plain nor with .gz' "$build/examples/digits"

(cd "$work" && "$build/examples/arrays" x.npy y.npy arrays.json >arrays.txt)
check "arrays trains and converts" test "$(tail -n 1 "$work/arrays.txt")" = '0 mismatches'
check "the tool reads the same files" "$tool" verify "$work/arrays.json" --input "$work/x-test.npy" --labels "$work/y-test.npy" --requantization SingleRounding >"$work/verify.txt"
check "and counts what is right" awk '/^L3 backend: accuracy/ { exit !($4 > 75) }' "$work/verify.txt"
check "arrays says how it is called" exits 2 'arrays: usage: arrays INPUTS LABELS MODEL' "$build/examples/arrays"
check "labels alone" exits 2 'qtape: --labels needs --input' "$tool" verify "$work/arrays.json" --labels "$work/y.npy"
check "two kinds of data" exits 2 'qtape: --input: --data is already given' "$tool" verify "$work/arrays.json" --data "$work" --input "$work/x.npy"

(cd "$work" && "$build/examples/xor" >xor.txt)
check "xor learns" awk 'NR==1||NR==4{ok+=($1<0.2)} NR==2||NR==3{ok+=($1>0.8)} END{exit ok!=4}' "$work/xor.txt"
check "its network converts and verifies" "$tool" verify "$work/xor.json" --random 500 >/dev/null

"$train" --samples 320 --layers 16,16 --epochs 1 --weight-bits 4 --activation-bits 4 --save "$work/m.json" >/dev/null
"$tool" convert "$work/m.json" -o "$work/m.int.json" >/dev/null
"$build/examples/deploy" "$work/m.json" "$work/d.json" >"$work/deploy.txt"
check "the deploy example runs its program" test "$(grep -cE '^-?[0-9.]+' "$work/deploy.txt")" = 10
check "it writes what convert writes" cmp "$work/d.json" "$work/m.int.json"
check "it names errors" exits 1 "$work/none.json: cannot open" "$build/examples/deploy" "$work/none.json" "$work/d.json"

finish
