#!/usr/bin/python3
"""A trace that the example's own profiler writes is read by attune diagnose.

Debian's PyTorch has no kineto: its profiler writes a bare array without categories, and what it knows
are times of the host. Newer PyTorch writes Kineto's form; both are accepted here.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
GPT = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(HERE))), "examples", "gpt")
PYTHON = "/usr/bin/python3"
SKIPPED = 77  # SKIP_RETURN_CODE in CMakeLists.txt

TRAIN = [PYTHON, os.path.join(GPT, "train.py"), "--num-layers", "2", "--hidden-size", "48",
         "--num-attention-heads", "4", "--seq-length", "32", "--global-batch-size", "8",
         "--micro-batch-size", "2", "--train-iters", "400", "--lr", "3e-3", "--split", "90,10,0",
         "--seed", "7", "--log-interval", "1", "--eval-iters", "0", "--exit-interval", "8"]


class TraceTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="attune-trace.")
        self.addCleanup(self.folder.cleanup)

    def train(self, *more):
        text = os.path.join(self.folder.name, "text.bin")
        with open(text, "wb") as out, open(__file__, "rb") as source:
            out.write(source.read() * 20)
        subprocess.run([*TRAIN, "--data-path", text, "--profile", "--profile-step-start", "3", "--profile-step-end", "6",
                        "--profile-dir", os.path.join(self.folder.name, "traces"), *more],
                       check=True, stdout=subprocess.DEVNULL, cwd=self.folder.name, timeout=300,
                       env={"PATH": os.environ["PATH"], "HOME": self.folder.name,
                            "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"})

    def diagnose(self):
        attune = os.path.join(os.environ["ATTUNE_BIN_DIR"], "attune")
        done = subprocess.run([attune, "diagnose", os.path.join(self.folder.name, "traces"), "--json"], check=True,
                              stdout=subprocess.PIPE, timeout=120)
        return json.loads(done.stdout)["traces"]

    def test_times_of_the_host_are_read(self):
        self.train()
        found = self.diagnose()
        self.assertEqual(len(found["ranks"]), 1)
        rank = found["ranks"][0]
        self.assertEqual(rank["rank"], 0)
        self.assertTrue(rank["whole"])
        self.assertGreater(rank["events"], 500)
        host = rank["host"]
        # Three steps of two small layers: some milliseconds, and most of it inside operators.
        self.assertGreater(host["span_ns"], 3_000_000)
        self.assertGreater(host["operators_ns"], host["span_ns"] // 4)
        self.assertLessEqual(host["operators_ns"], host["span_ns"])
        classes = {row["class"]: row["total_ns"] for row in host["classes"]}
        self.assertGreater(classes["gemm"], 0)
        self.assertIn("times of the host alone", found["summary"])

    def test_each_profiled_rank_leaves_its_own(self):
        self.train("--num-ranks", "2", "--profile-ranks", "0", "1")
        self.assertEqual([rank["rank"] for rank in self.diagnose()["ranks"]], [0, 1])


if __name__ == "__main__":
    if subprocess.run([PYTHON, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode != 0:
        print("skipped: python3-torch is not installed")
        sys.exit(SKIPPED)
    unittest.main(verbosity=2)
