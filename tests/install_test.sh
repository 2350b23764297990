#!/usr/bin/env bash
# Checks that an installed qtape and one added as a subdirectory both build users' programs, those
# of the README without a warning, and the application of the tutorial:
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
# Each public aggregate with one of its members named and the others left out.
cat >"$work/user/members.cpp" <<'CPP'
#include "qtape/deploy/lint.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/qtape.h"
using namespace qtape;
const auto ops = std::tuple{
    Input{.batch = false}, Parameter{.dtype = DType::F64}, State{.value = 1}, Clamp{.high = 6},
    LeakyRelu{.negative_slope = 0.2}, Gelu{.form = GeluForm::Tanh}, Dropout{.rate = 0.1},
    MatMul{.transpose_b = true}, Sum{.keep_dims = true}, Mean{.keep_dims = true},
    Max{.keep_dims = true}, Cast{.dtype = DType::F64}, Concat{.axis = 1}, Slice{.axis = 1},
    Softmax{.axis = 0}, LogSoftmax{.axis = 0}, SoftmaxCrossEntropy{}, FakeQuantize{.bits = 4},
    FakeQuantizeLSQ{.bits = 4}, FakeQuantizePACT{.bits = 4}, Quantize{.bits = 4},
    Dequantize{.axis = 0}};
const auto options = std::tuple{
    TensorType{.dtype = DType::U8}, TapeOptions{.threads = 1}, LayerOptions{.out = 1},
    InsertOptions{.bias_on_grid = false}, CalibrationOptions{.method = MinMax{}},
    MethodChoice{.method = MinMax{}}, ParameterGroup{.frozen = true}, ConvertOptions{},
    LintOptions{.bias_change = 1}, VerifyOptions{.batch = 1}, SessionOptions{.threads = 1},
    QuantizationSchedule{.delay = 1}, WarmUp{.steps = 1}, Section{.kind = "a"},
    QuantizerPreset{.weight = FakeQuantize{}}};
const auto integers = std::tuple{
    integer::Linear{.weights = {.storage_bits = 4}}, integer::Sum{.mean = true}, CodeGrid{.low = 0}};
