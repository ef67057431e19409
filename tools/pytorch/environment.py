# SPDX-License-Identifier: Apache-2.0
"""The virtual environment that holds PyTorch, and processes in it, set up so that PyTorch is at its best."""
import json
import os
import subprocess
import sys

PACKAGES = ["torch", "numpy", "setuptools"]  # setuptools: torch.compile asks for it
TOOLS = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


class Missing(Exception):
    """There is no usable PyTorch: one line that says why."""


class Environment:
    def __init__(self, venv):
        self.venv = os.path.abspath(os.path.expanduser(venv))
        self.python = os.path.join(self.venv, "bin", "python")

    def install(self):
        """Makes the environment and fetches PyTorch, unless it is there."""
        if os.path.exists(self.python) and subprocess.run([self.python, "-c", "import torch"], capture_output=True).returncode == 0:
            return
        print(f"compare_pytorch: installing PyTorch into {self.venv} (2.4 GB)", file=sys.stderr)
        for command in ([sys.executable, "-m", "venv", self.venv],
                        [self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"] + PACKAGES):
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode != 0:
                last = (done.stdout.strip().splitlines() or ["no message"])[-1]
                raise Missing(f"'{' '.join(command[:4])} ...' failed: {last}")

    def require(self):
        if not os.path.exists(self.python):
            raise Missing(f"no PyTorch in {self.venv}; --install downloads it (2.4 GB)")

    def variables(self, threads):
        env = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
        # Plain malloc hands every large tensor back to the kernel and faults it in again: 1.5 to 5 times slower.
        env.setdefault("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=17179869184:glibc.malloc.trim_threshold=17179869184:"
                                         "glibc.malloc.top_pad=67108864:glibc.malloc.hugetlb=1")
        env.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(self.venv, "inductor"))
        # PyTorch's wheels find their own libraries; a path set for other programs could put older ones first.
        env.pop("LD_LIBRARY_PATH", None)
        if "DUET_PYTORCH_LIBRARY_PATH" in env:  # an installation that takes CUDA's libraries from elsewhere
            env["LD_LIBRARY_PATH"] = env["DUET_PYTORCH_LIBRARY_PATH"]
        for name in ("OMP_WAIT_POLICY", "OPENBLAS_CORETYPE", "OMP_PROC_BIND"):
            env.pop(name, None)
        return env

    def turn(self, request):
        """The answer of one process (turn.py)."""
        done = subprocess.run([self.python, "-B", "-m", "pytorch.turn"], input=json.dumps(request), stdout=subprocess.PIPE,
                              cwd=TOOLS, env=self.variables(request["threads"]), text=True)
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            raise Missing(f"{self.python} -m pytorch.turn ended with status {done.returncode} and no answer") from None
        if "missing" in answer:
            raise Missing(f"no usable PyTorch in {self.venv} ({answer['missing']}); --install downloads it (2.4 GB)")
        return answer
