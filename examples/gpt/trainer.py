"""One rank of a training run: set up, train, leave."""

import contextlib
import itertools
import math
import os
import time
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import checkpointing
import megatron_log
from corpus import micro_batches, split_text
from corpus_files import read_text
from megatron_log import say
from model import Gpt
from optimizer import build_optimizer, lr_at
from profiling import TraceWindow


def run(args):
    """Trains as `args` say; returns the exit code."""
    device = _device(args)
    if args.world_size > 1:
        dist.init_process_group(_backend(args, device), init_method="env://", rank=args.rank,
                                world_size=args.world_size)
    try:
        return Trainer(args, device).train()
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _device(args):
    wanted = args.device
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    if wanted == "cpu":
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", args.rank))
                          % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def _backend(args, device):
    if args.distributed_backend != "auto":
        return args.distributed_backend
    # NCCL refuses two ranks on one GPU; gloo does not.
    enough = device.type == "cuda" and args.world_size <= torch.cuda.device_count()
    return "nccl" if enough else "gloo"


def data_parallel(model, args):
    """Wraps the model so that backward averages the gradients over the ranks."""
    megabytes = 25 if args.ddp_bucket_size is None else args.ddp_bucket_size * 4 / 2**20
    return DistributedDataParallel(model, bucket_cap_mb=megabytes, broadcast_buffers=False)


class Trainer:
    def __init__(self, args, device):
        self.args = args
        self.device = device
        self.is_first = args.rank == 0
        self.is_last = args.rank == args.world_size - 1
        if self.is_first:
            self._announce()
        train_text, self.validation_text, _ = split_text(read_text(args.data_path), args.split)

        self.iteration = 0  # Steps done, counted from the very first run.
        self.consumed = 0   # Samples that those steps used.
        self.saved = None   # Iteration of the last save, of the last evaluation.
        self.evaluated = None
        self.model = Gpt(args).to(device)
        self.optimizer = build_optimizer(self.model, args)
        self._load()
        self.replica = data_parallel(self.model, args) if args.world_size > 1 else self.model
        self.batches = micro_batches(train_text, args, self.consumed)
        self.micro_batches_a_step = args.global_batch_size // (args.micro_batch_size
                                                               * args.world_size)
        if self.is_first:
            say(" > number of parameters on (tensor, pipeline) model parallel rank (0, 0): "
                f"{sum(p.numel() for p in self.model.parameters())}")

    def _announce(self):
        args = self.args
        say(f"using world size: {args.world_size}, data-parallel size: {args.data_parallel_size}, "
            "context-parallel size: 1, tensor-model-parallel size: 1, "
            "pipeline-model-parallel size: 1")
        megatron_log.say_arguments(args)
        say(f"torch {torch.__version__} on {self.device}, {torch.get_num_threads()} intra-op "
            f"threads, OPENBLAS_NUM_THREADS={os.environ.get('OPENBLAS_NUM_THREADS')}")
        if self.device.type == "cpu":
            say("memory lines give resident memory of the process (VmRSS, peak VmHWM)")

    def _load(self):
        args = self.args
        if args.load is None:
            return
        iteration = args.ckpt_step if args.ckpt_step is not None else (
            checkpointing.latest_iteration(args.load))
        if iteration is None:
            # As Megatron-LM: --load and --save may name one folder, empty at the first start.
            if self.is_first:
                say(f"WARNING: no checkpoint in {args.load}, starting from random weights")
            return
        stored = checkpointing.load(args.load, iteration, self.device)
        with torch.no_grad():
            parameters = dict(self.model.named_parameters())
            if set(parameters) != set(stored["model"]):
                raise ValueError(f"checkpoint in {args.load} holds another model")
            for name, value in stored["model"].items():
                parameters[name].copy_(value)
        if not args.finetune:
            self.optimizer.load_moments(stored["moments"])
            self.iteration = stored["iteration"]
            self.consumed = stored["consumed_train_samples"]
        if self.is_first:
            say(f" loaded checkpoint from {args.load} at iteration {iteration}")

    def train(self):
        args = self.args
        trace = TraceWindow(args, self.device)
        interval = Interval(self.device)
        self.model.train()
        if self.is_first:
            say("training ...")
            megatron_log.say_datetime("before the start of training step")
        interval.resume()
        for process_step in itertools.count():
            if self.iteration >= args.train_iters:
                return self._finish(trace)
            trace.before_step(process_step, self.iteration)
            interval.add(self._step())
            self.iteration += 1
            self.consumed += args.global_batch_size
            if process_step == 0 or self.iteration % args.log_interval == 0:
                self._report(interval, with_memory=process_step == 0)
            exiting = _divides(args.exit_interval, self.iteration)
            evaluates = args.eval_iters > 0 and _divides(args.eval_interval, self.iteration)
            saves = args.save is not None and (
                exiting or _divides(args.save_interval, self.iteration))
            if evaluates or saves:
                # Neither is part of a training step's time.
                interval.pause()
                if evaluates:
                    self._evaluate()
                if saves:
                    self._save()
                interval.resume()
            if exiting:
                return self._exit_early(trace)

    def _finish(self, trace):
        """Leaves after the last iteration: a checkpoint and an evaluation, if not just made."""
        args = self.args
        trace.close()
        if self.is_first:
            megatron_log.say_datetime("after training is done")
        if args.save is not None and self.saved != self.iteration:
            self._save()
        if args.eval_iters > 0 and self.evaluated != self.iteration:
            self._evaluate()
        self._print_memory()
        return 0

    def _exit_early(self, trace):
        trace.close()
        self._print_memory()
        if self.is_first:
            megatron_log.say_datetime(f"exiting program at iteration {self.iteration}")
        return 0

    def _step(self):
        """One update from one global batch; returns what a line reports of it."""
        args, count = self.args, self.micro_batches_a_step
        self.optimizer.zero_grad()
        losses = torch.zeros(2, device=self.device)
        for index in range(count):
            tokens, labels = (part.to(self.device) for part in next(self.batches))
            # DistributedDataParallel averages gradients after every backward unless told to wait.
            waits = (args.world_size > 1 and args.grad_sync == "last-micro" and index < count - 1)
            with self.replica.no_sync() if waits else contextlib.nullcontext():
                lm_loss, balance = self.replica(tokens, labels)
                # Micro-batches are equally long, so the mean of their means is the mean over all
                # tokens of the global batch, however it is cut.
                ((lm_loss + args.moe_aux_loss_coeff * balance) / count).backward()
            losses += torch.stack((lm_loss.detach(), balance.detach()))
        losses /= count
        if args.check_for_nan_in_loss_and_grad and not math.isfinite(losses[0].item()):
            raise RuntimeError(f"Rank {args.rank}: found NaN in local forward loss calculation "
                               f"at iteration {self.iteration + 1}")
        if args.world_size > 1:
            dist.all_reduce(losses)
            losses /= args.world_size
        norm = self.optimizer.clip().item()
        lm_loss, balance = losses.tolist()
        step = Step(lm_loss, balance, norm, skipped=not math.isfinite(norm),
                    nan=not math.isfinite(lm_loss))
        if not step.skipped:
            self.optimizer.step(lr_at(args, self.iteration))
        return step

    def _report(self, interval, with_memory):
        args = self.args
        # As Megatron-LM's: read before the line is printed, which so is part of the next interval.
        milliseconds = interval.lap()
        if self.is_last:
            # As Megatron-LM: the rate shown is the one that the next step will use.
            say(megatron_log.iteration_line(
                args, self.iteration, self.consumed, milliseconds,
                lr_at(args, self.iteration), self._named_losses(interval), interval.grad_norm,
                interval.skipped, interval.nan))
        if with_memory:
            self._print_memory()
        interval.reset()

    def _named_losses(self, interval):
        losses = {}
        if interval.scored > 0:
            losses["lm loss"] = interval.lm_loss / interval.scored
            kind = self.args.moe_router_load_balancing_type
            if self.args.num_experts is not None and kind != "none":
                name = ("seq_" if kind == "seq_aux_loss" else "") + "load_balancing_loss"
                losses[name] = interval.balance / interval.scored
        return losses

    def _print_memory(self):
        if self.is_first:
            say(megatron_log.memory_line(self.args.rank, self.iteration, self.device))

    def _evaluate(self):
        """Mean loss over --eval-iters global batches of the validation text."""
        args = self.args
        done_before = self.iteration // args.eval_interval - 1
        consumed = max(0, done_before) * args.eval_iters * args.global_batch_size
        batches = micro_batches(self.validation_text, args, consumed)
        total = torch.zeros(1, device=self.device)
        count = args.eval_iters * self.micro_batches_a_step
        self.model.eval()
        with torch.no_grad():
            for _ in range(count):
                tokens, labels = (part.to(self.device) for part in next(batches))
                total += self.model(tokens, labels)[0]
        self.model.train()
        if args.world_size > 1:
            dist.all_reduce(total)
        if self.is_last:
            loss = total.item() / (count * args.world_size)
            say(megatron_log.validation_lines(self.iteration, loss))
        self.evaluated = self.iteration

    def _save(self):
        args = self.args
        if self.is_first:
            checkpointing.save(args.save, self.iteration, self.consumed, self.model, self.optimizer)
            say(f" saved checkpoint from iteration {self.iteration:7d} to {args.save}")
        if args.world_size > 1:
            dist.barrier()
        self.saved = self.iteration


