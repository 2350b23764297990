include(CMakePackageConfigHelpers)
# Each optional library is a set of its own, so that users without it need none of its
# dependencies.
function(qtape_install set)
  install(TARGETS ${ARGN} EXPORT ${set}_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT ${set}_targets NAMESPACE qtape:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/qtape)
endfunction()
get_property(libraries GLOBAL PROPERTY QTAPE_LIBRARIES)
list(TRANSFORM libraries PREPEND qtape_ OUTPUT_VARIABLE targets)
qtape_install(qtape ${targets} qtape_all)
get_property(optional GLOBAL PROPERTY QTAPE_OPTIONAL_LIBRARIES)
foreach(name IN LISTS optional)
  qtape_install(qtape_${name} qtape_${name})
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
# qtape::qtape for those who build without CMake, wherever the prefix is moved to.
file(RELATIVE_PATH QTAPE_PC_PREFIX
  ${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
list(REVERSE libraries)
list(TRANSFORM libraries PREPEND -lqtape_)
list(JOIN libraries " " QTAPE_PC_LIBRARIES)
configure_file(${PROJECT_SOURCE_DIR}/cmake/qtape.pc.in ${PROJECT_BINARY_DIR}/qtape.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/qtape.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
include(cmake/public_headers.cmake)
qtape_public_headers(public)
foreach(header IN LISTS public)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/${header}
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/qtape/${folder})
endforeach()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/qtape-config.cmake.in
  ${PROJECT_BINARY_DIR}/qtape-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/qtape)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/qtape-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/qtape-config.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindLibZip.cmake
  ${PROJECT_BINARY_DIR}/qtape-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/qtape)
