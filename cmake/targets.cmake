# The sources are included as "qtape/engine/graph.h" in the tree, in tests and after installation:
# a link in the build tree gives the source tree that name.
set(QTAPE_INCLUDE ${PROJECT_BINARY_DIR}/include)
file(MAKE_DIRECTORY ${QTAPE_INCLUDE})
file(CREATE_LINK ${PROJECT_SOURCE_DIR} ${QTAPE_INCLUDE}/qtape SYMBOLIC)

# What every target of the project compiles with.
#   -ffp-contract=off     a contracted multiply-add would change codes between machines
#   -fno-math-errno,
#   -fno-trapping-math    let loops vectorise; no value changes
add_library(qtape_options INTERFACE)
target_compile_options(qtape_options INTERFACE
  -ffp-contract=off -fno-math-errno -fno-trapping-math
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-missing-field-initializers
  $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>  # false alarms inside fmt 9
  # GCC collects garbage only above 2 GB: collections took a fifth of a compilation.
  $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=2000000>
  $<$<CXX_COMPILER_ID:Clang>:-Wno-pass-failed>  # a loop that may be vectorised need not be
  $<$<BOOL:${QTAPE_WARNINGS_AS_ERRORS}>:-Werror>)

# Clang takes -Og as -O1. GCC 13 and later set the others from -O2 on, and use no precompiled
# header across different settings.
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-munroll-only-small-loops QTAPE_HAS_UNROLL_SETTING)
set(QTAPE_COLD_OPTIONS -Og)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND QTAPE_COLD_OPTIONS -Wno-maybe-uninitialized)  # false alarms of GCC 14 at this level
endif()
if(QTAPE_HAS_UNROLL_SETTING)
  list(APPEND QTAPE_COLD_OPTIONS -munroll-only-small-loops -mvzeroupper)
endif()

# What programs and tests add: their time goes to the library, so fast compilation is worth more.
add_library(qtape_program_options INTERFACE)
target_link_libraries(qtape_program_options INTERFACE qtape_options)
target_compile_options(qtape_program_options INTERFACE $<$<CONFIG:Release>:-Og>)

# qtape_compile(<target> COLD <bool> [LINK ...] [PRIVATE_LINK ...]): how sources of libraries are
# compiled. -O3 in every optimised build: the kernels rely on the loop vectoriser. In all
# libraries that are not cold: of an inline function that several compile, the linker keeps any.
function(qtape_compile target)
  cmake_parse_arguments(ARG "" "COLD" "LINK;PRIVATE_LINK" ${ARGN})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${QTAPE_INCLUDE}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(${target} PUBLIC ${ARG_LINK}
    PRIVATE $<BUILD_INTERFACE:qtape_options> ${ARG_PRIVATE_LINK})
  set(level $<IF:$<BOOL:${ARG_COLD}>,${QTAPE_COLD_OPTIONS},-O3>)
  target_compile_options(${target} PRIVATE "$<$<CONFIG:Release,RelWithDebInfo>:${level}>")
  if(QTAPE_OPTIMISE_ANYWAY)
    target_compile_options(${target} PRIVATE "${level}")
  endif()
  if(BUILD_SHARED_LIBS)
    # Calls inside of a library are not redirected.
    target_compile_options(${target} PRIVATE -fno-semantic-interposition)
  endif()
endfunction()

# qtape_library(<name> [OPTIONAL] [COLD] SOURCES ... [COLD_SOURCES ...] LINK ... PRIVATE_LINK ...):
# a library qtape::<name>, which is installed and a part of qtape::qtape; static, or shared where
# BUILD_SHARED_LIBS is set. OPTIONAL: no part of qtape::qtape.
# COLD, COLD_SOURCES: no loop over elements is in them, so they are compiled fast. COLD_SOURCES are
# the target qtape_<name>_cold.
# The global properties QTAPE_LIBRARIES and QTAPE_OPTIONAL_LIBRARIES list both kinds in order.
function(qtape_library name)
  cmake_parse_arguments(ARG "OPTIONAL;COLD" "" "SOURCES;COLD_SOURCES;LINK;PRIVATE_LINK" ${ARGN})
  if(ARG_OPTIONAL)
    set_property(GLOBAL APPEND PROPERTY QTAPE_OPTIONAL_LIBRARIES ${name})
  else()
    set_property(GLOBAL APPEND PROPERTY QTAPE_LIBRARIES ${name})
  endif()
  set(target qtape_${name})
  if(ARG_COLD_SOURCES)
    add_library(${target}_cold OBJECT ${ARG_COLD_SOURCES})
    qtape_compile(${target}_cold COLD ON LINK ${ARG_LINK} PRIVATE_LINK ${ARG_PRIVATE_LINK})
    list(APPEND ARG_SOURCES $<TARGET_OBJECTS:${target}_cold>)
  endif()
  add_library(${target} ${ARG_SOURCES})
  add_library(qtape::${name} ALIAS ${target})
  # Of the same minor version: before 1.0 the others may change interfaces.
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name}
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    DEFINE_SYMBOL "" INSTALL_RPATH "\$ORIGIN")
  qtape_compile(${target} COLD ${ARG_COLD} LINK ${ARG_LINK} PRIVATE_LINK ${ARG_PRIVATE_LINK})
  if(BUILD_SHARED_LIBS)
    # Symbols of other libraries' templates stay inside, so that they meet no other version of
    # them.
    set(symbols ${PROJECT_SOURCE_DIR}/cmake/exported.map)
    target_link_options(${target} PRIVATE -Wl,--version-script=${symbols} -Wl,--no-undefined)
    set_target_properties(${target} PROPERTIES LINK_DEPENDS ${symbols})
  endif()
