# make demo      plans in Minecraft, at home and on blocks from nothing, and writes a page of each
# make test      runs the tests that take little time: about eight minutes on two cores
# make test-all  runs every test: up to half an hour
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
# "cuda" where a GPU has the driver and the card for it, otherwise "cpu"; EXTRA=cuda overrules that.
GPU := $(PYTHON) -I llm_planning/commands/doctor_gpu.py
EXTRA := $(or $(shell $(GPU) 2>/dev/null),cpu)
STAMP := $(VENV)/.installed-$(EXTRA)

# torch's builds have one version, so pip would keep the one of another set-up.
OTHER := $(if $(filter cuda,$(EXTRA)),cpu,cuda)
define begin
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	"Python 3.11 or newer is needed: make PYTHON=python3.12")'
	@$(GPU) >/dev/null
	@test ! -e $(VENV)/.installed-$(OTHER) || { echo '$(VENV) is set up for $(OTHER), and this \
	machine suits $(EXTRA): run `make clean` first, or add EXTRA=$(OTHER)' >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
endef

TORCH := 2.13.0
TORCHVISION := 0.28.0
TORCH_CPU_INDEX := https://download.pytorch.org/whl/cpu

# Processes that test side by side, each with one thread: threads of several would wait for cores.
JOBS := 2
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q
SIDE_BY_SIDE := -n $(JOBS) --dist loadfile --no-loadscope-reorder

QUICK := not slow and not ray and not kills and not browser

.PHONY: setup demo test test-all chromium browser hostile lint bench release doctor clean

setup: $(STAMP)

# The CPU build of torch comes first: vLLM asks for it by version, and a plain `torch` would be a
# CUDA build of several gigabytes. vLLM also brings vision and audio packages built for CUDA, whose
# import fails beside it and takes transformers with it; text models do without them. The benchmarks'
# peer llm-reasoners is wanted for its search alone, and virtualhome-eval for its scenes and their
# executor, not for what else they would bring.
$(VENV)/.installed-cpu: pyproject.toml Makefile
	$(begin)
	$(INSTALL) 'torch==$(TORCH)+cpu' || $(INSTALL) --index-url $(TORCH_CPU_INDEX) 'torch==$(TORCH)'
	$(INSTALL) -e '.[cpu,faiss,dev]' || $(INSTALL) -e '.[cpu,dev]'
	$(PIP) uninstall -y torchvision torchaudio torchcodec
	$(INSTALL) --no-deps --upgrade --target $(VENV)/vision 'torchvision==$(TORCHVISION)'
	$(INSTALL) --no-deps 'llm-reasoners==1.0.2' 'virtualhome-eval==0.1.1'
	touch $@

$(VENV)/.installed-cuda: pyproject.toml Makefile
	$(begin)
	$(INSTALL) -e '.[cuda,faiss-gpu,dev]' || $(INSTALL) -e '.[cuda,faiss,dev]' || $(INSTALL) -e '.[cuda,dev]'
	$(INSTALL) --no-deps 'llm-reasoners==1.0.2' 'virtualhome-eval==0.1.1'
	touch $@

# The worlds say what the plans are worth, and the pages why they were made.
demo: setup
	$(BIN)/python scripts/demo.py

# The markers are listed in `pyproject.toml`. Options join by PYTEST_ADDOPTS.
test: setup
	$(PYTEST) $(SIDE_BY_SIDE) -m '$(QUICK)'

test-all: setup
	$(PYTEST) $(SIDE_BY_SIDE)

# No browser is downloaded: the tests drive Debian's own. Without it they are skipped.
chromium:
	command -v chromium >/dev/null || { command -v apt-get >/dev/null && test "$$(id -u)" = 0 \
		&& apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
		|| { echo 'install a browser: sudo apt-get install chromium' >&2; exit 1; }
	test -d web/node_modules || ! command -v npm >/dev/null || npm --prefix web ci --silent

browser: setup chromium
	$(PYTEST) -m browser

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
