# SPDX-License-Identifier: Apache-2.0
# Language level, build type, warnings, sanitizers, compiler cache.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)  # also keeps GCC from fusing a*b+c in the reference
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "g++ ${CMAKE_CXX_COMPILER_VERSION} is too old: 12 or newer is needed (apt-get install g++)")
endif()

add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra>" "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>")
# GCC 12 warns of an overlap in "text" + std::string where there is none (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
# GCC warns that the value of an empty std::optional may be read uninitialised; sanitizers make it worse.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
endif()
if(DUET_ONE_SIMD_TARGET)
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    message(FATAL_ERROR "DUET_ONE_SIMD_TARGET=ON compiles for AVX2: it is for x86-64 only, not ${CMAKE_SYSTEM_PROCESSOR}")
  endif()
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-march=x86-64-v3> $<$<COMPILE_LANGUAGE:CXX>:-maes> $<$<COMPILE_LANGUAGE:CXX>:-mpclmul>)
  add_compile_definitions(HWY_COMPILE_ONLY_STATIC)
else()
  # Highway compiles SIMD code once per target. AVX2, AVX-512 and, for older CPUs, its portable vectors are enough: SSSE3
  # and SSE4 would serve CPUs from before 2013 only, for two fifths of the time that SIMD files take to compile and test.
  add_compile_definitions("$<$<COMPILE_LANGUAGE:CXX>:HWY_DISABLED_TARGETS=(HWY_SSSE3|HWY_SSE4)>")
endif()
if(DUET_WERROR)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Werror> "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Werror all-warnings -Xcompiler=-Werror>")
endif()
if(DUET_SANITIZE)
  if(NOT DUET_SANITIZE MATCHES "^(address,undefined|thread)$")
    message(FATAL_ERROR "DUET_SANITIZE=${DUET_SANITIZE}: 'address,undefined', thread and OFF are known")
  endif()
  if(DUET_CUDA STREQUAL "ON")
    message(FATAL_ERROR "DUET_SANITIZE=${DUET_SANITIZE} is for the CPU side: set DUET_CUDA=OFF")
  endif()
  set(DUET_CUDA OFF)
  # Instrumentation hides value ranges from GCC's flow analysis, which then warns of impossible sizes.
  add_compile_options(-fsanitize=${DUET_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -Wno-stringop-overflow)
  add_link_options(-fsanitize=${DUET_SANITIZE})
endif()

# With nvcc, ccache must use its depend mode: by default it hashes only one device pass and returns stale objects.
# CCACHE_COMPILERCHECK=content: unpacking the wheels again changes the date of nvcc, not its content.
# CCACHE_BASEDIR: paths below it are hashed relative to the build folder, so a second checkout compiles nothing anew.
find_program(DUET_CCACHE ccache)
mark_as_advanced(DUET_CCACHE)
if(DUET_CCACHE)
  set(with_base ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR})
  if(NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${with_base} ${DUET_CCACHE})
  endif()
  if(NOT DEFINED CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${with_base} CCACHE_DEPEND=1 CCACHE_COMPILERCHECK=content ${DUET_CCACHE})
  endif()
endif()
