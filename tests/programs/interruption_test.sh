#!/usr/bin/env bash
# Ctrl-C and SIGTERM; checkpoints that go on; two runs with one checkpoint:
# interruption_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"
# Job control: without it the shell has its background jobs ignore SIGINT.
set -m

signal_after() { # signal_after SIGNAL FILE TEXT COMMAND...: sends it as soon as FILE has TEXT
  rm -f "$work/log"
  "${@:4}" >"$work/log" 2>"$work/err" &
  local pid=$!
  until grep -qs "$3" "$2" || ! kill -0 $pid 2>/dev/null; do sleep 0.01; done
  kill -"$1" $pid 2>/dev/null
  wait $pid
}
ends() { # ends CODE TEXT COMMAND...: as exits, of a command that signal_after runs
  local code=0
  "${@:3}" || code=$?
  [ "$code" = "$1" ] && [ "$(wc -l <"$work/err")" = 1 ] && grep -qF -- "$2" "$work/err" && return
  echo "expected exit $1 with: $2; got exit $code with: $(cat "$work/err")"
  return 1
}

# A checkpoint at every step makes the run slow enough to be stopped.
long=("${short[@]}" --epochs 40)
"$train" "${long[@]}" --json "$work/whole.json" >/dev/null
for signal in INT TERM; do
  code=130
  [ $signal = INT ] || code=143
  file=$work/$signal.json
  check "SIG$signal: exit code and words" ends $code "train_mlp: stopped by SIG$signal after step" signal_after $signal "$file" format "$train" "${long[@]}" --checkpoint "$file" --checkpoint-every 1
  check "SIG$signal: how to go on" grep -qF "of 400; continue with --resume $file" "$work/err"
  step=$(sed -n 's/.* after step \([0-9]*\) of .*/\1/p' "$work/err")
  check "SIG$signal: the checkpoint is of that step" grep -q "\"step\":$step[,}]" "$file"
  check "SIG$signal: no lock and no partial file stay" same "$file" "$(echo "$file"*)"
  "$train" --threads 1 --resume "$file" --json "$work/resumed.json" >/dev/null
  check "SIG$signal: the same parameters" same_field parameters_sha256 "$work/whole.json" "$work/resumed.json"
  check "--resume goes on writing the checkpoint" grep -q '"step":400[,}]' "$file"
done

# Runs that would take hours.
endless=("${short[@]}" --epochs 100000)
check "without a checkpoint" ends 143 'nothing is kept without --checkpoint' signal_after TERM "$work/log" ^epoch "$train" "${endless[@]}"
check "the autoencoder stops" ends 130 'train_autoencoder: stopped by SIGINT after step' signal_after INT "$work/log" ^epoch "$autoencoder" --samples 64 --test-samples 10 --epochs 100000

"$train" "${endless[@]}" --checkpoint "$work/c.json" >/dev/null 2>&1 &
pid=$!
while [ ! -s "$work/c.json" ] && kill -0 $pid 2>/dev/null; do sleep 0.01; done
check "another run with this checkpoint" exits 1 "train_mlp: $work/./c.json: process $pid on $(hostname), since " "$train" "${short[@]}" --checkpoint "$work/./c.json"
check "another run that resumes it" exits 1 'writes checkpoints there' "$train" --resume "$work/c.json"
check "it may be resumed to another file" ends 143 'stopped by SIGTERM' signal_after TERM "$work/other.json" format "$train" --threads 1 --resume "$work/c.json" --checkpoint "$work/other.json"
kill -9 $pid
wait $pid 2>/dev/null
check "a killed run locks nothing" ends 143 'stopped by SIGTERM' signal_after TERM "$work/log" ^epoch "$train" --threads 1 --resume "$work/c.json"

# A compiler that does not end.
printf '#!/bin/sh\necho started >%q\nexec sleep 1000\n' "$work/started" >"$work/slow-cc"
chmod +x "$work/slow-cc"
"$train" "${short[@]}" --save "$work/m.json" >/dev/null
export CC=$work/slow-cc TMPDIR=$work/temporary
mkdir "$TMPDIR"
for signal in INT TERM; do
  code=130
  [ $signal = INT ] || code=143
  rm -f "$work/started"
  check "SIG$signal while a compiler runs" ends $code "qtape: SIG$signal while $CC ran" signal_after $signal "$work/started" started "$tool" verify "$work/m.json" --random 10 --levels L2,L4
  check "SIG$signal: no temporary file stays" test -z "$(ls -A "$TMPDIR")"
done

finish
