# make demo      plans a task in Minecraft and one at home from nothing, and writes a page of each
# make test      runs the tests that take little time: 5 to 7 minutes on two cores
# make test-all  runs every test: up to 15 minutes
# make browser   runs the tests in a web browser, and installs Debian's if it may
# make hostile   runs 5,000 malformed calls, damaged files and signals
# make lint      checks style and types
# make bench     runs the benchmarks
# make release   builds the archives, and checks them in an empty environment
# make doctor    says what this machine can do
# Each of them sets up `.venv` first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input -q
INSTALL := $(PIP) install --no-compile
# CUDA 13, for which vLLM is built, needs a driver of 580 or newer.
LEAST_DRIVER := 580
DRIVER := $(shell nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null \
	| head -n 1 | cut -d . -f 1)
EXTRA := $(shell test "$(DRIVER)" -ge $(LEAST_DRIVER) 2>/dev/null && echo cuda || echo cpu)
ifneq ($(DRIVER),)
ifeq ($(EXTRA),cpu)
$(info This GPU's driver $(DRIVER) is older than $(LEAST_DRIVER): update it. Until then the CPU is used.)
endif
endif
STAMP := $(VENV)/.installed-$(EXTRA)

# The wheels of faiss-gpu-cu12 have no code for Hopper, and end at Python 3.13.
CAPABILITY := $(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1)
FAISS := $(if $(filter 9.%,$(CAPABILITY)),faiss-cuda,faiss-gpu-cu12)

TORCH := 2.13.0
TORCHVISION := 0.28.0
TORCH_CPU_INDEX := https://download.pytorch.org/whl/cpu

QUICK := not slow and not ray and not kills and not browser

.PHONY: setup demo test test-all chromium browser hostile lint bench release doctor clean

setup: $(STAMP)

# The CPU build of torch comes first: vLLM asks for it by version, and a plain `torch` would be a
# CUDA build of several gigabytes. vLLM also brings vision and audio packages built for CUDA, whose
# import fails beside it and takes transformers with it; text models do without them. The benchmarks'
# peer llm-reasoners is wanted for its search alone, and virtualhome-eval for its scenes and their
# executor, not for what else they would bring.
$(VENV)/.installed-cpu: pyproject.toml Makefile
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) 'torch==$(TORCH)+cpu' || $(INSTALL) --index-url $(TORCH_CPU_INDEX) 'torch==$(TORCH)'
	$(INSTALL) -e '.[cpu,faiss,dev]'
	$(PIP) uninstall -y torchvision torchaudio torchcodec
	$(INSTALL) --no-deps --upgrade --target $(VENV)/vision 'torchvision==$(TORCHVISION)'
	$(INSTALL) --no-deps 'llm-reasoners==1.0.2' 'virtualhome-eval==0.1.1'
	touch $@

$(VENV)/.installed-cuda: pyproject.toml Makefile
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[cuda,dev]'
	$(INSTALL) '$(FAISS)' || $(INSTALL) -e '.[faiss]' || echo 'faiss cannot be installed: searches do without it'
	$(INSTALL) --no-deps 'llm-reasoners==1.0.2' 'virtualhome-eval==0.1.1'
	touch $@

# The worlds say what the plans are worth, and the pages why they were made.
demo: setup
	$(BIN)/python scripts/demo.py

# The markers are listed in `pyproject.toml`. Options join by PYTEST_ADDOPTS.
test: setup
	$(BIN)/python -m pytest -q -m '$(QUICK)'

test-all: setup
	$(BIN)/python -m pytest -q

# No browser is downloaded: the tests drive Debian's own. Without it they are skipped.
chromium:
	command -v chromium >/dev/null || { command -v apt-get >/dev/null && test "$$(id -u)" = 0 \
		&& apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
		|| { echo 'install a browser: sudo apt-get install chromium' >&2; exit 1; }
	test -d web/node_modules || ! command -v npm >/dev/null || npm --prefix web ci --silent

browser: setup chromium
	$(BIN)/python -m pytest -q -m browser

# `make test` runs a share of these.
hostile: setup
	$(BIN)/python -m tests.hostile --cases 5000 --processes 500

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# dashscope is wanted for the file of Qwen's vocabulary alone.
bench: setup
	$(INSTALL) --no-deps 'dashscope==2.0.2'
	for script in benchmarks/[a-z]*.py; do case $$script in */harness.py) ;; *) $(BIN)/python $$script || exit 1;; esac; done

release: setup
	$(BIN)/python scripts/release_check.py

doctor: setup
	$(BIN)/llm-planning doctor

clean:
	rm -rf $(VENV)
