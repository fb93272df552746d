# The processor time that stages and crates take, and what .ci/times.txt says that they took.
#
# A processor that is slower, or shared, makes everything slower. So what is compared is a ratio: to
# the time that a fixed piece of work, the control, takes meanwhile (the mean of all that were
# measured while the stage ran: others' work comes in bursts, which a median would not see).

begin_times() {
    HAPAX_TIMES=$(mktemp -d)
    export HAPAX_TIMES
    while sleep 3; do measure_control; done 2>/dev/null & # (at the end its folder goes)
}

# Appends when it is, and the processor time of a fixed piece of work, a twentieth of a second or more.
measure_control() (
    local log=$HAPAX_TIMES/control.$BASHPID
    for ((i = 0; i < 30000; i++)); do :; done
    times >"$log"
    echo "$EPOCHSECONDS $(seconds "$log" 1 1)" >>"$HAPAX_TIMES/controls"
    rm "$log"
)

# Prints the mean of the control since that second.
control_since() {
    awk -v since="$1" '$1 >= since { sum += $2; n++ } END { printf "%.4f", sum / n }' "$HAPAX_TIMES/controls"
}

# Adds up what `times` prints on its lines from this one to that one.
seconds() { # the file, first, last
    sed -n "$2,$3p" "$1" | tr ' ' '\n' | sed -n 's/^\([0-9]*\)m\([0-9.]*\)s$/\1 \2/p' | awk '{ all += 60 * $1 + $2 } END { printf "%.3f", all }'
}

# Writes down what the stage that ends in this shell took, beside the control.
stage_ended() {
    local log=$HAPAX_TIMES/$1.stage took since=$((EPOCHSECONDS - SECONDS))
    times >"$log"
    took=$(seconds "$log" 1 2)
    measure_control # it may have been short
    echo "stage $1 $took $(control_since "$since")" >"$log"
}

# Prints a table: what, seconds now, and the control of its stage.
measured() {
    # What took no time was SKIPPED, or is nothing to judge: where it can run, it is new.
    awk '$3 >= 2' "$HAPAX_TIMES"/*.stage
    [ -f "$HAPAX_TIMES/all_tests.stage" ] || return 0
    local control
    control=$(awk '{ print $4 }' "$HAPAX_TIMES/all_tests.stage")
    # What others have written is one line.
    sed -E 's/([0-9]+)m([0-9.]+)s ([0-9]+)m([0-9.]+)s$/\1 \2 \3 \4/' "$HAPAX_TIMES/crates" |
        awk -v control="$control" '{ crate = $1 ~ /^(hapax|testkit)/ ? $1 : "others"; sum[crate " " $2] += 60 * ($3 + $5) + $4 + $6 }
            END { for (key in sum) { split(key, part, " "); printf "%s %s %.2f %s\n", part[2], part[1], sum[key], control } }' | sort
}

# Prints what was measured beside what was kept, and fails if something took half as much again and
# five seconds more. With `keep`, writes it down.
end_times() {
    local kept=.ci/times.txt
    measured >"$HAPAX_TIMES/measured"
    if [ "$1" = keep ]; then
        {
            echo '# What, seconds of processor time, seconds of the control: .ci/run keep'
            cat "$HAPAX_TIMES/measured"
        } >"$kept"
    fi
    printf '\n=== processor time, in seconds; in brackets, what %s would have here\n' "$kept"
    awk 'FNR == NR { if ($1 != "#") { was[$1, $2] = $3 / $4 }; next }
        {
            known = ($1, $2) in was
            expected = known ? was[$1, $2] * $4 : 0
            late = known && $3 > 1.5 * expected && $3 > expected + 5
            printf "%-8s %-20s %7.1f (%s)%s\n", $1, $2, $3, known ? sprintf("%.1f", expected) : "new", late ? "  TOO MUCH" : ""
            failed += late
        }
        END { exit failed > 0 }' "$kept" "$HAPAX_TIMES/measured" ||
        { echo "That is half as much again as $kept says: look why; if it has to be, .ci/run keep."; return 1; }
}
