#!/usr/bin/env bash
# Files as the programs read them, models and integer programs: files_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"

# Training in exact arithmetic: the program's floats have the bits that training reported.
"$train" --samples 320 --layers 16 --epochs 1 --weight-bits 4 --activation-bits 4 --exact SingleRounding --save "$work/m.json" --json "$work/r.json" >/dev/null
"$train" --samples 320 --layers 16 --epochs 1 --weight-bits 0 --activation-bits 0 --save "$work/f.json" >/dev/null
"$tool" convert "$work/m.json" -o "$work/p.json" --requantization SingleRounding >/dev/null
"$tool" convert "$work/m.json" -o "$work/i.json" --requantization SingleRounding --integer-outputs >/dev/null

# Programs where models are read.
check "inspect prints the nodes of a program" grep -q '^%0 .*Input' <("$tool" inspect "$work/p.json")
check "and its certificates and weights" test "$("$tool" inspect "$work/p.json" | grep -cE 'proven: accumulators|^weights +12704, with their scales and biases in [0-9]+ bytes')" = 3
"$tool" replay "$work/p.json" --data "$digits" --threads 1 >"$work/replay.txt"
check "a program answers what training in exact arithmetic did" same "$(field "$work/r.json" outputs_sha256)" "$(sed -n 's/^outputs sha256 //p' "$work/replay.txt")"
check "at any number of threads" diff "$work/replay.txt" <("$tool" replay "$work/p.json" --data "$digits" --threads 2)
"$tool" replay "$work/i.json" --data "$digits" >"$work/integers.txt"
check "integer outputs are right as often as floats" same "$(sed -n 's/.*accuracy //p' "$work/replay.txt")" "$(sed -n 's/.*accuracy //p' "$work/integers.txt")"
check "but are other bytes" test "$(tail -n 1 "$work/replay.txt")" != "$(tail -n 1 "$work/integers.txt")"
check "a program has no quantizers to switch off" exits 2 "--float: $work/p.json is an integer program" "$tool" replay "$work/p.json" --data "$digits" --float
check "lint reads a program" grep -qxE 'ok|(warning|note): .*' <("$tool" lint "$work/p.json")
sed '/"Requantize"/s/"scale":[0-9.e-]*,/"scale":1073741824,/' "$work/p.json" >"$work/huge.json"
"$tool" lint "$work/huge.json" >"$work/lint.txt"
check "lint exits with 1 for a warning" test $? = 1
check "and says what is wrong with a program" grep -q '^warning: .*round to 0: every code is the zero point' "$work/lint.txt"

# Where a step goes.
for arithmetic in float values codes exact; do
  "$tool" profile "$work/m.json" --arithmetic $arithmetic --steps 2 --threads 1 >"$work/profile.txt"
  check "profile prints what nodes take, $arithmetic" grep -qE '^fc1.weight.quantized +FakeQuantize +[0-9.]+ +[0-9.]+ +[0-9.]+ % +[0-9]+$' "$work/profile.txt"
  check "and the whole step" grep -qE '^forward and backward of 64 samples: median [0-9.]+ us of 2 steps, 1 thread, [0-9]+ bytes of arena$' "$work/profile.txt"
done
check "of another batch" grep -q 'of 3 samples' <("$tool" profile "$work/m.json" --batch 3 --steps 1)
check "profile takes models alone" exits 1 'p.json' "$tool" profile "$work/p.json"

# Programs of either kind of output are what the model converts to.
check "verify takes floats" "$tool" verify "$work/m.json" --data "$digits" --requantization SingleRounding --program "$work/p.json" >/dev/null
check "verify takes integer outputs" "$tool" verify "$work/m.json" --data "$digits" --requantization SingleRounding --program "$work/i.json" >"$work/verify.txt"
check "and says that they are right" grep -qF "$work/i.json equals the conversion of the model" "$work/verify.txt"
last=$(sed -n 's/^"outputs": \[\([0-9]*\)\]/\1/p' "$work/p.json")
sed "s/^\"outputs\": .*/\"outputs\": [$((last - 1))]/" "$work/p.json" >"$work/outputs.json"
check "other outputs" exits 1 "outputs.json: differs from the conversion of the model: it has $((last + 1)) nodes, expected $last" "$tool" verify "$work/m.json" --data "$digits" --requantization SingleRounding --program "$work/outputs.json"
sed "s/^\"outputs\": .*/\"outputs\": [$last, $last]/" "$work/p.json" >"$work/twice.json"
check "outputs that differ alone" exits 1 "differs from the conversion of the model: its outputs are %$last 'fc2.value' and %$last 'fc2.value', expected %$last 'fc2.value'" "$tool" verify "$work/m.json" --data "$digits" --requantization SingleRounding --program "$work/twice.json"

# Errors name the file.
check "convert names the model" exits 1 "$work/f.json: the model has no quantizers" "$tool" convert "$work/f.json" -o "$work/x.json"
sed '/^"losses"/d; s/^"outputs": .*/"outputs": [],/' "$work/m.json" >"$work/none.json"
check "lint names the model" exits 1 "$work/none.json: the graph names no outputs" "$tool" lint "$work/none.json"
check "replay names the model" exits 1 "$work/none.json: the graph names no outputs" "$tool" replay "$work/none.json" --data "$digits"
check "convert refuses a program by its name" exits 1 "$work/p.json: /program: the file holds an integer program, not a model" "$tool" convert "$work/p.json" -o "$work/x.json"


# NaN: refused where a model is used, shown where it is looked into.
sed '/^"fc1.weight": /s/"data":"......../"data":"AADAf3wA/' "$work/m.json" >"$work/nan.json"
check "one weight is NaN" test "$(cmp "$work/m.json" "$work/nan.json" 2>&1 | wc -l)" = 1
for command in replay verify; do
  check "$command refuses NaN" exits 1 "$work/nan.json: /values/fc1.weight: element 0 is NaN, and NaN values were not requested" "$tool" $command "$work/nan.json" --data "$digits"
done
check "convert refuses NaN" exits 1 '/values/fc1.weight: element 0 is NaN' "$tool" convert "$work/nan.json" -o "$work/x.json"
check "inspect shows the model" "$tool" inspect "$work/nan.json" >/dev/null
check "lint finds the NaN" grep -q 'has weights that are NaN' <("$tool" lint "$work/nan.json")

finish
