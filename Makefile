# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

# With this experiment of Go 1.26 the pure-Go backend is faster: docs/backends.md.
export GOEXPERIMENT := simd

# The AVX kernels of compute v0.1.6 leave the upper halves of registers dirty; math.Exp, which mixes old and new
# instructions when there is FMA, then runs hundreds of times slower.
export GODEBUG := cpu.fma=off

# The same flags on every backend, so that Go's cache has the results of packages that do not read GOMLX_BACKEND.
TEST := go test -timeout 60m

# Unoptimized: half the time of tests, which is compilation.
ON_XLA := GOMLX_BACKEND=xla:cpu XLA_FLAGS="--xla_backend_optimization_level=0 $$XLA_FLAGS" $(TEST)

# Its small products keep addresses as integers, which -race takes for an error.
NOCHECKPTR := -gcflags=all=-d=checkptr=0

GOLANGCI_LINT := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.5.0
FUZZTIME ?= 1m
ARGS ?=

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

.PHONY: run
run: ## compare six encodings on generated shapes; ARGS="-seeds 3 ..." adds flags
	@tools/scripts/xla --quick >/dev/null
	go run -buildvcs=true ./examples/cifar100 $(ARGS)

.PHONY: cifar100
cifar100: ## a small ViT on CIFAR-100, six encodings: make cifar100 ARGS="--data cifar100:DIR ..."
	go run -buildvcs=true ./cmd/wepe compare --recipe cifar100-small $(ARGS)

# The pretrained model and the images are in the repository; examples/cifar100/demo/README.md names their origin.
DEMO := examples/cifar100/demo

.PHONY: finetune-demo
finetune-demo: ## fine-tune a small pretrained ViT at two sizes, learned against hybrid positions, export it; offline
	go run -buildvcs=true ./cmd/wepe compare $(DEMO)/vit --positions learned,hybrid --sizes 24x24,36x36 \
		--recipe demo-cifar100 --data cifar100:$(DEMO) --set steps=50 --set eval_every_steps=10 --out runs/demo $(ARGS)
	rm -rf runs/demo-hf
	go run -buildvcs=true ./cmd/wepe export runs/demo/hybrid-36x36-seed0 runs/demo-hf --to hf

.PHONY: analysis
analysis: ## analyze two small models, trained first, side by side; ARGS="MODEL MODEL --data DIR ..." analyzes yours
	go run -buildvcs=true ./cmd/wepe analyze $(ARGS)

# Tags without what the program does not use: gonum's PDF, SVG and TeX, and HTTP/2.
.PHONY: static
static: ## bin/wepe without cgo, on pure Go, at most 32 MB; docs/serve has its container
	tools/scripts/licenses
	CGO_ENABLED=0 go build -buildvcs=true -trimpath -tags=minimal,nethttpomithttp2 -ldflags="-s -w" -o bin/wepe ./cmd/wepe
	@test $$(wc -c <bin/wepe) -le 32000000 || { echo "bin/wepe is larger than 32 MB: $$(wc -c <bin/wepe)" >&2; exit 1; }

.PHONY: release
release: ## binaries for four platforms, checksums, SBOM, image (with Docker) into dist/, a snapshot; PUBLISH=1 publishes
	go run github.com/goreleaser/goreleaser/v2@v2.13.1 release --clean $(if $(PUBLISH),,--snapshot) \
		$$(docker info >/dev/null 2>&1 || echo --skip=docker)

.PHONY: bench
bench: ## interleaved with timm, torch.compile and JAX; ARGS="--models S/16 --batches 8 --threads 2 --peers timm --positions learned,wepe"
	@tools/scripts/xla --quick >/dev/null
	go run -buildvcs=true ./tools/bench $(ARGS)

.PHONY: peers
peers: ## models and numbers against timm, transformers, ONNX Runtime, pycocotools, scikit-learn; ARGS="--seed 7 --all"
	tools/scripts/peers $(ARGS)

.PHONY: notebooks
notebooks: ## execute the notebooks without a browser and keep their outputs; needs Jupyter
	tools/scripts/notebooks

