"""Writes a chrome trace of a few steps (--profile)."""

import os

import torch

import megatron_log


class TraceWindow:
    """Profiles from the --profile-step-start-th step of this process to --profile-step-end.

    The odd pair is Megatron-LM's: the start counts steps of the process, the end is an iteration.
    """

    def __init__(self, args, device):
        self.wanted = args.profile and args.rank in args.profile_ranks
        self.args = args
        self.device = device
        self.profiler = None

    def before_step(self, process_step, iteration):
        if not self.wanted:
            return
        if self.profiler is not None and iteration >= self.args.profile_step_end:
            self.close()
        elif self.profiler is None and process_step == self.args.profile_step_start:
            self.profiler = self._profiler()
            self.profiler.__enter__()

    def _profiler(self):
        if torch.autograd.kineto_available():
            activities = [torch.profiler.ProfilerActivity.CPU]
            if self.device.type == "cuda":
                activities.append(torch.profiler.ProfilerActivity.CUDA)
            return torch.profiler.profile(activities=activities)
        # Debian builds torch without kineto; what is left is the older profiler.
        return torch.autograd.profiler.profile(use_kineto=False)

    def close(self):
        """Ends the window if it is open and writes the trace."""
        if self.profiler is None:
            return
        self.profiler.__exit__(None, None, None)
        os.makedirs(self.args.profile_dir, exist_ok=True)
        path = os.path.join(self.args.profile_dir, f"rank{self.args.rank}.pt.trace.json")
        self.profiler.export_chrome_trace(path)
        megatron_log.say(f"wrote profiler trace {path}")
        self.profiler = None
        self.wanted = False
