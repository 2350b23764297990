#!/usr/bin/env bash
# A model that begins with indices of words and ends in the index of a class: indices_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"

# Four words of two numbers, five words a sample, three classes.
numbers() { # numbers BYTES...: f32 as base64, each by its upper two bytes
  for each in "$@"; do printf "\\0\\0\\$(printf %o "0x${each:2:2}")\\$(printf %o "0x${each:0:2}")"; done | base64 -w0
}
table=$(numbers 3f80 bf80 4000 0000 bf00 3f40 3e80 c000)
weights=$(for i in $(seq 5); do echo 3f80 bf80 3f00 bf00 3e80 4000; done | tr '\n' ' ')
cat >"$work/m.json" <<END
{"format": "qtape", "version": 2, "nodes": [
{"label": "words", "op": {"Input": {"dtype": "s32", "shape": [1, 5]}}},
{"label": "e.weight", "op": {"Parameter": {"shape": [4, 2]}}},
{"label": "e", "op": "Embedding", "operands": [1, 0]},
{"op": "Flatten", "operands": [2]},
{"label": "fc.weight", "op": {"Parameter": {"shape": [10, 3]}}},
{"label": "fc", "op": "MatMul", "operands": [3, 4]},
{"label": "class", "op": "ArgMax", "operands": [5]},
{"label": "answer", "op": "Cast", "operands": [6]}],
"outputs": [7], "losses": [], "values": {
"e.weight": {"dtype": "f32", "shape": [4, 2], "data": "$table"},
"fc.weight": {"dtype": "f32", "shape": [10, 3], "data": "$(numbers $weights)"}}}
END

array() { # array FILE DTYPE [WORD...]: samples of five words
  local file=$1 dtype=$2 size=${2:2} word
  shift 2
  printf '\x93NUMPY\x01\x00v\x00%-117s\n' "{'descr': '$dtype', 'fortran_order': False, 'shape': ($(($# / 5)), 5), }" >"$file"
  for word in "$@"; do
    for ((i = 0; i < size; ++i)); do printf "\\x$(printf %02x $(((word >> 8 * i) & 255)))"; done
  done >>"$file"
}
array "$work/words.npy" '<i8' 0 1 2 3 0 3 3 3 3 3 2 0 1 0 1 1 1 0 0 2
array "$work/narrow.npy" '<i4' 0 1 2 3 0 3 3 3 3 3 2 0 1 0 1 1 1 0 0 2
array "$work/beyond.npy" '<i4' 0 1 2 3 0 3 3 4 3 3
array "$work/negative.npy" '<i8' 0 1 2 3 0 3 3 -1 3 3
array "$work/floats.npy" '<f4' 0 0 0 0 0

check "calibrate" "$tool" calibrate "$work/m.json" --input "$work/words.npy" -o "$work/q.json" --threads 1 >/dev/null
check "verify in all targets" "$tool" verify "$work/q.json" --input "$work/words.npy" --random 300 --requantization OnnxQdq --levels L0,L1,L2,L3,L4,L5 >"$work/verify.txt"
check "all agree" grep -q '^4 samples and 300 random inputs: 0 mismatches' "$work/verify.txt"
for each in FloatMultiply SingleRounding DoubleRounding; do
  check "verify $each" "$tool" verify "$work/q.json" --random 300 --requantization $each --levels L0,L1,L2,L3,L4 >/dev/null
done
check "convert" "$tool" convert "$work/q.json" -o "$work/p.json" >/dev/null
check "the input has a range" grep -q '"indices":4' "$work/p.json"
"$tool" replay "$work/p.json" --input "$work/words.npy" >"$work/p.txt"
check "words of 64 and of 32 bits are the same" diff "$work/p.txt" <("$tool" replay "$work/p.json" --input "$work/narrow.npy")
check "model and program answer the same" same "$(grep sha256 "$work/p.txt")" "$("$tool" replay "$work/q.json" --input "$work/words.npy" | grep sha256)"
check "integers are the class itself" "$tool" convert "$work/q.json" -o "$work/i.json" --integer-outputs >/dev/null
check "of scale 1" grep -q "class' s32\[1\] = ArgMax" <("$tool" inspect "$work/i.json")

# What is no word.
check "a word beyond the table, in a program" exits 1 "Input %1 'words': element 7 is 4, expected an index within 0..3" "$tool" replay "$work/p.json" --input "$work/beyond.npy"
check "in a model" exits 1 'index 4 at position 7 is outside the table' "$tool" replay "$work/q.json" --input "$work/beyond.npy"
check "a negative one" exits 1 "element 7 is -1, expected an index within 0..3" "$tool" replay "$work/p.json" --input "$work/negative.npy"
check "and in verify" exits 1 'is outside the table' "$tool" verify "$work/q.json" --input "$work/negative.npy"
for file in q p; do
  check "$file: floats are no words" exits 2 "input 'words' s32[5]: no column of the data fits it; the data have x f32[5]" "$tool" replay "$work/$file.json" --input "$work/floats.npy"
done

# In C.
check "export to C, with words of the data" "$tool" export c "$work/p.json" -o "$work/c" --name net --input "$work/words.npy" --check >"$work/c.txt"
check "the self-test passes" grep -q '^self-test on host: passed' "$work/c.txt"
check "the header has the range" grep -q 'Input 0, words: s32\[1, 5\]: indices, 0 to 3' "$work/c/net.h"
cat >"$work/main.c" <<'END'
#include "net.h"
int main(void) {
  int32_t words[5] = {0, 1, 2, 3, 0};
  float y[1];
  if (net_step(net_static_context(), 0) != NET_NOT_BEGUN) return 1;
  if (net_run(words, y) != NET_OK) return 2;
  words[2] = 4;
  if (net_run(words, y) != NET_INDEX) return 3;
  words[2] = -1;
  return net_run(words, y) == NET_INDEX ? 0 : 4;
}
END
check "C refuses other words" cc -I "$work/c" -o "$work/main" "$work/main.c" "$work/c/net.c"
check "with a status" "$work/main"

# In ONNX and back.
check "export to ONNX" "$tool" convert "$work/q.json" -o "$work/o.json" --requantization OnnxQdq >/dev/null
for form in qdq integer; do
  check "$form" "$tool" export onnx "$work/o.json" -o "$work/$form.onnx" --form $form >/dev/null
done

finish
