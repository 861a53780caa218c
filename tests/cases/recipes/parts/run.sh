#!/bin/bash
# sbatch in a comment is fine
python3 train.py
scontrol  requeue $SLURM_JOB_ID
pkill -f train
/usr/bin/ssh node2 uptime
ray stop --force
