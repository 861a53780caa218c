#!/usr/bin/python3
"""Holds examples/gpt/train.py to what recipes, log readers and gates rely on.

Sizes are tiny: what is tested is not speed. Importing torch takes longer than most of these runs,
so runs of one rank are forks of this process, which has imported it; each still is a whole run of
train.py's main with its own arguments, output and exit code. Runs of two ranks start the program.
"""

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
GPT = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(HERE))), "examples", "gpt")
PYTHON = "/usr/bin/python3"  # Debian's, which has python3-torch; PATH may find another first.
SKIPPED = 77                 # SKIP_RETURN_CODE in CMakeLists.txt
RUN_LIMIT_S = 300            # Far above what a run takes on a busy machine.

START = 120  # Iteration of the checkpoints that the tests go on from.
COMMON = ["--num-layers", "2", "--hidden-size", "48", "--num-attention-heads", "4",
          "--seq-length", "32", "--global-batch-size", "8", "--train-iters", "400",
          "--lr", "3e-3", "--lr-warmup-iters", "10", "--split", "90,10,0", "--seed", "7",
          "--log-interval", "1", "--eval-iters", "0"]
MOE = ["--num-experts", "4", "--moe-router-topk", "2", "--moe-ffn-hidden-size", "48",
       "--moe-aux-loss-coeff", "1e-2"]

NUMBER = r"\d\.\d{6}E[+-]\d\d"
ITERATION_LINE = re.compile(
    r" \[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}\] iteration +(?P<iteration>\d+)/ +(?P<total>\d+) \|"
    r" consumed samples: +(?P<consumed>\d+) \|"
    r" elapsed time per iteration \(ms\): (?P<ms>\d+\.\d) \|"
    rf" learning rate: (?P<lr>{NUMBER}) \| global batch size: +(?P<batch>\d+) \|"
    rf"( lm loss: (?P<loss>{NUMBER}) \|)?( load_balancing_loss: (?P<balance>{NUMBER}) \|)?"
    r" loss scale: 1\.0 \|( grad norm: (?P<norm>\d+\.\d{3}) \|)?"
    r" number of skipped iterations: +(?P<skipped>\d+) \|"
    r" number of nan iterations: +(?P<nan>\d+) \|")
MEMORY_LINE = re.compile(
    r"\[Rank 0\] \(after (\d+) iterations\) memory \(MB\) \| allocated: ([\d.]+) \|"
    r" max allocated: ([\d.]+) \| reserved: ([\d.]+) \| max reserved: ([\d.]+)")


class Outcome:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err
        self.lines = []
        for line in out.splitlines():
            if " iteration " in line and "elapsed time" in line:
                match = ITERATION_LINE.fullmatch(line)
                assert match, f"not an iteration line of the documented form: {line!r}"
                self.lines.append(match.groupdict())

    def losses(self):
        return [float(line["loss"]) for line in self.lines]


def environment(**more):
    # Without PYTHONDONTWRITEBYTECODE, which would hide that a run writes __pycache__.
    dropped = ("RANK", "WORLD_SIZE", "PYTHONDONTWRITEBYTECODE")
    return dict({k: v for k, v in os.environ.items() if k not in dropped}, **more)


class TrainTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="attune_train_test.")
        cls.text = os.path.join(cls.folder, "text.bin")
        # The trainer's own sources: text that is always there.
        with open(cls.text, "wb") as out:
            for name in sorted(os.listdir(GPT)):
                if name.endswith(".py"):
                    with open(os.path.join(GPT, name), "rb") as source:
                        out.write(source.read())
        for name, extra in (("dense", []), ("moe", MOE)):
            cls.launch(*extra, "--micro-batch-size", "8", "--save", cls.path(name),
                       "--exit-interval", str(START))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def path(cls, *parts):
        return os.path.join(cls.folder, *parts)

    @classmethod
    def command(cls, *arguments, program=os.path.join(GPT, "train.py")):
        return [PYTHON, program, "--data-path", cls.text, *COMMON, *arguments]

    @classmethod
    def launch(cls, *arguments, code=0, fault=None, forked=True):
        if forked and "--num-ranks" not in arguments:
            def run():
                faults.FAULTS[fault or "none"]()
                return train.main(cls.command(*arguments)[2:])
            found, out, err = cls.fork_run(run)
        else:
            program, more = os.path.join(GPT, "train.py"), {}
            if fault is not None:
                program, more = os.path.join(HERE, "faults.py"), {"GPT_FAULT": fault}
            done = subprocess.run(cls.command(*arguments, program=program), capture_output=True,
                                  text=True, timeout=RUN_LIMIT_S, check=False, cwd=cls.folder,
                                  env=environment(**more))
            found, out, err = done.returncode, done.stdout, done.stderr
        if found != code:
            raise AssertionError(f"exit code {found}, expected {code}: {arguments}\n"
                                 f"{out[-1000:]}\n{err[-3000:]}")
        return Outcome(found, out, err)

    @classmethod
    def fork_run(cls, run):
        """Returns exit code, stdout and stderr of `run`, called in a fork of this process."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    signal.alarm(RUN_LIMIT_S)
                    os.dup2(out.fileno(), 1)
                    os.dup2(err.fileno(), 2)
                    sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
                    os.chdir(cls.folder)
                    code = run()
                except SystemExit as leaving:  # argparse
                    code = leaving.code
                except BaseException:
                    traceback.print_exc()
                finally:
                    sys.stdout.flush()
                    sys.stderr.flush()
                    os._exit(code)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode())
            return code, *texts

    @classmethod
    def resume(cls, *arguments, steps=3, model="dense", **more):
        extra = MOE if model == "moe" else []
        return cls.launch(*extra, "--load", cls.path(model), "--ckpt-step", str(START),
                          "--exit-interval", str(START + steps), *arguments, **more)

    def close(self, found, expected, relative):
        self.assertEqual(len(found), len(expected))
        for a, b in zip(found, expected):
            self.assertLessEqual(abs(a / b - 1.0), relative, f"{found} against {expected}")

    # ---- what it prints

    def test_prints_what_megatron_log_readers_expect(self):
        run = self.resume("--micro-batch-size", "4", "--eval-interval", "2", "--eval-iters", "1")
        lines = run.out.splitlines()
        self.assertTrue(lines[0].startswith("using world size: 1, data-parallel size: 1, "))
        begin = lines.index("------------------------ arguments ------------------------")
        end = lines.index("-------------------- end of arguments ---------------------")
        block = {}
        for line in lines[begin + 1:end]:
            match = re.fullmatch(r"  (\w+) (\.+) (.*)", line)
            self.assertIsNotNone(match, line)
            self.assertEqual(len(match[1]) + len(match[2]), 48, line)
            block[match[1]] = match[3]
        self.assertEqual(list(block), sorted(block))
        self.assertEqual(block["micro_batch_size"], "4")
        self.assertEqual(block["recompute_granularity"], "None")
        self.assertEqual(block["save"], "None")
        for line in (r"\[before the start of training step\] datetime: [-\d]+ [:.\d]+ ",
                     rf"\[exiting program at iteration {START + 3}\] datetime: [-\d]+ [:.\d]+ ",
                     rf" validation loss at iteration {START + 2} \| lm loss value: {NUMBER} \|"
                     rf" lm loss PPL: {NUMBER} \| "):
            self.assertEqual(len([x for x in lines if re.fullmatch(line, x)]), 1, line)
        memory = [m for m in map(MEMORY_LINE.fullmatch, lines) if m]
        self.assertEqual([int(m[1]) for m in memory], [START + 1, START + 3])
        for match in memory:
            self.assertGreater(float(match[2]), 50.0)  # Python with torch is never smaller.
            self.assertGreaterEqual(float(match[3]), float(match[2]))
        self.assertEqual([line["total"] for line in run.lines], ["400"] * 3)
        self.assertEqual([line["skipped"] + line["nan"] for line in run.lines], ["00"] * 3)
        self.assertTrue(all(float(line["ms"]) > 0 for line in run.lines))

    def test_wider_log_interval_averages_over_it(self):
        each = self.resume("--micro-batch-size", "8", steps=4).losses()
        run = self.resume("--micro-batch-size", "8", "--log-interval", "4", steps=4)
        # The first step has a line of its own; 124 closes the interval of the three after it.
        self.assertEqual([line["iteration"] for line in run.lines], ["121", "124"])
        self.close(run.losses(), [each[0], sum(each[1:]) / 3], 2e-6)

    # ---- where it starts and stops

    def test_resume_goes_on_exactly(self):
        straight = self.resume("--micro-batch-size", "8", steps=6)
        first = self.resume("--micro-batch-size", "8", "--save", self.path("half"), steps=3)
        self.assertEqual([int(x["iteration"]) for x in first.lines], [121, 122, 123])
        self.assertEqual([int(x["consumed"]) for x in first.lines], [968, 976, 984])
        with open(self.path("half", "latest_checkpointed_iteration.txt")) as file:
            self.assertEqual(file.read(), "123")
        self.assertEqual(os.listdir(self.path("half", "iter_0000123")), ["checkpoint.pt"])
        second = self.launch("--micro-batch-size", "8", "--load", self.path("half"),
                             "--exit-interval", "126")
        for line in straight.lines + second.lines:
            line.pop("ms")
        # To the last digit: weights, moments, data position and learning rate all came back.
        self.assertEqual(second.lines, straight.lines[3:])

    def test_another_optimizer_form_resumes_the_same_state(self):
        single = self.resume("--micro-batch-size", "8", steps=4)
        for form in ("flat", "foreach"):
            other = self.resume("--micro-batch-size", "8", "--optimizer-impl", form, steps=4)
            self.close(other.losses(), single.losses(), 1e-4)

    def test_finetune_takes_weights_and_starts_at_0(self):
        run = self.launch("--micro-batch-size", "8", "--load", self.path("dense"), "--finetune",
                          "--exit-interval", "1")
        self.assertEqual(run.lines[0]["iteration"], "1")
        self.assertLess(run.losses()[0], 4.0)  # Random weights are at log 256 = 5.5.

    def test_a_run_without_save_writes_nothing(self):
        before = sorted(os.walk(GPT)) + sorted(os.walk(self.folder))
        self.resume("--micro-batch-size", "8", steps=1, forked=False)
        self.assertEqual(sorted(os.walk(GPT)) + sorted(os.walk(self.folder)), before)

    # ---- what must not change what is learned

    def test_loss_depends_on_no_layout(self):
        expected = self.resume("--micro-batch-size", "1").losses()
        for layout in (["--micro-batch-size", "4", "--num-workers", "1"],
                       ["--micro-batch-size", "8", "--attention-impl", "chunked"],
                       ["--micro-batch-size", "2", "--num-ranks", "2"],
                       ["--micro-batch-size", "2", "--num-ranks", "2", "--grad-sync", "last-micro",
                        "--optimizer-impl", "flat", "--ddp-bucket-size", "4096"],
                       ["--micro-batch-size", "2", "--recompute-granularity", "full",
                        "--recompute-method", "block", "--recompute-num-layers", "1"],
                       ["--micro-batch-size", "8", "--recompute-granularity", "selective",
                        "--attention-impl", "baddbmm"]):
            losses = self.resume(*layout).losses()
            self.close(losses[:1], expected[:1], 1e-5)
            self.close(losses, expected, 1e-4)

    def test_experts_report_their_balance(self):
        runs = [self.resume(*layout, model="moe") for layout in (
            ["--micro-batch-size", "2"],
            ["--micro-batch-size", "2", "--moe-expert-impl", "sorted"],
            ["--micro-batch-size", "2", "--num-ranks", "2", "--recompute-granularity", "full",
             "--recompute-method", "uniform", "--recompute-num-layers", "2"])]
        for run in runs:
            for line in run.lines:
                # 1 is perfect balance; the trained router is near it.
                self.assertLess(abs(float(line["balance"]) - 1.0), 0.5)
            self.close(run.losses()[:1], runs[0].losses()[:1], 1e-5)
            self.close([float(x["balance"]) for x in run.lines[:1]],
                       [float(x["balance"]) for x in runs[0].lines[:1]], 1e-5)

    # ---- faults show

    def test_faults_show_where_gates_look(self):
        healthy = self.resume("--micro-batch-size", "4", fault="none")
        for fault in ("labels_unshifted", "labels_late"):
            run = self.resume("--micro-batch-size", "4", fault=fault, steps=1)
            self.assertGreater(abs(run.losses()[0] / healthy.losses()[0] - 1.0), 0.02, fault)
        shifted = self.resume("--micro-batch-size", "4", fault="mask_shifted", steps=1)
        self.assertNotEqual(shifted.losses()[0], healthy.losses()[0])

    def test_expert_faults_show_where_gates_look(self):
        healthy = self.resume("--micro-batch-size", "4", model="moe", steps=1)
        for fault, factor in (("aux_zero", 0.0), ("aux_half", 0.5)):
            run = self.resume("--micro-batch-size", "4", model="moe", fault=fault, steps=1)
            self.assertEqual(run.losses()[0], healthy.losses()[0])  # The loss alone says nothing.
            self.assertAlmostEqual(float(run.lines[0]["balance"]),
                                   factor * float(healthy.lines[0]["balance"]), places=5)

    def test_rank_faults_are_real(self):
        two = ["--micro-batch-size", "4", "--num-ranks", "2", "--ddp-bucket-size", "4096"]
        healthy = self.resume(*two, steps=1)
        skipped = self.resume(*two, fault="bucket_skipped", steps=1)
        self.assertEqual(skipped.losses()[0], healthy.losses()[0])
        self.assertNotEqual(skipped.lines[0]["norm"], healthy.lines[0]["norm"])
        shared = self.resume(*two, fault="ranks_share_data", steps=1)
        self.assertNotEqual(shared.losses()[0], healthy.losses()[0])

    def test_component_tests_tell_a_swap_from_a_change(self):
        for arguments, expected in ((["attention"], 0), (["experts"], 0), (["optimizer"], 0),
                                    (["attention", "bf16-scores"], 1)):
            code, out, err = self.fork_run(lambda: component_test.main(arguments))
            self.assertEqual(code, expected, out + err)
            self.assertEqual(err, "")
            self.assertEqual("DIFFERS" in out, expected == 1, out)

    # ---- how it fails

    def test_refuses_arguments_that_cannot_run(self):
        bad = self.launch("--micro-batch-size", "3", code=1)
        self.assertIn("in validate_args", bad.err)
        self.assertIn("ValueError: global batch size (8) is not divisible by micro batch size (3) "
                      "times data parallel size (1)", bad.err)
        self.launch("--micro-batch", "4", code=2)  # No abbreviations.

    def test_a_loss_that_is_no_number_ends_the_run(self):
        arguments = ["--micro-batch-size", "8", "--lr", "1e30", "--lr-warmup-iters", "0"]
        run = self.launch(*arguments, "--exit-interval", "5", code=1)
        self.assertRegex(run.err, r"RuntimeError: Rank 0: found NaN in local forward loss")
        run = self.launch(*arguments, "--exit-interval", "5",
                          "--no-check-for-nan-in-loss-and-grad")
        self.assertEqual((run.lines[-1]["loss"], run.lines[-1]["skipped"]), (None, "1"))
        self.assertEqual(run.lines[-1]["nan"], "1")

    def test_ranks_end_together(self):
        for victim, expected in (("rank", 137), ("parent", -9)):
            process = subprocess.Popen(self.command("--micro-batch-size", "1", "--num-ranks", "2"),
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                       env=environment(), cwd=self.folder)
            for line in process.stdout:
                if ITERATION_LINE.fullmatch(line.rstrip("\n")):
                    break
            with open(f"/proc/{process.pid}/task/{process.pid}/children") as children:
                ranks = [int(pid) for pid in children.read().split()]
            self.assertEqual(len(ranks), 2)
            os.kill(ranks[1] if victim == "rank" else process.pid, signal.SIGKILL)
            self.assertEqual(process.wait(timeout=30), expected)
            process.stdout.close()
            deadline = time.monotonic() + 30
            while any(map(_alive, ranks)):
                self.assertLess(time.monotonic(), deadline, f"a rank outlived its {victim}")
                time.sleep(0.05)

    def test_profile_writes_a_trace_of_the_asked_steps(self):
        run = self.resume("--micro-batch-size", "8", "--profile", "--profile-step-start", "2",
                          "--profile-step-end", str(START + 4), "--profile-dir", self.path("trace"),
                          steps=5)
        self.assertEqual(len(run.lines), 5)
        with open(self.path("trace", "rank0.pt.trace.json")) as file:
            trace = json.load(file)
        events = trace["traceEvents"] if isinstance(trace, dict) else trace
        # Two steps of one micro-batch each: the loss is computed twice.
        self.assertEqual(len([e for e in events if e.get("name") == "aten::cross_entropy_loss"]), 2)


def _alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


if __name__ == "__main__":
    if importlib.util.find_spec("torch") is None:
        if os.path.exists(PYTHON) and not os.path.samefile(PYTHON, sys.executable):
            os.execv(PYTHON, [PYTHON, *sys.argv])
        print(f"skipped: {PYTHON} has no torch (Debian: python3-torch libopenblas0-pthread)")
        sys.exit(SKIPPED)
    sys.path.insert(0, HERE)
    import faults  # Imports torch, with one thread, as train.py does, and finds the modules below.
    import component_test
    import train
    unittest.main(verbosity=2)
