#!/usr/bin/env bash
# --json of every command: the numbers that it prints: json_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"
page=$(realpath "$(dirname "$0")/../../docs/programs.md")
data=$(realpath "$(dirname "$0")/../data")
export LC_ALL=C
cd "$work" || exit 1

"$train" "${short[@]}" --save m.json --json trained.json --report run >trained.txt
"$train" "${short[@]}" --epochs 1 --weight-bits 0 --activation-bits 0 --save f.json >/dev/null
"$train" "${short[@]}" --epochs 1 --weight-bits 8 --activation-bits 8 --save w8.json >/dev/null
"$tool" convert m.json -o p.json >/dev/null
"$build/tests/write_lenet" lenet.onnx
"$build/examples/train_cnn" --model DSCNN --width 10 --samples 64 --epochs 1 --batch 16 --save cnn.json >/dev/null
echo "{\"command\": [\"$train\", \"--samples\", \"64\", \"--layers\", \"8\", \"--epochs\", \"1\"], \"settings\": {\"seed\": [1, 2]}}" >grid.json

# By command: the file to read, m.json by default, and further options; data and output follow from
# its help.
declare -A model=([calibrate]=f.json [lint]=f.json [train]=f.json [search]=f.json [import]=lenet.onnx [fold]=cnn.json [report]=run/run.json [sweep]=grid.json
  ["export c"]=p.json ["export tflite"]=w8.json)
declare -A options=(
  [calibrate]="--images 250 --observer Mse" [quantizers]="--images 250" [verify]="--random 50 --threads 1" [compare]="p.json --random 50 --threads 1" [profile]="--steps 3 --threads 1"
  [train]="-o t.json --epochs 1 --weight-bits 4 --activation-bits 4 --freeze-above 0.1" [search]="--budget 20000 --samples 100"
  [graph]="-o g.dot" [weights]="-o w.npz" ["export c"]="--golden 1")
declare -A code=([lint]=1)  # of a float model

objects=()
valid() { # valid FILE: one object and nothing else; its copy is read by Python at the end
  objects+=("object${#objects[@]}.copy")
  cp "$1" "${objects[-1]}"
  [ "$(head -c 2 "$1")" = '{' ] && [ "$(tail -n 1 "$1")" = '}' ] && [ "$(grep -cx '[{}]' "$1")" = 2 ]
}
all_valid() {
  python3 -c '' 2>/dev/null || return 0
  python3 -c '
import json, sys
for path in sys.argv[1:]:
    with open(path) as file:
        assert isinstance(json.load(file), dict), path' "${objects[@]}"
}
keys() { # keys FILE: those of the object, in order
  local indent
  indent=$(sed -n '2s/".*//p' "$1")
  sed -n "s/^$indent\"\([^\"]*\)\": .*/\1/p" "$1" | xargs
}
documented() { sed -n "s/^| \`$1\` | \(.*\) |$/\1/p" "$page" | tr -d '`,'; } # documented WHAT: its keys
rounded() { awk -v x="$(field "$1" "$2")" -v digits="$3" 'BEGIN { printf "%.*f", digits, x }'; }
printed() { sed -n "s/$2/\1/p" "$1" | head -n 1; }
runs() { # runs CODE COMMAND...
  local code=0
  "${@:2}" || code=$?
  [ "$code" = "$1" ]
}
same_text() { diff <(grep -v '_us"' "$1") <(grep -v '_us"' "$2"); } # but for times

