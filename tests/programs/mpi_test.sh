#!/usr/bin/env bash
# Training programs under mpirun, where the build and the machine have it: mpi_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"

if [[ $(ldd "$train") != *libmpi* ]]; then
  check "mpirun needs a build with MPI" exits 1 \
    'train_mlp: started by mpirun as one of 2 processes, but built without MPI; install libopenmpi-dev and build again' \
    env OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 "$train" "${short[@]}"
  fails_silently() { ! "$@" >"$work/out" 2>&1 && [ ! -s "$work/out" ]; }
  check "only the first process says so" fails_silently \
    env OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 "$train" "${short[@]}"
  finish || exit 1
  echo "SKIPPED: built without MPI; install libopenmpi-dev and build again"
  exit 77
fi
if ! command -v mpirun >/dev/null; then
  echo "SKIPPED: no mpirun; install openmpi-bin"
  exit 77
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
ranks() { # ranks N COMMAND...: without the lines of mpirun itself
  local status=0 errors=$work/mpirun.$BASHPID
  # A file rather than a process substitution, which could still write after mpirun has ended.
  rm -f "$errors"
  timeout 300 mpirun --oversubscribe -n "$@" 2>>"$errors" || status=$?
  [ $status != 124 ] || echo "mpirun -n $1 did not end in 300 s" >&2
  # OpenMPI 5 ends its message of MPI_ABORT with a NUL byte, which may precede a line of ours.
  tr -d '\0' <"$errors" | grep -a -v '^-*$\|^mpirun\|^Primary job\|^ \|MPI_ABORT\|with errorcode\|NOTE: \|You may' >&2
  return $status
}
if ! ranks 2 "$train" "${short[@]}" --epochs 1 >/dev/null 2>"$work/probe" &&
  grep -a -q 'btl_\|Unable to find reachable' "$work/probe"; then
  echo "SKIPPED: MPI cannot connect two processes here: $(grep -m 1 'btl_\|Unable' "$work/probe")"
  exit 77
fi
run=("${short[@]}" --shift 1)

"$train" "${run[@]}" --shards 8 --json "$work/one.json" >/dev/null
for n in 1 2 3 4; do
  ranks $n "$train" "${run[@]}" --json "$work/$n.json" --save "$work/$n.model.json" >"$work/out"
  check "$n ranks give the bits of one process" same_field parameters_sha256 "$work/one.json" "$work/$n.json"
  check "with the answers of one process" same_field outputs_sha256 "$work/one.json" "$work/$n.json"
  check "and its accuracy" same_field test_accuracy "$work/one.json" "$work/$n.json"
  check "$n ranks are told" same "$(field "$work/$n.json" ranks)" "$n"
  check "$n ranks print once" same "$(grep -c '^parameters sha256' "$work/out")" 1
done
check "one epoch line for all ranks" same "$(ranks 2 "$train" "${run[@]}" 2>&1 | grep -o "epoch  2  loss" | wc -l)" 1

# A rank killed in the middle ends all; the checkpoint continues on another number of ranks.
long=("${run[@]}" --epochs 30 --checkpoint "$work/c.json" --checkpoint-every 1)
ranks 2 "$train" "${long[@]}" >/dev/null 2>&1 &
job=$!
while [ ! -s "$work/c.json" ] && kill -0 $job 2>/dev/null; do sleep 0.01; done
pkill -9 -n -f "checkpoint $work/c.json" || true
check "a killed rank ends the run" eval '! wait $job'
check "no rank is left" eval '! pgrep -f "checkpoint $work/c.json" >/dev/null'
ranks 3 "$train" --threads 1 --resume "$work/c.json" --json "$work/resumed.json" >/dev/null
"$train" "${run[@]}" --epochs 30 --shards 8 --json "$work/whole.json" >/dev/null
check "another number of ranks continues to the same bits" same_field parameters_sha256 "$work/whole.json" "$work/resumed.json"

fails() { # fails TEXT COMMAND...: one line on standard error that holds TEXT
  if "${@:2}" >"$work/out" 2>"$work/err"; then echo "succeeded"; return 1; fi
  [ "$(grep -a -c "^train_mlp" "$work/err")" = 1 ] && grep -a -qF -- "$1" "$work/err" && return
  echo "expected one line with: $1; got: $(cat "$work/err")"
  return 1
}
check "more ranks than shards" fails '3 processes need at least 3 shards of a batch, got 2' ranks 3 "$train" "${run[@]}" --shards 2
check "shards that do not divide the batch" fails 'batch must be a multiple of the 7 shards, got 64' ranks 2 "$train" "${run[@]}" --shards 7
check "other settings" fails 'differ in batch (rank 0: 32; rank 1: 64; pass the same settings everywhere)' \
  ranks 2 bash -c 'exec "$@" --batch $((32 * (OMPI_COMM_WORLD_RANK + 1)))' - "$train" "${run[@]}"
cp -r "$digits" "$work/others"
for file in "$work"/others/train-*; do cp "$file" "${file/train-/t10k-}"; done
check "other test data" fails 'differ in number of test samples (rank 0: 1000; rank 1: 640; ' \
  ranks 2 bash -c 'exec "${@:3}" --data "${@:1+OMPI_COMM_WORLD_RANK:1}"' - "$digits" "$work/others" "$train" --epochs 1 --threads 1
"$tool" train "$work/1.model.json" --data "$digits" --epochs 1 --shards 8 --threads 1 -o "$work/one.train.json" >/dev/null
ranks 2 "$tool" train "$work/1.model.json" --data "$digits" --epochs 1 --threads 1 -o "$work/two.train.json" >/dev/null
check "qtape train on 2 ranks" cmp "$work/one.train.json" "$work/two.train.json"
check "an error of one rank alone names it" fails 'train_mlp: rank 1: ' \
  ranks 2 bash -c '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || set -- "$@" --data none; exec "$@"' - "$train" "${run[@]}"
finish
