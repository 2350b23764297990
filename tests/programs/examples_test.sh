#!/usr/bin/env bash
# The small examples: examples_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"

(cd "$work" && "$build/examples/xor" >xor.txt)
check "xor learns" awk 'NR==1||NR==4{ok+=($1<0.2)} NR==2||NR==3{ok+=($1>0.8)} END{exit ok!=4}' "$work/xor.txt"

check "its network converts and verifies" "$tool" verify "$work/xor.json" --random 500 >/dev/null

"$train" --samples 320 --layers 16,16 --epochs 1 --weight-bits 4 --activation-bits 4 --save "$work/m.json" >/dev/null
"$tool" convert "$work/m.json" -o "$work/m.int.json" >/dev/null
"$build/examples/deploy" "$work/m.json" "$work/d.json" >"$work/deploy.txt"
check "the deploy example runs its program" test "$(grep -cE '^-?[0-9.]+' "$work/deploy.txt")" = 10
check "it writes what convert writes" cmp "$work/d.json" "$work/m.int.json"
check "it names errors" exits 1 "$work/none.json: cannot open" "$build/examples/deploy" "$work/none.json" "$work/d.json"

finish
