#!/usr/bin/env bash
# qtape sweep: grids, shared runs, kills, errors: sweep_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"

grid() { # grid FILE SETTINGS [OPTION...]: a grid of short runs
  local command options=""
  for command in "${short[@]:0:6}" "${@:3}"; do options+=", \"$command\""; done
  echo "{\"command\": [\"$train\"$options, \"--threads\", \"1\"], \"settings\": $2}" >"$work/$1"
}
hash_of() { field "$work/$1/result.json" parameters_sha256; }

grid grid.json '{"weight_bits": [4, 8], "seed": [1, 2, 3]}'
"$tool" sweep "$work/grid.json" --output "$work/sweep" --json "$work/sweep.json" >"$work/out" &
first=$!
"$tool" sweep "$work/grid.json" --output "$work/sweep" >"$work/out2"
check "one of two processes succeeds" same $? 0
wait $first
check "the other one succeeds" same $? 0
check "all runs finish" same "$(field "$work/sweep.json" finished)" 6
check "each runs once" same "$(cat "$work/out" "$work/out2" | grep -c ': finished in')" 6
check "the table has all runs" same "$(wc -l <"$work/sweep/table.csv")" 7
check "the table names settings and results" grep -q '^run,weight_bits,seed,.*test_accuracy' "$work/sweep/table.csv"
check "a page shows the runs" grep -q 'weight_bits=8,seed=3' "$work/sweep/report.html"
"$train" "${short[@]:0:6}" --threads 1 --weight-bits 8 --seed 3 --json "$work/single.json" >/dev/null
check "a run equals a single run" same "$(hash_of sweep/weight_bits=8,seed=3)" "$(field "$work/single.json" parameters_sha256)"
"$tool" sweep "$work/grid.json" --output "$work/sweep" >"$work/out"
check "finished runs are not repeated" same "$(grep -c ': finished in' "$work/out")" 0
sed 's/"--epochs", "2"/"--epochs", "3"/' "$work/grid.json" >"$work/changed.json"
check "a report over the table" exits 2 "--output: $work/sweep/table.csv is already the file of --json" "$tool" sweep "$work/grid.json" --output "$work/sweep" --json "$work/sweep/table.csv"
cp "$work/grid.json" "$work/sweep/report.html"
check "a page over the grid" exits 2 "--output: $work/sweep/report.html is the file to read" "$tool" sweep "$work/sweep/report.html" --output "$work/sweep"
check "a folder below a file" exits 1 "--output: $work/grid.json/sweep: cannot create this folder: Not a directory" "$tool" sweep "$work/grid.json" --output "$work/grid.json/sweep"
check "results of a different command" exits 2 "$work/sweep/weight_bits=4,seed=1/command.txt was written for a different command: name another folder for the results, or remove this one" "$tool" sweep "$work/changed.json" --output "$work/sweep"

# A sweep that is killed, and then its run, from the run's checkpoint.
grid long.json '{"seed": [1, 2]}' --epochs 40 --checkpoint-every 5
"$tool" sweep "$work/long.json" --output "$work/killed" >/dev/null &
job=$!
while [ ! -s "$work/killed/seed=1/checkpoint.json" ] && kill -0 $job; do sleep 0.01; done
kill -9 $job
wait $job 2>/dev/null
pkill -9 -f "$work/killed" || true
check "a killed sweep leaves runs" test ! -e "$work/killed/seed=1/result.json"
check "it continues" "$tool" sweep "$work/long.json" --output "$work/killed"
"$train" "${short[@]:0:6}" --threads 1 --epochs 40 --seed 1 --json "$work/single.json" >/dev/null
check "a run that continues equals a single run" same "$(hash_of killed/seed=1)" "$(field "$work/single.json" parameters_sha256)"

# One of two sweeps is killed: the other one takes over its run.
grid shared.json '{"seed": [1, 2, 3, 4]}' --epochs 40 --checkpoint-every 5
"$tool" sweep "$work/shared.json" --output "$work/shared" >"$work/out" &
job=$!
while [ ! -s "$work/shared/seed=1/checkpoint.json" ] && kill -0 $job; do sleep 0.01; done
"$tool" sweep "$work/shared.json" --output "$work/shared" >"$work/out2" &
other=$!
while [ ! -s "$work/shared/seed=2/checkpoint.json" ] && kill -0 $other; do sleep 0.01; done
kill -9 $job
wait $job 2>/dev/null
check "a sweep outlives another one" eval 'wait $other'
check "it takes over the run" same "$(cat "$work/out" "$work/out2" | grep -c ': finished in')" 4
check "with the same result" same "$(hash_of shared/seed=1)" "$(hash_of killed/seed=1)"

# A run that fails costs no other.
grid failing.json '{"batch": [64, 100000], "seed": [1]}'
"$tool" sweep "$work/failing.json" --output "$work/failing" >"$work/out" 2>&1
check "a failed run is an error" same $? 1
check "it is named" grep -q '^batch=100000,seed=1 failed; see ' "$work/out"
check "its message is kept" grep -q 'batch must be in' "$work/failing/batch=100000,seed=1/log.txt"
check "the other run finishes" test -s "$work/failing/batch=64,seed=1/result.json"

refused() { check "$1" exits "$2" "$3" "$tool" sweep "$work/bad.json" --output "$work/bad"; }
grid bad.json '{"weigth_bits": [4]}'
refused "unknown setting" 2 "bad.json: /settings/weigth_bits: $train has no option --weigth-bits"
grid bad.json '{"checkpoint": ["c.json"]}'
refused "a setting of the sweep" 2 '/settings/checkpoint: the sweep sets --checkpoint of each run'
grid bad.json '{"seed": [1]}' --seed 7
refused "an option that is a setting" 2 'the sweep sets --seed of each run'
grid bad.json '{"seed": 4}'
refused "values are lists" 1 'bad.json: /settings/seed: expected a list of values, got 4'
grid bad.json '{"seed": [1, 1]}'
refused "repeated value" 1 'bad.json: /settings/seed: 1 is listed twice'
grid bad.json '{"seed": [[1]]}'
refused "nested value" 1 'bad.json: /settings/seed/0: expected a number, a string or a boolean, got [1]'
grid bad.json '{"power_of_two": [true, 4]}'
refused "mixed values" 1 'bad.json: /settings/power_of_two/1: expected a boolean, as before, got 4'
echo '{"command": [], "settings": {"seed": [1]}}' >"$work/bad.json"
refused "no command" 1 'bad.json: /command: expected a list of a program and its options'
echo '{"command": ["/none/program"], "settings": {"seed": [1]}}' >"$work/bad.json"
refused "no program" 1 'cannot run /none/program: No such file or directory'
echo '{"command": ["x"], "settings": {"seed": [1]}, "runs": 3}' >"$work/bad.json"
refused "unknown member" 1 'bad.json: /runs: expected nothing; a grid has "command" and "settings"'
finish
