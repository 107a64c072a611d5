"""What importing the engine may and may not pull in, watched in a fresh interpreter."""

from __future__ import annotations

import json
import subprocess
import sys

# Records attempts, so that it also sees `try: import pyspark` where pyspark is not installed.
WATCHED = """
import importlib, json, pkgutil, sys, time

class Watch:
    seen = []
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"airflow", "pyspark"}:
            self.seen.append(name)

sys.meta_path.insert(0, Watch())
start = time.perf_counter()
import semistream
import_s = time.perf_counter() - start
light = sorted(sys.modules)
names = ["semistream"]
if "all" in sys.argv:
    for module in pkgutil.walk_packages(semistream.__path__, "semistream."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
            names.append(module.name)
print(json.dumps({"asked": Watch.seen, "light": light, "names": names, "import_s": import_s}))
"""


def watch_import(*arguments: str) -> dict:
    result = subprocess.run(
        [sys.executable, "-c", WATCHED, *arguments], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_no_module_of_the_engine_asks_for_spark_or_airflow():
    seen = watch_import("all")
    assert len(seen["names"]) > 5
    assert seen["asked"] == []


def test_the_package_alone_is_light():
    heavy = {"numba", "pandas", "pymysql", "pyarrow", "matplotlib"}
    assert heavy.isdisjoint(watch_import()["light"])


def test_the_package_alone_imports_at_once():
    # The best of three: one slow start says more about the machine than about us.
    assert min(watch_import()["import_s"] for _ in range(3)) < 0.5
