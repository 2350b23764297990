#!/usr/bin/env bash
# Batch norms, and what has no integers, through the commands: norms_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"
onnx=$(dirname "$0")/../data/onnx
cnn=("$build/examples/train_cnn" --width 10 --samples 64 --batch 16 --epochs 1 --threads 1 --weight-bits 0 --activation-bits 0)
four=(--weight-bits 4 --activation-bits 4 --epochs 1 --batch 16 --threads 1)
zero=' 0 mismatches between'

# Norms that are folded while they train: every layer gets quantizers.
for model in DSCNN ResNet8 MobileNet; do
  "${cnn[@]}" --model $model --save-data "$work/data" --save "$work/f.json" >/dev/null
  "${cnn[@]}" --model $model --weight-bits 8 --activation-bits 8 --save "$work/own.json" >/dev/null
  weights() { "$tool" inspect "$1" | grep -o "'[^']*\.weight\.quantized'" | sort -u; }
  check "$model: train" "$tool" train "$work/f.json" --data "$work/data" "${four[@]}" -o "$work/q.json" >/dev/null
  check "$model: all layers are quantized" same "$(weights "$work/own.json")" "$(weights "$work/q.json")"
  check "$model: it converts, and nothing differs" test "$("$tool" verify "$work/q.json" --data "$work/data" | grep -c "$zero")" = 4
  check "$model: calibrate" "$tool" calibrate "$work/f.json" --data "$work/data" -o "$work/c.json" >/dev/null
  check "$model: all layers are calibrated" same "$(weights "$work/own.json")" "$(weights "$work/c.json")"
  check "$model: fold" "$tool" fold "$work/q.json" -o "$work/folded.json" --json "$work/fold.out" >"$work/fold.txt"
  check "$model: no norm is left" test "$("$tool" inspect "$work/folded.json" | grep -cE 'BatchNorm|FoldFactor')" = 0
  check "$model: the same answers" same "$("$tool" replay "$work/q.json" --data "$work/data")" "$("$tool" replay "$work/folded.json" --data "$work/data")"
done
check "folded norms are named" grep -qx 'folded conv1' "$work/fold.txt"
check "as numbers too" grep -q '"conv1"' "$work/fold.out"
"$train" "${short[@]}" --epochs 1 --save "$work/mlp.json" >/dev/null
check "nothing to re-estimate" exits 2 '--norms has no effect: the model has no batch norms' "$tool" train "$work/mlp.json" --data "$digits" --norms -o "$work/n.json"
value() { grep -o "\"$2\": {[^}]*}" "$1"; }
check "frozen parameters" "$tool" train "$work/mlp.json" --data "$digits" "${four[@]}" --scales LSQ --freeze 'fc1.*,fc2.bias' -o "$work/n.json" >/dev/null
for name in fc1.weight fc1.bias fc2.bias; do check "$name stays" same "$(value "$work/mlp.json" $name)" "$(value "$work/n.json" $name)"; done
check "others do not" test "$(value "$work/mlp.json" fc2.weight)" != "$(value "$work/n.json" fc2.weight)"
check "nothing to freeze" exits 2 "ParameterGroup: pattern 'fc9' matches no parameter" "$tool" train "$work/mlp.json" --data "$digits" "${four[@]}" --freeze 'fc2.bias,fc9' -o "$work/n.json"
"$tool" train "$work/mlp.json" --data "$digits" "${four[@]}" --checkpoint "$work/earlier.json" >/dev/null
sed -i 's/"freeze":"",//' "$work/earlier.json"
check "an earlier checkpoint" test "$(grep -c '"freeze":' "$work/earlier.json")" = 0
check "freezes nothing" "$tool" train "$work/earlier.json" --data "$digits" --resume -o "$work/n.json" >/dev/null
check "nothing to fold" exits 1 "qtape: $work/mlp.json: the model has no batch norms" "$tool" fold "$work/mlp.json" -o "$work/n.json"
check "a model over itself" "$tool" fold "$work/q.json" -o "$work/q.json" >/dev/null

# Norms of their own, in an ONNX file.
"$build/tests/write_lenet" "$work/normed.onnx" norms
normed=(--data "$digits" "${four[@]}")
check "import" "$tool" import "$work/normed.onnx" -o "$work/l.json" >"$work/import.txt"
check "says that norms stay" grep -qx 'kept 3 batch norms for training, which qtape calibrate folds: norm1, norm2, norm3' "$work/import.txt"
check "lint knows that they are folded" test "$("$tool" lint "$work/l.json" | grep -c '^error: ')" = 1
check "train" "$tool" train "$work/l.json" "${normed[@]}" -o "$work/l4.json" >"$work/train.txt"
check "with norms" grep -qx 'kept 3 batch norms in training, folded into weights in each step: norm1, norm2, norm3' "$work/train.txt"
check "as from the file itself" "$tool" train "$work/normed.onnx" "${normed[@]}" -o "$work/o4.json" >/dev/null
check "bit for bit" cmp "$work/l4.json" "$work/o4.json"
check "nothing differs" test "$("$tool" verify "$work/l4.json" --data "$digits" | grep -c "$zero")" = 4
check "frozen oscillations" "$tool" train "$work/l.json" "${normed[@]}" --freeze-above 0.02 -o "$work/z4.json" >"$work/train.txt"
check "of weights times the factor of a norm" grep -qx 'kept 3 batch norms in training, folded into weights in each step: norm1, norm2, norm3' "$work/train.txt"
check "without a warning" test "$(grep -c '^warning: oscillations' "$work/train.txt")" = 0
check "calibrate" "$tool" calibrate "$work/l.json" --data "$digits" -o "$work/c.json" --json "$work/c.out" >"$work/calibrate.txt"
check "says which norms it folds" grep -qx 'folded 3 batch norms into weights: norm1, norm2, norm3' "$work/calibrate.txt"
check "as numbers too" same 3 "$(grep -c '^ *"norm[123]",\?$' "$work/c.out")"

# Parts without integers.
"$build/tests/write_lenet" "$work/places.onnx" places
check "import names what has no integers" exits 1 ' would have no integer form: ' "$tool" import "$work/places.onnx" -o "$work/b.json"
check "and the way out" grep -q -- '; --float-parts leaves them in floats$' "$work/err"
check "and writes nothing" test ! -e "$work/b.json"
check "which goes on" "$tool" import "$work/places.onnx" --float-parts -o "$work/b.json" >"$work/import.txt"
check "with the same list" test "$(grep -c '^remains in floats: ' "$work/import.txt")" -ge 1
check "with the reason" grep -q "Mul.* is an index, which has no grid; use it as an output, or look up an Embedding" "$work/import.txt"
check "lint tells them of a float model" test "$("$tool" lint "$work/b.json" | grep -c '^error: ')" = "$(($(grep -c '^remains in floats: ' "$work/import.txt") + 1))"
for command in "calibrate --data $digits" "train --data $digits -o $work/t.json" "search --data $digits --budget 100000"; do
  # shellcheck disable=SC2086  # a command and its options
  check "$command: refuses" exits 1 "qtape: $work/b.json: " "$tool" ${command%% *} "$work/b.json" ${command#"${command%% *}"}
done
check "calibrate goes on" "$tool" calibrate "$work/b.json" --data "$digits" --float-parts -o "$work/bc.json" >"$work/calibrate.txt"
check "with each part once" same "$(grep '^remains in floats: ' "$work/import.txt" | sed 's/%[0-9]*//g')" "$(grep '^remains in floats: ' "$work/calibrate.txt" | sed 's/%[0-9]*//g')"

finish
