# SPDX-License-Identifier: Apache-2.0
# Prints "file:line:code" without comments and with empty string literals, except in #include lines. Used by layers.sh and
# kernels.sh. Raw strings are not understood: one that contains what a check looks for has to be written differently.
FNR == 1 { inside = 0 }
{
  line = $0; out = ""
  is_include = line ~ /^[ \t]*#[ \t]*include/
  while (line != "") {
    if (inside) {
      end = index(line, "*/")
      if (!end) break
      line = substr(line, end + 2); inside = 0
    } else if (match(line, /\/\/|\/\*|"/)) {
      mark = substr(line, RSTART, 1) substr(line, RSTART + 1, RLENGTH - 1)
      out = out substr(line, 1, RSTART - 1)
      line = substr(line, RSTART + RLENGTH)
      if (mark == "//") break
      if (mark == "/*") { inside = 1; continue }
      if (out ~ /'$/ && substr(line, 1, 1) == "'") { out = out "\""; continue }  # the character '"'
      if (!match(line, /^([^"\\]|\\.)*"/)) { line = ""; break }
      out = out "\"" (is_include ? substr(line, 1, RLENGTH) : "\"")
      line = substr(line, RLENGTH + 1)
    } else { out = out line; break }
  }
  if (out !~ /^[ \t]*$/) print FILENAME ":" FNR ":" out
}
