# SPDX-License-Identifier: Apache-2.0
"""A process of PyTorch, under the environment's Python: a request as JSON on standard input, the answer on standard output.
compare_pytorch starts it (environment.py), once for all cases or, with --interleave, many times."""
import json
import os
import re
import sys


def facts(torch, flushed):
    config = torch.__config__.show()
    found = lambda pattern: (re.search(pattern, config) or [None, "unknown"])[1]
    return {"torch": torch.__version__, "isa": torch.backends.cpu.get_cpu_capability(), "onednn": found(r"MKL-DNN v(\S+)"),
            "mkl": found(r"Math Kernel Library Version (\S+)"), "flush_denormal": flushed,
            "allocator": os.environ.get("GLIBC_TUNABLES", "default")}


def main():
    request = json.load(sys.stdin)
    answer_to = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no answer
    try:
        import torch
    except (ImportError, OSError) as error:
        answer = {"missing": str(error).splitlines()[0]}
    else:
        # Before the first parallel region: worker threads inherit the mode. Denormal activations would cost several times more.
        flushed = torch.set_flush_denormal(not request.get("check"))
        torch.set_num_threads(request["threads"])
        torch.manual_seed(0)
        if request.get("check"):
            from pytorch import check
            answer = {"facts": facts(torch, flushed), "rows": check.all_ops(request)}
        else:
            from pytorch import measure
            answer = {"facts": facts(torch, flushed),
                      "rows": measure.all_cases(request["cases"], request["min_time_s"], request["compile"], request.get("rank", "seconds"))}
    with os.fdopen(answer_to, "w") as out:
        json.dump(answer, out, allow_nan=False)


if __name__ == "__main__":
    main()
