#!/bin/sh
# Prolog of Slurm: keeps a job off a node that is not fit for NCCL.
#
# In slurm.conf:  Prolog=/etc/slurm/nccl-top-prolog.sh
#
# Where this exits with anything but 0, Slurm drains the node and puts the job back into the queue. So it asks only about the machine, never
# about jobs, and lets the job start wherever it could not find out: no nccl-top, a driver that does not answer in time.
set -u
# Slurm sets none.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin

NCCL_TOP=${NCCL_TOP:-/usr/bin/nccl-top}
ONLY=${NCCL_TOP_PROLOG_ONLY:-host,gpu,net}
[ -x "$NCCL_TOP" ] || exit 0

report=$(timeout 10 "$NCCL_TOP" doctor --no-color --only "$ONLY" 2>&1)
code=$?
# 0: well; 1: a check fails; else it could not be judged.
[ "$code" -eq 1 ] || exit 0

printf '%s\n' "$report" | logger -t nccl-top-prolog -p daemon.err
# The reason by which operators, and programs that repair nodes, know it.
if [ -n "${SLURMD_NODENAME:-}" ] && command -v scontrol >/dev/null 2>&1; then
    first=$(printf '%s\n' "$report" |
        awk '/^  FAIL/ { sub(/^  FAIL +/, ""); print name ": " $0; exit } /^[^ ]/ { sub(/ \(.*/, ""); name = $0 }' | cut -c 1-120)
    timeout 5 scontrol update "NodeName=$SLURMD_NODENAME" State=DRAIN "Reason=[nccl-top] $first" 2>/dev/null
fi
exit 1
