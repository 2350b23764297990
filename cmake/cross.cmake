# Builds for another processor and runs its programs under QEMU; scripts/sysroot fetches what it needs.
# QTAPE_PROCESSOR: aarch64 or s390x.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${QTAPE_PROCESSOR})
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES QTAPE_PROCESSOR)
set(triple ${QTAPE_PROCESSOR}-linux-gnu)
set(root ${CMAKE_CURRENT_LIST_DIR}/../build/sysroot-${QTAPE_PROCESSOR})
get_filename_component(root ${root} ABSOLUTE)
set(CMAKE_C_COMPILER ${triple}-gcc)
set(CMAKE_CXX_COMPILER ${triple}-g++)
set(CMAKE_LIBRARY_ARCHITECTURE ${triple})
set(CMAKE_FIND_ROOT_PATH ${root})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${root}/usr/lib/${triple}")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-Wl,-rpath-link,${root}/usr/lib/${triple}")
# QEMU looks for libraries in the root.
set(CMAKE_SKIP_BUILD_RPATH ON)
# Found beside the headers of the compiler's own C library.
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES ${root}/usr/include ${root}/usr/include/${triple})
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-${QTAPE_PROCESSOR}-static;-L;${root})
