#!/usr/bin/env bash
# From an ONNX model to verified integers in five commands: routes_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"

write_digits
onnx=$(dirname "$0")/../data/onnx
train_data=(--input "$work/x.npy" --labels "$work/y.npy")
test_data=(--input "$work/x-test.npy" --labels "$work/y-test.npy")
accuracy() { "$tool" replay "$1" "${test_data[@]}" | sed -n 's/.*accuracy \([0-9.]*\) .*/\1/p'; }
at_least() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a >= b) }'; }

# A small LeNet for digits, untrained; in float first.
"$build/tests/write_lenet" "$work/lenet.onnx"
check "import" "$tool" import "$work/lenet.onnx" -o "$work/lenet.json" >"$work/import.txt"
check "it says what a sample is" grep -qx 'input x, a sample of it f32\[28, 28, 1\]' "$work/import.txt"
check "train in float" "$tool" train "$work/lenet.json" --float "${train_data[@]}" --epochs 4 --lr 4e-3 -o "$work/float.json" >"$work/float.txt"
check "which learns" at_least "$(accuracy "$work/float.json")" 90

check "calibrate" "$tool" calibrate "$work/float.json" "${train_data[@]}" -o "$work/w8a8.json" >/dev/null
check "8 bits are as good" at_least "$(accuracy "$work/w8a8.json")" "$(awk -v a="$(accuracy "$work/float.json")" 'BEGIN { print a - 0.5 }')"
check "train with 4 bits" "$tool" train "$work/w8a8.json" "${train_data[@]}" --test-input "$work/x-test.npy" --test-labels "$work/y-test.npy" --weight-bits 4 --activation-bits 4 --epochs 3 -o "$work/w4a4.json" >"$work/train.txt"
check "it says how it goes" test "$(grep -c '^epoch .* test accuracy' "$work/train.txt")" = 3
check "4 bits are nearly as good" at_least "$(accuracy "$work/w4a4.json")" "$(awk -v a="$(accuracy "$work/float.json")" 'BEGIN { print a - 2 }')"
check "convert" "$tool" convert "$work/w4a4.json" -o "$work/program.json" >/dev/null
for model in w8a8 w4a4; do
  check "verify $model" "$tool" verify "$work/$model.json" "${test_data[@]}" >"$work/verify.txt"
  check "$model: nothing differs" test "$(grep -c '^1000 samples and 0 random inputs: 0 mismatches' "$work/verify.txt")" = 4
done

# What is already trained with quantizers goes on with them.
"$tool" train "$work/w4a4.json" "${train_data[@]}" --epochs 1 --lr 0 --threads 1 -o "$work/same.json" >/dev/null
check "training keeps its quantizers" test "$("$tool" inspect "$work/same.json" | grep -c 'codes -7..7')" = "$("$tool" inspect "$work/w4a4.json" | grep -c 'codes -7..7')"
"$tool" train "$work/w4a4.json" "${train_data[@]}" --epochs 2 --threads 1 --checkpoint "$work/c.json" -o "$work/whole.json" >/dev/null
"$tool" train "$work/c.json" "${train_data[@]}" --epochs 2 --threads 2 --resume -o "$work/resumed.json" >/dev/null
check "a finished run resumes to itself" cmp "$work/whole.json" "$work/resumed.json"
check "a finished run says so" grep -qx 'all 2 epochs are finished: nothing to train' <("$tool" train "$work/c.json" "${train_data[@]}" --threads 1 --resume)
check "kill -9 in the middle" kill_after "$work/cut.json" "$tool" train "$work/w4a4.json" "${train_data[@]}" --epochs 2 --threads 1 --checkpoint "$work/cut.json"
check "a killed run goes on" "$tool" train "$work/cut.json" "${train_data[@]}" --threads 1 --resume -o "$work/after.json" >/dev/null
check "to the same model" cmp "$work/whole.json" "$work/after.json"
check "and goes on writing its checkpoint" same "$(replayed "$work/cut.json")" "$(replayed "$work/after.json")"
for option in "--epochs 3" "--lr 0.1" "--batch 32" "--seed 7" "--float" "--weight-bits 3" "--damping 1" "--holdout 9"; do
  # shellcheck disable=SC2086
  check "$option beside --resume" exits 2 "qtape: ${option%% *}: the checkpoint is from a run with " "$tool" train "$work/c.json" "${train_data[@]}" --resume $option
