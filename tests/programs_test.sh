#!/usr/bin/env bash
# The programs as a user runs them: programs_test.sh BUILD_FOLDER
set -uo pipefail
build=$1
train=$build/examples/train_mlp
autoencoder=$build/examples/train_autoencoder
tool=$build/tools/qtape
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0 failed=0

check() { # check NAME CONDITION...
  if "${@:2}"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $1"; fi
}
exits() { # exits CODE TEXT COMMAND...: exit code and one line on standard error that holds TEXT
  local code=0
  "${@:3}" >"$work/out" 2>"$work/err" || code=$?
  [ "$code" = "$1" ] && [ "$(wc -l <"$work/err")" -le 1 ] && grep -qF -- "$2" "$work/err" && return
  echo "expected exit $1 with: $2; got exit $code with: $(cat "$work/err")"
  return 1
}
field() { sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\).*/\1/p" "$1" | tail -n 1; }
same() { [ -n "$1" ] && [ "$1" = "$2" ]; }
short=(--samples 640 --layers 32 --epochs 2 --weight-bits 4 --activation-bits 4)

(cd "$work" && "$build/examples/xor" >xor.txt)
check "xor learns" awk 'NR==1||NR==4{ok+=($1<0.2)} NR==2||NR==3{ok+=($1>0.8)} END{exit ok!=4}' "$work/xor.txt"

"$train" "${short[@]}" --threads 1 --save "$work/m.json" --report "$work/one.json" >"$work/log"
check "one line per epoch" test "$(grep -c '^epoch' "$work/log")" = 2
"$train" "${short[@]}" --threads 2 --report "$work/two.json" >/dev/null
check "threads change no bit" same "$(field "$work/one.json" parameters_sha256)" "$(field "$work/two.json" parameters_sha256)"
# oneDNN's own float sums differ between instruction sets; capped alike, ours must not.
export DNNL_MAX_CPU_ISA=SSE41
for isa in baseline avx2 avx512; do
  QTAPE_ISA=$isa "$train" "${short[@]}" --report "$work/$isa.json" >/dev/null
done
unset DNNL_MAX_CPU_ISA
check "avx2 equals baseline" same "$(field "$work/baseline.json" parameters_sha256)" "$(field "$work/avx2.json" parameters_sha256)"
check "avx512 equals baseline" same "$(field "$work/baseline.json" parameters_sha256)" "$(field "$work/avx512.json" parameters_sha256)"

"$tool" replay "$work/m.json" >"$work/replay.txt"
check "replay gives the same bits" same "$(field "$work/one.json" outputs_sha256)" "$(sed -n 's/^outputs sha256 //p' "$work/replay.txt")"
"$tool" inspect "$work/m.json" >"$work/inspect.txt"
check "inspect shows quantizers" grep -q 'fc1.input.quantized .*FakeQuantize, codes 0..15, Symmetric' "$work/inspect.txt"

# Killed in the middle of an epoch, then resumed from the last checkpoint.
"$train" "${short[@]}" --epochs 60 --checkpoint "$work/c.json" --checkpoint-every 3 >/dev/null &
pid=$!
while [ ! -s "$work/c.json" ] && kill -0 $pid 2>/dev/null; do sleep 0.02; done
sleep 0.2
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
check "a kill leaves a checkpoint" test -s "$work/c.json"
"$train" --resume "$work/c.json" --report "$work/resumed.json" >/dev/null
"$train" "${short[@]}" --epochs 60 --report "$work/whole.json" >/dev/null
check "resume gives the same parameters" same "$(field "$work/whole.json" parameters_sha256)" "$(field "$work/resumed.json" parameters_sha256)"
check "resume gives the same history" diff <(grep -A 300 '"epochs": \[' "$work/whole.json" | sed '/step_us/,$d') <(grep -A 300 '"epochs": \[' "$work/resumed.json" | sed '/step_us/,$d')

