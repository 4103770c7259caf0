#!/bin/sh
# tools.sh assembler|abi puts NVIDIA's files into the user's cache: ptxas, cuobjdump and
# nvdisasm, or cuda.h, libcuda.so.1, the same of cuBLASLt, of 442 MB, and nccl.h. They are
# packages of non-free and contrib on the machine's own mirror of Debian. Nothing is
# installed and the system's package lists stay as they are.
set -eu
cache=${XDG_CACHE_HOME:-$HOME/.cache}/ringside/cuda
suite=trixie

have() {
	for f in "$@"; do [ -e "$cache/$f" ] || return 1; done
}

# mirror prints where the machine gets Debian's packages.
mirror() {
	apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep '/debian/$' | head -n 1
}

apt() {
	command="$1"
	shift
	"$command" -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
		-o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root "$@"
}

# prepare FILES makes a folder for the download and a list of packages of its own.
prepare() {
	mkdir -p "$cache"
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	uri=$(mirror)
	[ "$uri" ] || {
		echo "no mirror of Debian in the machine's sources: put $1 of CUDA 12.4 into $cache" >&2
		exit 1
	}
	mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
	echo "deb $uri $suite non-free contrib" >"$work/sources.list"
	apt apt-get -qq update
	cd "$work"
}

# first PACKAGE HEADERS unpacks headers, which are first in a large package: the download
# ends when they are there.
first() {
	package=$(apt apt-get -qq download --print-uris "$1" | cut -d"'" -f2)
	shift
	curl -sf "$package" 2>/dev/null | dpkg-deb --fsys-tarfile - 2>/dev/null | tar -x --occurrence=1 $(printf './usr/include/%s ' "$@") || true
}

case "${1-}" in
assembler)
	have bin/ptxas bin/cuobjdump bin/nvdisasm && exit 0
	prepare "bin/ptxas, bin/cuobjdump and bin/nvdisasm"
	apt apt-get -qq download nvidia-cuda-toolkit
	dpkg-deb --fsys-tarfile nvidia-cuda-toolkit_*.deb | tar -x ./usr/bin/ptxas ./usr/bin/cuobjdump ./usr/bin/nvdisasm
	mkdir -p "$cache/bin"
	mv usr/bin/* "$cache/bin/"
	;;
abi)
	headers="cublasLt.h cublas_api.h cuda.h library_types.h"
	have include/cuda.h include/cublasLt.h include/cublas_api.h include/library_types.h include/nccl.h lib/libcuda.so.1 lib/libcublasLt.so.12 && exit 0
	prepare "include/cuda.h, cublasLt.h, cublas_api.h, library_types.h, nccl.h, lib/libcuda.so.1 and libcublasLt.so.12"
	apt apt-get -qq download libcuda1 libcublaslt12
	for package in libcuda1 libcublaslt12; do dpkg-deb -x ${package}_*.deb .; done
	first nvidia-cuda-dev $headers
	first libnccl-dev nccl.h
	headers="$headers nccl.h"
	for h in $headers; do
		tail -n 1 "usr/include/$h" | grep -q '^#endif' || { echo "the download of $h ended early" >&2; exit 1; }
	done
	mkdir -p "$cache/include" "$cache/lib"
	for h in $headers; do mv "usr/include/$h" "$cache/include/"; done
	cp "$(find usr/lib -name 'libcuda.so.*.*' -type f)" "$cache/lib/libcuda.so.1"
	mv "$(find usr/lib -name 'libcublasLt.so.*.*' -type f)" "$cache/lib/libcublasLt.so.12"
	;;
*)
	echo "usage: $0 assembler|abi" >&2
	exit 2
	;;
esac
