# SPDX-License-Identifier: Apache-2.0
# cuBLAS, cuBLASLt, cuSPARSE, cuSPARSELt, cuDNN 9, CUPTI, CUB and NVTX 3, from a CUDA toolkit, a distribution's packages, or NVIDIA's Python wheels.
# FindCUDAToolkit alone does not find them in wheels, which have libcublas.so.13 but no libcublas.so, and cuDNN in a folder
# of its own.
#
# Targets, each only where found: DuetCuda::cublas  DuetCuda::cublasLt  DuetCuda::cusparse  DuetCuda::cudnn
# DuetCuda::cusparseLt (loaded at run time)
# DuetCuda::cupti (its range profiler, of CUDA 12.6 or newer; loaded at run time)  DuetCuda::nvtx3
# Variables: DuetCuda_{CUBLAS,CUSPARSE,CUSPARSELT,CUDNN,CUPTI,NVTX}_VERSION, DuetCuda_CUB_VERSION where CUB is found
# Hints: DUET_WHEEL_ROOT (the site-packages/nvidia folder of a Python environment), environment CUDNN_PATH; last,
# the nvidia package of python3.
# CUDAToolkit must have been found before. Nothing here is required: without a library, its implementations are off.

set(DUET_WHEEL_ROOT "" CACHE PATH "site-packages/nvidia folder to take cuBLAS, cuDNN and NVTX from")
set(_roots ${CUDAToolkit_TARGET_DIR} ${CUDAToolkit_LIBRARY_ROOT})
set(_cudnn_roots $ENV{CUDNN_PATH})
find_program(DUET_PYTHON python3)
mark_as_advanced(DUET_PYTHON)
if(DUET_WHEEL_ROOT)  # set by the user, so it comes first
  list(PREPEND _roots ${DUET_WHEEL_ROOT}/cu${CUDAToolkit_VERSION_MAJOR})
  list(PREPEND _cudnn_roots ${DUET_WHEEL_ROOT}/cudnn)
  set(_cusparselt_roots ${DUET_WHEEL_ROOT}/cusparselt)
elseif(DUET_PYTHON)
  execute_process(OUTPUT_VARIABLE _found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET COMMAND ${DUET_PYTHON} -c
    "import importlib.util as u; s = u.find_spec('nvidia'); print(list(s.submodule_search_locations)[0] if s else '')")
  if(_found)
    list(APPEND _roots ${_found}/cu${CUDAToolkit_VERSION_MAJOR})
    list(APPEND _cudnn_roots ${CUDAToolkit_TARGET_DIR} ${_found}/cudnn)
    set(_cusparselt_roots ${_found}/cusparselt)
  endif()
endif()

