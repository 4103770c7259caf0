# ringside. `make help` lists the targets.
SHELL := /bin/bash
GO ?= go
BIN := bin
SUDO := $(shell [ "$$(id -u)" = 0 ] || command -v sudo)
APT := DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get -qq
# The tests that need no race detector run without cgo: that is how most users build.
export CGO_ENABLED ?= 0
FUZZTIME ?= 5s
CHAOS_KILLS ?= 2000
HISTORIES ?= 20
SOAK ?= 20
# What bench-peers compares: f16 and bf16 neither Open MPI nor PyTorch's Gloo know.
PEERS_FLAGS ?= --dtypes f32
# What make turns compares, each with the arguments of `ringside bench`, and how often.
SCENARIOS ?= step ops eager latency latency-hops 'reduce --workers 1,2' 'collective --ranks 2 --sides ringside'
TURNS ?= 5
# Tests wait for processes and timeouts much of the time: two packages at once for each
# core, those that take longest first.
JOBS := -p $(shell echo $$((2 * $$(nproc))))
PACKAGES := ./tensor/... ./...
# make vet finds what go test would look for, and a test needs no tables of a debugger: both take time.
TESTS := -vet=off -ldflags=-w
PROGRAMS ?= 1000
SEED ?= 1
# Folders that are modules of their own, which ./... leaves out; make fetches what they need.
EXAMPLES := $(patsubst %/go.mod,%,$(wildcard cmd/examples/*/go.mod))
MODULES := bench/peers cmd/manual collective/launch/kubernetes tensor/cpu/internal/kernel/gen collective/internal/kernel/gen tensor/cuda/driver/gorgonia $(EXAMPLES)
VERSITYGW := github.com/versity/versitygw/cmd/versitygw@v1.8.0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
# The name of a release: the tag of this commit, or the commit itself.
VERSION ?= $(shell git describe --tags --always --dirty)
SBOM := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
# cuda.h is NVIDIA's, so it is fetched: 1 MB from the beginning of a package of 934.
CUDA_H := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ringside/cuda/include/cuda.h

.DEFAULT_GOAL := help
.PHONY: help build tables test skipped check vet lint race purego arm64 arm64-test fuzz random chaos histories breaker meddled soak gorgonia gpu-check gpu-steps python python-test python-torch bench bench-peers bench-torch demo examples guide shape turns ops generate release clean tools-peers tools-race tools-gen tools-s3 tools-data tools-mpi tools-slurm tools-kubectl tools-systemd tools-arm64 tools-cuda ptx abi tools-ptx tools-python

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

build: ## bin/ringside, one file, which needs glibc; TAGS=nogpu: a static one, which finds no GPUs
	$(if $(filter nogpu,$(TAGS)),CGO_ENABLED=0) $(GO) build -ldflags='-s -w' $(if $(TAGS),-tags $(TAGS)) -o $(BIN)/ringside ./cmd/ringside

# Two runs on one commit, by one version of Go, make the same bytes.
release: ## bin/release: a tarball each for amd64 and arm64 with manual pages, completions and a list of what is in it, and their checksums
	@set -e; out=$(abspath $(BIN))/release; rm -rf $$out; mkdir -p $$out; when=@$$(git log -1 --format=%ct); \
	for arch in amd64 arm64; do \
		name=ringside-$(VERSION)-linux-$$arch; dir=$$out/$$name; mkdir -p $$dir/bin $$dir/share/systemd/user; \
		CGO_ENABLED=0 GOARCH=$$arch $(GO) build -buildvcs=true -trimpath -ldflags='-s -w' -o $$dir/bin/ringside ./cmd/ringside; \
		(cd cmd/manual && $(GO) run . $$dir); cp cmd/ringside/ringside.service $$dir/share/systemd/user; \
		cp README.md CHANGELOG.md LICENSE NOTICE SECURITY.md $$dir; \
		GOFLAGS=-mod=mod $(GO) run $(SBOM) bin -json -noserial -notimestamp -output $$dir/sbom.json $$dir/bin/ringside; \
		tar -C $$out --sort=name --owner=0 --group=0 --numeric-owner --mode=go+rX,u+rwX,go-w --mtime=$$when -cf - $$name | gzip -n9 >$$dir.tar.gz; rm -r $$dir; \
	done; cd $$out && sha256sum *.tar.gz | tee SHA256SUMS

tables: ## bin/ownmodel and bin/classifier, which learn from tables of your own: seconds after make build
	$(GO) -C cmd/examples/ownmodel build -o $(abspath $(BIN))/
	$(GO) -C cmd/examples/classifier build -o $(abspath $(BIN))/

demo: build tools-data ## train two models at once on two workers and show what they learned
	$(BIN)/ringside demo

examples: ## tidies the modules of the examples, builds them and runs them with small budgets
	@for dir in $(EXAMPLES); do (cd $$dir && $(GO) mod tidy) || exit 1; done
	$(GO) test ./cmd/examples -count 1 -v

test: ## the quick tests: under 4 minutes on 2 cores
	$(GO) test -short -timeout 20m $(TESTS) $(JOBS) $(PACKAGES)
	@echo "long tests, and those of what is not installed here, were left out: make skipped names them"

skipped: ## the quick tests again, naming those that are left out and why
	$(GO) test -short -timeout 20m -v $(TESTS) $(JOBS) $(PACKAGES) | awk '/--- SKIP/ {print $$3 ":" why} /FAIL/ {print} {why = $$0}'

check: vet lint race purego python-test gorgonia arm64 fuzz ## everything CI runs: under 30 minutes

vet: ## go vet and formatting
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "not gofmt'ed: $$out"; exit 1; }
	@for dir in . $(MODULES); do echo "$(GO) vet ./... in $$dir"; (cd $$dir && $(GO) vet ./...) || exit 1; done

# The C library's Go is used by its C alone, which is compiled with cgo.
lint: tools-race ## staticcheck
	@for dir in . $(MODULES); do echo "staticcheck in $$dir"; (cd $$dir && $(GO) run $(STATICCHECK) $$($(GO) list ./... | grep -v /cmd/libringside$$)) || exit 1; done
	CGO_ENABLED=1 $(GO) run $(STATICCHECK) ./cmd/libringside

# The root's tests only read the sources, and those of the examples only run programs that they build.
race: tools-race tools-gen tools-s3 tools-ptx tools-cuda ## all tests but the root's and the examples' under the race detector, in random order
	TESTS_NEED_GCC=1 TESTS_NEED_GENERATOR=1 TESTS_NEED_PEERS=1 TESTS_NEED_S3=1 CGO_ENABLED=1 $(GO) test -race -shuffle=on -timeout 30m $(TESTS) $(JOBS) $$($(GO) list $(PACKAGES) | grep ringside/ | grep -v cmd/examples)

purego: tools-race tools-gen tools-s3 tools-data tools-mpi tools-slurm tools-kubectl tools-systemd tools-python tools-ptx tools-cuda ## all tests without cgo
	TESTS_NEED_GCC=1 TESTS_NEED_GENERATOR=1 TESTS_NEED_PEERS=1 TESTS_NEED_S3=1 TESTS_NEED_SLURM=1 TESTS_NEED_SYSTEMD=1 TESTS_NEED_MPI=1 TESTS_NEED_TORCH=1 TESTS_NEED_IMAGES=1 CGO_ENABLED=0 $(GO) test -timeout 30m $(TESTS) $(JOBS) $(PACKAGES)
	cd collective/launch/kubernetes && TESTS_NEED_KUBECTL=1 $(GO) test .

# cu is linked with a library that has every name of cuda.h, and run with the stand-in in its place.
gorgonia: tools-race tools-cuda ## the suite of CUDA drivers by gorgonia.org/cu, over the stand-in
	@if [ ! -e $(CUDA_H) ]; then echo "without cuda.h gorgonia.org/cu is not tested"; [ -z "$$TESTS_NEED_GENERATOR" ]; exit; fi; \
	set -e; dir=$(abspath $(BIN))/gorgonia; rm -rf $$dir; mkdir -p $$dir/link; $(GO) run ./cmd/fakecuda $$dir; \
	grep -oE '\bcu[A-Z]\w*' $(CUDA_H) | sort -u | sed 's/.*/int &(void) { return 100; }/' >$$dir/link/libcuda.c; \
	gcc -w -shared -fPIC -Wl,-soname,libcuda.so.1 -o $$dir/link/libcuda.so $$dir/link/libcuda.c; cd tensor/cuda/driver/gorgonia; \
	for how in GOFLAGS=-race "GOGC=1 FAKECUDA_DELAY_US=20000"; do env $$how CGO_ENABLED=1 CGO_CFLAGS="-O1 -w -I$(dir $(CUDA_H))" \
		CGO_LDFLAGS=-L$$dir/link LD_LIBRARY_PATH=$$dir $(GO) test -count=1 ./...; done

gpu-check: ## bin/gpu-check, to be copied to a machine with a GPU: run.sh facts right fast
	@set -e; dir=$(abspath $(BIN))/gpu-check; rm -rf $$dir; mkdir -p $$dir/standin $$dir/ptx $$dir/tensor; cp -r tensor/testdata $$dir/tensor; \
	$(GO) run ./cmd/fakecuda $$dir/standin >/dev/null; rm -r $$dir/standin/src; cp tensor/cuda/gpucheck/run.sh tensor/cuda/gpucheck/torch_peer.py bench/torch/models.py $$dir; \
	$(GO) build -trimpath -ldflags='-s -w' -o $$dir/ringside ./cmd/ringside; \
	$(GO) test -c -trimpath -ldflags='-s -w' -o $$dir/driver.test ./tensor/cuda/driver/dlopen; \
	$(GO) test -c -trimpath -ldflags='-s -w' -o $$dir/memory.test ./tensor/cuda/memory; \
	$(GO) test -c -trimpath -ldflags='-s -w' -o $$dir/cublas.test ./tensor/cuda/blas/cublaslt; \
	$(GO) test -c -trimpath -ldflags='-s -w' -o $$dir/cuda.test ./tensor/cuda; gzip -9 $$dir/*.test; \
	for f in tensor/cuda/kernels/*.ptx; do [ ! -e $$f ] || cp $$f $$dir/ptx; done; du -sh $$dir

gpu-steps: tools-race ## training over the stand-in: 20 steps in each way of several workers, and 60 kills: some 15 minutes
	TESTS_NEED_GCC=1 $(GO) test ./cmd/ringside/command -run '^(TestStepsOnGPUs|TestKillOnGPUs)$$' -count 1 -v -timeout 1h -args -gpu.steps 20 -gpu.kills 60

# The library stays in the package's folder too, so that the tests and PYTHONPATH need no installation.
python: tools-race tools-python ## bin/python: the Python package as a wheel, which pip installs without a compiler, and as a source distribution
	@set -e; dir=cmd/libringside/python; out=$(abspath $(BIN))/python; rm -rf $$out $$dir/bin $$dir/src $$dir/ringside/libringside.so; mkdir -p $$out $$dir/src; \
	trap "cd '$(CURDIR)/$$dir' && rm -rf src build ringside.egg-info LICENSE NOTICE" EXIT; cp LICENSE NOTICE $$dir; git archive HEAD | tar -x -C $$dir/src; cd $$dir; \
	/usr/bin/python3 -BW ignore setup.py -q sdist -d $$out; rm -r src; /usr/bin/python3 -BW ignore setup.py -q bdist_wheel -d $$out; \
	rm ringside/libringside.h; ls -sh $$out

python-test: python ## the tests of the Python package, by Debian's python3
	cd cmd/libringside/python && PYTHONPATH=. timeout -k 5 600 /usr/bin/python3 -B -m pytest -q -p no:cacheprovider tests
	TESTS_NEED_PYTHON=1 TESTS_NEED_TORCH=1 $(GO) test ./bench -count 1 -run '^(TestPython|TestBackend)$$'

python-torch: python ## torch's own tests of torch.distributed over ringside beside gloo, with 2 and 4 ranks: some 15 minutes
	cd cmd/libringside/python && PYTHONPATH=. timeout -k 5 3600 /usr/bin/python3 -B tests/torchs_own.py all

arm64: ## everything builds for arm64, tests too
	GOARCH=arm64 $(GO) vet ./...

arm64-test: tools-arm64 ## the tests of memory, sockets, collectives, the engine and the CUDA driver as arm64, emulated where the machine isn't
	CGO_ENABLED=0 GOARCH=arm64 $(GO) test -short -timeout 10m ./ring ./shm ./ipc/local ./net/... ./collective/...
	CGO_ENABLED=0 GOARCH=arm64 $(GO) test -short -timeout 20m ./tensor ./tensor/internal/compile ./tensor/internal/elementary ./tensor/autograd ./tensor/enginetest ./tensor/cpu/...
	CGO_ENABLED=0 GOARCH=arm64 $(GO) test -timeout 40m ./tensor/cpu -run '^TestConformance$$//random' -args -random.programs 1000
	TESTS_NEED_GCC=1 CGO_ENABLED=0 GOARCH=arm64 QEMU_LD_PREFIX=/usr/aarch64-linux-gnu $(GO) test -short -timeout 10m ./tensor/cuda/driver/... ./tensor/cuda/memory

# A package is built for fuzzing once; a failing input is written to its testdata/fuzz.
# Go before 1.27 may call the end of the time a failure (go.dev/issue/75804), more than once in a row on a busy machine: a target that
# says only that, and wrote no failing input, has run to the end of its time, as Go 1.27 counts it.
fuzz: ## every fuzz target for FUZZTIME (5s)
	@n=0; bad=0; dir=$$(mktemp -d); trap 'rm -rf '$$dir EXIT; corpus=$$($(GO) env GOCACHE)/fuzz; \
	for pkg in $$(git grep -l '^func Fuzz' -- '*_test.go' | xargs -n 1 dirname | sort -u); do \
		$(GO) test -c -fuzz . -o $$dir/fuzz ./$$pkg || exit 1; \
		for f in $$(cd $$pkg && $$dir/fuzz -test.list '^Fuzz'); do n=$$((n+1)); \
			out=$$(cd $$pkg && $$dir/fuzz -test.run '^$$' -test.fuzz "^$$f\$$" -test.fuzztime $(FUZZTIME) \
				-test.fuzzminimizetime 10x -test.fuzzcachedir $$corpus/$$pkg 2>&1) || \
				{ [ "$$(grep -A 2 -e '^--- FAIL' <<<"$$out" | tail -n +2)" = $$'    context deadline exceeded\nFAIL' ] && grep -q 'execs: [1-9]' <<<"$$out"; } || \
				{ bad=$$((bad+1)); echo "$$out"; }; \
			echo "$$pkg $$f: $$(echo "$$out" | grep -o 'execs: [0-9]*' | tail -n 1)"; \
		done; done; echo "$$n targets, $$bad crashers"; [ $$bad = 0 ]

random: ## PROGRAMS (1000) random programs on every level of kernels, 1 to 3 threads, with and without fusion, beside the reference; on meshes of 1 to 6
	@set -o pipefail; $(GO) test ./tensor/cpu -run '^(TestConformance|TestFusionKeepsBits)$$//random|TestFusedTrainingStep$$' -count 1 -v -timeout 30m \
		-args -random.programs $(PROGRAMS) -random.seed $(SEED) | grep -v '^=== \|--- PASS.*\(seed=\|{b:\)'
	@set -o pipefail; $(GO) test ./tensor/shard -run '^TestRandomPrograms$$' -count 1 -v -timeout 30m \
		-args -random.programs $(PROGRAMS) -random.all | grep -v '^=== \|--- PASS.*seed='

chaos: ## processes killed at every step of the protocol, and CHAOS_KILLS (2000) at random under load
	$(GO) test ./ipc/local -run '^TestKilledAtEveryStep$$' -count 1 -v
	$(GO) test ./tensor/cluster -run '^TestChaos$$' -count 1 -v -timeout 4h -args -chaos.kills $(CHAOS_KILLS)
	$(GO) test ./tensor/cluster -run '^TestDispatcherKilled$$' -count 1 -v -args -dispatcher.kills 50
	$(GO) test ./cmd/ringside/command -run '^TestRestarts$$' -count 1 -v -args -restart.kills 20
	$(GO) test ./collective -run '^(TestKilled|TestStopped)$$' -count 1 -v -args -death.kills 200 -death.stops 20

histories: ## HISTORIES (20) histories of 5,000 operations amid deaths and cut links, each checked for what sessions saw
	@set -o pipefail; $(GO) test ./tensor/cluster -run '^TestHistories$$' -count 1 -v -timeout 4h -args -history.seeds $(HISTORIES) -history.ops 5000 | grep -v '^ *--- PASS\|^=== '

breaker: ## attackers beside an honest client: rounds, wrong results, and its longest stall beside the bound
	@set -o pipefail; $(GO) test ./tensor/cluster/breaker -count 1 -v -timeout 1h | grep -E '_test\.go:|FAIL|^ok'

meddled: ## 1,000 collectives and 200 training steps between two hosts, as root, with a process in the link that flips, drops, repeats, delays and cuts
	TESTS_NEED_ROOT=1 $(GO) test ./collective -run '^TestMeddled$$' -count 1 -v -timeout 4h -args -meddled.calls 1000
	TESTS_NEED_ROOT=1 $(GO) test ./tensor/cluster -run '^TestMeddled$$' -count 1 -v -timeout 4h -args -meddled.steps 200

soak: ## clients come and go for SOAK (20) minutes: what dispatcher and workers hold after 2 minutes and at the end
	$(GO) test ./tensor/cluster -run '^TestSoak$$' -count 1 -v -timeout 24h -args -soak.minutes $(SOAK)

bench: build ## the benchmarks, beside their peers and floors
	$(BIN)/ringside bench

bench-peers: build tools-peers ## latency, throughput and collectives beside Open MPI and Gloo, which it installs; PEERS_FLAGS= for all types
	$(BIN)/ringside bench latency throughput --log-level info
	$(BIN)/ringside bench collective --log-level info $(PEERS_FLAGS)
	@if [ "$$(id -u)" = 0 ]; then $(BIN)/ringside bench collective --hosts 2 --log-level info; \
		else echo "between two hosts: sudo $(BIN)/ringside bench collective --hosts 2"; fi

bench-torch: build tools-torch ## training steps and kernels beside PyTorch, which it installs: some minutes
	$(BIN)/ringside bench torch kernels --log-level info

shape: ## how the code is built and written, in figures; BASE=REVISION beside an earlier one
	@$(GO) run ./cmd/shape $(if $(BASE),-base $(BASE))

turns: ## benchmarks of this tree and of an earlier one (BASE=REVISION) in turns, TURNS (5) of each scenario in SCENARIOS
	@$(GO) run ./cmd/turns -base $(BASE) -turns $(TURNS) $(SCENARIOS)

ops: ## docs/ops.md and the table of docs/gpu.md from the op table
	$(GO) test ./tensor -run TestOpsDoc -args -write
	$(GO) test ./tensor/cuda -run TestTable -args -write

guide: build ## the table of docs/tuning.md, measured on this machine
	$(BIN)/ringside bench guide | sed -n '/^|/p' >$(BIN)/guide
	sed -i -e '/^| | one way /,/^$$/{/^|/d}' -e '/^<!-- make guide -->/r $(BIN)/guide' docs/tuning.md

generate: ## the assembly, and the functions that append messages, from their generators
	$(GO) generate ./tensor/cpu/internal/kernel ./collective/internal/kernel ./tensor/cluster/internal/wire

ptx: tools-ptx ## the kernels' PTX from their CUDA C, and the table of what the assembler makes of it
	tensor/cuda/kernels/compile.sh tensor/cuda/kernels
	$(GO) test ./tensor/cuda/kernels -run 'TestAssembler|TestCompiled' -args -write
	$(GO) test ./tensor/cuda -run TestGenerated -args -write-generated

abi: tools-race tools-cuda ## constants, layouts and functions of the CUDA driver, cuBLASLt and NCCL against NVIDIA's headers and libraries
	$(GO) test ./tensor/cuda/driver/dlopen -count=1 -v -run 'TestABI|TestNames|TestLibrary|TestPrototypes'
	$(GO) test ./tensor/cuda/blas/cublaslt -count=1 -v -run 'TestABI|TestAttributes|TestMisuse|TestWithoutDevice'
	$(GO) test ./tensor/cuda/comm/nccl -count=1 -v -run TestABI

clean: ## remove what was built
	rm -rf $(BIN)

tools-peers:
	@{ command -v mpirun && command -v gcc && mpicc -E -include mpi.h -x c /dev/null && /usr/bin/python3 -c 'import torch.distributed'; } >/dev/null 2>&1 || \
		{ $(APT) update && $(APT) install -y openmpi-bin libopenmpi-dev gcc libc6-dev python3-torch; }

tools-race:
	@command -v gcc >/dev/null || { $(APT) update && $(APT) install -y gcc libc6-dev; }

# What tests run of the generators' modules and of the benchmarks' peers, in the module cache: see shm/testneeds.
tools-gen:
	@for gen in bench/peers $(filter %/gen,$(MODULES)); do (cd $$gen && $(GO) mod download) || exit 1; done

# The S3 gateway runs as a process beside the tests of gather; it is never imported. A build takes about a minute.
tools-s3:
	@[ -x $(BIN)/versitygw ] || { cd / && GOFLAGS=-mod=mod GOBIN=$(CURDIR)/$(BIN) CGO_ENABLED=0 $(GO) install $(VERSITYGW); }

tools-data:
	@[ -e /usr/share/datasets/fashion-mnist ] || { $(APT) update && $(APT) install -y dataset-fashion-mnist; } || \
		echo "the Fashion-MNIST images could not be installed; get them by: apt-get install dataset-fashion-mnist"

# OpenBLAS with OpenMP, because with its own threads it fights PyTorch's for the cores; python3-torch alone brings the reference BLAS.
tools-torch:
	@{ dpkg -s libopenblas0-openmp && /usr/bin/python3 -c 'import torch, numpy'; } >/dev/null 2>&1 || { $(APT) update && $(APT) install -y python3-torch python3-numpy libopenblas0-openmp; }

tools-python:
	@{ dpkg -s libopenblas0-openmp && /usr/bin/python3 -c 'import torch, numpy, pytest, setuptools, wheel, ensurepip'; } >/dev/null 2>&1 || \
		{ $(APT) update && $(APT) install -y python3-torch python3-numpy libopenblas0-openmp python3-pytest python3-setuptools python3-wheel python3-venv; }

# What Open MPI launches, and the benchmarks beside it, are tested where Open MPI is.
tools-mpi:
	@{ command -v mpirun && mpicc -E -include mpi.h -x c /dev/null; } >/dev/null 2>&1 || \
		{ $(APT) update && $(APT) install -y --no-install-recommends openmpi-bin libopenmpi-dev; }

# A test starts Slurm's daemons by itself, as root; services of the packages are not needed.
tools-slurm:
	@{ command -v slurmctld && command -v slurmd && command -v srun && command -v munged; } >/dev/null 2>&1 || \
		{ $(APT) update && $(APT) install -y --no-install-recommends slurmctld slurmd slurm-client munge; }

# kubectl talks to an API server of the test's own.
tools-kubectl:
	@{ command -v kubectl && command -v openssl; } >/dev/null 2>&1 || { $(APT) update && $(APT) install -y --no-install-recommends kubernetes-client openssl; }

# A test starts systemd for one user in namespaces; it need not be this machine's init.
tools-systemd:
	@[ -x /lib/systemd/systemd ] && command -v systemctl >/dev/null || { $(APT) update && $(APT) install -y --no-install-recommends systemd; }

# clang makes PTX, and NVIDIA's assembler checks it. The assembler comes from non-free into the user's cache; nothing of it is installed.
tools-ptx:
	@command -v clang-19 >/dev/null || { $(APT) update && $(APT) install -y --no-install-recommends clang-19; }
	@tensor/cuda/tools.sh assembler || { echo "ptxas could not be fetched: PTX is not assembled"; [ -z "$$TESTS_NEED_GENERATOR" ]; }

# An arm64 program is to start like any other, for tests start themselves as processes: qemu, by binfmt_misc.
# The stand-in for the CUDA driver needs a compiler, and the loader and libc of arm64.
tools-arm64:
	@[ "$$(uname -m)" = aarch64 ] || { [ -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ] && command -v aarch64-linux-gnu-gcc >/dev/null; } || \
		{ $(APT) update && $(APT) install -y --no-install-recommends qemu-user-static binfmt-support gcc-aarch64-linux-gnu libc6-dev-arm64-cross && \
		$(SUDO) update-binfmts --enable qemu-aarch64; }

# They come from non-free into the user's cache; nothing is installed. The download ends with the header.
tools-cuda:
	@tensor/cuda/tools.sh abi || { echo "cuda.h and libcuda.so.1 could not be fetched: the driver is not compared with them"; [ -z "$$TESTS_NEED_GENERATOR" ]; }
