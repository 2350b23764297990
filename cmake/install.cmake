include(CMakePackageConfigHelpers)
install(TARGETS
    qtape_core qtape_io qtape_kernels qtape_ops qtape_engine qtape_console qtape_data
    qtape_integer qtape_optim qtape_calibrate qtape_deploy qtape_c99 qtape_model qtape_report qtape_all
  EXPORT qtape_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT qtape_targets NAMESPACE qtape:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/qtape)
# By itself: who reads and writes no ONNX needs neither libonnx nor protobuf.
install(TARGETS qtape_onnx EXPORT qtape_onnx_targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT qtape_onnx_targets NAMESPACE qtape::
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/qtape)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
# qtape::qtape for those who build without CMake, wherever the prefix is moved to.
file(RELATIVE_PATH QTAPE_PC_PREFIX
  ${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
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
