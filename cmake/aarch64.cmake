# Toolchain for aarch64 on another host: g++-aarch64-linux-gnu (Debian). See ci/cross-aarch64.sh.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)

# Header-only libraries of the host serve the target as well; their folder is given, since all of
# /usr/include would bring the host's own headers along.
set(PENSTOCK_HEADER_ONLY_DIR "" CACHE PATH "folder with fmt, tl and xxhash headers")
if(PENSTOCK_HEADER_ONLY_DIR)
  include_directories(SYSTEM ${PENSTOCK_HEADER_ONLY_DIR})
endif()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES PENSTOCK_HEADER_ONLY_DIR)
