#!/usr/bin/env bash
# Wrong arguments and wrong files, each an exit code and one line: arguments_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"

check "--help exits 0" "$train" --help >/dev/null
check "qtape --help exits 0" "$tool" --help >/dev/null
check "unknown option" exits 2 'train_mlp: unknown option --frobnicate' "$train" --frobnicate
check "an option misspelt" exits 2 'qtape: unknown option --weigth-bits; the nearest is --weight-bits' "$tool" calibrate m.json --weigth-bits 4
check "one where others are missing" exits 2 'qtape: unknown option --ouput; the nearest is --output' "$tool" convert m.json --ouput p.json
check "one of a command of a command" exits 2 'qtape: unknown option --goldn; the nearest is --golden' "$tool" export c p.json -o c --goldn 3
check "numbers as people write them" exits 2 'qtape: --lr: expected 0 to 10, got 99' "$tool" train m.json --lr 99
check "in the help as well" grep -q -- '--lr FLOAT:0 to 10' <("$tool" train --help)
check "none in another way" test -z "$("$tool" train --help | grep -F ' in [')"
check "commands in groups" same "Models: Quantization and training: Integers: " "$("$tool" --help | sed -n '/^[A-Z].*:$/p' | grep -v '^[OUS][a-z]*:' | tr '\n' ' ')"
check "bits out of range" exits 2 '--weight-bits: expected 0 (float) or 2 to 16, got 17' "$train" --weight-bits 17
check "one bit" exits 2 '--activation-bits: expected 0 (float) or 2 to 16, got 1' "$train" --activation-bits 1
check "negative delay" exits 2 '--quantize-after: expected 0 or more, got -1' "$train" --quantize-after -1
check "a list with an empty element" exits 2 '--layers: expected a value before and after each comma, got 8,,4' "$train" --layers 8,,4
check "a list that ends in a comma" exits 2 '--layers: expected a value before and after each comma, got 8,' "$train" --layers=8,
check "number of more than 64 bits" exits 2 '--seed: expected 0 to 9223372036854775807, got 9223372036854775808' "$train" --seed 9223372036854775808
check "batch above the data" exits 2 'batch must be in 1..100, the number of training samples, got 101' "$train" --samples 100 --batch 101
check "missing data" exits 1 "$work/none/" "$train" --data "$work/none"
check "unwritable save" exits 1 'cannot write: No such file or directory' "$train" "${short[@]}" --epochs 1 --save "$work/no/m.json"
check "too many layers" exits 2 'the number of layers must be in 0..64, got 65' "$train" --layers "$(printf '8,%.0s' $(seq 64))8"
check "samples of data that exist" exits 2 '--samples has no effect with --data' "$train" --data "$digits" --samples 100
check "their difficulty" exits 2 '--digits has no effect with --data' "$train" --data "$digits" --digits Hard
check "no checkpoint to write" exits 2 '--checkpoint-every needs --checkpoint, or a file for --resume' "$train" --checkpoint-every 3
check "no bf16 here" exits 2 'gradient_precision BF16: expected a processor' env DNNL_MAX_CPU_ISA=AVX2 "$train" "${short[@]}" --gradient-precision BF16
check "no command" exits 2 'subcommand' "$tool"

"$train" "${short[@]}" --epochs 1 --save "$work/m.json" >/dev/null
head -c 2000 "$work/m.json" >"$work/cut.json"
check "truncated model" exits 1 'is not JSON' "$tool" inspect "$work/cut.json"
sed 's/"shape":\[64,784\]/"shape":[64,100]/' "$work/m.json" >"$work/labels.json"
check "wrong shape" exits 1 'inner extents differ' "$tool" replay "$work/labels.json"

check "an option before its command" exits 2 'qtape: --json: expected after the command inspect, got before it' "$tool" --json "$work/r.json" inspect "$work/m.json"
check "import of a model" exits 1 "$work/m.json: is JSON, expected an ONNX or TensorFlow Lite file; models and programs of qtape need no import" "$tool" import "$work/m.json" -o "$work/i.json"

# Options without effect are refused.
check "a seed of no random inputs" exits 2 'qtape: --seed needs --random' "$tool" verify "$work/m.json" --data "$digits" --seed 3
check "nor to compare" exits 2 '--seed needs --random in addition to data' "$tool" compare "$work/m.json" "$work/m.json" --data "$digits" --seed 3
check "channels of no arrays" exits 2 '--channels requires --input' "$tool" verify "$work/m.json" --data "$digits" --channels First
check "rounding of steps in float" exits 2 '--requantization needs --arithmetic Exact' "$tool" profile "$work/m.json" --requantization OnnxQdq
check "threads of a model that does not run" exits 2 '--threads has no effect: only a model, not an integer program, is run, in the form qdq' "$tool" export onnx "$work/m.json" --form integer --threads 1 -o "$work/m.onnx"
check "teachers and float networks" exits 2 '--scales-lr has no effect with --float' "$tool" train "$work/m.json" --data "$digits" --float --scales-lr 0.1 -o "$work/n.json"

finish
