# SPDX-License-Identifier: Apache-2.0
# Two sources of core/ are written by the build: the description of this build (core/build_info.h) and the golden list of
# implementations (ops/registry_golden.txt).

set(DUET_GENERATED_DIR ${PROJECT_BINARY_DIR}/generated)

# Everything but the commit is known when configuring. The commit is read at build time, and the file is written only when
# it changed.
function(duet_build_info_input file)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  get_directory_property(options COMPILE_OPTIONS)
  string(GENEX_STRIP "${options}" options)
  string(JOIN " " cxx_flags -std=c++20 ${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}} ${options})
  set(cuda_compiler)
  set(cuda_flags)
  if(DUET_HAS_CUDA)
    set(cuda_compiler "nvcc ${CMAKE_CUDA_COMPILER_VERSION}")
    string(JOIN " " cuda_flags -std=c++20 ${CMAKE_CUDA_FLAGS} ${CMAKE_CUDA_FLAGS_${type}})
  endif()
  set(libraries)
  foreach(library IN LISTS DUET_LIBRARIES)
    string(REPLACE "|" "\", \"" fields "${library}")
    string(APPEND libraries "    {\"${fields}\"},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${file} @ONLY CONTENT [[
// Written by the build from cmake/generated.cmake.
#include "core/build_info.h"

namespace duet {
namespace {
constexpr BuildLibrary kLibraries[] = {
@libraries@};
}  // namespace

const BuildInfo& build_info() {
  static constexpr BuildInfo info{
      .git_sha = "<git_sha>",
      .git_dirty = <git_dirty>,
      .type = "@CMAKE_BUILD_TYPE@",
      .compiler = "@CMAKE_CXX_COMPILER_ID@ @CMAKE_CXX_COMPILER_VERSION@",
      .flags = "@cxx_flags@",
      .cuda_compiler = "@cuda_compiler@",
      .cuda_flags = "@cuda_flags@",
      .cuda_architectures = "@CMAKE_CUDA_ARCHITECTURES@",
      .no_cuda = "@DUET_NO_CUDA@",
      .no_simt = "@DUET_NO_SIMT@",
      .libraries = kLibraries,
  };
  return info;
}

}  // namespace duet
]])
endfunction()

duet_build_info_input(${DUET_GENERATED_DIR}/build_info.cpp.in)
add_custom_target(duet_build_info
  COMMAND ${CMAKE_COMMAND} -D IN=${DUET_GENERATED_DIR}/build_info.cpp.in -D OUT=${DUET_GENERATED_DIR}/build_info.cpp
          -D SOURCE=${PROJECT_SOURCE_DIR} -P ${PROJECT_SOURCE_DIR}/cmake/build_info.cmake
  BYPRODUCTS ${DUET_GENERATED_DIR}/build_info.cpp
  COMMENT "Writing build_info.cpp" VERBATIM)

set(golden)
if(EXISTS ${PROJECT_SOURCE_DIR}/ops/registry_golden.txt)
  set(golden ${PROJECT_SOURCE_DIR}/ops/registry_golden.txt)
endif()
add_custom_command(OUTPUT ${DUET_GENERATED_DIR}/registry_golden.cpp
  COMMAND ${CMAKE_COMMAND} -D IN=${PROJECT_SOURCE_DIR}/ops/registry_golden.txt
          -D OUT=${DUET_GENERATED_DIR}/registry_golden.cpp -D SYMBOL=duet_registry_golden
          -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
  DEPENDS ${golden} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
  COMMENT "Embedding ops/registry_golden.txt" VERBATIM)

set(DUET_GENERATED_SOURCES ${DUET_GENERATED_DIR}/build_info.cpp ${DUET_GENERATED_DIR}/registry_golden.cpp)
