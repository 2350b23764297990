#!/usr/bin/env bash
# Misuse that must not compile: misuse_test.sh COMPILER INCLUDE_FOLDER
# The files of misuse/ compile together as they are. With MISUSE each of them has errors, in which
# the compiler names what the first line of the file states.
set -uo pipefail
cd "$(dirname "$0")/misuse"
failed=0
compile() { # compile COMPILER INCLUDE_FOLDER OPTION...: all files in one source
  printf '#include "%s"\n' *.cpp |
    "$1" -std=c++20 -fsyntax-only -I"$2" -DFMT_SHARED -DONNX_ML=1 -DONNX_NAMESPACE=onnx "${@:3}" -x c++ - 2>&1
}
if ! errors=$(compile "$1" "$2"); then
  echo "FAILED: the files do not compile without MISUSE: $errors"
  failed=1
fi
errors=$(compile "$1" "$2" -DMISUSE)
for file in *.cpp; do
  # The lines from one that names the file to the next that names another one.
  own=$(awk -v file="$file" 'match($0, /[a-z_]+\.cpp:/) { named = substr($0, RSTART, RLENGTH - 1) }
                             named == file' <<<"$errors")
  if ! grep -q 'error:' <<<"$own"; then
    echo "FAILED: $file compiles with MISUSE"
    failed=1
  elif ! grep -qE "$(sed -n '1s|^// error: ||p' "$file")" <<<"$own"; then
    echo "FAILED: $file: the error is another one: $own"
    failed=1
  fi
done
exit $failed
