#!/usr/bin/env bash
# Program files that are refused: of other models, other requantizations, changed by hand:
# program_files_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"

for model in mlp residual; do
  "$train" --samples 64 --layers 16,16 --epochs 1 --weight-bits 4 --activation-bits 4 --model $model --save "$work/i-$model.json" >/dev/null
  "$tool" convert "$work/i-$model.json" -o "$work/$model.int.json" >/dev/null
done
verify_mlp=("$tool" verify "$work/i-mlp.json" --data "$digits" --requantization FloatMultiply --program)
check "a program of another model" exits 1 "residual.int.json: differs from the conversion of the model: " "${verify_mlp[@]}" "$work/residual.int.json"
check "a program of another requantization" exits 1 'has requantization FloatMultiply, but OnnxQdq is verified' "$tool" verify "$work/i-mlp.json" --data "$digits" --requantization OnnxQdq --program "$work/mlp.int.json"
tamper() { # tamper OUTPUT SED-COMMAND: the program with one change
  sed "$2" "$work/mlp.int.json" >"$work/$1"
  ! cmp -s "$work/$1" "$work/mlp.int.json"
}
check "one character of the weights" tamper weights.json '/"label":"fc1"/s/\("codes":{[^}]*"data":"..\)[^A]/\1A/'
check "changed weights are refused" exits 1 'weight' "${verify_mlp[@]}" "$work/weights.json"
check "one bound of a certificate" tamper bound.json '/"label":"fc1"/s/"accumulator_bound":/"accumulator_bound":1/'
check "a false certificate is refused" exits 1 'the certificate does not hold: accumulator_bound is 1' "${verify_mlp[@]}" "$work/bound.json"
check "a program is no model" exits 1 'mlp.int.json' "$tool" convert "$work/mlp.int.json" -o "$work/x.json"
check "convert to an unknown requantization" exits 2 '--requantization: expected one of FloatMultiply, SingleRounding, DoubleRounding, OnnxQdq, got Half' "$tool" convert "$work/i-mlp.json" -o "$work/x.json" --requantization Half
check "verify an unknown requantization" exits 2 '--requantization: expected one of FloatMultiply, SingleRounding, DoubleRounding, OnnxQdq, all, got Half' "$tool" verify "$work/i-mlp.json" --data "$digits" --requantization Half
check "a program needs one requantization" exits 2 '--program needs one --requantization' "$tool" verify "$work/i-mlp.json" --data "$digits" --program "$work/mlp.int.json"

finish
