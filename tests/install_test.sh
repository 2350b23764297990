#!/usr/bin/env bash
# An installed qtape and one added as a subdirectory both build a user's program:
# install_test.sh SOURCE_FOLDER BUILD_FOLDER
set -euo pipefail
source=$1 build=$2
CXX=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
export CXX
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/user"
cat >"$work/user/main.cpp" <<'CPP'
#include "qtape/engine/graph.h"
#include "qtape/optim/schedule.h"
int main() {
  qtape::Graph graph;
  graph.add(qtape::Relu{}, {graph.add(qtape::Input{.shape = {1}}, {}, "x")});
  return qtape::Schedule{}.learning_rate(0) > 0 && graph.size() == 2 ? 0 : 1;
}
CPP
cat >"$work/user/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(user CXX)
if(QTAPE_SOURCE)
  add_subdirectory(${QTAPE_SOURCE} qtape EXCLUDE_FROM_ALL)
else()
  find_package(qtape REQUIRED)
endif()
add_executable(user main.cpp)
target_link_libraries(user PRIVATE qtape::qtape)
CMAKE
cmake --install "$build" --prefix "$work/prefix" >/dev/null
cmake -S "$work/user" -B "$work/installed" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/installed" >/dev/null
"$work/installed/user"
# Building the library again would take minutes: that it configures and names its targets is enough.
cmake -S "$work/user" -B "$work/added" -G Ninja -DQTAPE_SOURCE="$source" >/dev/null
cmake --build "$work/added" -- -n user | grep -q 'Linking CXX executable user'
echo "2 passed, 0 failed"
