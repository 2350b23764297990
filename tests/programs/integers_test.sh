#!/usr/bin/env bash
# Integer programs: each model converts, and every level of arithmetic agrees:
# integers_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"

for model in mlp residual concat; do
  "$train" --samples 320 --layers 16,16 --epochs 1 --weight-bits 4 --activation-bits 4 --model $model --save "$work/i-$model.json" >/dev/null
  check "$model: converts" "$tool" convert "$work/i-$model.json" -o "$work/$model.int.json" >"$work/convert.txt"
  check "$model: convert prints certificates" grep -q 'proven: accumulators [0-9]* of 2147483647' "$work/convert.txt"
  check "$model: and no nodes" same 0 "$(grep -c '^%' "$work/convert.txt")"
  check "$model: which --verbose does" test "$("$tool" convert "$work/i-$model.json" -o "$work/x.json" --verbose | grep -c '^%')" -ge 5
  check "$model: verify exits 0" "$tool" verify "$work/i-$model.json" --data "$digits" --requantization FloatMultiply --program "$work/$model.int.json" --random 100 >"$work/verify.txt"
  check "$model: says so" grep -qx 'L1, L2 and L3 agree in every integer and every output' "$work/verify.txt"
  check "$model: outputs of integers apart from floats" grep -qxE 'outputs, f32: 0 differ between L1, L2 and L3; [0-9]+ differ in L0, which sums floats' "$work/verify.txt"
  check "$model: nothing differs" grep -qF '1000 samples and 100 random inputs: 0 mismatches between L1, L2 and L3' "$work/verify.txt"
done
"$train" --samples 320 --layers 16,16 --epochs 1 --weight-bits 2 --activation-bits 2 --exact DoubleRounding --save "$work/exact.json" --json "$work/exact-r.json" >/dev/null
check "training in exact arithmetic" grep -q '"exact": "DoubleRounding"' "$work/exact-r.json"
check "what it trained is what ships" "$tool" verify "$work/exact.json" --data "$digits" --requantization DoubleRounding --random 100 >/dev/null
check "verify takes every requantization" test "$("$tool" verify "$work/i-mlp.json" --data "$digits" | grep -c ': 0 mismatches between')" = 4

finish