endfunction()

# qtape_headers(<name> HEADERS ... LINK ...): a target qtape_<name>_headers that only precompiles
# headers, for qtape_precompile(... FROM qtape_<name>_headers). GCC cannot use headers that were
# compiled with less optimisation than a source.
function(qtape_headers name)
  cmake_parse_arguments(ARG "" "" "HEADERS;LINK" ${ARGN})
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}_headers.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "namespace qtape {}\n")
  add_library(qtape_${name}_headers OBJECT ${source})
  qtape_compile(qtape_${name}_headers COLD OFF LINK ${ARG_LINK})
  qtape_precompile(qtape_${name}_headers HEADERS ${ARG_HEADERS})
endfunction()

# qtape_precompile(<target> HEADERS ...): what most sources of a target include is parsed once.
# qtape_precompile(<target> FROM <owner>): the same for a target with the options of another one
# that it is built after anyway. CMAKE_DISABLE_PRECOMPILE_HEADERS and QTAPE_UNITY=OFF switch all of
# that off, as the developers' presets do, so that every source still names what it uses.
function(qtape_precompile target)
  cmake_parse_arguments(ARG "" "FROM" "HEADERS" ${ARGN})
  if(ARG_FROM)
    target_precompile_headers(${target} REUSE_FROM ${ARG_FROM})
  else()
    target_precompile_headers(${target} PRIVATE
      <algorithm> <cmath> <functional> <map> <memory> <optional> <span> <string> <vector>
      <fmt/format.h> ${ARG_HEADERS})
  endif()
  # Lets ccache see through a precompiled header.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endfunction()

# qtape_program(<name> SOURCES ... LINK ...): an executable of the project.
function(qtape_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE qtape_program_options qtape::qtape ${ARG_LINK})
  qtape_precompile(${name} FROM qtape_programs)
endfunction()

option(QTAPE_UNITY "Compile several sources at a time" ON)
option(QTAPE_JOINED_TESTS "Compile several sources of tests at a time" ${QTAPE_UNITY})

# qtape_unity(<target> [BATCH <number>] [EXCEPT <sources>]): compiles the sources of a target
# several at a time, by default 40, as parsing the same headers is most of what each takes. EXCEPT:
# those that take long by themselves, or whose names in anonymous namespaces others have as well.
function(qtape_unity target)
  cmake_parse_arguments(ARG "" "BATCH" "EXCEPT" ${ARGN})
  if(QTAPE_UNITY)
    if(NOT ARG_BATCH)
      set(ARG_BATCH 40)
    endif()
    set_target_properties(${target} PROPERTIES
      UNITY_BUILD ON UNITY_BUILD_MODE BATCH UNITY_BUILD_BATCH_SIZE ${ARG_BATCH})
    foreach(source IN LISTS ARG_EXCEPT)
      if(NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${source})
        message(FATAL_ERROR "${target}: ${source} does not exist")
      endif()
    endforeach()
    set_source_files_properties(${ARG_EXCEPT} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

# qtape_joined(<variable> SOURCES <sources> [EXCEPT <sources>]): sources to compile instead of
# these: each joins several of them (cmake/joined.cmake). For sources that define nothing in
# namespaces of the library; others are exceptions.
function(qtape_joined variable)
  cmake_parse_arguments(ARG "" "" "SOURCES;EXCEPT" ${ARGN})
  if(NOT QTAPE_JOINED_TESTS)
    set(${variable} ${ARG_SOURCES} PARENT_SCOPE)
    return()
  endif()
  set(all ${ARG_EXCEPT})
  list(REMOVE_ITEM ARG_SOURCES ${ARG_EXCEPT})
  set(script ${PROJECT_SOURCE_DIR}/cmake/joined.cmake)
  while(ARG_SOURCES)
    list(SUBLIST ARG_SOURCES 0 16 batch)
    list(REMOVE_ITEM ARG_SOURCES ${batch})
    list(TRANSFORM batch PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE paths)
    list(LENGTH all number)
    set(output ${CMAKE_CURRENT_BINARY_DIR}/joined/joined_${number}.cpp)
    list(JOIN paths "," joined)
    add_custom_command(OUTPUT ${output}
      COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DSOURCES=${joined} -P ${script}
      DEPENDS ${paths} ${script} VERBATIM)
    list(APPEND all ${output})
  endwhile()
  set(${variable} ${all} PARENT_SCOPE)
endfunction()
