# SPDX-License-Identifier: Apache-2.0
# Which files belong to a target: found by name, so that a new file needs no CMake line.

# duet_glob(<variable> [RECURSE] <pattern>...): the files of the current directory that match.
function(duet_glob variable)
  cmake_parse_arguments(PARSE_ARGV 1 arg "RECURSE" "" "")
  set(mode GLOB)
  if(arg_RECURSE)
    set(mode GLOB_RECURSE)
  endif()
  list(TRANSFORM arg_UNPARSED_ARGUMENTS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  file(${mode} files CONFIGURE_DEPENDS ${arg_UNPARSED_ARGUMENTS})
  set(${variable} ${files} PARENT_SCOPE)
endfunction()

# duet_choose(<variable> <feature> <found>): softmax_cudnn.cpp and cudnn.cpp need cuDNN, no_cudnn.cpp stands in for
# cudnn.cpp without it. The suffix may be longer: gemm_cublaslt.cpp needs cublas.
function(duet_choose variable feature found)
  set(kept)
  foreach(file IN LISTS ${variable})
    get_filename_component(name ${file} NAME)
    if(name MATCHES "^no_${feature}")
      set(use NOT found)
    elseif(name MATCHES "(^|_)${feature}")
      set(use found)
    else()
      set(use TRUE)
    endif()
    if(${use})
      list(APPEND kept ${file})
    else()
      file(RELATIVE_PATH shown ${PROJECT_SOURCE_DIR} ${file})
      message(VERBOSE "not built here: ${shown}")
    endif()
  endforeach()
  set(${variable} ${kept} PARENT_SCOPE)
endfunction()

# Most SIMD code picks its instruction set at run time inside one file (Highway). Files that use intrinsics which Highway
# lacks have the instruction set as a suffix and are compiled for it as a whole. Their callers must check the CPU first, and
# they must not instantiate inline library functions: the linker may choose that copy for the whole program.
set(DUET_FLAGS_avx512bf16 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512bf16 -mfma)
set(DUET_FLAGS_avx512vnni -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni)
set(DUET_FLAGS_amx ${DUET_FLAGS_avx512bf16} -mamx-tile -mamx-bf16 -mamx-int8)

# duet_isa_flags(<variable>): flags by suffix; leaves those files out where the target is not x86-64.
function(duet_isa_flags variable)
  set(kept)
  foreach(file IN LISTS ${variable})
    if(file MATCHES "_(avx512bf16|avx512vnni|amx)\\.cpp$")
      set(isa ${CMAKE_MATCH_1})
      if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
        continue()
      endif()
      set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS "${DUET_FLAGS_${isa}}")
    endif()
    list(APPEND kept ${file})
  endforeach()
  set(${variable} ${kept} PARENT_SCOPE)
endfunction()
