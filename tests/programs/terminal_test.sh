#!/usr/bin/env bash
# What is drawn on terminals, wide, narrow and dumb, and sent into pipes:
# terminal_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"
unset COLUMNS

# Into a pipe: the first line arrives before the work is done, which would take hours.
"$train" "${short[@]}" --save "$work/m.json" >/dev/null
mkfifo "$work/pipe"
first_line() { # first_line COMMAND...
  "$@" >"$work/pipe" 2>/dev/null &
  local pid=$!
  read -r line <"$work/pipe"
  kill $pid 2>/dev/null
  wait $pid 2>/dev/null
  echo "$line"
}
check "the header of verify arrives at once" same 'requantization FloatMultiply, 1 thread' "$(first_line "$tool" verify "$work/m.json" --requantization FloatMultiply --random 1000000000)"
check "the header of train_mlp arrives at once" grep -q '^7000 training' <(first_line "$train" --layers 1024,1024 --epochs 100000)

on_terminal() { # on_terminal COLUMNS TERM COMMAND: what the command draws
  TERM=$2 script -qec "stty cols $1; $3" /dev/null </dev/null
}
# Lines that were drawn over each other, not the one of a finished epoch.
too_long() { tr '\r\n' '\n\n' <"$1" | sed -n 's/^\x1b\[K//p' | grep -v ' s$' | awk -v most="$2" 'length >= most' | wc -l; }
run="$train --samples 640 --layers 32 --epochs 2 --threads 1"

if ! script -qec true /dev/null </dev/null >/dev/null 2>&1; then
  echo "no pseudo-terminals here: what is drawn is not tested"
  finish
  exit
fi
on_terminal 100 xterm "$run" >"$work/wide"
check "a wide terminal has a bar of 24" grep -q 'epoch  1 \[[#-]\{24\}\] ' "$work/wide"
for columns in 60 40 20 5; do
  on_terminal $columns xterm "$run" >"$work/narrow"
  check "$columns columns: a bar is drawn" grep -q $'\r\x1b\\[Kepoc' "$work/narrow"
  check "$columns columns: no drawn line is longer" test "$(too_long "$work/narrow" $columns)" = 0
done
COLUMNS=30 on_terminal 100 xterm "$run" >"$work/columns"
check "COLUMNS goes before what the terminal says" test "$(too_long "$work/columns" 30)" = 0
check "and a wide one has longer lines" test "$(too_long "$work/wide" 60)" -gt 0
on_terminal 100 dumb "$run" >"$work/dumb"
check "a dumb terminal gets lines only" test "$(grep -c $'\x1b' "$work/dumb")" = 0 -a "$(grep -c '^epoch' "$work/dumb")" = 2

finish
