# The parts of a check run: each is timed, shown as it goes, counted, and never stops the others.
# Sourced by .ci/test, .ci/run, .ci/soak, .ci/miri and others.

export CARGO_TERM_COLOR=never
# A fresh clone builds everything once: incremental data and debug information would only cost time.
export CARGO_INCREMENTAL=0
export CARGO_PROFILE_DEV_DEBUG=none
# Builds are looked for in target/ below the sources, and must be those of this run.
unset CARGO_TARGET_DIR CARGO_BUILD_TARGET_DIR CARGO_BUILD_TARGET

readonly FIRMWARE_TARGETS="thumbv6m-none-eabi thumbv7em-none-eabihf"
readonly RISCV_TARGETS="riscv32imac-unknown-none-elf riscv32imc-unknown-none-elf"
# How long a part may take: several times what the longest takes on two busy cores.  (Tests that nextest runs have a limit
# each, in .config/nextest.toml.)
PART_SECONDS=${PART_SECONDS:-1200}
readonly FUZZ_TARGETS="ops commit smb validator replay attach differential receive sockets service ftrace vm inplace"

# What is installed when it is missing, in the versions that all this was last run with.  What is there in another one
# is used as it is: `used_as_it_is` says so.
readonly -A TOOL_VERSIONS=([nextest]=0.9.151 [llvm-cov]=0.9.1 [fuzz]=0.13.2)
readonly PERFETTO_VERSION=0.59.1
readonly PROTOBUF_VERSION=7.36.2

passed=0
failed=0
failed_parts=()
last_words=()
minutes=()

say() { printf '\n=== %s\n' "$*"; }

# Prints how many tests passed and failed according to the closing lines of test runners in a log, and how many lines
# there were: a plain 'N passed, N failed' says all; otherwise nextest's and libtest's are added up.
tests_in() {
    awk '
        /^[0-9]+ passed, [0-9]+ failed$/ { plain = 1; plain_passed = $1; plain_failed = $3 }
        /tests? run: / || /^test result: / {
            runs++
            for (i = 2; i <= NF; i++) {
                if ($i ~ /^passed/) p += $(i - 1)
                if ($i ~ /^failed/ || $i ~ /^timed/) f += $(i - 1)
            }
        }
        END { if (plain) print plain_passed, plain_failed, 1; else print p + 0, f + 0, runs + 0 }
    ' "$1"
}

