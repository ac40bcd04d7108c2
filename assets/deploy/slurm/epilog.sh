#!/bin/sh
# Epilog of Slurm: judges the job's log and keeps what the node shows, before the next job comes.
#
# In slurm.conf:  Epilog=/etc/slurm/nccl-top-epilog.sh
#
# Exits with 0 always: Slurm drains a node whose epilog fails, and a job that went wrong is no reason for that.
set -u
# Slurm sets none.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin

NCCL_TOP=${NCCL_TOP:-/usr/bin/nccl-top}
KEEP=${NCCL_TOP_EPILOG_DIR:-/var/log/nccl-top/jobs}
KEEP_DAYS=${NCCL_TOP_EPILOG_DAYS:-14}
[ -x "$NCCL_TOP" ] && [ -n "${SLURM_JOB_ID:-}" ] || exit 0

umask 077
out=$KEEP/$SLURM_JOB_ID
mkdir -p "$out" || exit 0
find "$KEEP" -mindepth 1 -maxdepth 1 -type d -mtime "+$KEEP_DAYS" -exec rm -rf {} + 2>/dev/null

# The machine as the job left it.
timeout 10 "$NCCL_TOP" snapshot --no-color --wait 2s --bundle "$out/node" >"$out/node.txt" 2>&1

# The job's log, once: on the node where the batch script ran. Read as the job's user: its path is the user's, and must not show root's files.
job=$(timeout 5 scontrol show job -o "$SLURM_JOB_ID" 2>/dev/null)
field() { printf '%s\n' "$job" | sed -n "s/.* $1=\([^ ]*\).*/\1/p"; }
log=${SLURM_JOB_STDOUT:-$(field StdOut)}
if [ "$(field BatchHost)" = "${SLURMD_NODENAME:-none}" ] && [ -n "$log" ] && [ -n "${SLURM_JOB_USER:-}" ]; then
    timeout 60 runuser -u "$SLURM_JOB_USER" -- "$NCCL_TOP" check --no-color "$log" >"$out/check.txt" 2>&1
    if [ $? -eq 1 ]; then
        head -n 1 "$out/check.txt" | logger -t nccl-top-epilog -p daemon.warning
    fi
fi
exit 0
