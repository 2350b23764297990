#!/usr/bin/env bash
# train_mlp with learned quantizers on a schedule: threads, instruction sets, a finished run:
# learned_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"

for mode in LSQ PACT; do
  learned=("${short[@]}" --scale-mode $mode --quantize-after 4 --warm-up 7 --freeze-after 12)
  "$train" "${learned[@]}" --threads 1 --json "$work/one.json" >/dev/null
  "$train" "${learned[@]}" --threads 2 --json "$work/two.json" --checkpoint "$work/l.json" --checkpoint-every 3 >/dev/null
  check "$mode: threads change no bit" same_field parameters_sha256 "$work/one.json" "$work/two.json"
  "$train" --threads 1 --resume "$work/l.json" --json "$work/resumed.json" >/dev/null
  check "$mode: a finished run resumes to itself" same_field outputs_sha256 "$work/one.json" "$work/resumed.json"
  for isa in baseline avx512; do
    DNNL_MAX_CPU_ISA=SSE41 QTAPE_ISA=$isa "$train" "${learned[@]}" --json "$work/$isa.json" >/dev/null
  done
  check "$mode: avx512 equals baseline" same_field parameters_sha256 "$work/baseline.json" "$work/avx512.json"
done

"$train" "${brief[@]}" --weight-bits 0 --activation-bits 0 --data "$digits" --save "$work/f.json" >/dev/null
tuned=("$tool" train "$work/f.json" --data "$digits" --scales LSQ --epochs 1 -o "$work/t.json")
"${tuned[@]}" --lr 9 >"$work/large.txt"
check "steps larger than the range of a scale" grep -q '^warning: a step can change [0-9]* learned scales by more than the range of the data, first ' "$work/large.txt"
"${tuned[@]}" --lr 9 --weight-bits 2 >"$work/wild.txt"
counted=$(sed -n 's/^\([0-9]*\) warnings\{0,1\} of the integer form: qtape lint .*/\1/p' "$work/wild.txt")
# Whether there are any depends on the version of oneDNN; without any, nothing is printed.
check "warnings of the integer form are counted" same "$("$tool" lint "$work/t.json" | grep -c '^warning: ')" "${counted:-0}"
check "smaller ones" test -z "$("${tuned[@]}" | grep '^warning')"

finish
