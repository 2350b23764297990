#!/usr/bin/env bash
# Post-training quantization of a float model, and reports of it: calibrate_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"

"$train" "${short[@]}" --weight-bits 0 --activation-bits 0 --save "$work/f.json" >/dev/null
check "calibrate tries every observer" test "$("$tool" calibrate "$work/f.json" --data "$digits" --images 500 --observer all | grep -c ' %$')" = 11
"$tool" calibrate "$work/f.json" --data "$digits" --images 500 --observer Mse --save "$work/q.json" >"$work/mse.txt"
check "calibrate says what each quantizer got" grep -q 'fc1.input.quantized .*Mse .*zero point' "$work/mse.txt"
accuracy=$(sed -n 's/^Mse *\(.*\) %$/\1/p' "$work/mse.txt")
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
check "a float model does not convert" exits 1 'the model has no quantizers: train it with them' "$tool" convert "$work/f.json" -o "$work/x.json"
check "nothing is written then" test ! -e "$work/x.json"

finish
