# What the tests of programs share. Sourced by <topic>_test.sh BUILD_FOLDER, which ends with finish.
set -uo pipefail
build=$1
train=$build/examples/train_mlp
autoencoder=$build/examples/train_autoencoder
tool=$build/tools/qtape
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Tests run side by side: one thread each where threads are not what is tested.
export OMP_NUM_THREADS=1
passed=0 failed=0
# A network that trains in a moment: 10 steps an epoch.
brief=(--layers 32 --epochs 2 --weight-bits 4 --activation-bits 4 --threads 1)
short=(--samples 640 "${brief[@]}")
# The digits that such a network generates for itself, for the commands that run it.
digits=$work/digits
mkdir "$digits" && "$build/tests/write_data" "$digits" 640

# Digits as files in $work, for tests that learn: those of the MNIST-format files in QTAPE_DATA
# where that is set, else generated ones.
write_digits() { "$build/tests/write_data" "$work" ${QTAPE_DATA:+"$QTAPE_DATA"}; }
check() { # check NAME CONDITION...
  if "${@:2}"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $1"; fi
}
exits() { # exits CODE TEXT COMMAND...: exit code and one line on standard error that holds TEXT
  local code=0
  "${@:3}" >"$work/out" 2>"$work/err" || code=$?
  [ "$code" = "$1" ] && [ "$(wc -l <"$work/err")" -le 1 ] && grep -qF -- "$2" "$work/err" && return
  echo "expected exit $1 with: $2; got exit $code with: $(cat "$work/err")"
  return 1
}
same() { [ -n "$1" ] && [ "$1" = "$2" ]; }
field() { sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\).*/\1/p" "$1" | tail -n 1; }
same_field() { # same_field FIELD REPORT REPORT: present and equal in both
  same "$(field "$2" "$1")" "$(field "$3" "$1")"
}
replayed() { "$tool" replay "$1" --data "$digits" | sed -n 's/^outputs sha256 //p'; }
kill_after() { # kill_after FILE COMMAND...: kills the command as soon as FILE has content
  "${@:2}" >/dev/null &
  local pid=$!
  while [ ! -s "$1" ] && kill -0 $pid 2>/dev/null; do sleep 0.01; done
  kill -9 $pid 2>/dev/null
  ! wait $pid 2>/dev/null
}
subcommands() { "$tool" "$@" --help | sed -n '/^Options:/,$s/^  \([a-z][a-z]*\) .*/\1/p'; }
commands() { # all commands of qtape, one per line
  local command what
  for command in $(subcommands); do
    what=$(subcommands "$command")
    if [ -z "$what" ]; then echo "$command"; else sed "s/^/$command /" <<<"$what"; fi
  done
}
finish() {
  echo "$passed passed, $failed failed"
  [ "$failed" = 0 ]
}
