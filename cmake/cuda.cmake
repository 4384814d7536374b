# CUDA is an optional language of the build: targets with .cu files are made where CMAKE_CUDA_COMPILER
# is set. No host needs a GPU to build them.
include(CheckLanguage)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100)  # A100, H100, B200, and PTX for what comes later
  endif()
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 17)  # CMake 3.25 knows no later one of CUDA
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  message(STATUS "CUDA parts: built by ${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_COMPILER_VERSION}")
elseif(NOT PENSTOCK_CUDA STREQUAL "AUTO")
  message(FATAL_ERROR "PENSTOCK_CUDA is ${PENSTOCK_CUDA}, and no nvcc was found; name one "
    "(CUDACXX=/usr/local/cuda/bin/nvcc), or leave the CUDA parts out (-DPENSTOCK_CUDA=OFF)")
else()
  message(STATUS "CUDA parts: left out, no nvcc was found")
endif()
