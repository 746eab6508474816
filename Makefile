# make demo   install what is needed, build, and watch untrusted commands run into their walls
# make test   the whole test suite, plain and under AddressSanitizer and UBSan, lint and a short fuzz run
# make bench  ratios against bubblewrap and tar|zstd
# make install [PREFIX=/usr/local]

BUILD  := build
ASAN   := build-asan
PREFIX ?= /usr/local

.PHONY: all demo test test-plain test-asan bench install lint fuzz format clean

all: $(BUILD)/build.ninja
	ninja -C $(BUILD)

$(BUILD)/build.ninja:
	tools/install-deps build
	meson setup $(BUILD) --prefix="$(abspath $(PREFIX))" --buildtype=debugoptimized -Dtests=false >/dev/null

$(ASAN)/build.ninja:
	meson setup $(ASAN) --buildtype=debug -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 >/dev/null

demo: all
	examples/demo $(BUILD)

test:
	tools/install-deps test
	tools/run-tests $(BUILD) $(ASAN) lint fuzz

test-plain: all
	tools/run-tests $(BUILD)

test-asan: $(ASAN)/build.ninja
	tools/run-tests $(ASAN)

bench: all
	bench/run $(BUILD)

# A build directory that is there already (make demo) may have another prefix.
install: all
	@meson introspect $(BUILD) --buildoptions | python3 -c 'import json, sys; \
	    sys.exit(not any(o["name"] == "prefix" and o["value"] == sys.argv[1] for o in json.load(sys.stdin)))' \
	    "$(abspath $(PREFIX))" || meson configure $(BUILD) -Dprefix="$(abspath $(PREFIX))"
	meson install -C $(BUILD)

lint:
	tools/lint

fuzz:
	tools/fuzz 60

format:
	clang-format-19 -i $$(git ls-files '*.c' '*.h' ':!src/link/*_protocol.h')

clean:
	rm -rf $(BUILD) $(ASAN) build-fuzz build-tidy
