#!/bin/sh
# compile.sh DIR makes DIR/*.ptx of the kernels beside it, by clang of Debian's main.
set -eu
out=$(cd "$1" && pwd)
cd "$(dirname "$0")"
for f in *.cu; do
	clang-19 -x cuda --cuda-device-only --cuda-gpu-arch=sm_80 --cuda-feature=+ptx75 -nocudainc -nocudalib -nogpulib \
		-O3 -ffp-contract=off -fno-math-errno -Wall -Wno-unknown-cuda-version -S "$f" -o "$out/${f%.cu}.ptx"
done
