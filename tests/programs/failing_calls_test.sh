#!/usr/bin/env bash
# Calls that fail, one at a time, in every program that writes: an error in words or the same
# files, never another file, a lost one or a partial one:
# failing_calls_test.sh BUILD_FOLDER [KIND NUMBER]...
# KIND is files, memory, or signal: SIGTERM arrives in a call on files. Of its calls in each program
# NUMBER fail, evenly spread, or `all`, or `paths`: the first allocation of each call path. By default
# 24 of files, 24 signals and 8 allocations.
# `memory paths` takes more than an hour, `memory all` a day.
source "$(dirname "$0")/common.sh"
shift
plan=("$@")
[ $# -gt 0 ] || plan=(files 24 signal 24 memory 8)
preload=$build/tests/failing_calls.so
if ! [ -e "$preload" ]; then
  echo "skipped: programs with a sanitizer do not load $preload"
  exit 77
fi

"$train" --samples 64 --layers 4 --epochs 1 --weight-bits 4 --activation-bits 8 --threads 1 --save "$work/m.json" >/dev/null
"$tool" convert "$work/m.json" -o "$work/p.json" >/dev/null
"$tool" convert "$work/m.json" --requantization OnnxQdq -o "$work/q.json" >/dev/null
"$tool" export onnx "$work/q.json" -o "$work/q.onnx" >/dev/null
"$tool" weights "$work/m.json" -o "$work/w.npz" >/dev/null
"$build/examples/train_cnn" --model DSCNN --width 10 --samples 64 --batch 16 --epochs 1 --threads 1 --weight-bits 0 --activation-bits 0 --save "$work/norms.json" >/dev/null
"$train" --samples 64 --layers 4 --epochs 1 --threads 1 --report "$work/run" >/dev/null

# One trial in a folder of its own: trial KIND CALL COMMAND...; words of the command with @ name
# files that it writes. Prints a line if the trial fails, and DONE if the program has no such call.
trial() {
  local kind=$1 call=$2 folder code=0 file name words
  folder=$(mktemp -d "$work/trial.XXXXXX")
  mkdir "$folder/out"
  for file in "$expected"/*; do echo old >"$folder/out/${file##*/}"; done
  (
    cd "$folder/out" || exit 1
    # Set by env, so that no call of timeout itself counts.
    timeout 120 env FAILING_KIND="$kind" FAILING_CALL="$call" FAILING_REPORT="$folder/report" \
      LD_PRELOAD="$preload" "${@:3}" >"$folder/printed" 2>"$folder/error"
  ) || code=$?
  words=$(cat "$folder/report" 2>/dev/null)
  case $words in
  [0-9]*) echo DONE ;;
  *)
    if [ $code -ge 124 ] && [ "$kind $code" != 'signal 143' ]; then
      echo "FAILED: $kind $call ($words) in ${*:3}: exit code $code: $(tail -n 1 "$folder/error")"
    elif [ "$kind" != signal ] && [ $code -ne 0 ] && ! [ -s "$folder/error" ]; then
      echo "FAILED: $kind $call ($words) in ${*:3}: exit code $code without a word"
    fi
    # The files of exported C belong together.
    if [[ "${*:3}" = *'export c '* && "$(cd "$folder/out" && for file in "$expected"/*; do
      cmp -s "${file##*/}" "$file" && echo new || echo old
    done | sort -u | wc -l)" != 1 ]]; then
      echo "FAILED: $kind $call ($words) in ${*:3}: exit code $code: some files are new, others old"
    fi
    for file in "$folder"/out/* "$folder"/out/.[!.]*; do
      [ -e "$file" ] || continue
      name=${file##*/}
      if ! [ -e "$expected/$name" ]; then
        echo "FAILED: $kind $call ($words) in ${*:3}: exit code $code: leaves $name"
      elif ! cmp -s "$file" "$expected/$name"; then
        [ $code -ne 0 ] && [ "$(cat "$file")" = old ] && continue
        # The checkpoint of a run that the signal ended.
        [ "$kind" = signal ] && "$tool" inspect "$file" >/dev/null 2>&1 && continue
        echo "FAILED: $kind $call ($words) in ${*:3}: exit code $code: $name is damaged"
      fi
    done
    for file in "$expected"/*; do
      [ -e "$folder/out/${file##*/}" ] ||
        echo "FAILED: $kind $call ($words) in ${*:3}: exit code $code: ${file##*/} is lost"
    done
    ;;
  esac
  rm -rf "$folder"
}
export -f trial
export work preload tool expected=$work/expected