# Learned quantizers, on a schedule: threads, instruction sets, a stop in the middle.
for mode in LSQ PACT; do
  learned=("${short[@]}" --scale-mode $mode --quantize-after 4 --warm-up 7 --freeze-after 12)
  "$train" "${learned[@]}" --threads 1 --report "$work/one.json" >/dev/null
  "$train" "${learned[@]}" --threads 2 --report "$work/two.json" --checkpoint "$work/l.json" --checkpoint-every 3 >/dev/null
  check "$mode: threads change no bit" same "$(field "$work/one.json" parameters_sha256)" "$(field "$work/two.json" parameters_sha256)"
  "$train" --resume "$work/l.json" --report "$work/resumed.json" >/dev/null
  check "$mode: a finished run resumes to itself" same "$(field "$work/one.json" outputs_sha256)" "$(field "$work/resumed.json" outputs_sha256)"
  export DNNL_MAX_CPU_ISA=SSE41
  for isa in baseline avx512; do
    QTAPE_ISA=$isa "$train" "${learned[@]}" --report "$work/$isa.json" >/dev/null
  done
  unset DNNL_MAX_CPU_ISA
  check "$mode: avx512 equals baseline" same "$(field "$work/baseline.json" parameters_sha256)" "$(field "$work/avx512.json" parameters_sha256)"
done
# The other models: threads, a checkpoint, replay.
for model in residual concat; do
  other=("${short[@]}" --layers 24 --model $model)
  "$train" "${other[@]}" --threads 1 --save "$work/o.json" --report "$work/one.json" >"$work/log"
  check "$model: the model is named" grep -qi "model $model, weights 4 bits" "$work/log"
  check "$model: the report names it" grep -qi "\"model\": \"$model\"" "$work/one.json"
  "$train" "${other[@]}" --threads 2 --checkpoint "$work/oc.json" --report "$work/two.json" >/dev/null
  check "$model: threads change no bit" same "$(field "$work/one.json" parameters_sha256)" "$(field "$work/two.json" parameters_sha256)"
  "$train" --resume "$work/oc.json" --model $model --report "$work/resumed.json" >/dev/null
  check "$model: a finished run resumes to itself" same "$(field "$work/one.json" outputs_sha256)" "$(field "$work/resumed.json" outputs_sha256)"
  check "$model: replay gives the same bits" same "$(field "$work/one.json" outputs_sha256)" "$("$tool" replay "$work/o.json" | sed -n 's/^outputs sha256 //p')"
  check "$model: another model beside resume" exits 2 '--model: the checkpoint was made with another value' "$train" --resume "$work/oc.json" --model MLP
done
check "residual needs layers" exits 2 'model Residual needs at least 2 hidden layers, got 1' "$train" "${short[@]}" --model residual
"$train" "${short[@]}" --scale-mode lsq --report "$work/lower.json" >/dev/null
check "enumerations in any case" same LSQ "$(field "$work/lower.json" scale_mode)"
check "unknown model" exits 2 '--model' "$train" --model transformer
sed 's/"model":"Concat"/"model":"Concord"/' "$work/oc.json" >"$work/concord.json"
check "unknown model in a checkpoint" exits 1 '/sections/settings/settings/model: unknown value "Concord"; expected one of MLP, Residual, Concat' "$train" --resume "$work/concord.json"

# Killed while the schedule is under way.
scheduled=("${short[@]}" --epochs 60 --scale-mode LSQ --quantize-after 150 --warm-up 200)
rm -f "$work/s.json"
"$train" "${scheduled[@]}" --checkpoint "$work/s.json" --checkpoint-every 1 >/dev/null &
pid=$!
while [ ! -s "$work/s.json" ] && kill -0 $pid 2>/dev/null; do sleep 0.01; done
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
"$train" --resume "$work/s.json" --report "$work/resumed.json" >/dev/null
"$train" "${scheduled[@]}" --report "$work/whole.json" >/dev/null
check "resume honours the schedule" same "$(field "$work/whole.json" parameters_sha256)" "$(field "$work/resumed.json" parameters_sha256)"

# Post-training quantization of a float model.
"$train" "${short[@]}" --weight-bits 0 --activation-bits 0 --save "$work/f.json" >/dev/null
"$tool" calibrate "$work/f.json" --images 500 --observer all >"$work/all.txt"
check "calibrate tries every observer" test "$(grep -c ' %$' "$work/all.txt")" = 10
"$tool" calibrate "$work/f.json" --images 500 --observer Mse --save "$work/q.json" >"$work/mse.txt"
check "calibrate says what each quantizer got" grep -q 'fc1.input.quantized .*Mse .*zero point' "$work/mse.txt"
accuracy=$(sed -n 's/^Mse *\(.*\) %$/\1/p' "$work/mse.txt")
check "the saved model replays to the accuracy" grep -q "accuracy $accuracy %" <("$tool" replay "$work/q.json")
"$tool" quantizers "$work/q.json" --json "$work/q.txt" >"$work/quantizers.txt"
check "quantizers prints a row for each, twice" test "$(grep -c '^fc2.weight.quantized' "$work/quantizers.txt")" = 2
check "quantizers writes JSON" grep -q '"only_off"' "$work/q.txt"
check "lint finds nothing in a calibrated model" grep -qx ok <("$tool" lint "$work/q.json")
check "lint refuses a float model" same 'error: model: has no quantizers; train it with them, or insert and calibrate them, exit 1' "$("$tool" lint "$work/f.json"), exit $("$tool" lint "$work/f.json" >/dev/null; echo $?)"
check "an unknown observer" exits 2 'MovingAverage' "$tool" calibrate "$work/f.json" --observer Mean
check "--save needs one observer" exits 2 '--save needs one observer' "$tool" calibrate "$work/f.json" --observer all --save "$work/x.json"
check "negative delay" exits 2 '--quantize-after' "$train" --quantize-after -1

