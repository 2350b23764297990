#!/usr/bin/env bash
# Models of TensorFlow Lite, written and read by every command: tflite_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"

m=$work/m.json t=$work/m.tflite
"$train" "${brief[@]}" --weight-bits 8 --activation-bits 8 --data "$digits" --save "$m" >/dev/null

check "sums need a range" exits 2 "$m: the outputs are sums, but operators of TensorFlow Lite Micro end in codes; expected --data or --input" "$tool" export tflite "$m" -o "$t"
check "nothing is written" test ! -e "$t"
check "export tflite" "$tool" export tflite "$m" -o "$t" --data "$digits" --json "$work/export.out" >"$work/export.txt"
check "its samples" same "$(grep -c '^outputs are quantized to 8 bits, by their ranges on 640 samples$' "$work/export.txt")" 1
check "grids of both ends" same "$(grep -cE "^(input|output) '.*': INT8, scale [0-9.e-]+, zero point -?[0-9]+$" "$work/export.txt")" 2
check "the identifier" same "$(head -c 8 "$t" | tail -c 4)" TFL3

check "verify" "$tool" verify "$t" >"$work/verify.txt"
check "on random inputs" grep -q '^1000 random inputs: 0 mismatches between L2 and L3$' "$work/verify.txt"
check "in C" "$tool" verify "$t" --random 20 --levels L2,L4 >"$work/verify.txt"
check "TensorFlow Lite Micro needs a tree" exits 1 'qtape: QTAPE_TFLITE_MICRO must name a source tree of TensorFlow Lite Micro' env -u QTAPE_TFLITE_MICRO "$tool" verify "$t" --levels TFLM
check "which is one" exits 1 "qtape: QTAPE_TFLITE_MICRO: $work has no tensorflow/lite/micro/micro_interpreter.h" env QTAPE_TFLITE_MICRO="$work" "$tool" verify "$t" --levels L8
mkdir -p "$work/tree/tensorflow/lite/micro"
touch "$work/tree/tensorflow/lite/micro/micro_interpreter.h"
check "with its libraries" exits 1 "qtape: QTAPE_TFLITE_MICRO: $work/tree has no third_party/flatbuffers/include/flatbuffers/flatbuffers.h" env QTAPE_TFLITE_MICRO="$work/tree" "$tool" verify "$t" --levels tflm
check "of one requantization" exits 2 "--levels: no requantization is supported by all of them" "$tool" verify "$m" --levels TFLM,ONNX
if [ -n "${QTAPE_TFLITE_MICRO:-}" ]; then
  check "on TensorFlow Lite Micro" "$tool" verify "$t" --random 20 --levels L2,TFLM >"$work/verify.txt"
  check "its codes" grep -q '^20 random inputs: 0 mismatches between L2 and L8$' "$work/verify.txt"
fi
check "L0 needs a model" exits 2 "L0 float needs a model, not a program" "$tool" verify "$t" --levels L0,L1,L2
check "nor is it another program's" exits 2 "--program: $t is itself a program" "$tool" verify "$t" --requantization DoubleRounding --program "$t"
check "its requantization is fixed" exits 2 "$t is a program of DoubleRounding, but --levels and --requantization leave only OnnxQdq" "$tool" verify "$t" --requantization OnnxQdq
"$tool" verify "$t" --data "$digits" >"$work/verify.txt"
check "data" grep -qE '^[0-9]+ samples and 0 random inputs: 0 mismatches between L2 and L3$' "$work/verify.txt"
check "have scores" grep -qE '^L3 .*: accuracy [0-9.]+ %$' "$work/verify.txt"

