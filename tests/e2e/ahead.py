"""Builds what the cluster is made of before its tests want it: `python -m e2e.ahead`.

Whoever needs a part meanwhile waits for it; what is built is kept in the cache. Without Helm, for which the charts'
tests would wait longer than they take to build it.
"""

from concurrent.futures import ThreadPoolExecutor

from e2e.cluster.programs import build_programs
from e2e.scene import build_layers

if __name__ == "__main__":
    with ThreadPoolExecutor() as pool:
        for each in [pool.submit(build_layers), pool.submit(build_programs)]:
            each.result()
