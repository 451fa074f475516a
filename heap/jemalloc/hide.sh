#!/bin/sh
# Makes one object of Debian's libjemalloc_pic.a whose only visible symbols are those of keep.syms and
# whose imports go to our shims: hide.sh ARCHIVE OUTPUT RENAME KEEP AR OBJCOPY CC...
# SPDX-License-Identifier: LGPL-2.1-or-later
set -eu
archive=$1 output=$(realpath -m "$2") rename=$(realpath "$3") keep=$(realpath "$4") ar=$5 objcopy=$6
shift 6
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$ar" x "$archive"
# The C++ operators would bring libstdc++ into every process.
rm -f jemalloc_cpp*.o
"$@" -nostdlib -r -o all.o ./*.o
# Its constructor would start it in every process, whether a large block is ever wanted or not.
"$objcopy" --redefine-syms="$rename" --remove-section=.init_array --remove-section=.rela.init_array \
    --remove-section=.ctors --remove-section=.rela.ctors all.o renamed.o
"$objcopy" --keep-global-symbols="$keep" --strip-debug renamed.o "$output"
