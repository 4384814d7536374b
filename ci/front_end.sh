#!/bin/sh
# Runs a compiler's front end only: ci/front_end.sh COMPILER ARGUMENT ... The object is an empty file. It finds all errors in a
# source that no assembler finds, and most warnings, in two thirds of the time; .ci/run looks for the other warnings in what the
# product's build prints. Whole compilations: precompiled headers, and folders whose sources have assembly or instructions by name.
source= object= before=
for argument; do
  case $before in
    -c) source=$argument ;;
    -o) object=$argument ;;
    -x) [ "$argument" != c++-header ] || exec "$@" ;;
  esac
  before=$argument
done
case $source in
  */src/arch/* | */src/base/* | */src/coherence/*) exec "$@" ;;
esac
"$@" -fsyntax-only && : >"$object"
