# Writes sources that are compiled as one, each in a namespace of its own, so that names in their
# anonymous namespaces do not meet: cmake -DOUTPUT=FILE -DSOURCES=A,B -P joined.cmake
# What they include comes first, outside of these namespaces; includes within are empty then.
string(REPLACE "," ";" sources "${SOURCES}")
set(includes)
foreach(source IN LISTS sources)
  file(STRINGS ${source} lines REGEX "^#include ")
  list(APPEND includes ${lines})
endforeach()
list(REMOVE_DUPLICATES includes)
list(JOIN includes "\n" text)
set(number 0)
foreach(source IN LISTS sources)
  string(APPEND text "\nnamespace joined_${number} {\n#include \"${source}\"\n}\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUTPUT} "${text}")