def _divides(interval, iteration):
    return interval is not None and iteration % interval == 0


class Step(NamedTuple):
    lm_loss: float
    balance: float
    grad_norm: float
    skipped: bool  # The gradient was not finite, so no update was made.
    nan: bool


class Interval:
    """What happened since the last iteration line, with a clock that can be paused."""

    def __init__(self, device):
        self.device = device
        self.seconds = 0.0
        self.running_since = None
        self.reset()

    def reset(self):
        """Forgets what happened; the clock goes on from the last lap."""
        self.steps = self.scored = self.skipped = self.nan = 0
        self.lm_loss = self.balance = 0.0
        self.grad_norm = None

    def add(self, step):
        self.steps += 1
        self.skipped += step.skipped
        self.nan += step.nan
        if not step.skipped:
            self.scored += 1
            self.lm_loss += step.lm_loss
            self.balance += step.balance
            self.grad_norm = step.grad_norm

    def pause(self):
        self.seconds += self._now() - self.running_since
        self.running_since = None

    def resume(self):
        self.running_since = self._now()

    def lap(self):
        """Milliseconds a step since the last lap; no time is lost between one lap and the next."""
        now = self._now()
        milliseconds = 1000.0 * (self.seconds + now - self.running_since) / self.steps
        self.seconds, self.running_since = 0.0, now
        return milliseconds

    def _now(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.monotonic()
