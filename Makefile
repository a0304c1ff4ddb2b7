# SPDX-License-Identifier: Apache-2.0
#
# The front door: what a person types.  The build itself is meson and ninja,
# the work of each target is in scripts/.  Every target first sees to it that
# the Debian packages it needs are there.

PREFIX ?= /usr/local
export PREFIX DESTDIR ONLY ARGS FUZZ_SECONDS

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

build: ## the program and the library, in build/
	@scripts/setup build
	@scripts/build

run: ## run the server, on holdfast.db in this folder (ARGS=... for it)
	@scripts/setup build
	@scripts/build
	@exec build/holdfast serve $(ARGS)

test: ## build and run every test, on SQLite and PostgreSQL (ONLY=name for some)
	@scripts/setup test
	@scripts/test

bench: ## build and run the benchmarks (ONLY=name for some, ARGS=... for them)
	@scripts/setup bench
	@scripts/bench

lint: ## formatting, static analysis, floors, lengths
	@scripts/setup lint
	@scripts/lint

format: ## rewrite the sources as .clang-format wants them (ONLY=dir for some)
	@scripts/setup lint
	@scripts/format

sanitize: ## the tests under ASan+UBSan, TSan, LeakSanitizer and valgrind
	@scripts/setup sanitize
	@scripts/sanitize

fuzz: ## run each fuzz target for FUZZ_SECONDS (30)
	@scripts/setup fuzz
	@scripts/fuzz

install: ## install under DESTDIR and PREFIX (/usr/local)
	@scripts/setup install
	@scripts/build
	@meson install -C build --no-rebuild --quiet

deb: ## a Debian package, in build/
	@scripts/setup deb
	@scripts/deb

clean: ## remove everything that was built
	@rm -rf build build-*/

.DEFAULT_GOAL := help
.PHONY: help build run test bench lint format sanitize fuzz install deb clean
