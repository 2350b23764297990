#!/usr/bin/env bash
# Misuse that must not compile: misuse_test.sh COMPILER INCLUDE_FOLDER
# Each file of misuse/ compiles as it is. With MISUSE it must not, and the compiler names what its
# first line states.
set -uo pipefail
cd "$(dirname "$0")/misuse"
failed=0
for file in *.cpp; do
  compile=("$1" -std=c++20 -fsyntax-only -I"$2" -DFMT_SHARED -DONNX_ML=1 -DONNX_NAMESPACE=onnx)
  if ! error=$("${compile[@]}" "$file" 2>&1); then
    echo "FAILED: $file does not compile without MISUSE: $error"
    failed=1
  elif error=$("${compile[@]}" -DMISUSE "$file" 2>&1); then
    echo "FAILED: $file compiles with MISUSE"
    failed=1
  elif ! grep -qE "$(sed -n '1s|^// error: ||p' "$file")" <<<"$error"; then
    echo "FAILED: $file: the error is another one: $error"
    failed=1
  fi
done
exit $failed
