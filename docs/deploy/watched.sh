#!/bin/sh
# Runs a command and watches it: watched.sh torchrun --nproc-per-node 8 train.py
# The report goes to $WHYHANG_OUT (this folder); the exit code and signals are those of the command.
out=${WHYHANG_OUT:-.}
"$@" &
job=$!
trap 'kill -TERM $job' TERM
trap 'kill -INT $job' INT
whyhang watch "$job" -o "$out/whyhang-$job.md" -o "$out/whyhang-$job.json" \
    --save "$out/whyhang-$job.tar.zst" ${WHYHANG_OPTIONS:-} >"$out/whyhang-$job.log" 2>&1 &
watcher=$!
wait $job
code=$?
while kill -0 $job 2>/dev/null; do # a signal came: wait for the command itself
    wait $job
    code=$?
done
kill -TERM $watcher 2>/dev/null
wait $watcher 2>/dev/null
exit $code
