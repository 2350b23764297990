#!/usr/bin/env bash
# qtape export c: files, the self-test, and what is refused: export_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"
export LC_ALL=C
data=$(realpath "$(dirname "$0")/../data/arrays/stored.npz")
onnx=$(realpath "$(dirname "$0")/../data/onnx")
cd "$work" || exit 1
strict=(-std=c99 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
cc=${CC:-cc}

exits_with() { # exits_with CODE TEXT COMMAND...: exit code, and a line on standard output with TEXT
  local code=0
  "${@:3}" >stdout.txt || code=$?
  [ "$code" = "$1" ] && grep -qF -- "$2" stdout.txt
}
nan_is_told() {
  cat >nan.c <<'C'
#include "net.h"
int main(void) {
  static float x[784];
  float y[10];
  volatile float zero = 0;
  x[783] = zero / zero;
  return net_run(x, y) == NET_NAN ? 0 : 1;
}
C
  "$cc" -std=c99 -Ifw -o nan nan.c net.o && ./nan
}

for bits in 4 8; do
  "$train" "${short[@]}" --weight-bits $bits --activation-bits 8 --save "w$bits.json" >/dev/null
  "$tool" convert "w$bits.json" --requantization DoubleRounding -o "w$bits.int.json" >/dev/null
done

"$train" "${short[@]}" --epochs 1 --weight-bits 0 --activation-bits 0 --save f.json >/dev/null
check "a program" "$tool" export c w8.int.json -o fw --name net --golden 5 --data digits --check >out.txt
check "files" test -s fw/net.h -a -s fw/net.c -a -s fw/net_test.c
check "the self-test runs" grep -qx 'self-test on host: passed' out.txt
check "compiles without a warning" "$cc" "${strict[@]}" -O2 -o t fw/net.c fw/net_test.c
check "and says so" same 'net: 8 constants, 128 inputs, 5 samples: all as expected' "$(./t)"
check "it needs no library of C but memory functions" test -z \
  "$("$cc" -std=c99 -O2 -c fw/net.c -o net.o && nm -u net.o | grep -vE ' (memcpy|memset)$')"
check "the hash is that of the program" same "$(sha256sum <w8.int.json | cut -c-64)" "$(sed -n 's/.*SHA-256 of the program: //p' fw/net.c)"
check "its requantization is told" grep -q 'Requantization DoubleRounding' fw/net.c

# A test that must fail does.
line=$(grep -n '^static const int8_t net_fc1_weights' fw/net.c | cut -d: -f1)
sed "$((line + 1))s/^    \(-\{0,1\}[0-9]*\),/    99,/" fw/net.c >fw/changed.c
check "one changed weight" same 1 "$(diff fw/net.c fw/changed.c | grep -c '^>')"
"$cc" -std=c99 -o t fw/changed.c fw/net_test.c
check "is told by its hash" exits_with 1 'net: constant sample -1 index 3: expected' ./t
sed 's/<< (shift - 1)/<< (shift - 2)/; s/<< (30 - left)/<< (31 - left)/' fw/net.c >fw/changed.c
check "another rounding" same 1 "$(diff fw/net.c fw/changed.c | grep -c '^>')"
"$cc" -std=c99 -o t fw/changed.c fw/net_test.c
check "is told by the step" exits_with 1 'net: fc1 sample -1 index -1: expected' ./t
sed 's/^\(static const uint8_t net_expected_fc1\[[0-9]*\] = {\)$/\1 99,/' fw/net_test.c >fw/wrong.c
check "another expected code" test "$(grep -c ' 99,$' fw/wrong.c)" = 1
"$cc" -std=c99 -o t fw/net.c fw/wrong.c 2>/dev/null
check "is found" exits_with 1 'net: fc1 sample 0 index 0: expected 99, got' ./t
check "without samples" "$tool" export c w8.int.json -o small --name net >/dev/null
"$cc" -std=c99 -O2 -DNET_TEST_NO_MAIN -c small/net_test.c -o small.o
check "a test takes less than 2 KB of constants" test "$(size -A small.o | awk '/rodata|data.rel.ro/ {n += $2} END {print n}')" -lt 2048

# Two networks in one program, one of them by C++.
check "a model" "$tool" export c w4.json -o fw --requantization SingleRounding >out.txt
check "is named by its file" test -s fw/w4.c
cat >main.cpp <<'C'
#include "net.h"
#include "w4.h"
int main() {
  float x[784] = {1}, a[10], b[10];
  return net_run(x, a) + w4_run(x, b);
}
C
check "two in one program" "$cc" -std=c99 -c fw/net.c fw/w4.c
check "headers are C++ as well" c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -Ifw -o two main.cpp net.o w4.o
check "which runs" ./two
check "NaN is told" nan_is_told

# Integers at the end.
check "integers at the end" "$tool" export c w8.json -o fw --name integers --integer-outputs --check >ints.txt
check "their type" grep -q 'int32_t integers_run(const float \*x, int32_t \*' fw/integers.h
check "scales by channel" same 10 "$(sed -n 's/^#define INTEGERS_OUTPUT0_SCALES {\(.*\)}$/\1/p' fw/integers.h | tr ',' '\n' | wc -l)"
check "are told" grep -q '^warning: its channels have different scales, so the largest integer need not be the largest value' ints.txt
"$tool" convert w8.json --integer-outputs -o ints.json >/dev/null && "$tool" inspect ints.json >inspected.txt
check "by inspect as well" grep -qE '^output +fc2: s32, value q\[i\] scale\[i\] with the scales ([0-9.e-]+, ){9}[0-9.e-]+$' inspected.txt
cat >largest.c <<'C'
#include "integers.h"
int main(void) {
  static float x[INTEGERS_INPUT0_ELEMENTS];
  static const int32_t ratio[] = INTEGERS_OUTPUT0_RATIOS;
  static const float scale[] = INTEGERS_OUTPUT0_SCALES;
  int32_t sums[INTEGERS_OUTPUT0_ELEMENTS], i, by_ratio = 0, by_value = 0;
  if (integers_run(x, sums) != INTEGERS_OK) return 1;
  for (i = 1; i < INTEGERS_OUTPUT0_ELEMENTS; ++i) {
    if ((int64_t)sums[i] * ratio[i] > (int64_t)sums[by_ratio] * ratio[by_ratio]) by_ratio = i;
    if ((double)sums[i] * scale[i] > (double)sums[by_value] * scale[by_value]) by_value = i;
  }
  return by_ratio == by_value ? 0 : 2;
}
C
check "ratios order values" "$cc" "${strict[@]}" -Ifw -o largest largest.c fw/integers.c
check "as scales do" ./largest

# What is refused.
check "a name" exits 2 "qtape: --name: 'a b' cannot be the prefix of C names: it contains ' '" "$tool" export c w8.json -o fw --name 'a b'
check "a keyword" exits 2 "qtape: --name: 'int' cannot be the prefix of C names: it is a keyword of C or C++" "$tool" export c w8.json -o fw --name int
check "memory" exits 2 'qtape: --ram: the arena takes 816 bytes, the limit is 800; fc1 needs the most, 816 bytes at once' "$tool" export c w8.json -o fw --ram 800
check "enough memory" "$tool" export c w8.json -o fw --ram 816 >/dev/null
check "more samples than there are" exits 2 'qtape: --golden: the data have 1000 samples, 1001 are required' "$tool" export c w8.json -o fw --golden 1001 --data digits
check "another requantization" exits 2 'qtape: --requantization: w8.int.json is already a program of DoubleRounding' "$tool" export c w8.int.json -o fw --requantization OnnxQdq
check "data that do not fit" exits 2 "qtape: input 'x' f32[784]: column" "$tool" export c w8.json -o fw --input "$data:int32"
echo old >file
check "a folder that is a file" exits 1 'qtape: --output: file: cannot create a folder: Not a directory' "$tool" export c w8.json -o file --name net
check "which stays" same old "$(cat file)"
mkdir -p kept/net_test.c
echo old >kept/net.c
check "one file that cannot be written" exits 1 'qtape: --output: kept/net_test.c: cannot write' "$tool" export c w8.json -o kept --name net
check "leaves the others" same old "$(cat kept/net.c)"
mkdir locked && chmod 555 locked
as_user=()
[ "$(id -u)" != 0 ] || as_user=(setpriv --reuid=65534 --clear-groups)
if [ "$(id -u)" != 0 ] || { command -v setpriv >/dev/null && chmod 755 . && setpriv --reuid=65534 --clear-groups test -r w8.json -a -x "$tool"; }; then
  check "a folder that cannot be written" exits 1 'qtape: --output: locked/fw: cannot create a folder: Permission denied' "${as_user[@]}" "$tool" export c w8.json -o locked/fw --name net
fi
full_disk() { # full_disk COMMAND...: files end at 16 KiB
  (trap '' XFSZ; ulimit -f 16; "$@")
}
cp -r small full && echo old >full/net.c && echo old >full/net_test.c
check "a full disk" exits 1 'full/net.c: cannot write: File too large' full_disk "$tool" export c w8.json -o full --name net
check "leaves all files" same "$(sha256sum <small/net.h) old old" "$(sha256sum <full/net.h) $(cat full/net.c) $(cat full/net_test.c)"
check "and none besides" same 'net.c net.h net_test.c' "$(cd full && find . -mindepth 1 -printf '%f\n' | sort | tr '\n' ' ' | sed 's/ $//')"
check "a float model" exits 1 'f.json: ' "$tool" export c f.json -o fw
check "a compiler that is missing" exits 1 'qtape: cannot run none' env CC=none "$tool" export c w8.json -o fw --check
check "CMSIS-NN has no float" exits 1 'CMSIS-NN does not support OnnxQdq: convert to another requantization' "$tool" export c w8.json -o fw --requantization OnnxQdq --kernels cmsis-nn
check "it is written without a tree" "$tool" export c w8.json -o fw --name arm --requantization SingleRounding --kernels cmsis-nn --json arm.json >arm.txt
check "which steps it computes is told" grep -qx 'CMSIS-NN computes 1 of 3 steps' arm.txt
check "and by what" grep -q '^  fc1  *arm_fully_connected_wrapper_s8$' arm.txt
check "or why not" grep -q '^  fc2  *own C: its sums do not become codes, the only output of CMSIS-NN$' arm.txt
check "in JSON as well" grep -q '"kernel": "arm_fully_connected_wrapper_s8"' arm.json
"$train" "${short[@]}" --epochs 1 --weight-bits 8 --activation-bits 16 --save w8a16.json >/dev/null
check "16 bits" "$tool" export c w8a16.json -o fw --name wide --requantization SingleRounding --kernels cmsis-nn >wide.txt
check "use none of it" grep -qx 'warning: no step uses CMSIS-NN; leave out --kernels cmsis-nn, which stores weights in 8 bits' wide.txt
check "packed weights" "$tool" export c w4.json -o fw --name packed --requantization SingleRounding --kernels cmsis-nn >packed.txt
check "are stored in bytes there" grep -q '^weights 25248 bytes;' packed.txt
check "and calls it" grep -q 'arm_fully_connected_wrapper_s8(' fw/arm.c
check "checks need a tree" exits 1 'qtape: QTAPE_CMSIS_NN must name a source tree of CMSIS-NN' env -u QTAPE_CMSIS_NN "$tool" export c w8.int.json -o fw --kernels cmsis-nn --check
check "which is one" exits 1 'qtape: QTAPE_CMSIS_NN: fw has no Include/arm_nnfunctions.h' env QTAPE_CMSIS_NN=fw "$tool" verify w8.json --random 10 --requantization SingleRounding --levels L2,L6
for flag in -ffast-math -funsafe-math-optimizations -ffinite-math-only; do
  check "$flag is refused" test -z "$(! "$cc" -std=c99 "$flag" -c -o fast.o fw/net.c >fast.txt 2>&1 || echo compiled)"
done
advice() { "$cc" -std=c99 "$@" -c -o fast.o fw/net.c 2>&1 | grep -o 'compile with -[a-z=-]*' | head -n 1; }
echo 'int none;' >none.c
if "$cc" -std=c99 -mfpmath=387 -c -o fast.o none.c 2>/dev/null; then
  check "excess precision on x86" same 'compile with -mfpmath=sse' "$(advice -mfpmath=387)"
fi
check "and elsewhere" grep -q 'compile with -fexcess-precision=fast"$' fw/net.c
check "a folder like an option" "$tool" export c w8.int.json --output=-fw --name net --check >/dev/null
check "integers of a program" "$tool" export c w8.int.json -o fw2 --name integers --integer-outputs --check >ints2.txt
check "are those of its model" same "$(grep '^output' ints2.txt)" "$(grep '^output' ints.txt)"
check "no folder" exits 2 'expected a value, got an empty one' "$tool" export c w8.int.json -o ''

# Channels first.
"$tool" import "$onnx/images.onnx" -o images.json >/dev/null
"$tool" calibrate images.json --input "$onnx/images-x.npy" --save images8.json >/dev/null
check "channels first: C" "$tool" export c images8.json -o first --name images --layout nchw --check >first.txt
check "channels first: another layout" exits 2 '--layout: ' "$tool" export c images8.json -o first --layout nwhc
check "channels first: a program" "$tool" convert images8.json -o images.int.json --layout nchw --requantization OnnxQdq >converted.txt
"$tool" inspect images.int.json >inspected.txt
check "channels first: data with channels last" exits 2 "input 'x' f32[2, 6, 4]: column x has f32[6, 4, 2] per sample" "$tool" replay images.int.json --input "$onnx/images-x.npy"
check "channels first: data in another order" exits 2 '--channels Last: images.int.json was converted with --layout nchw and reads its channels first' "$tool" replay images.int.json --input "$onnx/images-x.npy" --channels Last
cat >joined.json <<'END'
{"format":"qtape","version":2,"requantization":"SingleRounding","program":[
{"label":"x","op":{"Input":{"shape":[1,3]}}},
{"op":{"Quantize":{"grid":{"scale":1.0}}},"operands":[0]},
{"op":{"Concat":{"axis":0}},"operands":[1,1]},
{"label":"y","op":"Dequantize","operands":[2]}],"outputs":[3]}
END
check "levels of one sample" exits 2 "L4 C runs the samples one by one, and output Dequantize %3 'y'" "$tool" verify joined.json --random 5 --levels L2 L4
check "channels first: its input" grep -qF "%0 'x' f32[1, 2, 6, 4] = Input" inspected.txt
"$tool" import "$onnx/windows.onnx" -o windows.json >/dev/null
"$tool" calibrate windows.json --input "$onnx/windows-x.npy" --save windows8.json >/dev/null
check "qonnx" "$tool" export onnx w4.json -o q4.onnx --form qonnx >out.txt
check "its domain, in the file and in each node" same 5 "$(grep -ao qonnx.custom_op.general q4.onnx | wc -l)"
check "a second time" cmp q4.onnx <("$tool" export onnx w4.json -o again.onnx --form qonnx >/dev/null; cat again.onnx)
check "data for qonnx" exits 2 'qtape: --data and --input apply only to models in the form qdq' "$tool" export onnx w4.json -o m.onnx --form qonnx --data digits
check "sums as outputs" exits 1 'has no accumulators because products are computed in floats: output floats or codes' "$tool" export onnx w4.json -o m.onnx --form qonnx --integer-outputs
"$tool" export onnx windows8.json -o last.onnx >/dev/null
"$tool" export onnx windows8.json -o first.onnx --layout nchw >/dev/null
check "channels last: ONNX transposes input and output" same 2 "$(grep -ao Transpose last.onnx | wc -l)"
check "channels first: ONNX transposes nothing" same 0 "$(grep -ao Transpose first.onnx | wc -l)"

# ONNX.
cp w8.json model.json
check "a model over itself" exits 2 'qtape: --output: model.json is the file to read' "$tool" export onnx model.json -o model.json
check "which stays" cmp w8.json model.json
check "no file" exits 2 'expected a value, got an empty one' "$tool" export onnx w8.json -o ''
"$tool" convert w8.json --requantization OnnxQdq -o q8.int.json >/dev/null
check "data for a program" exits 2 'qtape: --data and --input apply only to models in the form qdq' "$tool" export onnx q8.int.json -o m.onnx --input "$data"
check "another requantization" exits 1 'ONNX computes OnnxQdq, the program is of DoubleRounding' "$tool" export onnx w8.int.json -o m.onnx
check "levels of ONNX" "$tool" verify w8.json --levels L5 --random 20 >out.txt
check "take its requantization" same 1 "$(grep -c ': 0 mismatches between L2 and L5' out.txt)"
if "$tool" verify w8.json --levels L7 --random 20 --json l7.json >out.txt 2>err.txt; then
  check "ONNX Runtime" grep -q ': 0 mismatches between L2 and L7' out.txt
  check "is told with its place" grep -Eq '^ONNX Runtime 1\.[0-9.]+ (in this process$|of python3: )' <(grep -A1 '^L7 runs$' out.txt)
  check "in JSON as well" grep -q '"report": "ONNX Runtime 1\.' l7.json
else
  check "ONNX Runtime is one of two" grep -q '^qtape: L7 ONNX Runtime needs libonnxruntime (Debian 13: libonnxruntime-dev) or python3 with onnxruntime and NumPy: ' err.txt
fi
check "levels that share none" exits 2 'qtape: --levels: no requantization is supported by all of them' "$tool" verify w8.json --levels L5,L6
check "L2 alone" exits 2 'qtape: --levels: expected a level to compare with L2' "$tool" verify w8.json --levels L2
check "L0 without L1" exits 2 'qtape: --levels: L0 is compared with L1' "$tool" verify w8.json --levels L0,L2
check "powers of two" "$train" "${short[@]}" --power-of-two --save po2.json >/dev/null
check "export" "$tool" export onnx po2.json --data digits -o po2.onnx >out.txt
check "change no code" grep -q '^sequential sums in f32 change 0 of [0-9]* codes of 1000 samples, 0 of these are classified differently$' out.txt
# Products of 16-bit activations sum beyond the integers that f32 has.
"$train" "${short[@]}" --activation-bits 16 --save a16.json >/dev/null
check "export" "$tool" export onnx a16.json --opset 21 --data digits -o a16.onnx >out.txt
check "tells what it counts" grep -q '^sequential sums in f32 change [1-9][0-9]* of [0-9]* codes of 1000 samples, by up to [1-9]' out.txt
check "and that it is no bound" grep -q '^this is not a bound: ' out.txt
"$tool" export onnx w4.json --opset 21 -o w4.onnx >out.txt
check "int4 is told" grep -q '^weights of up to 4 bits are int4, which ONNX Runtime 1.21 does not fuse' out.txt
"$tool" export onnx w4.json --opset 20 -o w4.onnx >out.txt
check "and int8 is not" test "$(grep -c int4 out.txt)" = 0
"$tool" export onnx po2.json -o po2.onnx >out.txt
check "without data on random inputs" grep -q '^sequential sums in f32 change 0 of [0-9]* codes of 1000 random inputs$' out.txt
check "not learned ones" exits 2 'train_mlp: power of two requires scales that follow the data; those of LSQ are learned' "$train" "${short[@]}" --weight-bits 8 --activation-bits 8 --power-of-two --scale-mode LSQ

check "levels" "$tool" verify w8.json --levels L2,L4 --random 20 >out.txt
check "of verification" grep -q ': 0 mismatches between L2 and L4' out.txt

finish
