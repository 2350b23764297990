#!/usr/bin/env bash
# Data and weights as files of arrays: weights_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"

"$build/tests/write_data" "$work"
"$build/tests/write_lenet" "$work/lenet.onnx"
"$tool" import "$work/lenet.onnx" -o "$work/lenet.json" >/dev/null
"$tool" calibrate "$work/lenet.json" --input "$work/x.npy" -o "$work/w8a8.json" >/dev/null

# Weights out and in.
for kind in npz safetensors; do
  check "weights out as $kind" "$tool" weights "$work/w8a8.json" -o "$work/w.$kind" >"$work/out.txt"
  check "$kind: it says how many" grep -qx "$(grep -c . <("$tool" inspect "$work/w8a8.json" | grep -E '(Parameter|State) ')) arrays, [0-9]* numbers" "$work/out.txt"
  check "weights in from $kind" "$tool" weights "$work/w8a8.json" --from "$work/w.$kind" -o "$work/again.json" >"$work/in.txt"
  check "$kind: all are taken over" grep -q ' replaced, 0 kept$' "$work/in.txt"
  check "$kind: the model is the same" cmp "$work/w8a8.json" "$work/again.json"
  "$tool" weights "$work/w8a8.json" -o "$work/second.$kind" >/dev/null
  check "$kind: the same bytes" cmp "$work/w.$kind" "$work/second.$kind"
done
"$tool" weights "$work/lenet.json" -o "$work/float.npz" >/dev/null
check "some weights in" "$tool" weights "$work/w8a8.json" --from "$work/float.npz" -o "$work/some.json" >"$work/some.txt"
check "the others are kept" grep -qx '8 of [0-9]* parameters and states replaced, [1-9][0-9]* kept' "$work/some.txt"

# Data and answers.
data=(--input "$work/digits.npz:x-test" --labels "$work/digits.npz:y-test")
check "inputs of an archive" test "$("$tool" replay "$work/w8a8.json" "${data[@]}")" = "$("$tool" replay "$work/w8a8.json" --input "$work/x-test.npy" --labels "$work/y-test.npy")"
for kind in npy npz safetensors; do
  check "answers as $kind" "$tool" replay "$work/w8a8.json" "${data[@]}" -o "$work/answers.$kind" >/dev/null
done
check "answers have one array" exits 2 "input 'x' f32[28, 28, 1]: column x has f32[10] per sample" "$tool" replay "$work/w8a8.json" --input "$work/answers.npz"

# Wrong input.
check "the array with the name of the input" "$tool" replay "$work/w8a8.json" --input "$work/digits.npz" >/dev/null
check "no such array" exits 2 "no array is named 'x-tset', expected one of 'x', 'y', 'x-test', 'y-test'; the nearest are 'x-test', 'y-test'" "$tool" replay "$work/w8a8.json" --input "$work/digits.npz:x-tset"
check "values that the model lacks" exits 1 "w.npz: no parameter or state is called 'conv1.weight.scale'; the nearest are 'conv1.weight', 'conv2.weight'" "$tool" weights "$work/lenet.json" --from "$work/w.npz" -o "$work/n.json"
header='{"conv1.bias":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
printf "\\x$(printf %x ${#header})\\0\\0\\0\\0\\0\\0\\0%s\\x00\\x00\\xc0\\x7f" "$header" >"$work/nan.safetensors"
check "NaN among them" exits 1 "$work/nan.safetensors: element 0 of 'conv1.bias' is NaN" "$tool" weights "$work/lenet.json" --from "$work/nan.safetensors" -o "$work/n.json"
check "arrays of another kind" exits 1 'x.npy: no parameter or state is called' "$tool" weights "$work/lenet.json" --from "$work/x.npy" -o "$work/n.json"
check "no model written" test ! -e "$work/n.json"
check "weights as text" exits 2 'qtape: --output: expected a name that ends in .npz or .safetensors, got ' "$tool" weights "$work/lenet.json" -o "$work/w.txt"
check "weights as one array" exits 2 "qtape: --output: expected a name that ends in .npz or .safetensors, got $work/w.npy" "$tool" weights "$work/lenet.json" -o "$work/w.npy"
check "a model as an archive" exits 2 'qtape: --output: expected a model with --from, got ' "$tool" weights "$work/lenet.json" --from "$work/w.npz" -o "$work/n.npz"
check "answers as text" exits 2 'a.txt: expected a name that ends in .npy, .npz or .safetensors' "$tool" replay "$work/w8a8.json" "${data[@]}" -o "$work/a.txt"

finish