# _duet_library(<name> <header> <major version of the library> [roots searched first]...)
function(_duet_library name header major)
  set(roots ${ARGN} ${_roots})
  find_path(DUET_${name}_INCLUDE ${header} HINTS ${roots} ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
  find_library(DUET_${name}_LIBRARY NAMES ${name} lib${name}.so.${major} NAMES_PER_DIR
               HINTS ${roots} PATH_SUFFIXES lib lib64 lib/x64)
  mark_as_advanced(DUET_${name}_INCLUDE DUET_${name}_LIBRARY)
  if(DUET_${name}_INCLUDE AND DUET_${name}_LIBRARY AND NOT TARGET DuetCuda::${name})
    add_library(DuetCuda::${name} UNKNOWN IMPORTED GLOBAL)
    set_target_properties(DuetCuda::${name} PROPERTIES
      IMPORTED_LOCATION "${DUET_${name}_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${DUET_${name}_INCLUDE}")
  endif()
endfunction()

# _duet_version(<variable> <header file> <macros, major first>...): 9.19.0 from three #defines.
function(_duet_version variable file)
  set(parts)
  if(EXISTS "${file}")
    foreach(macro IN LISTS ARGN)
      file(STRINGS "${file}" line REGEX "^#define +${macro} +[0-9]+" LIMIT_COUNT 1)
      string(REGEX MATCH "^#define +[A-Z_]+ +([0-9]+)" number "${line}")
      list(APPEND parts ${CMAKE_MATCH_1})
    endforeach()
  endif()
  list(JOIN parts "." version)
  set(${variable} "${version}" PARENT_SCOPE)
endfunction()

_duet_library(cublas cublas_v2.h ${CUDAToolkit_VERSION_MAJOR})
_duet_library(cublasLt cublasLt.h ${CUDAToolkit_VERSION_MAJOR})
_duet_library(cusparse cusparse.h 12)  # of CUDA 12 and of CUDA 13
_duet_library(cusparseLt cusparseLt.h 0 ${_cusparselt_roots} ${PROJECT_SOURCE_DIR}/.deps/cusparselt)
_duet_library(cudnn cudnn.h 9 ${_cudnn_roots})
_duet_library(cupti cupti_range_profiler.h ${CUDAToolkit_VERSION_MAJOR} ${CUDAToolkit_LIBRARY_ROOT}/extras/CUPTI)
_duet_version(DuetCuda_CUBLAS_VERSION "${DUET_cublas_INCLUDE}/cublas_api.h"
              CUBLAS_VER_MAJOR CUBLAS_VER_MINOR CUBLAS_VER_PATCH CUBLAS_VER_BUILD)
_duet_version(DuetCuda_CUSPARSE_VERSION "${DUET_cusparse_INCLUDE}/cusparse.h"
              CUSPARSE_VER_MAJOR CUSPARSE_VER_MINOR CUSPARSE_VER_PATCH)
_duet_version(DuetCuda_CUSPARSELT_VERSION "${DUET_cusparseLt_INCLUDE}/cusparseLt.h"
              CUSPARSELT_VER_MAJOR CUSPARSELT_VER_MINOR CUSPARSELT_VER_PATCH)
_duet_version(DuetCuda_CUDNN_VERSION "${DUET_cudnn_INCLUDE}/cudnn_version.h" CUDNN_MAJOR CUDNN_MINOR CUDNN_PATCHLEVEL)
_duet_version(_cupti "${DUET_cupti_INCLUDE}/cupti_version.h" CUPTI_API_VERSION)
if(_cupti)  # 13.0.1 from 130001
  math(EXPR _major "${_cupti} / 10000")
  math(EXPR _minor "${_cupti} / 100 % 100")
  math(EXPR _patch "${_cupti} % 100")
  set(DuetCuda_CUPTI_VERSION "${_major}.${_minor}.${_patch}")
endif()

# CUB is headers of the toolkit, which nvcc includes by itself: 3.0.1 from 300001.
find_path(DUET_cub_INCLUDE cub/version.cuh HINTS ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES cccl include/cccl)
mark_as_advanced(DUET_cub_INCLUDE)
_duet_version(_cub "${DUET_cub_INCLUDE}/cub/version.cuh" CUB_VERSION)
if(_cub)
  math(EXPR _major "${_cub} / 100000")
  math(EXPR _minor "${_cub} / 100 % 1000")
  math(EXPR _patch "${_cub} % 100")
  set(DuetCuda_CUB_VERSION ${_major}.${_minor}.${_patch})
endif()

find_path(DUET_nvtx3_INCLUDE nvtx3/nvToolsExt.h HINTS ${_roots} ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
mark_as_advanced(DUET_nvtx3_INCLUDE)
if(DUET_nvtx3_INCLUDE AND NOT TARGET DuetCuda::nvtx3)
  add_library(DuetCuda::nvtx3 INTERFACE IMPORTED GLOBAL)  # headers only; it loads the profiler with dlopen
  set_target_properties(DuetCuda::nvtx3 PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${DUET_nvtx3_INCLUDE}" INTERFACE_LINK_LIBRARIES "${CMAKE_DL_LIBS}")
endif()
_duet_version(DuetCuda_NVTX_VERSION "${DUET_nvtx3_INCLUDE}/nvtx3/nvToolsExt.h" NVTX_VERSION)

set(DuetCuda_FOUND TRUE)
