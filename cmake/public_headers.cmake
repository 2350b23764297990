# qtape_public_headers(<variable>): the headers of the public API, relative to the source tree: the
# umbrella, those for loops of one's own, plans, rewritten layers, comparisons, nodes of integer
# programs, xtensor, ONNX, .tflite and MPI, and what these include. As a script, cmake -P, it prints
# them.
cmake_minimum_required(VERSION 3.25)

function(qtape_public_headers variable)
  set(source ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/..)
  set(unread qtape.h deploy/compare.h engine/contract.h engine/plan.h engine/plan_hooks.h
    engine/print.h integer/program/integer_node.h model/feed.h model/passes/rewrite_layers.h
    model/passes/training_norms.h model/weight_codes.h model/xtensor.h
    onnx/export.h onnx/import.h onnx/levels.h tflite/export.h tflite/import.h tflite/levels.h
    distributed/mpi.h)
  set(public)
  while(unread)
    list(POP_FRONT unread header)
    list(APPEND public ${header})
    file(STRINGS ${source}/${header} includes REGEX "^#include \"qtape/")
    foreach(include IN LISTS includes)
      string(REGEX REPLACE "^#include \"qtape/(.*)\"$" "\\1" include "${include}")
      if(NOT include IN_LIST public AND NOT include IN_LIST unread)
        list(APPEND unread ${include})
      endif()
    endforeach()
  endwhile()
  set(${variable} ${public} PARENT_SCOPE)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  qtape_public_headers(headers)
  list(JOIN headers "\n" headers)
  execute_process(COMMAND ${CMAKE_COMMAND} -E echo "${headers}")
endif()
