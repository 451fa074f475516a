#!/bin/sh
# Is the copy of jemalloc isolated?  Its visible symbols are exactly those of keep.syms, its imports our
# shims and plain functions on memory: check.sh OBJECT KEEP NM
# SPDX-License-Identifier: LGPL-2.1-or-later
set -eu
object=$1 keep=$2 nm=$3
failed=0
visible=$("$nm" --defined-only --extern-only "$object" | awk '{print $3}' | LC_ALL=C sort)
if [ "$visible" != "$(LC_ALL=C sort "$keep")" ]; then
    echo "visible symbols differ from $keep:"; echo "$visible"; failed=1
fi
# Pure, or (clock_gettime, sched_yield, pthread_self) without locks and memory.
allowed='_GLOBAL_OFFSET_TABLE_ __ctype_b_loc __errno_location __popcountdi2 __sched_cpucount
__stack_chk_fail __stack_chk_guard clock_gettime memchr memcmp memcpy memmove memset pthread_self sched_yield strchr strcmp
strcpy strlen strncmp strncpy'
for name in $("$nm" --undefined-only "$object" | awk '{print $2}'); do
    case $name in gleaner_shim_*) continue ;; esac
    case " $(echo $allowed) " in
    *" $name "*) ;;
    *) echo "imports $name, for which there is no shim"; failed=1 ;;
    esac
done
exit $failed
