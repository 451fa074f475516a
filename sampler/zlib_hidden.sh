#!/bin/sh
# Makes one object of the part of the static zlib that compresses, with every name local but the three that
# gzip.c calls, and with no import of malloc and free: they are only used where the caller brings no
# allocator, and gzip.c does.
# usage: zlib_hidden.sh OUTPUT LIBZ_A FOLDER AR OBJCOPY COMPILER...
# SPDX-License-Identifier: LGPL-2.1-or-later
set -eu
output=$1 archive=$2 folder=$3 ar=$4 objcopy=$5
shift 5
mkdir -p "$folder"
members='deflate.o trees.o crc32.o adler32.o zutil.o'
(cd "$folder" && "$ar" x "$archive" $members && "$@" -r -nostdlib -o all.o $members)
"$objcopy" --redefine-sym malloc=gleaner_zlib_no_malloc --redefine-sym free=gleaner_zlib_no_free \
    --keep-global-symbol=deflateInit2_ --keep-global-symbol=deflate \
    --keep-global-symbol=deflateEnd "$folder/all.o" "$output"