# Integer programs: each model converts, and every level of arithmetic agrees.
for model in mlp residual concat; do
  "$train" --samples 320 --layers 16,16 --epochs 1 --weight-bits 4 --activation-bits 4 --model $model --save "$work/i-$model.json" >/dev/null
  check "$model: converts" "$tool" convert "$work/i-$model.json" -o "$work/$model.int.json" >"$work/convert.txt"
  check "$model: convert prints certificates" grep -q 'proven: sums [0-9]* of 2147483647' "$work/convert.txt"
  check "$model: verify exits 0" "$tool" verify "$work/i-$model.json" --profile Float --program "$work/$model.int.json" --random 100 >"$work/verify.txt"
  check "$model: nothing differs" grep -qF '1000 images and 100 random inputs: 0 mismatches between L1, L2 and L3' "$work/verify.txt"
done
"$train" --samples 320 --layers 16,16 --epochs 1 --weight-bits 2 --activation-bits 2 --exact double --save "$work/exact.json" --checkpoint "$work/exact-c.json" --report "$work/exact-r.json" >/dev/null
check "training in exact arithmetic" grep -q '"exact": "Double"' "$work/exact-r.json"
check "what it trained is what ships" "$tool" verify "$work/exact.json" --profile double --random 100 >/dev/null
check "resuming in another arithmetic" exits 2 '--exact: the checkpoint was made with another value' "$train" --resume "$work/exact-c.json" --exact single
"$tool" verify "$work/i-mlp.json" >"$work/verify.txt"
check "verify takes every profile" test "$(grep -c ': 0 mismatches between' "$work/verify.txt")" = 4
verify_mlp=("$tool" verify "$work/i-mlp.json" --profile Float --program)
check "a program of another model" exits 1 "residual.int.json: is not what the model converts to: " "${verify_mlp[@]}" "$work/residual.int.json"
check "a program of another profile" exits 1 'is of profile Float, verified is Onnx' "$tool" verify "$work/i-mlp.json" --profile Onnx --program "$work/mlp.int.json"
tamper() { # tamper OUTPUT SED-COMMAND: the program with one change
  sed "$2" "$work/mlp.int.json" >"$work/$1"
  ! cmp -s "$work/$1" "$work/mlp.int.json"
}
check "one character of the weights" tamper weights.json '/"label":"fc1"/s/\("weight":{[^}]*"data":"..\)[^A]/\1A/'
check "changed weights are refused" exits 1 'weight' "${verify_mlp[@]}" "$work/weights.json"
check "one bound of a certificate" tamper bound.json '/"label":"fc1"/s/"sum_bound":/"sum_bound":1/'
check "a false certificate is refused" exits 1 'the certificate does not hold: sum_bound is 1' "${verify_mlp[@]}" "$work/bound.json"
check "a float model does not convert" exits 1 'the model has no quantizers: train it with them' "$tool" convert "$work/f.json" -o "$work/x.json"
check "nothing is written then" test ! -e "$work/x.json"
check "a program is no model" exits 1 'mlp.int.json' "$tool" convert "$work/mlp.int.json" -o "$work/x.json"
check "convert to an unknown profile" exits 2 '--profile: Half not in {Float,Single,Double,Onnx}' "$tool" convert "$work/i-mlp.json" -o "$work/x.json" --profile Half
check "verify an unknown profile" exits 2 '--profile: Half not in {Float,Single,Double,Onnx,all}' "$tool" verify "$work/i-mlp.json" --profile Half
check "a program needs one profile" exits 2 '--program needs one --profile' "$tool" verify "$work/i-mlp.json" --program "$work/mlp.int.json"
"$build/examples/deploy" "$work/i-mlp.json" "$work/d.json" >"$work/deploy.txt"
check "the deploy example runs its program" test "$(grep -cE '^-?[0-9.]+' "$work/deploy.txt")" = 10
check "it writes what convert writes" cmp "$work/d.json" "$work/mlp.int.json"
check "it names errors" exits 1 "$work/none.json: cannot open" "$build/examples/deploy" "$work/none.json" "$work/d.json"

