include(CMakePackageConfigHelpers)
install(TARGETS qtape_ops qtape_engine qtape_optim qtape_calibrate qtape_deploy qtape_all EXPORT qtape_targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT qtape_targets NAMESPACE qtape:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/qtape)
foreach(directory ops engine optim calibrate deploy)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${directory}
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/qtape FILES_MATCHING PATTERN "*.h")
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/qtape.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/qtape)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/qtape-config.cmake.in
  ${PROJECT_BINARY_DIR}/qtape-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/qtape)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/qtape-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/qtape-config.cmake
  ${PROJECT_BINARY_DIR}/qtape-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/qtape)