# Writes the files of a run in which nothing fails, the number of its calls to $work/report and
# those with call paths of their own to $work/paths: count_calls KIND COMMAND...
count_calls() {
  rm -rf "$expected" "$work/report"
  mkdir "$expected"
  (
    cd "$expected" || exit 1
    FAILING_KIND=$1 FAILING_CALL=0 FAILING_REPORT=$work/report FAILING_PATHS=$work/paths \
      LD_PRELOAD=$preload "${@:2}"
  ) >"$work/out" 2>"$work/err" && return
  cat "$work/err" >&2
  return 1
}

tried_commands=()
try() { # try COMMAND...: all calls of the plan
  local i number most lines tried
  [ "$1" != "$tool" ] || tried_commands+=("$2" "$2 $3")
  for ((i = 0; i < ${#plan[@]}; i += 2)); do
    count_calls "${plan[i]}" "$@" || return 1
    number=$(cat "$work/report")
    most=${plan[i + 1]}
    if [ "$most" = paths ]; then
      cp "$work/paths" "$work/calls"
    else
      [ "$most" != all ] || most=$number
      seq 1 $(((number + most - 1) / most)) "$number" >"$work/calls"
    fi
    # shellcheck disable=SC2016
    xargs -P "${JOBS:-1}" -I{} bash -c 'trial "$0" {} "$@"' "${plan[i]}" "$@" <"$work/calls" >"$work/lines"
    lines=$(grep -v '^DONE' "$work/lines")
    tried=$(($(wc -l <"$work/calls") - $(grep -c '^DONE' "$work/lines")))
    echo "${1##*/} ${*:2}: ${plan[i]}: $tried of $number calls failed"
    # The clock moves some calls of a run, not many.
    [ $((tried * 10)) -ge $(($(wc -l <"$work/calls") * 9)) ] || { echo "expected nearly all to fail"; return 1; }
    [ -z "$lines" ] || { echo "$lines"; return 1; }
  done
}

check "training" try "$train" --samples 64 --layers 4 --epochs 1 --threads 1 --save m.json
check "a checkpoint" try "$train" --samples 64 --layers 4 --epochs 1 --threads 1 --checkpoint c.json
check "convert" try "$tool" convert "$work/m.json" -o p.json
check "export c" try "$tool" export c "$work/p.json" --name n -o .
check "export onnx" try "$tool" export onnx "$work/q.json" -o q.onnx
check "export tflite" try "$tool" export tflite "$work/m.json" --data "$digits" -o q.tflite
check "import" try "$tool" import "$work/q.onnx" -o m.json
check "weights" try "$tool" weights "$work/m.json" -o w.npz
check "weights as safetensors" try "$tool" weights "$work/m.json" -o w.safetensors
check "weights replaced" try "$tool" weights "$work/m.json" --from "$work/w.npz" -o m.json
check "graph" try "$tool" graph "$work/m.json" -o g.dot
check "calibrate" try "$tool" calibrate "$work/m.json" --data "$digits" --images 32 --threads 1 -o m.json
check "train" try "$tool" train "$work/m.json" --data "$digits" --epochs 1 --threads 1 -o m.json
check "train with a checkpoint" try "$tool" train "$work/m.json" --data "$digits" --epochs 1 --threads 1 --checkpoint c.json
check "replay" try "$tool" replay "$work/m.json" --data "$digits" --threads 1 -o y.npy --json r.json
check "search" try "$tool" search "$work/m.json" --data "$digits" --budget 4000 --threads 1 -o m.json
check "fold" try "$tool" fold "$work/norms.json" -o m.json
check "report" try "$tool" report "$work/run" -o r.html

# Limits of the address space from too little to enough: a run ends before its first step with
# figures, or writes its checkpoint.
memory_limits() {
  local limit code refused=0 whole=0
  for limit in 150000 250000 350000 450000 700000 1500000; do
    code=0
    rm -f "$work/limited.json"
    (
      ulimit -v "$limit"
      exec "$train" --samples 64 --layers 2048,2048 --epochs 1 --threads 1 --checkpoint "$work/limited.json"
    ) >"$work/out" 2>"$work/err" || code=$?
    if [ $code = 0 ] && [ -s "$work/limited.json" ]; then whole=1; continue; fi
    grep -q '(ulimit -v)' "$work/err" || { echo "limit $limit: exit code $code: $(cat "$work/err")"; return 1; }
    grep -q 'epoch' "$work/out" && return 1
    grep -q 'writing this checkpoint may take [0-9]* bytes' "$work/err" && refused=1
  done
  [ $refused$whole = 11 ]
}
check "limits of the address space" memory_limits

# Files of a sweep hold times. Its runs are programs of their own, which are tried above.
every_writer() {
  local command
  commands | while read -r command; do
    [ "$command" != sweep ] || continue
    # shellcheck disable=SC2086
    "$tool" $command --help >"$work/help"
    grep -q -e '-o,--output' "$work/help" || continue
    [[ " ${tried_commands[*]} " = *" $command "* ]] || echo "not tried: $command"
  done
}
check "every command that writes" test -z "$(every_writer)"
finish