# The autoencoder: three models in one run, two of them also as integers.
tiny=(--samples 320 --test-samples 50 --epochs 2 --qat-epochs 2)
"$autoencoder" "${tiny[@]}" --threads 2 --save "$work/a.json" --save-float "$work/af.json" --save-calibrated "$work/ac.json" --save-program "$work/ap.json" --profile onnx --report "$work/ar.json" >"$work/auto.txt"
check "the autoencoder's table has three models" test "$(grep -cE '^(float|calibrated W8A8|trained W8A8) +0\.' "$work/auto.txt")" = 3
check "the autoencoder deploys both" test "$(grep -cE '^(calibrated|trained), deployed +0\.' "$work/auto.txt")" = 2
check "training, reference and backend agree" test "$(grep -c ': 100 samples, 0 mismatches' "$work/auto.txt")" = 2
check "the autoencoder's program is what convert writes" cmp "$work/ap.json" <("$tool" convert "$work/a.json" -o "$work/ap2.json" --profile Onnx >/dev/null; cat "$work/ap2.json")
"$tool" inspect "$work/a.json" >"$work/ai.txt"
check "the trained reconstruction is quantized" grep -q 'reconstruction.quantized .*FakeQuantizeLSQ, codes 0..255, Affine' "$work/ai.txt"
check "the autoencoder saves all models" test -s "$work/af.json" -a -s "$work/ac.json" -a -s "$work/ar.json"
check "integer programs have weights of 8 bits at most" exits 2 '--weight-bits' "$autoencoder" --weight-bits 9
check "one bit is too few" exits 2 '--weight-bits' "$autoencoder" --weight-bits 1
check "batch above the samples" exits 2 'batch must be in 1..32, got 64' "$autoencoder" --samples 32

check "--help exits 0" "$train" --help >/dev/null
check "qtape --help exits 0" "$tool" --help >/dev/null
check "unknown option" exits 2 'not expected: --frobnicate' "$train" --frobnicate
check "bits out of range" exits 2 'must be 0 (float) or in 2..16, got 17' "$train" --weight-bits 17
check "one bit" exits 2 'must be 0 (float) or in 2..16, got 1' "$train" --activation-bits 1
check "text for a number" exits 2 '--epochs' "$train" --epochs many
check "unknown estimator" exits 2 '--ste' "$train" --ste Tahn
check "batch above the data" exits 2 'batch must be in 1..100, the number of training images, got 101' "$train" --samples 100 --batch 101
check "missing data" exits 1 "$work/none/" "$train" --data "$work/none"
check "missing checkpoint" exits 1 "$work/none.json: cannot open: No such file or directory" "$train" --resume "$work/none.json"
check "setting beside resume" exits 2 '--lr: the checkpoint was made with another value' "$train" --resume "$work/c.json" --lr 0.5
check "a model is no checkpoint" exits 1 'the file is not a checkpoint of train_mlp' "$train" --resume "$work/m.json"
check "unwritable save" exits 1 'cannot write: No such file or directory' "$train" "${short[@]}" --epochs 1 --save "$work/no/m.json"
sed 's/"epochs":60/"epochs":9223372036854775807/' "$work/c.json" >"$work/epochs.json"
check "absurd checkpoint" exits 1 'epochs must be in 1..100000, got 9223372036854775807' "$train" --resume "$work/epochs.json"
sed 's/"step":[0-9]*/"step":123456789/' "$work/c.json" >"$work/step.json"
check "checkpoint beyond the end" exits 1 '/sections/progress: step 123456789 of' "$train" --resume "$work/step.json"
check "too many layers" exits 2 'the number of layers must be in 0..64, got 65' "$train" --layers "$(printf '8,%.0s' $(seq 64))8"
check "no command" exits 2 'subcommand' "$tool"
head -c 2000 "$work/m.json" >"$work/cut.json"
check "truncated model" exits 1 'is not JSON' "$tool" inspect "$work/cut.json"
cp "$work/m.json" "$work/labels.json"
sed -i 's/"shape":\[64,784\]/"shape":[64,100]/' "$work/labels.json"
check "wrong shape" exits 1 'inner extents differ' "$tool" replay "$work/labels.json"

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