.PHONY: test
test: ## all tests on pure Go; those that open XLA themselves need its plugin, which this installs if it can
	@tools/scripts/xla --quick >/dev/null
	$(TEST) ./tools/house ./... # the longest first, which would end alone

# The packages whose tests depend on the backend.
WITH_GRAPHS := ./analysis/... ./checkpoints ./data ./detect ./finetune/... ./internal/... ./serve ./study ./vit/...

# Package wepe is compiled with optimizations, as they change the rounding that its tests are about.
.PHONY: test-xla
test-xla: ## the tests of graphs on XLA for CPUs; PACKAGES="./vit ./detect/..." for some
	@tools/scripts/xla
ifdef PACKAGES
	$(ON_XLA) $(PACKAGES)
else
	GOMLX_BACKEND=xla:cpu $(TEST) -run '^Test' ./wepe & \
		$(ON_XLA) -run '^Test' $(WITH_GRAPHS); rest=$$?; wait $$! && exit $$rest
endif

.PHONY: test-long
test-long: ## all tests again, on ONNX Runtime and with the race detector
	GOMLX_BACKEND=onnx:cpu go test -p 1 -count 1 -timeout 60m -tags=onnx ./...
	go test -p 1 -count 1 -timeout 60m -race $(NOCHECKPTR) ./...

.PHONY: test-libjpeg
test-libjpeg: ## the tests of images with the decoder of libjpeg-turbo (libjpeg62-turbo-dev)
	go test -count 1 -tags=libjpeg ./data

.PHONY: test-mpi
test-mpi: ## one training run by several processes, under mpirun (openmpi-bin, libopenmpi-dev)
	CC=mpicc go test -count 1 -timeout 30m -tags=mpi ./internal/mpi
	CC=mpicc go test -count 1 -timeout 30m -tags=mpi -run Mpirun ./cmd/wepe

.PHONY: mutants
mutants: ## changes of a package's code that none of its tests notices, one worker; ARGS="./report --dry-run"
	go run github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0 unleash --workers 1 --timeout-coefficient 20 $(ARGS)

.PHONY: fuzz
fuzz: ## every fuzz test for FUZZTIME (1m)
	tools/scripts/fuzz $(FUZZTIME)

.PHONY: check
check: fmt tidy vet lint vulnerable ## gofmt, go.mod, go vet of other tags, the linter, known vulnerabilities

.PHONY: fmt
fmt:
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "run gofmt -w on:" $$unformatted; exit 1; }

.PHONY: vet
vet: ## what the linter does not see: other tags, and a build without cgo
	go vet -tags=onnx ./...
	CGO_ENABLED=0 go build -trimpath $$(go list ./... | grep -v /tools/) # as make static; programs for developers may need XLA

.PHONY: tidy
tidy:
	go mod tidy -diff

.PHONY: vulnerable
vulnerable: ## govulncheck, where its database answers
	@if curl -sfm 10 -o /dev/null https://vuln.go.dev/index/db.json; then \
		go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...; \
	else echo "govulncheck is skipped: its database does not answer"; fi

.PHONY: lint
lint: ## the linter alone
	$(GOLANGCI_LINT) run ./...

.PHONY: results
results: ## compute the tables of README.md and docs/results.md from the rows in docs/runs and from the code
	go run ./tools/results docs/runs README.md docs/*.md docs/evidence/*.md

.PHONY: docs
docs: ## build the documents as a site, site/index.html
	tools/scripts/docs

.PHONY: xla
xla: ## install XLA for CPUs (the pinned PJRT plugin) into ~/.local/lib/go-xla
	@tools/scripts/xla

.PHONY: onnxruntime
onnxruntime: ## fetch ONNX Runtime from npm into ~/.local/lib/onnxruntime
	tools/scripts/onnxruntime

.PHONY: cuda-compile-check
cuda-compile-check: ## compile models for an H100 on a machine without a GPU; ARGS=--all every encoding, for an A100 too
	tools/scripts/cuda-compile-check $(ARGS)

.PHONY: gpu-check
gpu-check: ## build gpu-check/, a bundle for a CUDA machine without a Go toolchain
	tools/scripts/gpu-check
