#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# The recipes of tools/ci: every command of the two YAML files is run, with stand-ins for gh, curl and bench_all: that one
# writes one real run again and again, so that no gate has suspects and the test takes no time. What gates do with real
# programs is the test gate.builds. A command that stands in both files runs once.
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BIN = Path(os.environ["DUET_BIN"])
SOURCE = Path(os.environ["DUET_SOURCE"])
try:
    import yaml
except ImportError:
    if sys.executable != "/usr/bin/python3" and Path("/usr/bin/python3").exists():
        os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])
    print("skipped: no PyYAML (Debian: python3-yaml)")
    sys.exit(77)

EXPRESSIONS = {  # of GitHub, and what this test puts in their place
    "github.event.pull_request.base.sha || github.event.before": "0123456789",
    "github.token": "secret",
    "github.event.pull_request.number": "7",
}
TINY = {"DUET_CI_FILTER": r"^softmax/cpu\.tuned/f32", "DUET_CI_SCALE": "smoke", "DUET_CI_BUDGET": "10min",
        "DUET_CI_GATE": "warn"}
NVIDIA_SMI = """#!/bin/sh
case $1 in
  --query-gpu=persistence_mode) echo Disabled ;;
  --query-gpu*) echo "NVIDIA H100 80GB HBM3, 580.82, Disabled, Enabled, 1980 MHz" ;;
  --query-compute-apps*) cat {folder}/others 2>/dev/null || true ;;
esac
"""
LIMIT_S = 1200  # of one command: beyond the budget, so that a slow machine fails by the gate's own message
JOB = "softmax/cpu.tuned/f32/rows:256/cols:1000"
BENCH_ALL = """#!/bin/sh
for a in "$@"; do
  case $a in --json=*) out=${a#--json=} ;; --list) what=list ;; --count-instructions) what=counts ;; esac
done
exec cp "$(dirname "$0")/${what:-run}.json" "$out"
"""
GITLAB = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": "0123456789", "DUET_COMMENT_TOKEN": "secret", "CI_API_V4_URL": "https://gitlab.invalid/api/v4",
          "CI_PROJECT_ID": "1", "CI_MERGE_REQUEST_IID": "7", "CI_COMMIT_BRANCH": "main", "CI_DEFAULT_BRANCH": "main"}


def write_program(path, text):
    path.write_text(text)
    path.chmod(0o755)


def programs(folder):
    """A folder with duet and the stand-in for bench_all."""
    folder.mkdir()
    done = subprocess.run([BIN / "bench_all", "--scale", "smoke", "--filter", f"^{JOB}$", f"--json={folder}/run.json"],
                          text=True, capture_output=True, timeout=LIMIT_S)
    if done.returncode:
        fail(f"bench_all: {done.stdout}{done.stderr}")
    (folder / "list.json").write_text(json.dumps([{"name": JOB, "unavailable_reason": ""}]))
    (folder / "counts.json").write_text(json.dumps({"duet_counts": 1, "counter": "a stand-in", "keys": {}, "rows": {JOB: 1000}, "without": {}}))
    write_program(folder / "bench_all", BENCH_ALL)
    (folder / "duet").symlink_to(BIN / "duet")
    return folder


def fail(text):
    sys.exit(f"FAILED: {text}")


def values(env):
    def expression(match):
        return EXPRESSIONS[match[1].strip()]  # an unknown one is an error: add it above
    return {k: re.sub(r"\$\{\{(.*?)\}\}", expression, str(v)) for k, v in (env or {}).items()}


def github(path):
    """[(job, command, env)]"""
    recipe = yaml.safe_load(path.read_text())
    assert recipe[True].keys() == {"pull_request", "push"}, "YAML 1.1 reads the key `on` as true"
    for job, body in recipe["jobs"].items():
        assert body["timeout-minutes"] and body["runs-on"], job
        for step in body["steps"]:
            assert ("run" in step) != ("uses" in step), step
            if "uses" in step:
                assert re.fullmatch(r"actions/[a-z/-]+@v\d+", step["uses"]), step["uses"]
            else:
                assert "${{" not in step["run"], f"an expression in a shell command can be injected into: {step['run']}"
                yield job, step["run"], values({**recipe["env"], **body.get("env", {}), **step.get("env", {})})


