"""Lines in the form that Megatron-LM prints them, so that its log readers work here too."""

import datetime
import math
import sys

import torch


# Not arguments but what the launcher made of them; "using world size" says them. Kept out so that
# two blocks differ only where arguments do.
_FROM_LAUNCHER = ("rank", "world_size", "data_parallel_size")


def say(text):
    """Prints `text` and its line end in one write: the ranks share one output, and print() may make
    two writes of it, between which another rank's line can fall."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def say_arguments(args):
    """Prints every argument, given or by default, one a line and sorted."""
    lines = ["------------------------ arguments ------------------------"]
    lines += [f"  {name} {'.' * (48 - len(name))} {value}"
              for name, value in sorted(vars(args).items()) if name not in _FROM_LAUNCHER]
    lines.append("-------------------- end of arguments ---------------------")
    say("\n".join(lines))


def say_datetime(event):
    now = datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S.%f")
    say(f"[{event}] datetime: {now} ")


def iteration_line(args, iteration, consumed, milliseconds, lr, losses, grad_norm, skipped, nan):
    """Returns one iteration line.

    `losses` maps a name to its mean over the steps since the last line, without the skipped ones,
    and is empty when all were skipped. A loss that is not a number leaves its field out, as in
    Megatron-LM, which prints a loss only when it is at least zero.
    """
    now = datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S.%f")
    line = (f" [{now}] iteration {iteration:8d}/{args.train_iters:8d} |"
            f" consumed samples: {consumed:12d} |"
            f" elapsed time per iteration (ms): {milliseconds:.1f} |"
            f" learning rate: {lr:.6E} |"
            f" global batch size: {args.global_batch_size:5d} |")
    for name, value in losses.items():
        if value >= 0.0:
            line += f" {name}: {value:.6E} |"
    line += " loss scale: 1.0 |"
    if grad_norm is not None:
        line += f" grad norm: {grad_norm:.3f} |"
    return line + (f" number of skipped iterations: {skipped:3d} |"
                   f" number of nan iterations: {nan:3d} |")


def validation_lines(iteration, loss):
    """Returns the block that reports an evaluation, between two rules."""
    perplexity = math.exp(min(20.0, loss))
    line = (f" validation loss at iteration {iteration} | lm loss value: {loss:.6E} |"
            f" lm loss PPL: {perplexity:.6E} | ")
    rule = "-" * len(line)
    return f"{rule}\n{line}\n{rule}"


def memory_line(rank, iteration, device):
    """Returns the memory line of a rank.

    On CUDA the numbers are the allocator's. On the CPU there is no allocator to ask: the line then
    gives this process's resident memory (VmRSS) as allocated and reserved and its peak (VmHWM) as
    the maxima, Python and libraries included.
    """
    if device.type == "cuda":
        allocated, peak, reserved, peak_reserved = (
            torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated(),
            torch.cuda.memory_reserved(), torch.cuda.max_memory_reserved())
    else:
        allocated, peak = _resident("VmRSS"), _resident("VmHWM")
        reserved, peak_reserved = allocated, peak
    mega = 1024.0 * 1024.0
    return (f"[Rank {rank}] (after {iteration} iterations) memory (MB)"
            f" | allocated: {allocated / mega} | max allocated: {peak / mega}"
            f" | reserved: {reserved / mega} | max reserved: {peak_reserved / mega}")


def _resident(field):
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")
