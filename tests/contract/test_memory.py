"""Promise 4: memory is bounded by the setting, however slow the consumer and however large a row group."""

import json
import subprocess
import sys
import textwrap

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

MEMORY = 200_000_000

SCRIPT = (
    textwrap.dedent("""
    import json, sys, time
    import rowmill
    from rowmill.loader.torch import TorchAsyncItr

    def peak():
        return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))

    path, small, slow = sys.argv[1], sys.argv[2], float(sys.argv[3])
    cats, conts = [f"c{i}" for i in range(20)], [f"x{i}" for i in range(20)]
    def loader(path):
        return TorchAsyncItr(rowmill.Dataset(path), cats, conts, ["y"], batch_size=8192, shuffle=True, memory=%d)
    for _ in loader(small):  # import, compile, warm up
        pass
    open("/proc/self/clear_refs", "w").write("5")  # peak := now
    baseline = peak()
    rows = 0
    for x_cat, x_cont, y in loader(path):
        rows += len(y)
        if slow:
            time.sleep(slow)
    s = loader(path)._stream
    print(json.dumps({"rows": rows, "over": peak() - baseline, "threads": s.threads, "fragments": len(s.fragments)}))
""")
    % MEMORY
)


def write(path, rows, row_group, rng):
    ids, values = rng.integers(0, 10**6, 2 * row_group), rng.random(2 * row_group, dtype=np.float32)
    with pq.ParquetWriter(path, SCHEMA, use_dictionary=False) as writer:
        for start in range(0, rows, row_group):
            count = min(row_group, rows - start)
            columns = [pa.array(ids[i * 100 : i * 100 + count]) for i in range(20)]
            columns += [pa.array(values[i * 100 : i * 100 + count]) for i in range(21)]
            writer.write_table(pa.table(columns, schema=SCHEMA), row_group_size=row_group)


SCHEMA = pa.schema(
    [(f"c{i}", pa.int64()) for i in range(20)] + [(f"x{i}", pa.float32()) for i in range(20)] + [("y", pa.float32())]
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A table ten times the memory setting (244 bytes a row) in usual row groups, and one in a single row group."""
    root, rng = tmp_path_factory.mktemp("memory"), np.random.default_rng(0)
    rows = 10 * MEMORY // 244
    write(root / "small.parquet", 20_000, 10_000, rng)
    write(root / "usual.parquet", rows, 100_000, rng)
    write(root / "huge.parquet", 4 * MEMORY // 244, 4 * MEMORY // 244, rng)
    return root, rows, 4 * MEMORY // 244


@pytest.mark.parametrize(("name", "slow"), [("usual", 0.0), ("usual", 0.005), ("huge", 0.0)])
def test_peak_memory_is_within_the_setting(tables, name, slow):
    root, usual, huge = tables
    answer = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(root / f"{name}.parquet"), str(root / "small.parquet"), str(slow)],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert found["rows"] == {"usual": usual, "huge": huge}[name]
    assert found["over"] <= 1.25 * MEMORY, f"{found['over'] / 1e6:.0f} MB over the baseline"
    assert found["over"] >= 0.3 * MEMORY, "so little that the measurement cannot be right"
