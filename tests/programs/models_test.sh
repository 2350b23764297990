#!/usr/bin/env bash
# train_mlp's other models: threads, a checkpoint, replay: models_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"

for model in residual concat; do
  other=("${short[@]}" --layers 24 --model $model)
  "$train" "${other[@]}" --threads 1 --save "$work/o.json" --json "$work/one.json" >"$work/log"
  check "$model: the model is named" grep -qi "model $model, weights 4 bits" "$work/log"
  check "$model: the report names it" grep -qi "\"model\": \"$model\"" "$work/one.json"
  "$train" "${other[@]}" --threads 2 --checkpoint "$work/oc.json" --json "$work/two.json" >/dev/null
  check "$model: threads change no bit" same_field parameters_sha256 "$work/one.json" "$work/two.json"
  "$train" --threads 1 --resume "$work/oc.json" --model $model --json "$work/resumed.json" >/dev/null
  check "$model: a finished run resumes to itself" same_field outputs_sha256 "$work/one.json" "$work/resumed.json"
  check "$model: replay gives the same bits" same "$(field "$work/one.json" outputs_sha256)" "$(replayed "$work/o.json")"
done
check "residual needs layers" exits 2 'model Residual needs at least 2 hidden layers, got 1' "$train" "${short[@]}" --model residual
sed 's/"model":"Concat"/"model":"Concord"/' "$work/oc.json" >"$work/concord.json"
check "unknown model in a checkpoint" exits 1 '/sections/settings/settings/model: unknown value "Concord"; expected one of MLP, Residual, Concat' "$train" --resume "$work/concord.json"

finish
