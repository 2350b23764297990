#!/usr/bin/env bash
# Models with several answers, and models whose targets are values: outputs_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"

write_digits
data=(--input "$work/x.npy" --threads 1)
below() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'; }

# Weights 1/128 and SIGN 1/128 in turn, f32 [ROWS, 784]; a sign is the upper byte of its number.
weights() { printf "\\0\\0\\0\\074\\0\\0\\0\\$2%.0s" $(seq $(($1 * 392))) | base64 -w0; }
tensor() { echo "{\"dtype\": \"f32\", \"shape\": [$1, 784], \"data\": \"$(weights "$1" "${2:-274}")\"}"; }
parameter() { echo "{\"label\": \"$1\", \"op\": {\"Parameter\": {\"dtype\": \"f32\", \"shape\": [$2, 784]}}}"; }
product() { echo "{\"label\": \"$1\", \"op\": {\"MatMul\": {\"transpose_b\": true}}, \"operands\": [0, $2]}"; }
input='{"label": "x", "op": {"Input": {"shape": [1, 784]}}}'
model() { # model NODES OUTPUTS VALUES
  echo "{\"format\": \"qtape\", \"version\": 2, \"nodes\": [$input, $1], \"outputs\": $2, \"losses\": [], \"values\": {$3}}"
}
model "$(parameter a.weight 1), $(product a 1), $(parameter b.weight 3), $(product b 3)" '[2, 4]' "\"a.weight\": $(tensor 1), \"b.weight\": $(tensor 3)" >"$work/two.json"
model "$(parameter y.weight 2), $(product y 1)" '[2]' "\"y.weight\": $(tensor 2)" >"$work/one.json"

# Two answers, the first of which is one number a sample.
check "calibrate both" "$tool" calibrate "$work/two.json" "${data[@]}" -o "$work/q.json" >"$work/calibrate.txt"
check "convert" "$tool" convert "$work/q.json" -o "$work/p.json" --requantization OnnxQdq >/dev/null
check "two outputs ship" test "$(sed -n 's/^"outputs": //p' "$work/p.json" | tr -cd ',' | wc -c)" = 1
check "verify" "$tool" verify "$work/q.json" "${data[@]}" --random 300 --requantization OnnxQdq --levels L0,L1,L2,L3,L4,L5 >"$work/verify.txt"
check "both are compared" grep -q '^b (accumulators)' "$work/verify.txt"
check "and equal" grep -q ' 300 random inputs: 0 mismatches' "$work/verify.txt"
for file in q p; do
  "$tool" replay "$work/$file.json" "${data[@]}" -o "$work/$file.npz" >"$work/$file.txt"
  check "$file: hashes of each" test "$(grep -c '^output [ab] sha256 ' "$work/$file.txt")" = 2
  check "$file: arrays by label" test "$(grep -ao '[ab]\.npy' "$work/$file.npz" | sort -u | wc -l)" = 2
done
check "one array for two outputs" exits 2 "--output: $work/a.npy holds one array, the outputs are 'a', 'b': name a .npz or .safetensors file" "$tool" replay "$work/q.json" "${data[@]}" -o "$work/a.npy"
check "a single output keeps its name" "$tool" replay "$work/one.json" "${data[@]}" -o "$work/t.npz" >/dev/null
check "answers" grep -aq answers.npy "$work/t.npz"
check "export c" "$tool" export c "$work/p.json" -o "$work/c" --name two --check >"$work/c.txt"
check "with both outputs" grep -q 'two_run(const float \*x, float \*a, float \*b)' "$work/c/two.h"
check "export onnx" "$tool" export onnx "$work/p.json" -o "$work/p.onnx" --form integer >/dev/null

# Targets that are values: two numbers a sample.
"$tool" replay "$work/one.json" "${data[@]}" -o "$work/t.npy" >/dev/null
"$tool" replay "$work/one.json" --input "$work/x-test.npy" --threads 1 -o "$work/t-test.npy" >/dev/null
# The logarithm of a product of positive numbers until its weights are negative.
model "$(parameter a.weight 2), $(product a 1), {\"label\": \"y\", \"op\": \"Log\", \"operands\": [2]}" '[3]' "\"a.weight\": $(tensor 2 074)" >"$work/log.json"
check "a run that ends in NaN" exits 1 "$work/log.json: the trained model is unusable: the loss was NaN or infinite in all steps of epoch 3; try a tenth of the learning rate (--lr)" "$tool" train "$work/log.json" --float --input "$work/x.npy" --labels "$work/t.npy" --lr 1 --epochs 3 -o "$work/nan.json"
check "writes no model" test ! -e "$work/nan.json"

