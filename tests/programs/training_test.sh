#!/usr/bin/env bash
# train_mlp: the same bits at any thread count and instruction set, and in a replay:
# training_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"

"$train" "${short[@]}" --threads 1 --save "$work/m.json" --json "$work/one.json" >"$work/log"
check "one line per epoch" test "$(grep -c '^epoch' "$work/log")" = 2
"$train" "${short[@]}" --threads 2 --json "$work/two.json" >/dev/null
check "threads change no bit" same_field parameters_sha256 "$work/one.json" "$work/two.json"
# oneDNN's own float accumulators differ between instruction sets; capped alike, ours must not.
for isa in baseline avx2 avx512; do
  DNNL_MAX_CPU_ISA=SSE41 QTAPE_ISA=$isa "$train" "${short[@]}" --json "$work/$isa.json" >/dev/null
done
check "avx2 equals baseline" same_field parameters_sha256 "$work/baseline.json" "$work/avx2.json"
check "avx512 equals baseline" same_field parameters_sha256 "$work/baseline.json" "$work/avx512.json"

check "replay gives the same bits" same "$(field "$work/one.json" outputs_sha256)" "$(replayed "$work/m.json")"
"$train" "${short[@]}" --save-data "$work/data" --json "$work/saved.json" >/dev/null
"$train" "${brief[@]}" --data "$work/data" --json "$work/read.json" >/dev/null
check "generated data as files" same_field parameters_sha256 "$work/one.json" "$work/saved.json"
check "train to the same bits" same_field outputs_sha256 "$work/one.json" "$work/read.json"
check "data that are named are not saved" exits 2 'train_mlp: --save-data writes generated data and cannot be combined with --data' "$train" "${brief[@]}" --data "$work/data" --save-data "$work/more"
check "data over a file" exits 1 "$work/m.json: cannot create this folder" "$train" "${short[@]}" --save-data "$work/m.json"
"$tool" inspect "$work/m.json" >"$work/inspect.txt"
check "inspect shows quantizers" grep -q 'fc1.input.quantized .*FakeQuantize, codes 0..15, Symmetric' "$work/inspect.txt"
"$train" "${short[@]}" --scale-mode lsq --epochs 1 --json "$work/lower.json" >/dev/null
check "enumerations in any case" same LSQ "$(field "$work/lower.json" scale_mode)"

finish