int main() {}
CPP
cp "$source"/examples/*.cpp "$work/user"
cat >"$work/user/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(user CXX)
if(QTAPE_FETCHED)
  include(FetchContent)
  FetchContent_Declare(qtape SOURCE_DIR ${QTAPE_FETCHED})
  FetchContent_MakeAvailable(qtape)
elseif(QTAPE_SOURCE)
  add_subdirectory(${QTAPE_SOURCE} qtape EXCLUDE_FROM_ALL)
else()
  find_package(qtape ${QTAPE_VERSION} REQUIRED COMPONENTS tflite ${QTAPE_COMPONENT})
endif()
# The settings of the library are not those of the project that uses it.
get_property(options DIRECTORY PROPERTY COMPILE_OPTIONS)
if(options OR CMAKE_CXX_STANDARD OR CMAKE_CXX_FLAGS OR BUILD_TESTING)
  message(FATAL_ERROR "qtape sets options of its user: ${options} ${CMAKE_CXX_STANDARD} ${CMAKE_CXX_FLAGS}")
endif()
add_executable(user main.cpp)
target_link_libraries(user PRIVATE qtape::qtape)
file(GLOB programs ${CMAKE_SOURCE_DIR}/*.cpp)
list(REMOVE_ITEM programs ${CMAKE_SOURCE_DIR}/main.cpp)
foreach(program IN LISTS programs)
  cmake_path(GET program STEM name)
  add_executable(user_${name} ${program})
  target_link_libraries(user_${name} PRIVATE qtape::qtape)
  target_compile_options(user_${name} PRIVATE -Wall -Wextra -Werror)
endforeach()
CMAKE
cmake --install "$build" --prefix "$work/prefix" >/dev/null
cmake -S "$work/user" -B "$work/installed" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/installed" >"$work/log" || { cat "$work/log"; exit 1; }
"$work/installed/user"
(cd "$work" && [ "$(installed/user_xor | wc -l)" = 4 ])
# Programs, with manual pages and completion.
[ "$("$work/prefix/bin/qtape" --version)" = "qtape $(sed -n 's/^Version: //p' "$build/qtape.pc")" ]
grep -q '^\.SS qtape export c$' "$work/prefix/share/man/man1/qtape.1"
(
  # shellcheck disable=SC1091
  source "$work/prefix/share/bash-completion/completions/qtape"
  COMP_WORDS=(qtape export c --ker) COMP_CWORD=3
  _qtape
  [ "${COMPREPLY[*]}" = --kernels ]
)
# Versions and components that are not installed are refused by name.
refused() { # refused TEXT OPTION
  if cmake -S "$work/user" -B "$work/refused" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" "$2" >"$work/log" 2>&1; then
    echo "configures with $2"
    exit 1
  fi
  tr -s '\n ' '  ' <"$work/log" >"$work/words"
  grep -qF "$1" "$work/words" || { cat "$work/log"; exit 1; }
  rm -rf "$work/refused"
}
refused 'compatible with requested version "0.2"' -DQTAPE_VERSION=0.2
refused 'required component: frobnicate' -DQTAPE_COMPONENT=frobnicate
# The licence, and use of the library by pkg-config, in a relocated prefix.
[ -n "$(find "$work/prefix" -path '*/doc/*' -name LICENSE)" ]
# pkg-config links every library that is installed, except the optional ones.
for library in $(find "$work/prefix" -name 'libqtape_*.a' -printf '%f\n' | grep -v 'onnx\|tflite\|distributed'); do
  name=${library#lib}
  grep -q -e " -l${name%.a} " "$(find "$work/prefix" -name qtape.pc)" || { echo "qtape.pc lacks $name"; exit 1; }
done
if command -v pkg-config >/dev/null; then
  cp -r "$work/prefix" "$work/moved"
  PKG_CONFIG_PATH=$(dirname "$(find "$work/moved" -name qtape.pc)")
  export PKG_CONFIG_PATH
  # shellcheck disable=SC2046
  "$CXX" "$work/user/main.cpp" -o "$work/by-pkg-config" $(pkg-config --cflags --libs qtape)
  "$work/by-pkg-config"
fi
"$build/tests/write_docs_code" --files "$source" docs/tutorial.md "$work"
cmake -S "$work/app" -B "$work/app-built" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/app-built" >"$work/log" || { cat "$work/log"; exit 1; }
"$build/examples/train_mlp" --samples 320 --layers 8 --epochs 1 --weight-bits 4 --activation-bits 8 --save "$work/model.json" >/dev/null
"$build/tools/qtape" convert "$work/model.json" -o "$work/integers.json" >/dev/null
"$build/tests/write_data" "$work" 100
[ "$("$work/app-built/app" "$work/integers.json" "$work/x-test.npy" | grep -c '^image . is a .$')" = 3 ]
# Building the library again would take minutes, so this only checks configuration and targets.
cmake -S "$work/user" -B "$work/added" -G Ninja -DQTAPE_SOURCE="$source" >/dev/null
cmake --build "$work/added" -- -t targets all >"$work/targets"
grep -q '^user: CXX_EXECUTABLE_LINKER' "$work/targets"
cmake -S "$work/user" -B "$work/fetched" -G Ninja -DQTAPE_FETCHED="$source" >/dev/null
cmake --build "$work/fetched" -- -t targets all >"$work/targets"
grep -q '^user: CXX_EXECUTABLE_LINKER' "$work/targets"
# Without a build type of the project, the library is still optimized.
optimised() {
  ninja -C "$1" -t commands qtape/core/libqtape_core.a >"$work/commands"
  grep -q -e ' -O3 .*qtape_core.dir/' "$work/commands"
}
optimised "$work/added"
cmake -S "$work/user" -B "$work/debug" -G Ninja -DQTAPE_SOURCE="$source" \
  -DCMAKE_BUILD_TYPE=Debug >/dev/null
if optimised "$work/debug"; then exit 1; fi
echo "12 passed, 0 failed"
