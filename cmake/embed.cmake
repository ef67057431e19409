# SPDX-License-Identifier: Apache-2.0
# cmake -D IN=<text file> -D OUT=<source> -D SYMBOL=<name> -P embed.cmake
# Writes a text file as the C++ constant duet::<name>, so that the program needs no data file. One literal a line:
# compilers limit the length of a literal, but not of adjacent ones.
cmake_minimum_required(VERSION 3.24...3.31)

set(text)
if(EXISTS ${IN})
file(READ ${IN} text)
endif()
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
get_filename_component(name ${IN} NAME)
file(WRITE ${OUT} "// Written by the build from ${name}.
namespace duet {
extern const char* const ${SYMBOL};
const char* const ${SYMBOL} =
    \"${text}\";
}  // namespace duet
")
