#!/usr/bin/env bash
# Post-training quantization of a float model, and reports of it: calibrate_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"

"$train" "${short[@]}" --weight-bits 0 --activation-bits 0 --save "$work/f.json" >/dev/null
check "calibrate tries every observer" test "$("$tool" calibrate "$work/f.json" --data "$digits" --images 500 --observer all | grep -cE ' %(, answers differ by [0-9.]* of their standard deviation)?$')" = 11
"$tool" calibrate "$work/f.json" --data "$digits" --images 500 --observer Mse --save "$work/q.json" >"$work/mse.txt"
check "calibrate says what each quantizer got" grep -q 'fc1.input.quantized .*Mse .*zero point' "$work/mse.txt"
accuracy=$(sed -n 's/^Mse *\(.*\) %,.*/\1/p' "$work/mse.txt")
check "the saved model replays to the accuracy" grep -q "accuracy $accuracy %" <("$tool" replay "$work/q.json" --data "$digits")
"$tool" quantizers "$work/q.json" --data "$digits" --json "$work/q.txt" >"$work/quantizers.txt"
check "quantizers prints a row for each, twice" test "$(grep -c '^fc2.weight.quantized' "$work/quantizers.txt")" = 2
check "quantizers writes JSON" grep -q '"only_off"' "$work/q.txt"
check "lint finds nothing in a calibrated model" grep -qx ok <("$tool" lint "$work/q.json")
check "lint refuses a float model" same 'error: model: has no quantizers; train it with them, or insert and calibrate them, exit 1' "$("$tool" lint "$work/f.json"), exit $("$tool" lint "$work/f.json" >/dev/null; echo $?)"
check "an unknown observer" exits 2 'MovingAverage' "$tool" calibrate "$work/f.json" --observer Mean
check "of weights, too" exits 2 'MovingAverage' "$tool" calibrate "$work/f.json" --weight-observer mse2
check "before a file is read" exits 2 'mse2' "$tool" calibrate "$work/none.json" --observer mse2
check "a float model has none to report on" exits 1 "f.json: the model has no quantizers: train it with them, or insert and calibrate them" "$tool" quantizers "$work/f.json"
check "--output needs one observer" exits 2 '--output needs one observer' "$tool" calibrate "$work/f.json" --observer all --save "$work/x.json"
check "nothing is written then" test ! -e "$work/x.json"

"$train" "${short[@]}" --weight-bits 0 --activation-bits 8 --save "$work/p.json" >/dev/null
check "weights without quantizers" exits 1 "2 nodes would have no integer form: MatMul %4: Parameter %1 'fc1.weight' is not quantized: quantize its output; " "$tool" calibrate "$work/p.json" --data "$digits"
check "are named by convert" exits 1 'is not quantized: quantize its output; qtape calibrate --complete adds quantizers that are missing' "$tool" convert "$work/p.json" -o "$work/x.json"
check "are named by train, too" exits 1 'qtape calibrate --complete adds quantizers' "$tool" train "$work/p.json" --data "$digits" -o "$work/x.json"
check "--complete" "$tool" calibrate "$work/p.json" --data "$digits" --complete --observer search -o "$work/c.json" >"$work/complete.txt"
check "adds those of the weights alone" same 'fc1.weight.quantized fc2.weight.quantized' "$(sed -n 's/^  \(fc[^ ]*\) .*/\1/p' "$work/complete.txt" | xargs)"
check "keeps the scales of the others" same "$(grep '^"fc1.input' "$work/p.json")" "$(grep '^"fc1.input' "$work/c.json")"
check "the model converts" "$tool" convert "$work/c.json" -o "$work/c.int.json" >/dev/null
check "--complete of a complete model" exits 2 "--complete: $work/c.json lacks no quantizers" "$tool" calibrate "$work/c.json" --data "$digits" --complete
check "--complete of a float model" exits 2 "--complete: $work/f.json has no quantizers" "$tool" calibrate "$work/f.json" --data "$digits" --complete

zeros() { # zeros FILE SHAPE BYTES
  printf '\x93NUMPY\x01\x00v\x00%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': ($2), }" >"$1"
  head -c "$3" /dev/zero >>"$1"
}
zeros "$work/x.npy" '3, 784' 9408
zeros "$work/floats.npy" '3,' 12
for command in replay verify calibrate quantizers; do
  check "$command: floats are no labels" exits 2 "--labels: $work/floats.npy has f32[] for each sample, expected one integer, or the values of an answer, 'fc2' f32[10], or an integer for each of its places" "$tool" $command "$work/q.json" --input "$work/x.npy" --labels "$work/floats.npy"
done

finish
