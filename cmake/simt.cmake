# SPDX-License-Identifier: Apache-2.0
# Kernels on the host: whether they are built, and with which CUDA headers. Sets DUET_HAS_SIMT, DUET_SIMT_INCLUDE,
# DUET_SIMT_VERSION, and where it is off DUET_NO_SIMT, the reason as text. Needs no CUDA compiler and no GPU.

set(DUET_HAS_SIMT FALSE)
set(DUET_NO_SIMT "")
find_path(DUET_SIMT_INCLUDE cuda_fp16.h
  HINTS ${CUDAToolkit_INCLUDE_DIRS} "$ENV{CUDA_HOME}/include" "$ENV{CUDA_PATH}/include" ${PROJECT_SOURCE_DIR}/.deps/cuda/include
        /usr/local/cuda/include ${DUET_WHEEL_ROOT}/cu13/include)
mark_as_advanced(DUET_SIMT_INCLUDE)
if(DUET_SIMT STREQUAL "OFF" OR NOT DUET_SIMT)
  set(DUET_NO_SIMT "DUET_SIMT=OFF")
elseif(DUET_SANITIZE)
  set(DUET_NO_SIMT "the checker and the compiler's sanitizers exclude each other")
elseif(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(DUET_NO_SIMT "the checker needs g++, this is ${CMAKE_CXX_COMPILER_ID}")
elseif(NOT DUET_SIMT_INCLUDE)
  set(DUET_NO_SIMT "no CUDA headers found")
else()
  file(STRINGS "${DUET_SIMT_INCLUDE}/cuda.h" line REGEX "^#define CUDA_VERSION +[0-9]+" LIMIT_COUNT 1)
  string(REGEX MATCH "[0-9]+$" number "${line}")
  if(NOT number OR number LESS 12020)
    set(DUET_NO_SIMT "the CUDA headers in ${DUET_SIMT_INCLUDE} are older than 12.2")
  else()
    math(EXPR major "${number} / 1000")
    math(EXPR minor "${number} % 1000 / 10")
    set(DUET_SIMT_VERSION ${major}.${minor})
    set(DUET_HAS_SIMT TRUE)
  endif()
endif()
if(NOT DUET_HAS_SIMT AND DUET_SIMT AND NOT DUET_SIMT MATCHES "^(AUTO|OFF)$")
  message(FATAL_ERROR "DUET_SIMT=${DUET_SIMT}, but ${DUET_NO_SIMT}")
endif()