options_of() { # options_of COMMAND: with which it is run
  local help
  # shellcheck disable=SC2086  # a command is words
  help=$("$tool" $1 --help)
  if grep -q -- '^  --data ' <<<"$help"; then echo "--data digits"; fi
  if grep -q -- '--output .*REQUIRED' <<<"$help" && [[ ${options[$1]:-} != *-o\ * ]]; then echo "-o ${1// /-}.made"; fi
  echo "${options[$1]:-}"
}
mapfile -t commands < <(commands)
check "the help lists commands" test "${#commands[@]}" -ge 12
# shellcheck disable=SC2086  # commands and options are words
for command in "${commands[@]}"; do
  check "$command has --json" grep -q -- '--json' <("$tool" $command --help)
  on=${model[$command]:-m.json} with=$(options_of "$command")
  expected=${code[$command]:-0}
  run=("$tool" $command "$on" $with)
  check "$command --json FILE" runs "$expected" "${run[@]}" --json "$command.out" >"$command.txt" 2>/dev/null
  check "$command: valid" valid "$command.out"
  [ "$command" = inspect ] || check "$command: keys as documented" same "$(documented "$command")" "$(keys "$command.out")"
  check "$command prints the same" test -s "$command.txt"
  check "$command --json -" runs "$expected" "${run[@]}" --json - >stdout.txt 2>stderr.txt
  check "$command --json -: JSON alone" valid stdout.txt
  [ "$command" = profile ] || check "$command --json -: the same" same_text "$command.out" stdout.txt
  check "$command --json -: what is printed goes to standard error" test -s stderr.txt
  check "$command: a folder that is missing" exits 1 "qtape: --json: $work/no/x.json: cannot write: No such file or directory" "${run[@]}" --json "$work/no/x.json"
  check "$command: the file that it reads" exits 2 "qtape: --json: ./$on is the file to read" "${run[@]}" --json "./$on"
  echo old >old.txt
  check "$command: an error" exits 1 'none.json: cannot open' "$tool" $command none.json $with --json old.txt
  check "$command: keeps the old file" same old "$(cat old.txt)"
  check "$command: an error has no JSON" runs 1 "$tool" $command none.json $with --json - >stdout.txt 2>/dev/null
  check "$command: standard output stays empty" test ! -s stdout.txt
  check "$command: a full device" runs 1 "${run[@]}" --json /dev/full >/dev/null 2>stderr.txt
  check "$command: what it could not write is kept" valid "$(sed -n 's/.*\/dev\/full: cannot write: .* saved as \(.*\) instead$/\1/p' stderr.txt)"
done