def gitlab(path):
    recipe = yaml.safe_load(path.read_text())
    for job, body in recipe.items():
        if job == "variables":
            continue
        assert body["timeout"] and body["rules"] and body["artifacts"]["reports"]["junit"], job
        for command in body["script"] + body.get("after_script", []):
            yield job, command, {**values(recipe["variables"]), **values(body.get("variables")), **GITLAB}


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tools").symlink_to(SOURCE / "tools")
        stand_ins = folder / "stand_ins"
        stand_ins.mkdir()
        for program in ("gh", "curl", "sudo", "apt-get"):
            write_program(stand_ins / program, f'#!/bin/sh\nprintf "%s\\n" "{program} $*" >> {folder}/called\n')
        write_program(stand_ins / "nvidia-smi", NVIDIA_SMI.format(folder=folder))
        built = programs(folder / "programs")
        given = {**TINY, "DUET_CI_PROGRAMS": str(built), "DUET_CI_BASE_PROGRAMS": str(built)}
        seen = set()
        out = folder / "out/ci"

        def run(command, env, wanted=0):
            full = {**os.environ, **env, **given, "PATH": f"{stand_ins}:{os.environ['PATH']}"}
            done = subprocess.run(["bash", "-eo", "pipefail", "-c", command], cwd=folder, env=full, text=True,
                                  capture_output=True, timeout=LIMIT_S)
            if done.returncode != wanted:
                fail(f"`{command}`: status {done.returncode}, not {wanted}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
            if "tools/ci/gate " in command and "gate:" in done.stdout and not (out / "gate.json").exists():
                fail(f"`{command}` ended without gate.json: {done.stdout[-2000:]}\n{done.stderr[-2000:]}")
            return done.stdout + done.stderr

        (folder / "out").mkdir()
        if "nothing in" not in run("tools/ci/comment", {}, wanted=2):
            fail("a comment without results")
        for recipe, commands in (("github-actions.yml", github), ("gitlab-ci.yml", gitlab)):
            for job, command, env in commands(SOURCE / "tools/ci" / recipe):
                for script in re.findall(r"tools/ci/(\w+)", command):
                    if not os.access(SOURCE / "tools/ci" / script, os.X_OK):
                        fail(f"{recipe}, {job}: no program tools/ci/{script}")
                if command in seen:
                    continue
                seen.add(command)
                output = run(command, env)
                print(f"{recipe}, {job}: {command.strip().splitlines()[0][:80]}")
                if "gate baseline" in command and "nothing to compare" not in output:
                    fail(f"a gate against a baseline that does not exist: {output}")
                if command == "tools/ci/gate instructions":
                    gate = json.loads((out / "gate.json").read_text())
                    if gate["counts"]["SAME"] != 1 or gate["rows"][0]["code"] != "count_equal":
                        fail(f"instructions: {gate}")
        for file in ("run.json", "report/report.html", "junit.xml", "gate.md", "gate.json", "gate-junit.xml"):
            if not (out / file).stat().st_size:
                fail(f"{file} is empty")
        json.loads((out / "gate.json").read_text())
        called = (folder / "called").read_text()
        if "gh pr comment 7 --edit-last --body-file out/comment.md" not in called or "merge_requests/7/notes" not in called:
            fail(f"comments: {called}")
        if not (folder / "out/comment.md").read_text().startswith("### Duet\n"):
            fail("comment.md")

        # With a baseline: the gate and the comparison use it, and the comment shows the comparison.
        (out / "gate.md").unlink()
        run("tools/ci/measure", {})
        run("tools/ci/gate baseline --allow all", {})
        if "### Duet" not in run("tools/ci/comment", {}) or not (out / "compare.md").stat().st_size:
            fail("no comparison with the baseline")
        if "is this run" not in run("tools/ci/save_baseline", {}) + run("tools/ci/save_baseline", {}):
            fail("the baseline takes a run twice")
        for i in range(9):
            text = (out / "run.json").read_text()
            (out / "run.json").write_text(re.sub('"id": "[^"]*"', f'"id": "run {i}"', text, count=1))
            run("tools/ci/save_baseline", {})
        if len(list((folder / "out/ci-baseline").iterdir())) != 8:
            fail("the baseline keeps more or fewer than 8 runs")

        # In mode fail the status of the gate reaches the caller, and the gate's own line of GitLab still measures.
        failing = folder / "failing"
        failing.mkdir()
        for program in ("bench_all", "duet"):
            write_program(failing / program, f'#!/bin/sh\n[ "$1" = gate ] && {{ echo "planted"; exit 1; }}\nexec "{built}/{program}" "$@"\n')
        fail_mode = f"export DUET_CI_GATE=fail DUET_CI_PROGRAMS={failing} DUET_CI_BASE_PROGRAMS={failing}; "
        if "planted" not in run(fail_mode + "tools/ci/gate builds", {}, wanted=1):
            fail("the gate's status 1 did not reach the caller")
        (out / "run.json").unlink()
        line = next(c for _, c, _ in gitlab(SOURCE / "tools/ci/gitlab-ci.yml") if "gate builds" in c)
        run(fail_mode + line, {}, wanted=1)
        if not (out / "run.json").exists():
            fail(f"`{line}` does not measure after a gate that failed")

        # A GPU that other programs use is not measured.
        if "persistence mode is off" not in run("tools/ci/gpu", {}):
            fail("no word of the persistence mode")
        (folder / "others").write_text("4711, python\n")
        if "4711, python" not in run("tools/ci/gpu", {}, wanted=2):
            fail("a GPU that another program uses")
        (stand_ins / "nvidia-smi").unlink()
        if not shutil.which("nvidia-smi") and "no NVIDIA driver" not in run("tools/ci/gpu", {}, wanted=2):
            fail("a runner without a GPU")

        # Faults: a wrong mode, programs that are missing, a failed job.
        for command in ("tools/ci/gate", "tools/ci/gate often", "DUET_CI_PROGRAMS=/none tools/ci/build",
                        "DUET_CI_BASE_PROGRAMS=/none tools/ci/gate builds",
                        "DUET_CI_BASE_PROGRAMS=/none tools/ci/gate kernels"):
            if "error" not in run(command, {}, wanted=2):
                fail(f"{command}: no message")
        (out / "gate.md").write_text("| row |\n" * 20000)
        text = run("tools/ci/comment", {})
        if len(text) > 65536 or "cut here" not in text:
            fail(f"a comment of {len(text)} characters")
    print("passed")


main()
