# SPDX-License-Identifier: Apache-2.0
# NVTX 3 in a build without CUDA: it is headers alone, and a profiler sees the ranges of a CPU run as well. With CUDA it comes
# with the toolkit (FindDuetCuda.cmake). Without it, ranges go to the recorder alone (core/recorder.h).
if(NOT DUET_HAS_NVTX)
  find_path(DUET_nvtx3_INCLUDE nvtx3/nvToolsExt.h
    HINTS ${PROJECT_SOURCE_DIR}/.deps/nvtx/include ${PROJECT_SOURCE_DIR}/.deps/cuda/include ${DUET_SIMT_INCLUDE}
          "$ENV{CUDA_HOME}/include" "$ENV{CUDA_PATH}/include" /usr/local/cuda/include ${DUET_WHEEL_ROOT}/cu13/include)
  mark_as_advanced(DUET_nvtx3_INCLUDE)
  if(DUET_nvtx3_INCLUDE AND NOT TARGET DuetCuda::nvtx3)
    add_library(DuetCuda::nvtx3 INTERFACE IMPORTED GLOBAL)
    set_target_properties(DuetCuda::nvtx3 PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${DUET_nvtx3_INCLUDE}")
    file(STRINGS "${DUET_nvtx3_INCLUDE}/nvtx3/nvToolsExt.h" nvtx_version REGEX "^#define +NVTX_VERSION +[0-9]+" LIMIT_COUNT 1)
    string(REGEX MATCH "[0-9]+$" nvtx_version "${nvtx_version}")
    set(DUET_HAS_NVTX TRUE)
    list(APPEND DUET_LIBRARIES "NVTX|${nvtx_version}|")
  endif()
endif()
