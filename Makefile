# SPDX-License-Identifier: Apache-2.0
# poetfw: `make demo` trains a network inside an emulated nRF52840; `make test` runs every check.
# Both set up all they need: a virtual environment, Python packages, compiler and emulator.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# Whatever imports a module keeps its bytecode: pip compiles none (below).
unexport PYTHONDONTWRITEBYTECODE

# program:Debian package
PROGRAMS := arm-none-eabi-gcc:gcc-arm-none-eabi qemu-system-arm:qemu-system-arm gcc:gcc \
            aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu qemu-aarch64:qemu-user
PACKAGES := gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm gcc libc6-dev \
            gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user python3-venv

.PHONY: help demo site test test-all pytest test-faults test-power mutants bench bench-schedule bench-memory bench-kernels bench-models bench-finetune bench-devices bench-beyond-ram lint setup setup-dev system system-dev clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: $(VENV)/.installed-portable ## Train digits-cnn inside an emulated nRF52840, without root
	$(BIN)/poetfw demo

test: setup-dev ## Run every check but the slow ones, of parametrised ones each value in a case
	$(BESIDE) CHOICE='-m "not slow"'

test-all: setup-dev ## Run every check
	$(BESIDE) CHOICE='--every-case --hypothesis-profile=thorough'

# The linters are at work on one core while the tests are collected on another.
BESIDE = $(MAKE) --no-print-directory -j2 lint pytest

# One process more than there are cores: compilers and emulators are waited for.
pytest: setup-dev
	OMP_NUM_THREADS=1 $(BIN)/pytest --processes $$(($$(nproc) + 1)) $(CHOICE)

test-faults: setup-dev ## Every fault of an SD card at every call of a short run, on each driver (10 minutes)
	$(BIN)/python tests/unit/runtime/storage_faults.py

test-power: setup-dev ## Cut the power at every block of two epochs, and have the storage fail and lie (1 minute)
	OMP_NUM_THREADS=1 $(BIN)/python tests/power

mutants: setup-dev ## Break the code in 330 ways, and name those that no test notices
	$(BIN)/python tests/mutants/run.py -j $$(nproc)

bench: bench-schedule bench-memory bench-kernels ## Measure everything, beside the papers' figures

bench-schedule: setup ## Solve for schedules: proven gaps, times, memory (about two hours)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/schedule.py --json build/schedules.json

bench-memory: setup ## Order, share and place OLLA's networks and NNTrainer's cases (1 minute)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/memory.py

bench-kernels: setup-dev ## Count what every kernel executes, beside goals and other libraries; time a step (8 minutes)
	$(BIN)/python benchmarks/kernels.py
	$(BIN)/python benchmarks/kernels.py --survey
	$(BIN)/poetfw build --board nrf52840 --out build/bench-kernels
	$(BIN)/python benchmarks/flash.py --networks build/bench-kernels/.pio/build/nrf52840-system/firmware.elf
	$(BIN)/python benchmarks/step.py
	$(BIN)/python benchmarks/step.py --threads 2

bench-models: setup-dev ## Train ordinary networks through every door, beside PyTorch; fine-tune pretrained ones (90 minutes)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/models.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/fine_tuning.py --run
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/brought.py

bench-finetune: setup-dev ## Build pretrained networks of which a part trains, each figure beside its bound (20 minutes)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/fine_tuning.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/fine_tuning.py --accuracy 5

bench-devices: setup ## Train on two devices: plans, bounds, baselines (30 minutes)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/devices.py

bench-beyond-ram: setup ## Plan networks larger than the RAM for arenas of 24 to 256 KB: traffic, energy, bounds (10 minutes)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/beyond_ram.py

site: setup-dev ## Build the documentation as a site, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

lint: setup-dev ## Check style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# A second compiler, and what exported libraries are built with: only the tests ask for them.
setup-dev: PROGRAMS += clang:clang cmake:cmake g++:g++ ccache:ccache
setup-dev: PACKAGES += clang cmake g++ ccache

setup: system $(VENV)/.installed ## Install everything poetfw needs
setup-dev: system-dev $(VENV)/.installed-dev ## Install everything its tests need as well

# pip would compile ten times what is used. PlatformIO keeps no bytecode: what it uses is compiled here.
INSTALL := $(BIN)/pip install --quiet --no-compile --constraint constraints.txt --editable
COMPILE := $(BIN)/python -m compileall -q $(addprefix $(VENV)/lib/python*/site-packages/,SCons platformio)

$(VENV)/.installed: pyproject.toml constraints.txt | system
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(INSTALL) .
	$(COMPILE)
	touch $@

# Compiler and emulator as Python packages, where the system has none.
THERE := $(shell command -v arm-none-eabi-gcc >/dev/null && command -v qemu-system-arm >/dev/null && echo yes)
$(VENV)/.installed-portable: pyproject.toml constraints.txt
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(INSTALL) '.$(if $(THERE),,[portable])'
	$(COMPILE)
	touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | system
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(INSTALL) '.[dev,torch]'
	$(COMPILE)
	touch $@ $(VENV)/.installed

# Installs missing system packages where that is allowed, else says which line to type.
system-dev: PROGRAMS += ssh:openssh-client /usr/sbin/sshd:openssh-server
system-dev: PACKAGES += openssh-client openssh-server
# A browser, in which tests look at pages.
system-dev: PROGRAMS += chromium:chromium chromedriver:chromium-driver
system-dev: PACKAGES += chromium chromium-driver
system system-dev:
	@missing=""; \
	for pair in $(PROGRAMS); do \
	    command -v $${pair%%:*} >/dev/null 2>&1 || missing="$$missing $${pair##*:}"; \
	done; \
	$(PYTHON) -c 'import ensurepip' 2>/dev/null || missing="$$missing python3-venv"; \
	test -z "$$missing" && exit 0; \
	install="apt-get install --yes --no-install-recommends $(PACKAGES)"; \
	echo "missing:$$missing"; \
	if ! command -v apt-get >/dev/null; then \
	    echo "Install these packages (named as Debian names them): $(PACKAGES)"; exit 3; \
	elif [ "$$(id -u)" = 0 ]; then \
	    apt-get update --quiet && DEBIAN_FRONTEND=noninteractive $$install; \
	elif sudo -n true 2>/dev/null; then \
	    sudo apt-get update --quiet && sudo DEBIAN_FRONTEND=noninteractive $$install; \
	else \
	    echo "Type this, then try again:  sudo $$install"; exit 3; \
	fi

clean: ## Remove everything that was built
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
