# SPDX-License-Identifier: Apache-2.0
# The packages of the CPU side. All that are missing are collected first, so that one message names them all.
# Sets DUET_LIBRARIES, a list of "name|version|variant", for the table and for build_info.

set(DUET_LIBRARIES)
set(missing)

# duet_require(<shown name> <Debian package> <find_package arguments>...)
macro(duet_require shown debian package)
  find_package(${package} QUIET ${ARGN})
  if(${package}_FOUND)
    list(APPEND DUET_LIBRARIES "${shown}|${${package}_VERSION}|")
  else()
    list(APPEND missing ${debian})
  endif()
endmacro()

find_package(Threads REQUIRED)
duet_require("oneTBB" libtbb-dev TBB)
duet_require("Google Benchmark" libbenchmark-dev benchmark)
duet_require("fmt" libfmt-dev fmt)
duet_require("Highway" libhwy-dev hwy)
duet_require("nlohmann-json" nlohmann-json3-dev nlohmann_json)
duet_require("simdjson" libsimdjson-dev simdjson)
duet_require("CLI11" libcli11-dev CLI11)
duet_require("SQLite" libsqlite3-dev SQLite3)
if(BUILD_TESTING)
  duet_require("GoogleTest" "libgtest-dev libgmock-dev" GTest)
endif()

# Debian's OpenBLASConfig.cmake sets variables and defines no target. The pthread variant is required by name: with another
# variant behind the same file name, the thread control of core/ would have no effect.
find_package(OpenBLAS QUIET CONFIG)
if(OpenBLAS_FOUND AND EXISTS "${OpenBLAS_LIBRARIES}")
  add_library(duet_openblas INTERFACE)
  target_include_directories(duet_openblas SYSTEM INTERFACE ${OpenBLAS_INCLUDE_DIRS})
  target_link_libraries(duet_openblas INTERFACE ${OpenBLAS_LIBRARIES})
  string(REGEX MATCH "pthread|openmp|serial" openblas_variant "${OpenBLAS_LIBRARIES}")
  list(APPEND DUET_LIBRARIES "OpenBLAS|${OpenBLAS_VERSION}|${openblas_variant}")
else()
  list(APPEND missing libopenblas-pthread-dev)
endif()

# xxHash comes without a CMake package.
find_path(DUET_XXHASH_INCLUDE xxhash.h)
find_library(DUET_XXHASH_LIBRARY xxhash)
mark_as_advanced(DUET_XXHASH_INCLUDE DUET_XXHASH_LIBRARY)
if(DUET_XXHASH_INCLUDE AND DUET_XXHASH_LIBRARY)
  add_library(duet_xxhash INTERFACE)
  target_include_directories(duet_xxhash SYSTEM INTERFACE ${DUET_XXHASH_INCLUDE})
  target_link_libraries(duet_xxhash INTERFACE ${DUET_XXHASH_LIBRARY})
  file(STRINGS "${DUET_XXHASH_INCLUDE}/xxhash.h" xxhash_version REGEX "define XXH_VERSION_(MAJOR|MINOR|RELEASE) +[0-9]+")
  string(REGEX REPLACE "[^;]* ([0-9]+)" "\\1" xxhash_version "${xxhash_version}")
  string(REPLACE ";" "." xxhash_version "${xxhash_version}")
  list(APPEND DUET_LIBRARIES "xxHash|${xxhash_version}|")
else()
  list(APPEND missing libxxhash-dev)
endif()

# RE2 of Debian 12 comes without a CMake package, too. Its version is that of the library's file name.
find_path(DUET_RE2_INCLUDE re2/re2.h)
find_library(DUET_RE2_LIBRARY re2)
mark_as_advanced(DUET_RE2_INCLUDE DUET_RE2_LIBRARY)
if(DUET_RE2_INCLUDE AND DUET_RE2_LIBRARY)
  add_library(duet_re2 INTERFACE)
  target_include_directories(duet_re2 SYSTEM INTERFACE ${DUET_RE2_INCLUDE})
  target_link_libraries(duet_re2 INTERFACE ${DUET_RE2_LIBRARY})
  file(REAL_PATH "${DUET_RE2_LIBRARY}" re2_file)
  string(REGEX MATCH "[0-9.]*$" re2_version "${re2_file}")
  string(REGEX REPLACE "^\\." "" re2_version "${re2_version}")
  list(APPEND DUET_LIBRARIES "RE2|${re2_version}|")
else()
  list(APPEND missing libre2-dev)
endif()

# oneDNN is optional: without it there is neither cpu.onednn nor cpu.onednn_packed. Only version 3 with the oneTBB runtime serves, whose loops run in the
# arena of the CPU context: threads of another pool would be awake while others are timed. Looked for in .deps/onednn
# (tools/setup --with-onednn), in DUET_ONEDNN_ROOT, and where CMake looks.
set(DUET_ONEDNN_ROOT "" CACHE PATH "Folder with include/ and lib/ of oneDNN 3 (oneTBB runtime)")
find_path(DUET_ONEDNN_INCLUDE oneapi/dnnl/dnnl.hpp HINTS ${DUET_ONEDNN_ROOT} ${PROJECT_SOURCE_DIR}/.deps/onednn PATH_SUFFIXES include)
find_library(DUET_ONEDNN_LIBRARY dnnl HINTS ${DUET_ONEDNN_ROOT} ${PROJECT_SOURCE_DIR}/.deps/onednn PATH_SUFFIXES lib)
mark_as_advanced(DUET_ONEDNN_INCLUDE DUET_ONEDNN_LIBRARY)
set(DUET_HAS_ONEDNN FALSE)
set(DUET_NO_ONEDNN "not found; tools/setup --with-onednn adds it")
if(DUET_ONEDNN_INCLUDE AND DUET_ONEDNN_LIBRARY)
  file(STRINGS "${DUET_ONEDNN_INCLUDE}/oneapi/dnnl/dnnl_version.h" onednn_version REGEX "define DNNL_VERSION_(MAJOR|MINOR|PATCH) +[0-9]+")
  string(REGEX REPLACE "[^;]* ([0-9]+)" "\\1" onednn_version "${onednn_version}")
  string(REPLACE ";" "." onednn_version "${onednn_version}")
  file(STRINGS "${DUET_ONEDNN_INCLUDE}/oneapi/dnnl/dnnl_config.h" onednn_runtime REGEX "define DNNL_CPU_RUNTIME DNNL_RUNTIME_TBB$")
  if(onednn_version VERSION_LESS 3 OR onednn_version VERSION_GREATER_EQUAL 4)
    set(DUET_NO_ONEDNN "found ${onednn_version}, and version 3 is wanted")
  elseif(NOT onednn_runtime)
    set(DUET_NO_ONEDNN "found ${onednn_version}, whose runtime is not oneTBB")
  else()
    set(DUET_HAS_ONEDNN TRUE)
    list(APPEND DUET_LIBRARIES "oneDNN|${onednn_version}|oneTBB")
    # Sources take the include path one by one (cpu_ref/CMakeLists.txt). The wheel needs Intel's runtime, which lies beside it:
    # DT_RPATH of the program, unlike DT_RUNPATH, is searched for it as well.
    add_library(duet_onednn INTERFACE)
    target_link_libraries(duet_onednn INTERFACE ${DUET_ONEDNN_LIBRARY} -Wl,--disable-new-dtags)
  endif()
endif()

if(missing)
  list(JOIN missing " " missing)
  message(FATAL_ERROR "Packages are missing. tools/setup installs them, or on Debian and Ubuntu, as root:\n"
                      "  apt-get install --no-install-recommends ${missing}\n")
endif()