check "inspect" "$tool" inspect "$t" >"$work/inspect.txt"
check "names" grep -q "Requantize" "$work/inspect.txt"
check "lint" "$tool" lint "$t" --no-notes >/dev/null
check "replay" "$tool" replay "$t" --data "$digits" >"$work/replay.txt"
check "accuracy" grep -q 'samples, accuracy' "$work/replay.txt"
check "graph" "$tool" graph "$t" -o "$work/t.dot" >"$work/graph.txt"
check "its nodes" same "$(grep -c 'label=' "$work/t.dot")" "$("$tool" inspect "$t" | grep -c '^%')"
check "codes, scales and multipliers" grep -qE '8 bits, codes -128..127\|scale [0-9.e-]+, zero point -?[0-9]+\|32 multipliers, [0-9]+ >> [0-9]+ to [0-9]+ >> [0-9]+"' <(tr '\n' '|' <"$work/t.dot")
"$tool" compare "$t" "$m" >"$work/compare.txt"
check "compare with the model: its codes of both layers are the same" test "$(grep -cE '^(x.codes|fc[12]).* 0$' "$work/compare.txt")" = 4
check "less 128" test "$(grep -cx '    codes of B are 128 larger for the same values' "$work/compare.txt")" = 2
check "until the outputs are quantized" grep -q "^only in A: Requantize .* 'fc2.quantized' " "$work/compare.txt"
check "export c" "$tool" export c "$t" -o "$work/c" --name net --check >"$work/c.txt"
check "integers at its end" "$tool" export c "$t" -o "$work/c8" --name net --integer-outputs --check >"$work/c.txt"
check "are codes" grep -q '#define NET_OUTPUT0_TYPE int8_t' "$work/c8/net.h"
check "written again" "$tool" export tflite "$t" -o "$work/again.tflite" >/dev/null
check "with the same bytes" cmp "$t" "$work/again.tflite"

w=$work/wide.json
"$train" "${brief[@]}" --weight-bits 0 --activation-bits 0 --data "$digits" --save "$work/float.json" >/dev/null
check "16 bits" "$tool" calibrate "$work/float.json" --activation-bits 16 --signed-activations --data "$digits" -o "$w" >/dev/null
check "as 16x8" "$tool" export tflite "$w" -o "$work/wide.tflite" --data "$digits" >"$work/export16.txt"
check "its outputs" grep -qE "^output '.*': INT16, scale [0-9.e-]+, zero point 0$" "$work/export16.txt"
check "are verified" "$tool" verify "$work/wide.tflite" --random 50 --levels L2,L3,L4 >/dev/null

i=$work/imported.json f=$work/fine.json
check "import" "$tool" import "$t" -o "$i" >"$work/import.txt"
check "its layers" grep -q ' 2 layers with weights, ' "$work/import.txt"
"$build/tests/write_lenet" "$work/lenet.onnx"
check "an end before the file" "$tool" import --end fc2 "$work/lenet.onnx" -o "$work/lenet.json" >/dev/null
check "no end of a .tflite file" exits 2 "--end: $t is a .tflite file, expected ONNX" "$tool" import "$t" -o "$i" --end x
check "its program" "$tool" verify "$i" --random 100 --requantization DoubleRounding >"$work/verify.txt"
check "agrees" grep -q ' 0 mismatches' "$work/verify.txt"
check "fixed scales" exits 2 "--fixed-scales cannot be combined with --float" "$tool" train "$i" --fixed-scales --float -o "$f" --data "$digits"
check "fine-tuning" "$tool" train "$i" --fixed-scales --epochs 1 --data "$digits" -o "$f" >"$work/fine.txt"
check "of the file itself" "$tool" train "$t" --fixed-scales --epochs 1 --data "$digits" -o "$work/direct.json" >"$work/direct.txt"
check "trains the same model" same "$(grep '^trained: ' "$work/fine.txt")" "$(grep '^trained: ' "$work/direct.txt")"
check "keeps the grids" same "$("$tool" export tflite "$f" -o "$work/fine.tflite" | grep -E '^(input|output)' | sed 's/.*INT8/INT8/')" "$(sed -n '/^input\|^output/s/.*INT8/INT8/p' "$work/export.txt")"
check "with other weights" test "$(sha256sum <"$t")" != "$(sha256sum <"$work/fine.tflite")"
check "verified" "$tool" verify "$work/fine.tflite" >/dev/null
check "other scales" "$tool" train "$i" --epochs 1 --data "$digits" -o "$f" >"$work/fine.txt"
check "are said" grep -q '^quantizers with fixed scales are replaced; --fixed-scales keeps them$' "$work/fine.txt"

head -c 1000 "$t" >"$work/cut.tflite"
check "a cut file" exits 1 "$work/cut.tflite: " "$tool" inspect "$work/cut.tflite"
"$train" "${brief[@]}" --data "$digits" --save "$m" >/dev/null
check "codes of 4 bits, before data are asked for" exits 1 "expected -128..127 (8 bits) or the limits of RELU, RELU6 or RELU_N1_TO_1" "$tool" export tflite "$m" -o "$work/four.tflite"
finish
