# Debian packages of what is installed: scripts/package builds them.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME qtape)
set(CPACK_PACKAGE_CONTACT "qtape developers <qtape@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
# Dependencies on other packages as the linked libraries tell them; those between the packages of
# the project are named below.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
get_property(libraries GLOBAL PROPERTY QTAPE_LIBRARIES)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS)
foreach(name IN LISTS libraries optional)
  get_target_property(folder qtape_${name} BINARY_DIR)
  list(APPEND CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${folder})
endforeach()
set(version ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

# qtape_package(<component> <name> <summary> <depends>): one package.
function(qtape_package component name summary depends)
  string(TOUPPER ${component} key)
  set(CPACK_DEBIAN_${key}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${key}_DESCRIPTION "${summary}" PARENT_SCOPE)
  list(JOIN depends ", " depends)
  set(CPACK_DEBIAN_${key}_PACKAGE_DEPENDS "${depends}" PARENT_SCOPE)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE RENAME copyright COMPONENT ${component}
    DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/${name} EXCLUDE_FROM_ALL)
endfunction()

set(CPACK_COMPONENTS_ALL libqtape libqtape-dev)
set(same "(= ${PROJECT_VERSION})")
set(all "libqtape${version} ${same}")
qtape_package(libqtape libqtape${version} "Quantization-aware training: the library" "")
qtape_package(libqtape-dev libqtape-dev "Quantization-aware training: headers"
  "${all};libfmt-dev;libxtensor-dev")
foreach(name IN LISTS optional)
  list(APPEND CPACK_COMPONENTS_ALL libqtape-${name} libqtape-${name}-dev)
  set(library "libqtape-${name}${version} ${same}")
  list(APPEND all "${library}")
  qtape_package(libqtape-${name} libqtape-${name}${version}
    "Quantization-aware training: the library qtape::${name}" "libqtape${version} ${same}")
  qtape_package(libqtape-${name}-dev libqtape-${name}-dev
    "Quantization-aware training: to build against qtape::${name}"
    "${library};libqtape-dev ${same}")
endforeach()
if(TARGET qtape_tool)
  list(APPEND CPACK_COMPONENTS_ALL qtape)
  qtape_package(qtape qtape "Quantization-aware training: programs" "${all}")
endif()
include(CPack)
