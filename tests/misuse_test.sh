#!/usr/bin/env bash
# Misuse that must not compile: misuse_test.sh COMPILER INCLUDE_FOLDER
# The files of misuse/ compile together as they are. With MISUSE none of them must, and the compiler
# names what the first line of the file states.
set -uo pipefail
cd "$(dirname "$0")/misuse"
failed=0
compile=("$1" -std=c++20 -fsyntax-only -I"$2" -DFMT_SHARED -DONNX_ML=1 -DONNX_NAMESPACE=onnx)
if ! error=$(cat -- *.cpp | "${compile[@]}" -x c++ - 2>&1); then
  echo "FAILED: the files do not compile without MISUSE: $error"
  failed=1
fi
for file in *.cpp; do
  if error=$("${compile[@]}" -DMISUSE "$file" 2>&1); then
    echo "FAILED: $file compiles with MISUSE"
    failed=1
  elif ! grep -qE "$(sed -n '1s|^// error: ||p' "$file")" <<<"$error"; then
    echo "FAILED: $file: the error is another one: $error"
    failed=1
  fi
done
exit $failed
