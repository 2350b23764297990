#!/usr/bin/env bash
# qtape compare, and pictures of integer programs: compare_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"
data=$(realpath "$(dirname "$0")/../data")

m=$work/m.json two=$work/two.json one=$work/one.json
"$train" "${brief[@]}" --weight-bits 8 --activation-bits 8 --data "$digits" --save "$m" >/dev/null
"$tool" convert "$m" -o "$two" --requantization DoubleRounding >/dev/null
"$tool" convert "$m" -o "$one" --requantization SingleRounding >/dev/null

check "a program and itself" "$tool" compare "$two" "$two" >"$work/out.txt"
check "on 1000 random inputs" grep -qx '1000 random inputs: A and B agree in every element of 5 nodes' "$work/out.txt"
check "a model is converted like the program" "$tool" compare "$m" "$two" --random 50 >"$work/out.txt"
check "by its requantization" grep -q "^A: $m, 6 nodes, DoubleRounding " "$work/out.txt"
check "data" "$tool" compare "$two" "$m" --data "$digits" >"$work/out.txt"
check "of all samples" grep -qx '1000 samples and 0 random inputs: A and B agree in every element of 5 nodes' "$work/out.txt"
check "data that do not fit" exits 2 "qtape: input 'left' f32[3]: no column of the data fits it" "$tool" compare "$data/two_inputs.json" "$data/two_inputs.json" --data "$digits"
check "two models" "$tool" compare "$m" "$m" --random 50 --requantization OnnxQdq >"$work/out.txt"
check "of the given requantization" grep -q '^B: .*, OnnxQdq ' "$work/out.txt"

differs() { # differs ARGUMENTS...: exit 1, with what is printed in $work/out.txt
  local code=0
  "$tool" compare "$@" >"$work/out.txt" 2>"$work/err" || code=$?
  [ "$code" = 1 ] && [ ! -s "$work/err" ]
}
check "two roundings" differs "$two" "$one" --json "$work/report.json"
check "the first layer" grep -qx 'first difference, at fc2.input.quantized: rounding DoubleRounding against SingleRounding' "$work/out.txt"
check "where it begins" grep -qE '^fc2.input.quantized +32000 +[0-9]+ +1  sample [0-9]+ index [0-9]+: -?[0-9]+ and -?[0-9]+  begins here$' "$work/out.txt"
check "layers before it" grep -qE '^fc1 +32000 +0$' "$work/out.txt"
check "layers after it" grep -qE '^fc2 .*  inherited$' "$work/out.txt"
check "its seed" differs "$two" "$one" --seed 2 --json "$work/other.json"
check "gives other inputs" test "$(field "$work/report.json" differ)" != "$(field "$work/other.json" differ)"

check "programs have their requantization" exits 2 "--requantization is that of models; $two and $one are programs" "$tool" compare "$two" "$one" --requantization OnnxQdq
"$train" --samples 64 --layers 8 --epochs 1 --weight-bits 0 --activation-bits 0 --save "$work/float.json" >/dev/null
check "a model without integers" exits 1 "qtape: $work/float.json: " "$tool" compare "$two" "$work/float.json"
check "other inputs" exits 2 "qtape: inputs differ at a batch of 16: $two has 'x' f32[16, 784], $data/two_inputs.json has 'left' f32[16, 3] and 'right' f32[16, 2]" "$tool" compare "$two" "$data/two_inputs.json"
check "one file" exits 2 'qtape: other is required' "$tool" compare "$two"
check "two inputs" "$tool" compare "$data/two_inputs.json" "$data/two_inputs.json" --random 20 >/dev/null
check "inputs without a batch" "$tool" compare "$data/unbatched.json" "$data/unbatched.json" --random 20 >/dev/null
sed 's/"bits":4,/"bits":3,/' "$data/unbatched.json" >"$work/unbatched.json"
check "of which all are random" differs "$data/unbatched.json" "$work/unbatched.json" --random 20

drawn() { "$tool" graph "$1" -o "$work/g.dot" >/dev/null && tr '\n' '|' <"$work/g.dot"; } # lines end in |
check "graph of a program: weights and scales of sums" grep -qE 'label="fc1\|Linear\|s32\[64, 32\]\|weights \[32, 784\] of 8 bits\|32 scales, [0-9.e-]+ to [0-9.e-]+"' <(drawn "$two")
check "codes and multipliers" grep -qE 'label="fc2.input.quantized\|Requantize\|u8\[64, 32\]\|8 bits, codes 0..255\|scale [0-9.e-]+, zero point 0\|32 multipliers, [0-9]+ >> [0-9]+ to [0-9]+ >> [0-9]+"' <(drawn "$two")
"$tool" convert "$m" -o "$work/f.json" >/dev/null
check "factors in f32" grep -qE '32 multipliers, [0-9.e-]+ to [0-9.e-]+"' <(drawn "$work/f.json")
check "the output is bold" grep -qE 'n5 \[penwidth=2.5\]' <(drawn "$two")

finish
