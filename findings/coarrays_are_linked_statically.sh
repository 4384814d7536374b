#!/usr/bin/env bash
# A program of Debian's coarray compiler has no dynamic symbol of the coarray library, although the package ships that
# library as a shared object too.
#
# libcoarrays-openmpi-dev holds libcaf_openmpi.so beside libcaf_openmpi.a. Its compiler wrapper names the archive by its
# path. A tool that is loaded into such a program finds _gfortran_caf_init neither with dlsym nor among the loaded
# libraries, so it cannot tell by these that the program has coarrays. It must look for a trace of the archive in the
# program itself, such as the constant strings of its messages.
#
# Seen with libcoarrays-openmpi-dev 2.10.1-1+b1 (Debian 12), by the wrapper's --show and by a program in that package:
#   the wrapper links        libcaf_openmpi.a
#   NEEDED of libcaf         0
#   dynamic symbols of it    0
#   its messages             1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download libcoarrays-openmpi-dev=2.10.1-1+b1 >/dev/null 2>&1
dpkg -x libcoarrays-openmpi-dev_*.deb package
root=package/usr/lib/x86_64-linux-gnu/open-coarrays/openmpi
wrapper=$root/bin/caf
program=$root/bin/OpenCoarrays-2.10.1-tests/co_sum_test

shared=$(find "$root/lib" -name 'libcaf_openmpi.so*' | wc -l)
links=$(grep -o 'libcaf_openmpi\.[a-z]*' "$wrapper" | sort -u | tr '\n' ' ')
needed=$(readelf -d "$program" | grep -c 'NEEDED.*libcaf' || true)
symbols=$(nm -D "$program" | grep -c _gfortran_caf || true)
messages=$(strings "$program" | grep -c 'libcaf_mpi RUNTIME ERROR' || true)
echo "shared objects in the package: $shared"
echo "the wrapper links:             $links"
echo "NEEDED of libcaf:              $needed"
echo "dynamic symbols of it:         $symbols"
echo "its messages:                  $messages"
[ "$shared" -gt 0 ] || { echo 'changed: no shared object'; exit 1; }
[ "$links" = 'libcaf_openmpi.a ' ] || { echo 'changed: expected the archive'; exit 1; }
[ "$needed" = 0 ] && [ "$symbols" = 0 ] || { echo 'changed: the program shows the library'; exit 1; }
[ "$messages" -gt 0 ] || { echo 'changed: no message of it in the program'; exit 1; }
echo 'as seen'
