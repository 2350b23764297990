include(CMakePackageConfigHelpers)
# Sets of what is installed, a Debian package each (cmake/packages.cmake): libqtape and
# libqtape-NAME for each optional library, and the same with -dev to build against it; qtape, the
# programs. So users without an optional library need none of its dependencies.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME libqtape-dev)
function(qtape_install set component)
  install(TARGETS ${ARGN} EXPORT ${set}_targets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component}-dev
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component}
    NAMELINK_COMPONENT ${component}-dev)
  install(EXPORT ${set}_targets NAMESPACE qtape:: COMPONENT ${component}-dev
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/qtape)
endfunction()
get_property(libraries GLOBAL PROPERTY QTAPE_LIBRARIES)
list(TRANSFORM libraries PREPEND qtape_ OUTPUT_VARIABLE targets)
qtape_install(qtape libqtape ${targets} qtape_all)
get_property(optional GLOBAL PROPERTY QTAPE_OPTIONAL_LIBRARIES)
foreach(name IN LISTS optional)
  qtape_install(qtape_${name} libqtape-${name} qtape_${name})
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Programs, each with its manual page and its completion in bash, which it prints itself.
set(programs)
if(QTAPE_BUILD_PROGRAMS OR QTAPE_BUILD_TESTS)
  set(programs qtape_tool train_mlp train_cnn train_keywords train_autoencoder)
endif()
foreach(target IN LISTS programs)
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "\$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS ${target} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT qtape)
  if(CMAKE_CROSSCOMPILING)
    continue()
  endif()
  string(REGEX REPLACE "_tool$" "" name ${target})
  set(pages ${PROJECT_BINARY_DIR}/pages)
  file(MAKE_DIRECTORY ${pages})
  add_custom_command(OUTPUT ${pages}/${name}.1 ${pages}/${name}
    COMMAND ${target} --manual-page > ${pages}/${name}.1
    COMMAND ${target} --bash-completion > ${pages}/${name}
    DEPENDS ${target} VERBATIM)
  add_custom_target(${target}_pages ALL DEPENDS ${pages}/${name}.1 ${pages}/${name})
  install(FILES ${pages}/${name}.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT qtape)
  install(FILES ${pages}/${name} COMPONENT qtape
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
endforeach()

# For those who build without CMake, wherever the prefix is moved to.
file(RELATIVE_PATH QTAPE_PC_PREFIX
  ${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
function(qtape_pkg_config name component description requires libraries)
  set(QTAPE_PC_NAME ${name})
  set(QTAPE_PC_DESCRIPTION "${description}")
  set(QTAPE_PC_REQUIRES "${requires}")
  set(QTAPE_PC_LIBRARIES "${libraries}")
  configure_file(${PROJECT_SOURCE_DIR}/cmake/qtape.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc COMPONENT ${component}
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
list(REVERSE libraries)
list(TRANSFORM libraries PREPEND -lqtape_)
list(JOIN libraries " " all)
set(requires fmt)
# What static libraries link.
set(static_onnx -lonnx_proto)
set(static_requires_onnx protobuf)
set(static_tflite "")
set(static_distributed -lmpi)
if(BUILD_SHARED_LIBS)
  set(static_onnx)
  set(static_requires_onnx)
  set(static_distributed)
else()
  string(APPEND requires " tbb zlib libzip")
  set(all "-Wl,--start-group ${all} -Wl,--end-group -ldnnl -fopenmp")
endif()
qtape_pkg_config(qtape libqtape-dev "${PROJECT_DESCRIPTION}" "${requires}" "${all}")
foreach(name IN LISTS optional)
  qtape_pkg_config(qtape-${name} libqtape-${name}-dev "The library qtape::${name}"
    "qtape = ${PROJECT_VERSION} ${static_requires_${name}}" "-lqtape_${name} ${static_${name}}")
endforeach()
# Found when they are installed, since sources change after configuration.
install(CODE "
  include(\"${PROJECT_SOURCE_DIR}/cmake/public_headers.cmake\")
  qtape_public_headers(public)
  set(to \"${CMAKE_INSTALL_INCLUDEDIR}/qtape\")
  cmake_path(ABSOLUTE_PATH to BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\")
  foreach(header IN LISTS public)
    cmake_path(GET header PARENT_PATH folder)
    file(INSTALL \"${PROJECT_SOURCE_DIR}/\${header}\" DESTINATION \"\${to}/\${folder}\")
  endforeach()" COMPONENT libqtape-dev)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/qtape-config.cmake.in
  ${PROJECT_BINARY_DIR}/qtape-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/qtape)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/qtape-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/qtape-config.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindLibZip.cmake
  ${PROJECT_BINARY_DIR}/qtape-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/qtape)
if(PROJECT_IS_TOP_LEVEL)
  include(cmake/packages.cmake)
endif()
