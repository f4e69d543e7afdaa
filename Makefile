# A thin front for the CMake presets (CMakePresets.json). `make` alone lists the targets.
#   PROMPT  what `make run` asks        JOBS  build jobs, default: one a core        PRESET  release (default) debug asan

PROMPT ?= Who are you?
JOBS   ?= $(shell nproc)
PRESET ?= release

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.NOTPARALLEL:
.PHONY: help run test ci soak fuzz configure build programs deps nano bench format format-check clean
export PROMPT

out      := build/$(PRESET)
nano     := $(out)/nano.gguf
quantize := $(out)/bin/ds4-quantize
sources  := git ls-files '*.h' '*.cpp' '*.cu' '*.cuh'

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' Makefile

deps: ## fetch what the build needs into .deps (nothing is installed but a missing compiler or CMake)
	@scripts/deps.sh

# Configures only when something it depends on is newer; the build itself sees changed CMake files.
configure: deps
	@done=$(out)/.configured; \
	if [ ! -f $$done ] || [ CMakePresets.json -nt $$done ] || [ .deps/prefix/.stamp -nt $$done ]; then \
	  generator="Unix Makefiles"; \
	  if PATH="$$PWD/.deps/prefix/usr/bin:$$PATH" command -v ninja > /dev/null; then generator=Ninja; fi; \
	  cmake --preset $(PRESET) -G "$$generator"; \
	  touch $$done; \
	fi

build: configure ## configure and build everything
	@cmake --build $(out) -j $(JOBS)

# A first answer needs no tests: they are half of the build.
programs: configure
	@cmake --build $(out) -j $(JOBS) --target ds4 ds4-quantize ds4-bench

# The converter writes a file whole or not at all, and never over another.
nano: programs ## convert models/nano to a GGUF in the build folder, if that is not done yet
	@newer=$$(find models/nano $(quantize) -newer $(nano) 2>/dev/null || true); \
	if [ ! -f $(nano) ] || [ -n "$$newer" ]; then \
	  rm -f $(nano); \
	  $(quantize) --hf models/nano --out $(nano) --recipe exact; \
	fi

run: nano ## set up, build, convert the nano model and answer PROMPT="Who are you?"
	@$(out)/bin/ds4 -m $(nano) --temp 0 --nothink -p "$$PROMPT"

test: ## set up, build and run the test suite
	@scripts/test.sh $(PRESET)

ci: ## everything that is checked before a change lands: test, longer tests, fuzzers, sanitizers, format
	@scripts/ci.sh

soak: ## long runs, hours: half an hour of random sessions and of each fuzz target
	@scripts/soak.sh

fuzz: ## run each fuzz target for 20 seconds
	@scripts/fuzz.sh

bench: build ## run the benchmarks of the kernels, after what this machine can do at best
	@$(out)/bin/ds4-bench --machine
	@shopt -s nullglob; programs=($(out)/bin/*_bench); \
	if [ $${#programs[@]} = 0 ]; then echo "no benchmark program in $(out)/bin" >&2; exit 1; fi; \
	for program in "$${programs[@]}"; do echo "== $$program"; $$program; done

format: ## rewrite the sources with clang-format
	@$$(scripts/tool.sh clang-format-19) -i $$($(sources))

format-check: ## say which sources clang-format would rewrite
	@$$(scripts/tool.sh clang-format-19) --dry-run --Werror $$($(sources))

clean: ## remove the build folder (the downloads in .deps stay)
	rm -rf build
