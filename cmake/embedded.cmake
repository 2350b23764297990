# qtape_embed(<source> HEADER <header> NAMESPACE <namespace> FUNCTION <name> FILES <files>): a source
# with a function, which the header declares, that gives names and contents of text files.
function(qtape_embed source)
  cmake_parse_arguments(ARG "" "HEADER;NAMESPACE;FUNCTION" "FILES" ${ARGN})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARG_FILES})
  set(texts "")
  foreach(file IN LISTS ARG_FILES)
    get_filename_component(name ${file} NAME)
    file(READ ${file} text)
    string(APPEND texts "      {\"${name}\", R\"embedded(${text})embedded\"},\n")
  endforeach()
  configure_file(${PROJECT_SOURCE_DIR}/cmake/embedded.cpp.in ${source} @ONLY)
endfunction()
