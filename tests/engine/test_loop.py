"""The loop for Slurm that the documentation prints, run as it is printed, with an sbatch that does
its tasks one by one, from the last to the first."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from docs import pages

DAS = """#!{python}
import sys
from pathlib import Path
from das.engine.tasks import Silent
from das.engine.tasks import HandedOver
from das.files.run.stage_tasks import ArrayEngine
from das.files.run.task_store import TaskStore
from das.files.run.stage_tasks import perform
from das.runs import tasks as jobs
from tests.engine.stages import note, tasks

command, *words = sys.argv[2:] if sys.argv[2] in ("tasks", "task") else sys.argv[1:]
jobs.STAGES = {{"first": note}}
if command == "run":
    out = Path(words[words.index("--out") + 1])
    with open("calls", "a") as file:
        print(*words, file=file)
    try:
        with ArrayEngine() as engine:
            for stage in jobs.STAGES:
                perform(engine, note, tasks(out, "ab", stage), Silent(), confidential=True)
    except HandedOver:
        sys.exit(0)
    TaskStore(out).remove()
elif command == "tasks":
    task_store = TaskStore(Path(words[0]))
    for task in (t for s in task_store.stages() for t in task_store.left(s)):
        print(task)
else:
    jobs.do(Path(words[0]), *words[1:])
"""
SBATCH = """#!/bin/sh
for word; do
    case $word in
        --array=*) last=${word#--array=1-}; last=${last%%%*};;
        *das\\ run\\ task*) work=$word;;
    esac
done
while [ $last -gt 0 ]; do
    SLURM_ARRAY_TASK_ID=$last sh -c "$work" || exit 1
    last=$((last - 1))
done
"""


def test_the_loop_for_slurm_does_a_run(tmp_path: Path, root: Path) -> None:
    page = pages.text("engines")
    (script,) = re.findall(r"```bash\n(#!/bin/bash\n.*?)```", page, re.DOTALL)
    for name, text in {"das": DAS.format(python=sys.executable), "sbatch": SBATCH}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "loop").write_text(script.replace("/scratch/nation", f"{tmp_path}/nation"))
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(root)}
    done = subprocess.run(
        ["bash", "loop"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "nation" / "done.txt").read_text().split() == ["b", "a"]
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [c.endswith("--resume") for c in calls] == [False, True]
    assert not (tmp_path / "nation" / "confidential" / "work").exists()