model "$(parameter y.weight 2), $(product y 1)" '[2]' "\"y.weight\": $(tensor 2 074)" >"$work/start.json"
targets=(--input "$work/x.npy" --labels "$work/t.npy" --threads 1)
judged=(--test-input "$work/x-test.npy" --test-labels "$work/t-test.npy")
check "train" "$tool" train "$work/start.json" "${targets[@]}" "${judged[@]}" --epochs 2 -o "$work/trained.json" --json "$work/train.out" >"$work/train.txt"
check "it says how it goes" test "$(grep -c '^epoch .* test mean squared error [0-9.e-]* ' "$work/train.txt")" = 2
check "and what comes of it" grep -q '^trained: mean squared error [0-9.e-]*$' "$work/train.txt"
check "which is better" below "$(field "$work/train.out" score | tail -n 1)" "$(sed -n 's/^ "score_before": \(.*\),/\1/p' "$work/train.out")"
check "its name" grep -q '"metric": "mean squared error"' "$work/train.out"
tested=(--input "$work/x-test.npy" --labels "$work/t-test.npy" --threads 1)
check "replay" grep -q '^1000 samples, mean squared error [0-9.e-]*$' <("$tool" replay "$work/trained.json" "${tested[@]}")
check "quantizers" "$tool" quantizers "$work/trained.json" "${tested[@]}" >"$work/quantizers.txt"
check "errors instead of accuracies" grep -q '^mean squared error: all on [0-9.e-]*, all off [0-9.e-]*; lower is better$' "$work/quantizers.txt"
check "no percents" test "$(grep -c '0.00 %$' "$work/quantizers.txt")" = 0
check "calibrate" "$tool" calibrate "$work/trained.json" "${targets[@]}" --observer all >"$work/all.txt"
check "a table of errors" grep -q 'without quantizers [0-9.e-]* (mean squared error, lower is better)' "$work/all.txt"
check "none of them a hash" test "$(grep -c sha256 "$work/all.txt")" = 0
check "verify" "$tool" verify "$work/trained.json" "${tested[@]}" --requantization OnnxQdq >"$work/verify.txt"
check "it scores each level" test "$(grep -c ': mean squared error ' "$work/verify.txt")" = 4

# A target for each of several answers, by its name.
"$tool" replay "$work/two.json" "${data[@]}" -o "$work/targets.npz" >/dev/null
model "$(parameter a.weight 1), $(product a 1), $(parameter b.weight 3), $(product b 3)" '[2, 4]' "\"a.weight\": $(tensor 1 074), \"b.weight\": $(tensor 3 074)" >"$work/heads.json"
check "train both" "$tool" train "$work/heads.json" "${data[@]}" --labels "$work/targets.npz" --epochs 2 -o "$work/both.json" >/dev/null
score() { "$tool" replay "$work/$1.json" "${data[@]}" --labels "$work/targets.npz" | sed -n "s/^output $2 mean squared error \([0-9.e-]*\), sha256 .*/\1/p"; }
for each in a b; do check "$each is learned" below "$(score both $each)" "$(score heads $each)"; done
model "$(parameter a.weight 1), $(product a 1), $(parameter c.weight 3), $(product c 3)" '[2, 4]' "\"a.weight\": $(tensor 1), \"c.weight\": $(tensor 3)" >"$work/other.json"
check "a target is missing" exits 2 "$work/targets.npz: expected an array for each answer, got none for 'c'" "$tool" replay "$work/other.json" "${data[@]}" --labels "$work/targets.npz"

# Unlabelled data of another model: no score, and it is said.
check "no targets" grep -q '^no sensitivity: the data have neither labels nor targets for the model$' <("$tool" quantizers "$work/trained.json" --input "$work/x-test.npy" --threads 1)

finish
