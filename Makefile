# What people and CI call. Each target first installs what it needs (ci/install.sh: Debian
# packages, and MPICH and mpi4py in .venv; for make test Open MPI and Intel MPI too), so that a fresh
# clone needs no other step.
BUILD ?= build
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
CONFIG ?= Release
CMAKE_ARGS ?=
FUZZ_SECONDS ?= 600
PROVE_MINUTES ?= 5
QEMU_ARGS ?=
CONFIGURE_ANY = cmake -G Ninja -S . -B $(BUILD) -DCMAKE_BUILD_TYPE=$(CONFIG)
CONFIGURE = $(CONFIGURE_ANY) -DPENSTOCK_LAB=ON $(CMAKE_ARGS)
# A fresh build of the demo leaves out the commands of lab/; one that is there stays as it is.
CONFIGURE_DEMO = $(CONFIGURE_ANY) $(if $(wildcard $(BUILD)/build.ninja),,-DPENSTOCK_LAB=OFF) $(CMAKE_ARGS)
PRODUCT = penstock penstock_shared penstock_fi penstock_mpi penstock_nccl penstock_ncclnet penstock_bench_programs
DEMO = penstock penstock_fi penstock_mpi
RELEASE = $(BUILD)/release
MAKE_WHEEL = .venv-torch/bin/pip wheel --quiet --no-deps --wheel-dir $(BUILD)/dist --config-settings build-dir=$(RELEASE) \
  --config-settings cmake.define.PENSTOCK_HEADERS=$(abspath $(BUILD))/headers .
VENV_PYTHON = $(CURDIR)/.venv/bin/python
# EXPERIMENT ... and options of penstock bench run
BENCH_ARGS ?=

.PHONY: help demo release test unit test-long e2e-qemu conformance works-with torch torch-suite torch-headers gpu wheel check format build bench results prove mutants fuzz fuzz-short large install deb clean
.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

demo: ## an unmodified MPI program over a pool, and how fast it is
	ci/install.sh build
	@ci/install.sh run & environment=$$!; \
	$(CONFIGURE_DEMO) >/dev/null && cmake --build $(BUILD) -j $(JOBS) --target $(DEMO); built=$$?; \
	wait $$environment && exit $$built
	BUILD=$(BUILD) ci/demo.sh

build: ## build/bin/penstock, and libpenstock.so, libpenstock-fi.so, libpenstock-mpi.so in build/lib
	ci/install.sh build
	$(CONFIGURE)
	cmake --build $(BUILD) -j $(JOBS) --target $(PRODUCT)

release: ## what make install and make deb install, in build/release: without tests and simulator
	ci/install.sh build
	cmake -G Ninja -S . -B $(RELEASE) -DCMAKE_BUILD_TYPE=$(CONFIG) \
	  -DPENSTOCK_BUILD_TESTS=OFF -DPENSTOCK_SIMULATOR=OFF -DPENSTOCK_HEADERS=$(abspath $(BUILD))/headers $(CMAKE_ARGS)
	cmake --build $(RELEASE) -j $(JOBS) --target $(PRODUCT)

# What uses one core stands beside something else: the installs beside the product's build, and configuring beside the wheel.
test: ## all tests but those of make test-long and make large, with the same seeds each time
	ci/install.sh build
	@ci/install.sh test mpis torch package browser scaling & environment=$$!; \
	$(MAKE) --no-print-directory release; built=$$?; \
	wait $$environment && exit $$built
	@$(CONFIGURE) & configured=$$!; \
	$(MAKE_WHEEL); made=$$?; \
	wait $$configured && exit $$made
	cmake --build $(BUILD) -j $(JOBS)
	BUILD=$(BUILD) JOBS=$(JOBS) ci/test.sh

unit: ## build and run the unit tests of one folder: make unit MODULE=coll
	ci/install.sh build test
	@[ -f $(BUILD)/build.ninja ] || $(CONFIGURE) >/dev/null
	@known=$$(ninja -C $(BUILD) -t targets all | sed -n 's/^unit_\([a-z]*\): phony$$/\1/p' | grep -vx tests | sort | tr '\n' ' '); \
	case " $$known" in *" $(MODULE) "*) ;; *) echo "make unit: no module '$(MODULE)': give MODULE=NAME, one of $$known" >&2; exit 2 ;; esac
	cmake --build $(BUILD) -j $(JOBS) --target unit_$(MODULE)

e2e-qemu: build ## virtual machines with emulated CXL devices: two that share them (pools, MPI jobs, a host's death), and STREAM on one
	ci/install.sh build run
	tests/e2e/qemu/run.py --build $(BUILD) $(QEMU_ARGS)
	tests/e2e/qemu/run.py --build $(BUILD) --stream $(QEMU_ARGS)