done
"$train" "${short[@]}" --epochs 1 --checkpoint "$work/mlp.json" >/dev/null
check "a teacher beside --resume" exits 2 'qtape: --teacher: the checkpoint was made with another one' "$tool" train "$work/c.json" "${train_data[@]}" --resume --teacher "$work/w8a8.json"
"$tool" train "$work/w4a4.json" "${train_data[@]}" --epochs 1 --threads 1 --teacher "$work/lenet.onnx" --checkpoint "$work/taught.json" >/dev/null
check "its teacher is needed again" exits 2 'qtape: --teacher is missing: the run has one' "$tool" train "$work/taught.json" "${train_data[@]}" --resume
check "from wherever it is" "$tool" train "$work/taught.json" "${train_data[@]}" --threads 1 --resume --teacher "$work/lenet.json" >/dev/null
check "a checkpoint of another program" exits 2 "qtape: --resume: $work/mlp.json is a checkpoint of train_mlp, which continues it" "$tool" train "$work/mlp.json" --data "$digits" --resume
check "options of new quantizers beside old ones" exits 2 "qtape: --weight-bits: $work/w4a4.json has quantizers of its own" "$tool" calibrate "$work/w4a4.json" "${train_data[@]}" --weight-bits 8
check "weights of too many bits" exits 1 'would have no integer form' "$tool" train "$work/w4a4.json" "${train_data[@]}" --weight-bits 12 --epochs 1 -o "$work/n.json"
check "options of a teacher without one" exits 2 'qtape: --temperature needs --teacher' "$tool" train "$work/w4a4.json" "${train_data[@]}" --temperature 3 -o "$work/n.json"
for teacher in onnx json; do
  "$tool" train "$work/w4a4.json" "${train_data[@]}" --epochs 1 --threads 1 --teacher "$work/lenet.$teacher" -o "$work/taught-$teacher.json" >/dev/null
done
check "a teacher in ONNX teaches as its model does" cmp "$work/taught-onnx.json" "$work/taught-json.json"
check "no teacher" exits 1 'none.onnx: cannot open' "$tool" train "$work/w4a4.json" "${train_data[@]}" --teacher "$work/none.onnx" -o "$work/n.json"
"$tool" replay "$work/w4a4.json" "${test_data[@]}" -o "$work/answers.npy" >/dev/null
# shellcheck disable=SC2016
check "a model and data from pipes" bash -c '"$0" convert <(cat "$1") -o "$2/piped.json" && "$0" replay <(cat "$1") --input <(cat "$2/x-test.npy") --labels <(cat "$2/y-test.npy") -o "$2/piped.npy"' "$tool" "$work/w4a4.json" "$work" >/dev/null
check "which give the same answers" cmp "$work/answers.npy" "$work/piped.npy"
check "ONNX from a pipe" bash -c '"$0" import <(cat "$1") -o "$2/piped.json"' "$tool" "$work/lenet.onnx" "$work" >/dev/null
check "answers are a NumPy file" test "$(head -c 6 "$work/answers.npy" | tail -c 5)" = NUMPY

# Bits by layer, and a picture.
check "search" "$tool" search "$work/float.json" "${train_data[@]}" --budget 9000 --samples 500 -o "$work/s.json" >"$work/search.txt"
check "it keeps the budget" awk '/bytes of weights within 9000/ { exit !($1 <= 9000) }' "$work/search.txt"
check "its model verifies" "$tool" verify "$work/s.json" "${test_data[@]}" --requantization OnnxQdq >/dev/null
"$tool" search "$work/float.json" "${train_data[@]}" --budget 9000 --samples 100 --scales lsq -o "$work/l.json" >/dev/null
check "with learned scales" grep -q '"FakeQuantizeLSQ"' "$work/l.json"
check "a budget too small" exits 2 'qtape: a budget of 10 bytes is too small: the weights take' "$tool" search "$work/float.json" "${train_data[@]}" --budget 10
check "graph" "$tool" graph "$work/w4a4.json" -o "$work/g.dot" >/dev/null
check "quantizers tell their bits" test "$(grep -c '4 bits, codes -7..7' "$work/g.dot")" = 4
if command -v dot >/dev/null; then
  check "graph as a picture" "$tool" graph "$work/w4a4.json" -o "$work/g.svg" >/dev/null
  check "which is SVG" grep -q '<svg' "$work/g.svg"
else
  check "graph without Graphviz" exits 1 'qtape: cannot run dot: ' "$tool" graph "$work/w4a4.json" -o "$work/g.svg"
fi
check "graph of another kind" exits 2 'qtape: --output: expected a name that ends in .svg or .dot, got g.png' "$tool" graph "$work/w4a4.json" -o g.png

# Wrong input.
check "no ONNX" exits 1 'x.npy: is not an ONNX model' "$tool" import "$work/x.npy" -o "$work/n.json"
check "resume needs a checkpoint" exits 2 'qtape: --resume: ' "$tool" train "$work/w4a4.json" --resume "${train_data[@]}" -o "$work/n.json"
check "float has no bits" exits 2 'qtape: --float cannot be combined with options of new quantizers' "$tool" train "$work/w4a4.json" --float --weight-bits 4 "${train_data[@]}" -o "$work/n.json"
check "labels of another count" exits 1 "y-test.npy: column y: expected $(($(stat -c %s "$work/x.npy") / 784)) samples as in x, got 1000" "$tool" train "$work/w4a4.json" --input "$work/x.npy" --labels "$work/y-test.npy" -o "$work/n.json"
check "test data alone" exits 2 'qtape: --test-input needs --input' "$tool" train "$work/w4a4.json" --test-input "$work/x.npy" -o "$work/n.json"

finish