# below PID: the processes that it has started, and those that they have.
below() {
    local child
    for child in $(cat /proc/"$1"/task/*/children 2>/dev/null); do
        echo "$child"
        below "$child"
    done
}

# end_below PID: waits for as long as a part may take, and then ends what this shell has started: what hangs fails, and
# says so, rather than holding the run up for ever.  Some need a while to say how far they have come.
end_below() {
    local late this=$BASHPID
    # Not `sleep`, which would outlive this when the part ends in time.
    read -r -t "$PART_SECONDS" <> <(:) || true
    trap '' TERM
    late=$(below "$1" | grep -vx "$this")
    echo "had not ended after $PART_SECONDS s"
    kill $late 2>/dev/null || true
    sleep 15
    kill -KILL $late 2>/dev/null || true
}

# part NAME COMMAND...: runs the command (or function), prints time and result, counts its tests, or one
# when it runs no test runner.  A part that fails without a failed test counts as one failure, and so does a runner
# with no test to run: its names are no longer those that are asked for; and so does one that takes too long.
part() {
    local name=$1 log status start seconds tests_passed tests_failed runs watchdog shell=$BASHPID
    shift
    log=$(mktemp)
    say "$name"
    start=$SECONDS
    end_below "$shell" &
    watchdog=$!
    disown "$watchdog"
    # Not under `if` or `||`: there the shell would ignore `set -e` inside the part.
    set +e
    (
        set -e
        "$@"
    ) 2>&1 </dev/null | (trap '' TERM && exec tee "$log")
    status=${PIPESTATUS[0]}
    set -e
    kill "$watchdog" 2>/dev/null || true
    seconds=$((SECONDS - start))
    minutes+=("| $name | $(awk -v s="$seconds" 'BEGIN { printf "%.1f", s / 60 }') |")
    read -r tests_passed tests_failed runs < <(tests_in "$log")
    if [ "$status" -eq 0 ] && [ "$runs" -gt 0 ] && [ $((tests_passed + tests_failed)) -eq 0 ]; then
        echo "no test was run"
        status=1
    fi
    if [ "$status" -ne 0 ]; then
        failed_parts+=("$name")
        last_words+=("$(grep -A 4 "panicked at" "$log" | head -n 40; tail -n 12 "$log")")
        [ "$tests_failed" -gt 0 ] || tests_failed=1
    elif [ $((tests_passed + tests_failed)) -eq 0 ]; then
        tests_passed=1
    fi
    rm -f "$log"
    passed=$((passed + tests_passed))
    failed=$((failed + tests_failed))
    if [ "$status" -eq 0 ]; then
        printf -- '--- %s: ok, %d s\n' "$name" "$seconds"
    else
        printf -- '--- %s: FAILED with status %d, %d s\n' "$name" "$status" "$seconds"
    fi
}

# at_once COMMAND...: runs commands of one word, each on a core; shows what they print, one after the other, when they
# have all ended.  Fails when one of them does.
at_once() {
    local command logs status=0 started=()
    logs=$(mktemp -d)
    for command; do
        "$command" >"$logs/$command" 2>&1 &
        started+=("$!")
    done
    for command; do
        wait "${started[0]}" || { status=$?; echo "$command ended with $status"; }
        started=("${started[@]:1}")
        cat "$logs/$command"
    done
    rm -r "$logs"
    return "$status"
}

# parts_at_once GROUP...: runs functions that consist of parts, each on a core; shows what they print, one after the
# other, when they have all ended.  Every part is timed, shown and counted as it is by itself: only the parts of one
# group may write the same files, and none may measure time.
parts_at_once() {
    local group logs start=$SECONDS
    logs=$(mktemp -d)
    say "at once: $*"
    for group; do
        (
            passed=0 failed=0 failed_parts=() last_words=() minutes=()
            "$group"
            {
                printf 'passed=$((passed + %d)) failed=$((failed + %d))\n' "$passed" "$failed"
                if [ "${#failed_parts[@]}" -gt 0 ]; then
                    printf 'failed_parts+=(%q)\n' "${failed_parts[@]}"
                    printf 'last_words+=(%q)\n' "${last_words[@]}"
                fi
                printf 'minutes+=(%q)\n' "${minutes[@]}"
            } >"$logs/$group.counts"
        ) >"$logs/$group" 2>&1 &
    done
    wait
    for group; do
        cat "$logs/$group"
        # Missing when the group did not get to its end: then neither does the run.
        . "$logs/$group.counts"
    done
    rm -r "$logs"
    minutes+=("| (at once: $*) | $(awk -v s="$((SECONDS - start))" 'BEGIN { printf "%.1f", s / 60 }') |")
}

# used_as_it_is NAME VERSION WANTED: what there is.
used_as_it_is() {
    if [ "$2" = "$3" ]; then echo "$1 $2"; else echo "$1 $2 is there, and used as it is: not $3"; fi
}

# install_tool NAME: cargo-NAME, if there is none.  Not optimized: these mostly wait for others, and compiling them this
# way takes a third of the time.
install_tool() {
    local name=$1 version=${TOOL_VERSIONS[$1]} there
    # Such as 'cargo-nextest 0.9.151 (6b3f99457 2026-11-02)', and more lines.
    if there=$(cargo "$name" --version 2>/dev/null); then
        used_as_it_is "cargo-$name" "$(awk '{ print $2; exit }' <<<"$there")" "$version"
        return
    fi
    echo "installing cargo-$name $version"
    CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
        cargo install --locked "cargo-$name" --version "$version"
}

# install_packages NAME...: Debian's, as root or with sudo.
install_packages() {
    local sudo=
    [ "$(id -u)" -eq 0 ] || sudo=sudo
    echo "installing the packages $*"
    $sudo apt-get update -q
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$@"
}

# in_qemu PROGRAM ARGUMENTS...: runs a program of embedded-example as `cargo run` does with these, for five minutes at
# most.  Building it, and waiting for other builds, may take as long as it takes.
in_qemu() {
    local program=$1
    shift
    (cd embedded-example && QEMU_SECONDS=300 cargo run --locked --release --bin "$program" "$@")
}

# Ends the run with a table of what each part took, for the README, and with the panics of those that failed and what they
# printed last; the last line is 'N passed, N failed'.
finish() {
    local i
    say "$((SECONDS / 60)) min $((SECONDS % 60)) s in all"
    printf '%s\n' "| part | minutes |" "|---|---|" ${minutes[@]+"${minutes[@]}"}
    for i in ${failed_parts[@]+"${!failed_parts[@]}"}; do
        echo "failed: ${failed_parts[i]}"
        sed 's/^/    /' <<<"${last_words[i]}"
    done
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}
