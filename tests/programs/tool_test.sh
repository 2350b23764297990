#!/usr/bin/env bash
# qtape on models of any kind, and its command line: tool_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"
here=$(dirname "$0")
data=$here/../data
tool_here=$(realpath "$tool")

version=$(sed -n 's/^project(qtape VERSION \([0-9.]*\).*/\1/p' "$here/../../CMakeLists.txt")
for program in train_mlp train_autoencoder; do
  check "$program --version" same "$program $version" "$("$build/examples/$program" --version)"
done
check "qtape --version" same "qtape $version" "$("$tool" --version)"
check "an unknown command" exits 2 'qtape: unknown command inspct; the nearest is inspect' "$tool" inspct m.json
check "another one" exits 2 'qtape: unknown command verfy; the nearest is verify' "$tool" verfy
check "a command far from all" exits 2 "qtape: unknown command frobnicate; expected one of $(subcommands | paste -sd, | sed 's/,/, /g')" "$tool" frobnicate m.json
check "the page of programs has every command, and no other" same "$(commands | sort)" "$(sed -n 's/^| `qtape \([a-z]*\( [a-z][a-z]*\)\{0,1\}\) .*/\1/p' "$here/../../docs/programs.md" | sort)"
check "a number out of range" exits 2 'train_mlp: --lr: expected 0 to 10, got 11' "$train" --lr 11
check "out of the tool's range" exits 2 'qtape: --random: expected 1 to 1000000000, got -5' "$tool" verify m.json --random -5
check "ranges in the help" grep -q -- '--threads .*1 to 1024' <("$train" --help)

# 640 features instead of pixels, and outputs that are no scores.
"$autoencoder" --samples 320 --test-samples 10 --epochs 1 --qat-epochs 1 --save "$work/a.json" >/dev/null
"$tool" convert "$work/a.json" -o "$work/a.int.json" >/dev/null
check "verify a model of other inputs" "$tool" verify "$work/a.json" --requantization FloatMultiply --random 300 >"$work/verify.txt"
check "nothing differs" grep -qx '300 random inputs: 0 mismatches between L1, L2 and L3' "$work/verify.txt"
check "no accuracies" test "$(grep -c 'accuracy' "$work/verify.txt")" = 0
check "verify without data" exits 2 "qtape: $work/a.json needs data for input 'x' f32[640]: --data FOLDER of MNIST-format files, or --input FILE and --labels FILE of arrays, or --random COUNT" "$tool" verify "$work/a.json"
check "of two inputs" exits 2 "needs data for input 'left' f32[3] and 'right' f32[2]: --data" "$tool" verify "$data/two_inputs.json"
needs="needs data for input 'x' f32[640]: --data FOLDER of MNIST-format files, or --input FILE and --labels FILE of arrays"
for command in replay calibrate quantizers "search --budget 100000" "train -o $work/t.json"; do
  # shellcheck disable=SC2086  # a command and its options
  check "$command without data" exits 2 "$needs" "$tool" ${command%% *} "$work/a.json" ${command#"${command%% *}"}
done
check "a program without data" exits 2 "a.int.json $needs" "$tool" replay "$work/a.int.json"
check "a result that nobody keeps" exits 2 'qtape: --output is missing: without it, or --checkpoint, the trained model would be lost' "$tool" train "$work/a.json" --data "$work"
check "inspect it" grep -q "^%0 'x' f32\[64, 640\]" <("$tool" inspect "$work/a.json")
check "lint it" test "$("$tool" lint "$work/a.json" | grep -c '^error')" = 0

# Two inputs, and one that is no batch.
for model in two_inputs unbatched; do
  check "$model: verify" "$tool" verify "$data/$model.json" --random 300 >"$work/verify.txt"
  check "$model: nothing differs" test "$(grep -c '^300 random inputs: 0 mismatches' "$work/verify.txt")" = 4
  check "$model: inspect" "$tool" inspect "$data/$model.json" >/dev/null
  check "$model: lint finds no error" test "$("$tool" lint "$data/$model.json" | cut -c 1-7 | sort -u)" = warning
done
for set in train t10k; do  # one image of one pixel
  printf '\0\0\10\3\0\0\0\1\0\0\0\1\0\0\0\1\7' >"$work/$set-images-idx3-ubyte"
  printf '\0\0\10\1\0\0\0\1\7' >"$work/$set-labels-idx1-ubyte"
done
check "images for two inputs" exits 2 "qtape: input 'left' f32[3]: no column of the data fits it; the data have x u8[1, 1], target labels u8[]" "$tool" verify "$data/two_inputs.json" --data "$work"
echo '{"format":"qtape","version":2,"nodes":[{"label":"x","op":{"Input":{"shape":[1,68719476736],"batch":true}}},{"op":"Relu","operands":[0]}],"outputs":[1],"values":{}}' >"$work/huge.json"
check "data that do not fit, before memory is taken" exits 2 "qtape: input 'x' f32[68719476736]: column x has u8[1, 1] per sample" "$tool" replay "$work/huge.json" --data "$work"
cp "$work/huge.json" "$work/-x.json"
check "a file that begins with a dash" exits 2 'qtape: unknown option -x.json; the file of this name is ./-x.json' env -C "$work" "$tool_here" inspect -x.json
check "which is read by its folder" env -C "$work" "$tool_here" inspect ./-x.json >/dev/null
check "or after --" env -C "$work" "$tool_here" inspect -- -x.json >/dev/null
long_name=$(printf 'n%.0s' $(seq 250))
check "a name of 255 bytes" "$tool" convert "$work/a.json" -o "$work/$long_name.json" >/dev/null
check "a longer one" exits 1 "qtape: --output: $work/${long_name}x.json: cannot write: File name too long" "$tool" convert "$work/a.json" -o "$work/${long_name}x.json"
check "images of another size" exits 2 "qtape: input 'x' f32[640]: column x has u8[1, 1] per sample" "$tool" verify "$work/a.json" --data "$work"

# Threads: what the environment says.
threads_of() { env "$@" "$train" --samples 64 --layers 8 --epochs 1 --json - 2>/dev/null | sed -n 's/^ *"threads": \([0-9]*\).*/\1/p'; }
check "OMP_NUM_THREADS is the default of threads" same 3 "$(threads_of OMP_NUM_THREADS=3,2)"
check "affinity is, without it" same 1 "$(threads_of -u OMP_NUM_THREADS taskset -c "$(taskset -cp $$ | sed 's/.*: \([0-9]*\).*/\1/')")"

finish
