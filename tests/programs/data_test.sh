#!/usr/bin/env bash
# Samples, labels and answers of commands: which they use, and which they refuse: data_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"

array() { # array FILE DTYPE SHAPE: what follows on standard input is its data
  { printf '\x93NUMPY\x01\x00v\x00%-117s\n' "{'descr': '$2', 'fortran_order': False, 'shape': ($3), }" && cat; } >"$work/$1"
}
zeros() { head -c "$1" /dev/zero; }
zeros 9408 | array x.npy '<f4' '3, 784'
{ zeros 3136 && printf '\x00\x00\xc0\x7f' && zeros 6268; } | array nan.npy '<f4' '3, 784'
printf '\x01\x02\x03' | array y.npy '|u1' '3,'
printf '\x01\x0b\x03' | array large.npy '|u1' '3,'
arrays=(--input "$work/x.npy" --labels "$work/y.npy")

"$train" "${short[@]}" --weight-bits 0 --activation-bits 0 --save "$work/f.json" >/dev/null
"$tool" calibrate "$work/f.json" --data "$digits" --images 600 -o "$work/q.json" >"$work/calibrate.txt"
check "calibration states its samples, in full batches" grep -qx 'calibration with 600 of 640 samples' "$work/calibrate.txt"
"$tool" calibrate "$work/f.json" "${arrays[@]}" --images 2 --json "$work/report.json" >/dev/null
check "a report has their number" grep -qx ' "samples": 2,' "$work/report.json"

for model in f q; do
  "$tool" replay "$work/$model.json" --input "$work/nan.npy" --labels "$work/y.npy" --json "$work/replay.json" >"$work/replay.txt"
  check "$model: answers that are NaN are counted" grep -q '^3 samples, accuracy .* %, 1 sample with NaN or infinite answers; element 0 of .x. in sample 1 of the data is nan$' "$work/replay.txt"
  check "$model: in the report, too" same 1 "$(field "$work/replay.json" non_finite_answers)"
done

check "data of which nothing can be learned" exits 1 "$work/f.json: nothing was trained: the loss was NaN or infinite in all steps (1); element 0 of 'x' in sample 1 of the data is nan" "$tool" train "$work/f.json" --float --input "$work/nan.npy" --labels "$work/y.npy" --epochs 1 -o "$work/t.json"
check "labels that are no class" exits 2 "--labels: $work/large.npy: the data have 12 classes, the model has 10: sample 1 has label 11" "$tool" replay "$work/f.json" --input "$work/x.npy" --labels "$work/large.npy"
check "a loss needs labels" exits 2 "--labels is missing: the loss of $work/f.json compares an output with 'labels' s32[]" "$tool" train "$work/f.json" --float --input "$work/x.npy" -o "$work/t.json"
check "test samples need labels" exits 2 '--test-input needs --test-labels for a score, as --labels is given' "$tool" train "$work/f.json" --float "${arrays[@]}" --test-input "$work/x.npy" -o "$work/t.json"

# Places of NaN, and labels for the right answer.
"$tool" convert "$work/q.json" -o "$work/p.json" >/dev/null
check "NaN that an integer program reads" exits 1 "element 784 of the input is NaN, which has no code; element 0 of 'x' in sample 1 of the data is nan" "$tool" replay "$work/p.json" --input "$work/nan.npy" --labels "$work/y.npy"
"$tool" quantizers "$work/q.json" --input "$work/nan.npy" --no-sensitivity >"$work/out"
check "NaN before quantizers" grep -q '^warning: quantizers read .* values that are not finite and not counted; element 0 of .x. in sample 1 of the data is nan$' "$work/out"

# Targets that look like classes, and columns that one scale cannot serve.
for _ in 1 2 3; do printf '\x00\x00\x80\x3f' && zeros 36; done | array ones.npy '<f4' '3, 10'
check "one-hot targets" "$tool" replay "$work/q.json" --input "$work/x.npy" --labels "$work/ones.npy" >"$work/out"
check "are named" grep -qx -- "--labels: $work/ones.npy: rows with a single 1 are values; if they are classes, give the index of the 1, one integer for each sample" "$work/out"
{ zeros 3136 && printf '\x00\x00\x7a\x44\x00\x00\x80\x3f' && zeros 6264; } | array units.npy '<f4' '3, 784'
check "columns of other units" "$tool" calibrate "$work/f.json" --input "$work/units.npy" >"$work/out"
check "are named too" grep -q "^input 'x': its quantizer, of scale 3.92, changes 1 of 784 columns by more than 50 % of their standard deviation, most column 1 (100 %): " "$work/out"

# Options without effect.
check "labels without inputs" exits 2 '--labels needs --input' "$tool" verify "$work/q.json" --random 5 --labels none.npy
check "a holdout of random inputs" exits 2 '--holdout needs --data or --input' "$tool" compare "$work/p.json" "$work/p.json" --holdout 3
check "channels of no data" exits 2 '--channels needs --input' "$tool" export c "$work/p.json" -o "$work/c" --channels First
check "samples of which none is stored" exits 2 '--data and --input have no effect with --golden 0' "$tool" export c "$work/p.json" -o "$work/c" --golden 0 --input "$work/x.npy"

# A checkpoint with new quantizers is another run.
"$tool" train "$work/f.json" --float "${arrays[@]}" --epochs 1 --checkpoint "$work/k.json" >/dev/null
"$tool" calibrate "$work/k.json" --data "$digits" -o "$work/kq.json" >"$work/kq.txt"
check "it says so" grep -qx 'the progress of the checkpoint is left out: its run had fewer quantizers' "$work/kq.txt"
check "a calibrated checkpoint is none" exits 2 "$work/kq.json is not a checkpoint" "$tool" train "$work/kq.json" "${arrays[@]}" --resume

# Names do not decide what a file holds; its permissions stay.
cp "$work/f.json" "$work/f.onnx" && chmod 600 "$work/f.onnx"
check "a model named like ONNX" "$tool" calibrate "$work/f.onnx" --data "$digits" -o "$work/f.onnx" >/dev/null
check "can be read" test "$("$tool" inspect "$work/f.onnx")" = "$("$tool" inspect "$work/q.json")"
check "by its owner alone" test "$(stat -c %a "$work/f.onnx")" = 600

run=("$tool" train "$work/f.json" --float --data "$digits" --epochs 2 --threads 1)
"${run[@]}" --holdout 100 --checkpoint "$work/c.json" >/dev/null
resume=("$tool" train "$work/c.json" --data "$digits" --threads 1 --resume)
check "a resumed run holds out the same samples" grep -qx 'all 2 epochs are finished: nothing to train' <("${resume[@]}")
check "and no others" exits 2 '--holdout: the checkpoint is from a run with 100, got 99' "${resume[@]}" --holdout 99
finish
