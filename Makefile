# Thin targets over meson.  Every target does its own set-up: on Debian, as root, what is missing is
# installed by apt-get; where nothing is missing the network is not needed.
# SPDX-License-Identifier: LGPL-2.1-or-later
BUILD = build
PREFIX = /usr/local

.PHONY: all run test install bench cross clean

all: $(BUILD)/build.ninja
	ninja -C $(BUILD)

# A program of the machine under Gleaner, and its report; or any other one: make run CMD='ls -lR /usr'
run: $(BUILD)/build.ninja
	ninja --quiet -C $(BUILD) report/gleaner preload/libgleaner.so
ifdef CMD
	$(BUILD)/report/gleaner run -- $(CMD)
else
	@tools/need run
	@tools/run-redis $(BUILD)/report/gleaner
endif

# All suites, then those of the modules under sanitizers.  The last line: N passed, N failed.
test:
	@tools/run-tests $(BUILD)

install: $(BUILD)/build.ninja
	meson configure $(BUILD) -Dprefix=$(abspath $(PREFIX))
	ninja -C $(BUILD) report/gleaner preload/libgleaner.so
	meson install -C $(BUILD) --no-rebuild

bench: $(BUILD)/build.ninja
	@tools/need bench
	ninja -C $(BUILD)
	python3 bench/bench.py --build $(BUILD)

# The library for aarch64, and its arithmetic run under qemu-user.
cross:
	@tools/need build cross
	@tools/run-cross $(BUILD)-aarch64 $(BUILD)-aarch64.packages

$(BUILD)/build.ninja:
	@tools/need build
	meson setup $(BUILD)

clean:
	rm -rf $(BUILD) $(BUILD)-sanitize $(BUILD)-aarch64 $(BUILD)-aarch64.packages
