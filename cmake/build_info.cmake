# SPDX-License-Identifier: Apache-2.0
# cmake -D IN=<template> -D OUT=<source> -D SOURCE=<checkout> -P build_info.cmake
# Adds the commit to the template. Without git, or outside a checkout, it is "unknown".
cmake_minimum_required(VERSION 3.24...3.31)

set(GIT_SHA unknown)
set(GIT_DIRTY false)
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse HEAD
                  OUTPUT_VARIABLE sha OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(GIT_SHA ${sha})
    execute_process(COMMAND ${GIT} -C ${SOURCE} diff-index --quiet HEAD -- RESULT_VARIABLE differs ERROR_QUIET)
    if(differs)
      set(GIT_DIRTY true)
    endif()
  endif()
endif()

file(READ ${IN} text)
string(REPLACE "<git_sha>" ${GIT_SHA} text "${text}")
string(REPLACE "<git_dirty>" ${GIT_DIRTY} text "${text}")
set(old)
if(EXISTS ${OUT})
  file(READ ${OUT} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${OUT} "${text}")
endif()
