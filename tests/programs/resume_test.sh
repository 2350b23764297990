#!/usr/bin/env bash
# train_mlp killed in the middle, then resumed from the last checkpoint: resume_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"

# A checkpoint at every step makes the run slow enough to be killed.
long=("${short[@]}" --epochs 40)
check "a kill comes before the end" kill_after "$work/c.json" "$train" "${long[@]}" --checkpoint "$work/c.json" --checkpoint-every 1
check "a kill leaves a checkpoint" test -s "$work/c.json"
cp "$work/c.json" "$work/killed.json"
"$train" --threads 1 --resume "$work/c.json" --json "$work/resumed.json" >/dev/null
"$train" "${long[@]}" --json "$work/whole.json" >/dev/null
check "resume gives the same parameters" same_field parameters_sha256 "$work/whole.json" "$work/resumed.json"
history_of() { sed -n '/"epochs": \[/,/\]/p' "$1"; }
check "resume gives the same history" diff <(history_of "$work/whole.json") <(history_of "$work/resumed.json")
check "the history has every epoch" test "$(history_of "$work/whole.json" | grep -c '"loss"')" = 40

# Killed while the schedule is under way.
scheduled=("${short[@]}" --epochs 40 --scale-mode LSQ --quantize-after 60 --warm-up 90)
check "a kill comes before the schedule's end" kill_after "$work/s.json" "$train" "${scheduled[@]}" --checkpoint "$work/s.json" --checkpoint-every 1
"$train" --threads 1 --resume "$work/s.json" --json "$work/resumed.json" >/dev/null
"$train" "${scheduled[@]}" --json "$work/whole.json" >/dev/null
check "resume honours the schedule" same_field parameters_sha256 "$work/whole.json" "$work/resumed.json"

"$train" "${short[@]}" --epochs 1 --save "$work/m.json" >/dev/null
killed=$work/killed.json
check "missing checkpoint" exits 1 "$work/none.json: cannot open: No such file or directory" "$train" --resume "$work/none.json"
check "setting beside resume" exits 2 '--lr: the checkpoint is from a run with ' "$train" --resume "$killed" --lr 0.5
check "a model is no checkpoint" exits 1 'the file is not a checkpoint' "$train" --resume "$work/m.json"
sed 's/"epochs":40/"epochs":9223372036854775807/' "$killed" >"$work/epochs.json"
check "absurd checkpoint" exits 1 'epochs must be in 1..100000, got 9223372036854775807' "$train" --resume "$work/epochs.json"
sed 's/"weight_bits":4/"weight_bits":1/' "$killed" >"$work/bits.json"
check "a checkpoint's settings have the options' limits" exits 1 '/sections/settings: weight bits must be 0 (float) or in 2..16, got 1' "$train" --resume "$work/bits.json"
sed 's/"step":[0-9]*/"step":123456789/' "$killed" >"$work/step.json"
check "checkpoint beyond the end" exits 1 '/sections/progress: step 123456789 of' "$train" --resume "$work/step.json"
sed 's/"settings":{"activation_bits"/"settings":{"actvation":3,"activation_bits"/' "$killed" >"$work/unknown.json"
check "an unknown setting" exits 1 '/sections/settings/settings/actvation: expected nothing, got 3' "$train" --resume "$work/unknown.json"
sed 's/"settings":{"augmentation":/"settings":{"lots":7,"augmentation":/' "$killed" >"$work/unknown.json"
check "one of the progress" exits 1 '/sections/progress/settings/lots: expected nothing, got 7' "$train" --resume "$work/unknown.json"

finish