check "inspect: of a model" same "$(documented 'inspect MODEL')" "$(keys inspect.out)"
check "inspect: bytes" same "$(printed inspect.txt '^parameters .* \([0-9]*\) bytes')" "$(field inspect.out parameter_bytes)"
"$tool" inspect p.json --json program.out >program.txt
check "inspect: of an integer program" same "$(documented 'inspect PROGRAM')" "$(keys program.out)"
check "inspect: weights" same "$(printed program.txt '^weights *\([0-9]*\),.*')" "$(field program.out weights)"
check "inspect: certificates" test "$(grep -c accumulator_bound program.out)" = 2
check "replay: samples" same "$(printed replay.txt '^\([0-9]*\) samples.*')" "$(field replay.out samples)"
check "replay: accuracy" same "$(printed replay.txt '.*accuracy \(.*\) %')" "$(rounded replay.out accuracy 2)"
check "replay: the hash" same "$(printed replay.txt '^outputs sha256 \(.*\)')" "$(field replay.out outputs_sha256)"
check "calibrate: accuracy" same "$(printed calibrate.txt '^Mse *\(.*\) %,.*')" "$(rounded calibrate.out accuracy 2)"
check "quantizers: accuracy" same "$(printed quantizers.txt '^accuracy: all on \(.*\) %, .*')" "$(rounded quantizers.out all_on 2)"
check "convert: bytes of the file" same "$(stat -c %s convert.made)" "$(field convert.out bytes)"
check "convert: percent" same "$(printed convert.txt '.* bytes, \(.*\) % of .*')" "$(rounded convert.out percent_of_model 1)"
check "verify: each requantization" test "$(grep -c '"requantization":' verify.out)" = 4
check "verify: mismatches" same "$(printed verify.txt '.*inputs: \([0-9]*\) mismatches.*')" "$(field verify.out mismatches)"
check "verify: accuracy" same "$(sed -n 's/.*accuracy \(.*\) %/\1/p' verify.txt | tail -n 1)" "$(rounded verify.out accuracy 2)"
check "verify: samples" same "$(printed verify.txt '^\([0-9]*\) samples and .*')" "$(field verify.out samples)"
check "compare: random inputs" same "$(printed compare.txt '^[0-9]* samples and \([0-9]*\) random inputs: A and B agree.*')" "$(field compare.out random_inputs)"
check "compare: nodes" test "$(grep -c '"inputs_agree": true' compare.out)" = 5
check "lint: errors" same "$(grep -c '^error' lint.txt)" "$(field lint.out errors)"
"$tool" lint "$data/two_inputs.json" --json lint.out >/dev/null
check "lint: warnings beside exit 1" test "$(field lint.out warnings)" -ge 1
check "lint: notes" same "$(grep -c '"severity": "note"' lint.out)" "$(field lint.out notes)"
"$tool" lint "$data/two_inputs.json" --no-notes --json lint.out >lint.txt
check "lint: what is not printed is not written" same "$(wc -l <lint.txt)" "$(grep -c '"severity"' lint.out)"
check "profile: the median" same "$(printed profile.txt '.*median \(.*\) us of.*')" "$(rounded profile.out step_us 1)"
check "profile: bytes" same "$(printed profile.txt '.* \([0-9]*\) bytes of arena')" "$(field profile.out arena_bytes)"
check "train: accuracy" same "$(printed train.txt '^trained: accuracy \(.*\) %')" "$(rounded train.out accuracy 2)"
check "train: as it was" same "$(printed train.txt '^as it is: accuracy \(.*\) %')" "$(rounded train.out accuracy_before 2)"
check "train: frozen weights" same "$(printed train.txt '^\([0-9]*\) weights are frozen')" "$(field train.out frozen_weights)"
check "search: bytes" same "$(printed search.txt '^\([0-9]*\) bytes of weights.*')" "$(field search.out weight_bytes)"
check "export c: flash" same "$(printed "export c.txt" '^all *[0-9]* *\([0-9]*\) .*')" "$(field "export c.out" constant_bytes)"
check "graph: nodes" same "$(grep -c 'label=' g.dot)" "$(field graph.out nodes)"
check "graph: edges" same "$(grep -c -- '->' g.dot)" "$(field graph.out edges)"
check "import: parameters" same "$(printed import.txt '.* \([0-9]*\) parameters')" "$(field import.out parameters)"

check "train_mlp: keys as documented" same "$(documented 'train_mlp`, `train_cnn`, `train_keywords')" "$(keys trained.json)"
check "train_mlp: accuracy" same "$(printed trained.txt '^test accuracy \(.*\) %.*')" "$(rounded trained.json test_accuracy 2)"
"$autoencoder" --samples 64 --test-samples 10 --epochs 1 --qat-epochs 1 --json a.json >/dev/null
check "train_autoencoder: keys as documented" same "$(documented 'train_autoencoder')" "$(keys a.json)"

# Standard output takes one text.
check "two texts" exits 2 'qtape: --json: standard output is already used by --output' "$tool" convert m.json -o - --json -
check "two options of one file" exits 2 'qtape: --json: y.json is already the file of --output' "$tool" convert m.json -o y.json --json y.json
"$tool" convert m.json -o - --json c.out 2>/dev/null | cmp - p.json
check "a program on standard output, its numbers in a file" test "${PIPESTATUS[*]} $(field c.out bytes)" = "0 0 $(stat -c %s p.json)"
# Labels are written as they are, whatever is printed of them.
sed 's/"fc1.weight"/"fc1\\u000aweight \\u00e9"/g' m.json >strange.json
"$tool" inspect strange.json --json strange.out >/dev/null
check "strange labels" valid strange.out
check "which stay as they are" grep -qF '"label": "fc1\nweight é"' strange.out
check "a reader of JSON takes all" all_valid

finish
