#!/usr/bin/env bash
# The steps that scripts/build announces are those of the build: build_test.sh BUILD_FOLDER
source "$(dirname "$0")/common.sh"

mkdir -p "$work/project/scripts"
cp "$(dirname "$0")/../../scripts/build" "$work/project/scripts"
cd "$work/project" || exit 1
cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.21)
project(steps LANGUAGES C)
file(GLOB sources CONFIGURE_DEPENDS *.c)
add_library(steps STATIC ${sources})
END
cat >CMakePresets.json <<'END'
{"version": 3, "configurePresets": [
  {"name": "release", "binaryDir": "${sourceDir}/build/${presetName}"}]}
END
for i in 1 2 3 4 5; do echo "int value_$i;" >"file_$i.c"; done
steps() { sed -n 's/^Building release: \([0-9]*\) steps on [0-9]* processors, about [0-9]* min .*/\1/p'; }
check "a first build" same 6 "$(scripts/build release | steps)"
check "is whole" test -e build/release/libsteps.a
check "nothing to do" test -z "$(scripts/build release | steps)"
echo "int value_6;" >file_6.c
check "a new file" same 2 "$(scripts/build release | steps)"
check "nothing is left of counting" test ! -e build/release/dry-run.ninja

finish