conformance: build ## mpi4py's test suite under every MPI, 2 and 4 ranks; long
	ci/install.sh run mpis
	for mpi in mpich openmpi intel; do tests/conformance/mpi4py_suite.py --mpi $$mpi \
	  --penstock $(BUILD)/bin/penstock || failed=1; done; exit $${failed:-0}

works-with: build ## programs of others over a pool and without Penstock: the table of docs/works-with.md; PROGRAM=NAME one; long
	ci/install.sh run mpis torch
	$(CONFIGURE) -DPENSTOCK_TORCH=ON
	cmake --build $(BUILD) -j $(JOBS) --target $(PRODUCT) penstock_torch
	tests/works-with/run.py --build $(BUILD) $(PROGRAM)

torch: ## PyTorch's back end for the torch in .venv-torch, and examples/train.py on it
	ci/install.sh build torch
	$(CONFIGURE) -DPENSTOCK_TORCH=ON
	cmake --build $(BUILD) -j $(JOBS) --target $(PRODUCT) penstock_torch
	BUILD=$(BUILD) ci/torch.sh

torch-suite: torch ## torch's own distributed tests over PyTorch's back end; long
	tests/conformance/torch_suite.py --build $(BUILD)

torch-headers: ## whether PyTorch's back end compiles against torch 2.11 and 2.15 too (fetches 400 MB of headers for each)
	ci/install.sh build torch
	ci/torch_headers.sh

gpu: build ## what Penstock does on a GPU, beside NVIDIA's NCCL (NCCL_TESTS=FOLDER: its tests too); without one on a stand-in, in short form
	ci/install.sh build test
	BUILD=$(BUILD) ci/gpu.sh --bundle
	BUILD=$(BUILD) ci/gpu.sh

wheel: release ## a wheel of the product with PyTorch's back end, as pip install . makes it, in build/dist
	ci/install.sh torch
	$(MAKE_WHEEL)

check: ## format, style, headers, dependencies, aarch64
	ci/install.sh check
	BUILD=$(BUILD) ci/check.sh

format: ## put the C and C++ files into the form that make check asks for
	ci/install.sh check
	git ls-files -co --exclude-standard '*.cpp' '*.hpp' '*.c' '*.h' '*.cu' '*.cuh' | xargs clang-format -i

bench: ## every table and figure of the papers that this machine allows, with baselines: build/bench/report.html
	ci/install.sh build run
	$(CONFIGURE)
	cmake --build $(BUILD) -j $(JOBS) --target $(PRODUCT)
	PENSTOCK_PYTHON=$(VENV_PYTHON) $(BUILD)/bin/penstock bench run --report $(BUILD)/bench $(BENCH_ARGS)

results: bench ## make bench, kept as a page of docs/results
	PYTHONPATH=$(BUILD)/python $(VENV_PYTHON) -B -m penstock.bench.report $(BUILD)/bench/results.json --keep docs/results

prove: ## the protocols on memory without coherence: fresh seeds, deaths, small worlds, mutants, fuzzing; PROVE_MINUTES (5) of jobs
	ci/install.sh build test fuzz mpis
	$(CONFIGURE)
	cmake --build $(BUILD) -j $(JOBS)
	proof/prove.py --build $(BUILD) --jobs $(JOBS) --soak-minutes $(PROVE_MINUTES)

mutants: ## weakens each publish, flush and fence of the protocols in turn: a test must notice, whatever the seeds
	ci/install.sh build test
	$(CONFIGURE)
	cmake --build $(BUILD) -j $(JOBS)
	sim/mutants.py --build $(BUILD) --jobs $(JOBS)

fuzz: ## hostile pools: libFuzzer, FUZZ_SECONDS (600) for each target
	ci/install.sh build fuzz
	fuzz/run.py --seconds $(FUZZ_SECONDS) --jobs $(JOBS)

test-long: ## the tests that make test leaves out: whole trainings, a thousand windows, every width of the report
	ci/install.sh build test mpis torch package browser scaling
	$(CONFIGURE)
	cmake --build $(BUILD) -j $(JOBS)
	ctest --test-dir $(BUILD) --output-on-failure --no-label-summary -L long

large: build ## jobs of 512 processes, with 24 GiB of memory or so
	ci/install.sh run test
	ctest --test-dir $(BUILD) --output-on-failure -L large

fuzz-short: ## the same in a minute or two: the committed inputs, and a few seconds of new ones
	ci/install.sh build fuzz
	fuzz/run.py --seconds 5 --jobs $(JOBS)

install: release ## install below PREFIX (default /usr/local)
	for component in Unspecified scripts manual; do \
	  cmake --install $(RELEASE) --prefix $(PREFIX) --component $$component || exit 1; done

deb: release ## a Debian package of the product, in build/
	ci/install.sh package
	cpack --config $(RELEASE)/CPackConfig.cmake -B $(BUILD)/package
	mv $(BUILD)/package/*.deb $(BUILD)/
	@ls $(BUILD)/*.deb

clean: ## remove what was built (.venv stays)
	rm -rf $(BUILD)
