# Every third-party package, found once. The names are Debian's; scripts/packages lists them.
list(APPEND CMAKE_MODULE_PATH ${PROJECT_SOURCE_DIR}/cmake)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(dnnl REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(TBB REQUIRED)
find_package(xtensor REQUIRED)
find_package(ZLIB REQUIRED)
find_package(LibZip REQUIRED)
find_package(Protobuf REQUIRED)
find_package(ONNX REQUIRED)
# The messages of libonnx, by the name that its release gives them.
if(TARGET ONNX::onnx_proto)
  set(QTAPE_ONNX_PROTO ONNX::onnx_proto)
else()
  set(QTAPE_ONNX_PROTO onnx_proto)
endif()
# Optional: only its header, as the library is opened when it is first used.
find_path(QTAPE_ONNX_RUNTIME_INCLUDE onnxruntime_c_api.h PATH_SUFFIXES onnxruntime)
if(NOT QTAPE_ONNX_RUNTIME_INCLUDE)
  message(STATUS "No onnxruntime_c_api.h: verification runs ONNX Runtime by python3")
endif()
find_path(QTAPE_FLATBUFFERS_INCLUDE flatbuffers/flatbuffers.h REQUIRED)
if(QTAPE_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI COMPONENTS CXX)
endif()
if(QTAPE_BUILD_PROGRAMS OR QTAPE_BUILD_TESTS)
  find_package(CLI11 REQUIRED)
endif()
if(QTAPE_BUILD_TESTS)
  find_path(QTAPE_DOCTEST_INCLUDE doctest/doctest.h REQUIRED)
endif()
if(QTAPE_BUILD_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()

# Where it is installed: it serves those who build the same sources again, and a first build takes
# longer with it.
find_program(QTAPE_CCACHE ccache)
if(QTAPE_CCACHE AND PROJECT_IS_TOP_LEVEL)
  # Dependencies as the compiler tells them, so that nothing is preprocessed twice; and what
  # ccache asks for where headers are precompiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_DEPEND=1 CCACHE_SLOPPINESS=pch_defines,time_macros ${QTAPE_CCACHE})
endif()
